//! Stops the program of a trial whose study's rule, or whose user, ends it early.

use super::RunError;
use super::attempt::Attempt;
use crate::JobEvent;
use tunesmith_domain::{TrialChange, TrialState};
use tunesmith_executor::StopMode;

/// The reason of a stop that the rule has not decided.
const BY_REQUEST: &str = "a user has stopped it";

impl Attempt<'_> {
    /// Stops the program if a user has stopped the trial, or the rule of early stopping decides so.
    pub(super) async fn consider_stopping(&mut self) -> Result<(), RunError> {
        if self.is_stopped {
            return Ok(());
        }
        let reason = match (self.trial.state, &self.run.stopping) {
            (TrialState::Stopping, _) => BY_REQUEST.to_owned(),
            (TrialState::Active, Some(rule)) => {
                let (folder, curve) = self.live.curve();
                let Some(reason) = rule.decide(self.trial.id, folder.as_deref(), curve) else { return Ok(()) };
                self.trial = self.run.change(self.trial.id, TrialChange::Stop).await?;
                reason
            }
            _ => return Ok(()),
        };
        self.is_stopped = true;
        self.run.context.emit(JobEvent::TrialStopping { id: self.trial.id, reason });
        let executor = &self.run.context.services().executor;
        Ok(self.run.reach(&self.trial, self.live).call(|| executor.stop(&self.id, StopMode::Graceful)).await?)
    }
}
