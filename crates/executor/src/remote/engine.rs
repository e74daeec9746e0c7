//! Interface to engines that run agents.

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
    pub run: ExecutorJobId,
    /// Task of the agent's replica, such as `worker-0`; `None` if it runs the whole attempt.
    pub task: Option<String>,
}

impl AgentId {
    /// Agent that receives `spec`.
    pub fn of(spec: &ExecutorJobSpec) -> Self {
        let own = spec.part.as_ref().and(spec.own_replicas().first());
        Self { run: spec.id.clone(), task: own.map(replica_name) }
    }
}

impl From<&ExecutorJobId> for AgentId {
    /// Agent that runs the whole attempt `run`.
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

/// Starts, observes and stops agents.
#[async_trait]
pub trait AgentEngine: Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;

    /// Whether `path` lies on a volume that programs can access; see
    /// [`Executor::has_volume`](crate::Executor::has_volume).
    fn has_volume(&self, path: &Path) -> bool {
        let _ = path;
        false
    }

    /// Whether programs can be container images.
    fn runs_containers(&self) -> bool {
        true
    }

    /// Server address for agents; `None` for that in their specification.
    fn server(&self) -> Option<&str> {
        None
    }

    /// Starts `tunesmith agent` with the specification `spec`, stored in `file`, or a copy of it. The agent runs
    /// [`ExecutorJobSpec::own_replicas`]. Starting an [`AgentId`] again has no effect.
    ///
    /// # Errors
    /// Those of [`Executor::submit`](crate::Executor::submit).
    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError>;

    /// Returns the state of the agent `id`.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if it cannot be determined.
    async fn place(&self, id: &AgentId) -> Result<AgentState, ExecutorError>;

    /// Subscribes to changes of [`Self::place`] for the agents of `run`; `None` for an engine that must be polled.
    /// Changes are notified after [`Self::place`] reflects them.
    fn changes(&self, run: &ExecutorJobId) -> Option<Subscription<String>> {
        let _ = run;
        None
    }

    /// Like [`Self::place`], which may lag behind, but up to date.
    ///
    /// # Errors
    /// Those of [`Self::place`].
    async fn confirmed_place(&self, id: &AgentId) -> Result<AgentState, ExecutorError> {
        self.place(id).await
    }

    /// Stops the agent `id`, which may not have started. A running agent also receives the request in the response to
    /// its next report, so engines need not signal it.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the request failed.
    async fn stop(&self, id: &AgentId, how: StopMode) -> Result<(), ExecutorError>;

    /// Returns the node of the agent `id` as named by the engine; `None` if unknown, in which case the name reported by
    /// the agent applies.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if it cannot be determined.
    async fn node(&self, id: &AgentId) -> Result<Option<String>, ExecutorError> {
        let _ = id;
        Ok(None)
    }

    /// Removes the engine's records of the agent `id` of an ended attempt, if the agent is gone.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn clean_up(&self, id: &AgentId) -> Result<(), ExecutorError> {
        let _ = id;
        Ok(())
    }

    /// See [`Executor::supersede`](crate::Executor::supersede).
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn supersede(&self, run: &ExecutorJobId) -> Result<(), ExecutorError> {
        let _ = run;
        Ok(())
    }

    /// Removes remaining records of agents of ended attempts, as decided by `is_over` for the text of an attempt's ID.
    ///
    /// # Errors
    /// If the engine cannot be reached, or something could not be removed; another call resumes.
    async fn sweep(&self, is_over: &(dyn for<'a> Fn(&'a str) -> io::Result<bool> + Sync)) -> io::Result<()> {
        let _ = is_over;
        Ok(())
    }

    /// Forgets the runs of `job`, none of which is running.
    ///
    /// # Errors
    /// If a record cannot be removed; another call resumes.
    async fn forget(&self, job: &JobId) -> io::Result<()>;
}

/// State of an agent according to its engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// Never started.
    Unknown,
    /// Accepted by the engine but not started.
    Waiting {
        /// Engine's reason.
        reason: String,
    },
    /// Starting or running.
    Running,
    /// Gone; the engine reports how the program ended.
    Ended(ExitStatus),
    /// Gone, together with all processes of its program.
    Gone {
        /// Failure or preemption.
        cause: LossCause,
        /// Engine's description.
        reason: String,
    },
}
