//! What a place that runs agents has to offer.

use std::io;
use std::path::Path;

use async_trait::async_trait;

use crate::{Capabilities, ExecutorError, ExecutorJobId, ExecutorJobSpec, ExitStatus, LossCause, StopMode};
use tunesmith_domain::JobId;

/// Starts agents in a place, reports whether they are there, and stops them.
#[async_trait]
pub trait AgentEngine: Send + Sync + 'static {
    /// What the place offers to programs.
    fn capabilities(&self) -> Capabilities;

    /// Starts `tunesmith agent` with the specification in `file`, or a copy of it. A second start of an ID has no effect.
    ///
    /// # Errors
    /// As [`Executor::submit`](crate::Executor::submit).
    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError>;

    /// Returns whether the agent of `id` is there.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if that cannot be determined.
    async fn place(&self, id: &ExecutorJobId) -> Result<PlaceState, ExecutorError>;

    /// Stops the agent of `id`, which may not have started. The agent also gets the request in the answer to its next report,
    /// so that an engine need not do anything for a running one.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the request could not be made.
    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError>;

    /// Removes what the place keeps of the ended attempt `id`, as far as its agent is not there any more.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn tidy(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let _ = id;
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
pub enum PlaceState {
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
