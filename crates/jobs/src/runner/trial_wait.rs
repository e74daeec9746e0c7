//! Start of an attempt at a trial: resources, token and wait deadline.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::classification::Findings;
use super::grants::until;
use super::trial_run::{Next, TrialEnd, TrialRun};
use super::tuning::CLIENT_ID;
use super::{Context, Control, RunError, not_started, time_of_change, until_at_least};
use crate::JobEvent;
use crate::live_trials::LiveTrial;
use crate::resource_pool::Grant;
use tunesmith_domain::{Completion, LossCause, Trial, TrialChange, TrialState};
use tunesmith_executor::ExecutorJobState;
use tunesmith_store::StoreError;

/// Initial and maximum pause after an attempt lost to a failure. Guesses.
const LOSS_PAUSE: Duration = Duration::from_millis(250);
const MAX_LOSS_PAUSE: Duration = Duration::from_secs(10);

pub(super) enum GrantOutcome {
    Granted(Grant),
    Ended(TrialEnd),
}

impl GrantOutcome {
    /// End of a trial that has not run.
    fn of(next: Next) -> Self {
        Self::Ended(match next {
            Next::End(end) => end,
            Next::Again { .. } => TrialEnd::Interrupted,
        })
    }
}

impl TrialRun {
    /// Returns `grant`, which a trial retains across attempts, or waits for the resources of `trial`.
    pub(super) async fn keep_or_wait(
        &self,
        grant: Option<Grant>,
        trial: &Trial,
        live: &LiveTrial,
    ) -> Result<GrantOutcome, RunError> {
        if let Some(grant) = grant {
            return Ok(GrantOutcome::Granted(grant));
        }
        let mut next = self.context.request_grant(Some(trial.id), 1);
        self.context.show_waiting(&next, &mut String::new());
        let mut control = self.context.runner.control.level.clone();
        let mut abandon = self.abandon.clone();
        let deadline = self.context.deadline(&next, Instant::now());
        let trial = loop {
            tokio::select! {
                biased;
                () = until_at_least(&mut control, Control::Drain) => return Ok(GrantOutcome::Ended(TrialEnd::Interrupted)),
                () = until_abandoned(&mut abandon) => break trial.clone(),
                () = live.outdated.notified() => {
                    let stored = self.context.services().store.trial(&self.study.id, trial.id).await?;
                    if stored.state == TrialState::Stopping {
                        break stored;
                    }
                }
                grant = next.granted() => return Ok(GrantOutcome::Granted(grant)),
                () = until(deadline) => {
                    let completion = Completion::Infeasible { reason: self.context.overdue_reason(&next) };
                    return Ok(GrantOutcome::of(self.complete(trial, completion, None).await?));
                }
            }
        };
        Ok(GrantOutcome::of(self.after(trial, ExecutorJobState::Unknown, Findings::default()).await?))
    }

    /// Back-off after an attempt lost to a failure, since missing resources may return.
    async fn pause_after_loss(&self, trial: &Trial) {
        let pause =
            LOSS_PAUSE.saturating_mul(2_u32.saturating_pow(u32::try_from(trial.lost_attempts).unwrap_or(u32::MAX)));
        let (mut control, mut abandon) = (self.context.runner.control.level.clone(), self.abandon.clone());
        tokio::select! {
            () = tokio::time::sleep(pause.min(MAX_LOSS_PAUSE)) => {}
            () = until_at_least(&mut control, Control::Drain) => {}
            () = until_abandoned(&mut abandon) => {}
        }
    }

    /// Records the next attempt. A trial with a stop request gets none and is returned as stored.
    pub(super) async fn begin_attempt(
        &self,
        trial: Trial,
        previous_loss: Option<LossCause>,
    ) -> Result<Trial, RunError> {
        if previous_loss == Some(LossCause::Failure) {
            self.pause_after_loss(&trial).await;
        }
        let at = time_of_change(&trial, self.context.services().clock.now());
        let change = match trial.state {
            // Added by a user.
            TrialState::Requested => TrialChange::Assign { client_id: CLIENT_ID.to_owned(), lease: None, at },
            _ => TrialChange::BeginAttempt { attempt: trial.attempt + 1, previous_loss, at },
        };
        match self.change(trial.id, change).await {
            Err(RunError::Store(error @ StoreError::Refused(_))) => {
                let stored = self.context.services().store.trial(&self.study.id, trial.id).await?;
                if stored.state == TrialState::Stopping { Ok(stored) } else { Err(error.into()) }
            }
            started => started,
        }
    }

    pub(super) fn emit_started(&self, trial: &Trial, adopted: bool) {
        self.context.emit(JobEvent::TrialStarted {
            id: trial.id,
            parameters: trial.parameters.clone(),
            attempt: trial.attempt,
            adopted,
        });
    }
}

/// Waits until the trial is stopped for good; never completes if the sender is dropped first.
pub(super) async fn until_abandoned(abandon: &mut watch::Receiver<Option<String>>) {
    if abandon.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Wait limit of an attempt in its engine.
pub(super) struct Overdue {
    pub(super) deadline: Option<Instant>,
    /// Why the attempt was stopped; `None` if it was not.
    pub(super) reason: Option<String>,
}

impl Overdue {
    /// End of an attempt that ended in `state`.
    pub(super) fn end(self, state: ExecutorJobState) -> ExecutorJobState {
        let ended_by_itself = matches!(&state, ExecutorJobState::Ended(status) if status.stopped.is_none());
        match self.reason.filter(|_| !ended_by_itself) {
            Some(reason) => not_started(reason),
            None => state,
        }
    }
}

impl Context {
    /// Wait limit of an attempt that has requested capacity since `asked`.
    pub(super) fn engine_deadline(&self, asked: Instant) -> Overdue {
        let limit = self.services().pool.queue_deadline();
        Overdue { deadline: limit.and_then(|limit| asked.checked_add(limit)), reason: None }
    }

    /// Reason for exceeding the engine's wait limit, given the engine's own `reason`.
    pub(super) fn engine_overdue_reason(&self, reason: Option<String>) -> String {
        self.overdue_text(&reason.unwrap_or_default())
    }
}
