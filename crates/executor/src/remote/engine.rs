//! What a place that runs agents has to offer.

use std::fmt;
use std::io;
use std::path::Path;

use async_trait::async_trait;

use super::changes::Subscription;
use crate::local::replica_name;
use crate::{Capabilities, ExecutorError, ExecutorJobId, ExecutorJobSpec, ExitStatus, LossCause, StopMode};
use tunesmith_domain::JobId;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentId {
    /// The attempt.
    pub run: ExecutorJobId,
    /// The task of the replica that it runs, such as `worker-0`; `None` if it runs all of the attempt.
    pub task: Option<String>,
}

impl AgentId {
    /// The agent that gets `spec`.
    pub fn of(spec: &ExecutorJobSpec) -> Self {
        let own = spec.part.as_ref().and(spec.own_replicas().first());
        Self { run: spec.id.clone(), task: own.map(replica_name) }
    }
}

impl From<&ExecutorJobId> for AgentId {
    /// The agent that runs all of the attempt `run`.
    fn from(run: &ExecutorJobId) -> Self {
        Self { run: run.clone(), task: None }
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task {
            None => self.run.fmt(f),
            Some(task) => write!(f, "{}-{task}", self.run),
        }
    }
}

/// Starts agents in a place, reports whether they are there, and stops them.
#[async_trait]
pub trait AgentEngine: Send + Sync + 'static {
    /// What the place offers to programs.
    fn capabilities(&self) -> Capabilities;

    /// Whether `path` is on a volume that programs find where they run. As [`Executor::has_volume`](crate::Executor::has_volume).
    fn has_volume(&self, path: &Path) -> bool {
        let _ = path;
        false
    }

    /// The address at which agents reach the server; `None` for that in their specification.
    fn server(&self) -> Option<&str> {
        None
    }

    /// Starts `tunesmith agent` with the specification `spec`, which is in `file`, or a copy of it. The agent runs
    /// [`ExecutorJobSpec::own_replicas`]. A second start of an [`AgentId`] has no effect.
    ///
    /// # Errors
    /// As [`Executor::submit`](crate::Executor::submit).
    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError>;

    /// Returns whether the agent of `id` is there.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if that cannot be determined.
    async fn place(&self, id: &AgentId) -> Result<AgentState, ExecutorError>;

    /// Returns a subscription to the changes of what [`Self::place`] returns for the agents of `run`; `None` for an engine that has to
    /// be asked. Each change is notified after [`Self::place`] returns it.
    fn changes(&self, run: &ExecutorJobId) -> Option<Subscription<String>> {
        let _ = run;
        None
    }

    /// As [`Self::place`], which may be behind, as the place states it now.
    ///
    /// # Errors
    /// As [`Self::place`].
    async fn confirmed_place(&self, id: &AgentId) -> Result<AgentState, ExecutorError> {
        self.place(id).await
    }

    /// Stops the agent of `id`, which may not have started. The agent also gets the request in the answer to its next report,
    /// so that an engine need not do anything for a running one.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the request could not be made.
    async fn stop(&self, id: &AgentId, how: StopMode) -> Result<(), ExecutorError>;

    /// Returns the node on which the agent of `id` runs or ran, as the engine names it; `None` if the engine does not know it. The name
    /// that the agent reports is used then.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if that cannot be determined.
    async fn node(&self, id: &AgentId) -> Result<Option<String>, ExecutorError> {
        let _ = id;
        Ok(None)
    }

    /// Removes what the place keeps of the agent `id` of an ended attempt, as far as it is not there any more.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn clean_up(&self, id: &AgentId) -> Result<(), ExecutorError> {
        let _ = id;
        Ok(())
    }

    /// As [`Executor::supersede`](crate::Executor::supersede).
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn supersede(&self, run: &ExecutorJobId) -> Result<(), ExecutorError> {
        let _ = run;
        Ok(())
    }

    /// Removes what the place still keeps of agents whose attempts are over, as `is_over` decides for the text of an attempt's ID.
    ///
    /// # Errors
    /// If the place cannot be reached, or something could not be removed; calling again continues.
    async fn sweep(&self, is_over: &(dyn for<'a> Fn(&'a str) -> io::Result<bool> + Sync)) -> io::Result<()> {
        let _ = is_over;
        Ok(())
    }

    /// Forgets the runs of `job`, none of which is running.
    ///
    /// # Errors
    /// If a record cannot be removed; calling again continues.
    async fn forget(&self, job: &JobId) -> io::Result<()>;
}

/// The state of an agent in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// It was never started.
    Unknown,
    /// The engine has accepted it, and has not started it.
    Waiting {
        /// The engine's reason.
        reason: String,
    },
    /// It runs or is starting.
    Running,
    /// It is not there any more, and the engine states how the program ended.
    Ended(ExitStatus),
    /// It is not there any more, and no process of its program is.
    Gone {
        /// Whether something failed, or the engine gave the place to other work.
        cause: LossCause,
        /// What the engine reports about it.
        reason: String,
    },
}
