//! Executor outages.
//!
//! An unreachable executor implies nothing about an attempt: a running program continues, and a submission waits. The
//! outage appears as the trial's reason for waiting.

use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::submit::show_waiting;
use super::trial_wait::until_abandoned;
use super::{Context, Control, until_at_least};
use crate::live_trials::LiveTrial;
use tunesmith_domain::TrialId;
use tunesmith_executor::{Executor, ExecutorError, ExecutorJobId, ExecutorJobState};
use tunesmith_studies::search_policy::error_text;

/// Initial retry pause, doubled up to [`MAX_PAUSE`]. Guesses: an API server restarts within seconds, and people read
/// the reason.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Whether `error` may be transient; a missing folder, for example, is not.
fn is_out_of_reach(error: &ExecutorError) -> bool {
    matches!(error, ExecutorError::Unreachable { source, .. } if !needs_change(source))
}

/// Whether `error` or a cause shows that something on this machine is missing or forbidden.
fn needs_change(error: &(dyn std::error::Error + 'static)) -> bool {
    use io::ErrorKind::{
        AlreadyExists, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    let Some(io) = error.downcast_ref::<io::Error>() else { return error.source().is_some_and(needs_change) };
    matches!(
        io.kind(),
        AlreadyExists | InvalidInput | IsADirectory | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem
    ) || io.get_ref().is_some_and(|cause| needs_change(cause))
}

/// Executor calls of an attempt, retried during outages.
pub(super) struct Reach<'a> {
    pub(super) context: &'a Context,
    /// Trial of the attempt, and the display of its wait reason; `None` for a job without trials.
    pub(super) trial: Option<(TrialId, &'a LiveTrial)>,
    /// Ends the retries when the trial is stopped for good.
    pub(super) abandon: Option<watch::Receiver<Option<String>>>,
}

impl Reach<'_> {
    /// Calls the executor, retrying until it is reachable.
    ///
    /// # Errors
    /// [`ExecutorError`]; [`ExecutorError::Unreachable`] only if the run is to end, since ending it needs no response.
    pub(super) async fn call<T, F>(&self, call: impl Fn() -> F) -> Result<T, ExecutorError>
    where
        F: Future<Output = Result<T, ExecutorError>>,
    {
        let begin = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut is_shown = false;
        loop {
            let error = match call().await {
                Err(error) if is_out_of_reach(&error) => error,
                answer => {
                    if is_shown {
                        tracing::info!(elapsed_secs = begin.elapsed().as_secs(), "the executor is reached again");
                        self.show(None);
                    }
                    return answer;
                }
            };
            let reason = format!("its executor cannot be reached, and is tried again: {}", error_text(&error));
            if !is_shown {
                tracing::warn!(error = &error as &dyn std::error::Error, "lost the executor; retrying");
            }
            is_shown = true;
            self.show(Some(reason));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.until_ended() => return Err(error),
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Waits until the state of the attempt differs from `known`, as in [`Executor::changed`]. After an outage, which
    /// is shown as the reason for waiting, returns the state in any case.
    pub(super) async fn changed(
        &self,
        executor: &dyn Executor,
        id: &ExecutorJobId,
        known: ExecutorJobState,
    ) -> Result<ExecutorJobState, ExecutorError> {
        match executor.changed(id, &known).await {
            Err(error) if is_out_of_reach(&error) => self.call(|| executor.state(id)).await,
            changed => changed,
        }
    }

    /// Waits for the end of the attempt, as in [`Executor::wait`].
    pub(super) async fn wait(
        &self,
        executor: &dyn Executor,
        id: &ExecutorJobId,
    ) -> Result<ExecutorJobState, ExecutorError> {
        let mut state = ExecutorJobState::Running;
        while state.is_open() {
            state = self.changed(executor, id, state).await?;
        }
        Ok(state)
    }

    fn show(&self, reason: Option<String>) {
        if let Some((id, live)) = self.trial {
            show_waiting(self.context, id, live, reason);
        }
    }

    /// Waits until the run is to end, or the trial is to be stopped for good.
    async fn until_ended(&self) {
        let mut control = self.context.runner.control.level.clone();
        let abandoned = async {
            match self.abandon.clone() {
                Some(mut abandon) => until_abandoned(&mut abandon).await,
                None => drop(self.context.until_cancelled().await),
            }
        };
        tokio::select! {
            () = until_at_least(&mut control, Control::Detach) => {}
            () = abandoned => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ExecutorJobId {
        ExecutorJobId { job: "job".parse().unwrap(), trial: None, attempt: 1 }
    }

    #[test]
    fn what_is_missing_on_this_machine_is_no_outage() {
        let of = |source| is_out_of_reach(&ExecutorError::Unreachable { id: id(), source });
        assert!(of(io::Error::other("the API server answers 403")));
        assert!(of(io::ErrorKind::ConnectionRefused.into()) && of(io::ErrorKind::StorageFull.into()));
        assert!(!of(io::ErrorKind::NotFound.into()));
        assert!(!of(io::Error::other(io::Error::new(io::ErrorKind::PermissionDenied, "no supervisor"))));
        let reason = "no such command".to_owned();
        assert!(!is_out_of_reach(&ExecutorError::Rejected { id: id(), reason }));
    }
}
