//! Waits for the resources of a trial that was started before, but does not run.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::grants::until;
use super::trial_run::{Next, TrialEnd, TrialRun, until_abandoned};
use super::{Control, RunError, until_at_least};
use crate::resource_pool::Grant;
use tunesmith_domain::{Completion, Trial};
use tunesmith_executor::ExecutorJobState;

/// The end of waiting for resources.
pub(super) enum Waited {
    Granted(Grant),
    Ended(TrialEnd),
}

impl Waited {
    /// The end of a trial that has not run.
    fn of(next: Next) -> Self {
        Self::Ended(match next {
            Next::End(end) => end,
            Next::Again { .. } => TrialEnd::Interrupted,
        })
    }
}

impl TrialRun {
    /// Waits for the resources of `trial`.
    pub(super) async fn wait_for_grant(&self, trial: &Trial) -> Result<Waited, RunError> {
        let mut next = self.context.request_grant(Some(trial.id), 1);
        self.context.show_waiting(&next, &mut String::new());
        let mut control = self.context.runner.control.level.clone();
        let mut abandon = self.abandon.clone();
        let deadline = self.context.deadline(&next, Instant::now());
        tokio::select! {
            biased;
            () = until_at_least(&mut control, Control::Drain) => return Ok(Waited::Ended(TrialEnd::Interrupted)),
            () = until_abandoned(&mut abandon) => {}
            grant = next.granted() => return Ok(Waited::Granted(grant)),
            () = until(deadline) => {
                let completion = Completion::Infeasible { reason: self.context.overdue_reason(&next) };
                return Ok(Waited::of(self.complete(trial, completion, None).await?));
            }
        }
        Ok(Waited::of(self.after(trial.clone(), ExecutorJobState::Unknown, BTreeSet::new()).await?))
    }
}
