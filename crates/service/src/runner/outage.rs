//! Waits out an executor that cannot be reached.
//!
//! Nothing is concluded about an attempt while its executor is out of reach: a program that runs goes on, and one that has to be
//! submitted waits. The reason is shown as that for which the trial waits.

use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::trial_wait::until_abandoned;
use super::{Context, Control, until_at_least};
use crate::JobEvent;
use crate::live_trials::LiveTrial;
use crate::search_policy::error_text;
use tunesmith_domain::TrialId;
use tunesmith_executor::{Executor, ExecutorError, ExecutorJobId, ExecutorJobState};

/// The pause before the first retry, which doubles up to [`MAX_PAUSE`]. Guesses: an API server restarts within seconds, and people
/// read the reason.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Whether `error` may pass without a change of the job or of this machine. A missing folder, for example, has to be created.
fn is_out_of_reach(error: &ExecutorError) -> bool {
    matches!(error, ExecutorError::Unreachable { source, .. } if !needs_change(source))
}

/// Whether something on this machine is missing or forbidden, by `error` or one of its causes.
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

/// The calls of an attempt to its executor, which are retried until it is reached.
pub(super) struct Reach<'a> {
    pub(super) context: &'a Context,
    /// The trial whose attempt it is, and where its reason for waiting is shown; `None` for the program of a job without trials.
    pub(super) trial: Option<(TrialId, &'a LiveTrial)>,
    /// Ends the retries when the trial is stopped for good.
    pub(super) abandon: Option<watch::Receiver<Option<String>>>,
}

impl Reach<'_> {
    /// Calls the executor until it is reached.
    ///
    /// # Errors
    /// [`ExecutorError`], also [`ExecutorError::Unreachable`] once the run is to end: what ends it needs no answer.
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

    /// Waits for the end of the attempt `id`, as [`Executor::wait`] does.
    pub(super) async fn wait(
        &self,
        executor: &dyn Executor,
        id: &ExecutorJobId,
    ) -> Result<ExecutorJobState, ExecutorError> {
        loop {
            match executor.wait(id).await {
                Err(error) if is_out_of_reach(&error) => drop(self.call(|| executor.state(id)).await?),
                ended => return ended,
            }
        }
    }

    fn show(&self, reason: Option<String>) {
        let Some((id, live)) = self.trial else { return };
        if live.set_waiting(reason.clone())
            && let Some(reason) = reason
        {
            self.context.emit(JobEvent::TrialWaiting { id, reason });
        }
    }

    /// Waits until the run is to end, or the trial to be stopped for good.
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
