//! Requests of a trial's owner: measurements, completion, early stopping.

use super::{ReportedOutcome, Studies, StudiesError, TrialOfStudy, TrialRef, completion, digests, refuse_study_of_job};
use crate::early_stopping::Stop;
use crate::measurements::{self, Deduplication, Report};
use tunesmith_domain::{Measurement, RequestKey, Study, TransitionError, Trial, TrialChange, TrialState};
use tunesmith_store::StoreError;

impl Studies {
    /// Adds `measurement` to a trial's curve and renews its lease. A repeated request, which has the same `request_key`,
    /// adds nothing; nor does a repetition of the latest measurement if it has a step or a time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`]; [`StoreError::Refused`] if the trial is complete or belongs to
    /// another client, or the key was used for another request.
    pub async fn add_measurement(
        &self,
        key: &TrialRef,
        measurement: Measurement,
        request_key: Option<String>,
    ) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(&key.study)?;
        let TrialOfStudy { study, trial } = self.trial_of_study(&key.study, key.trial).await?;
        let request_key = request_key.map(|key| RequestKey { key, content: digests::of_measurement(&measurement) });
        let (now, steady) = (self.clock.now(), self.clock.steady());
        let report = |attempt| {
            // A trial at attempt 0 has no lease; the report may be its start.
            let at = if attempt == 0 { now } else { steady };
            let deduplication = Deduplication::Request { trial: &trial, key: request_key.as_ref() };
            let report = Report { attempt, at, measurements: std::slice::from_ref(&measurement), deduplication };
            measurements::report(&*self.store, &key.study, key.trial, report, |_, _| {})
        };
        let trial = as_owner(key, &trial, report).await?;
        Ok(TrialOfStudy { study, trial })
    }

    /// Completes a trial. Completing it twice with the same outcome has one effect. A trial is completed from its
    /// measurements only if one of them has all metrics of the study.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`], [`StudiesError::MissingMetric`],
    /// [`StudiesError::NoMeasurement`], [`StudiesError::NoCompleteMeasurement`];
    /// [`StoreError::Refused`] if the trial is complete with another result or belongs to another client.
    pub async fn complete(&self, key: &TrialRef, outcome: ReportedOutcome) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(&key.study)?;
        let TrialOfStudy { study, trial } = self.trial_of_study(&key.study, key.trial).await?;
        if outcome == ReportedOutcome::FromCurve && is_owner(key, &trial) {
            completion::require_measurement(&study, trial.id, &self.measurements(&study.id, &trial).await?)?;
        }
        let trial = self.complete_as_owner(&study, key, trial, outcome).await?;
        if self.prepares {
            self.policy.prepare(&study);
        }
        drop(self.summaries.follow(&self.store, &study, trial.revision));
        Ok(TrialOfStudy { study, trial })
    }

    /// Completes `trial` on behalf of its owner.
    pub(super) async fn complete_as_owner(
        &self,
        study: &Study,
        key: &TrialRef,
        trial: Trial,
        outcome: ReportedOutcome,
    ) -> Result<Trial, StudiesError> {
        let curve = match outcome {
            ReportedOutcome::FromCurve => self.measurements(&study.id, &trial).await?,
            ReportedOutcome::Measured(_) | ReportedOutcome::Infeasible(_) => Vec::new(),
        };
        let (completion, at) = (completion::completion(study, &curve, outcome)?, self.clock.now());
        let complete =
            |attempt| TrialChange::Complete { attempt, measurements: Vec::new(), completion: completion.clone(), at };
        Ok(as_owner(key, &trial, |attempt| self.store.change_trial(&key.study, key.trial, complete(attempt))).await?)
    }

    /// Requests a trial's owner to stop; its last measurement will be its result.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`]; [`StoreError::Refused`] if the trial has no owner.
    pub async fn stop(&self, key: &TrialRef) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(&key.study)?;
        let TrialOfStudy { study, .. } = self.trial_of_study(&key.study, key.trial).await?;
        let trial = self.store.change_trial(&key.study, key.trial, TrialChange::Stop { predicted_final: None }).await?;
        Ok(TrialOfStudy { study, trial })
    }

    /// Whether a trial should stop, by the study's rule. If so, its state is stopping from then on. Renews the lease.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`]; [`StoreError::Refused`] if the trial belongs to another client.
    pub async fn should_stop(&self, key: &TrialRef) -> Result<bool, StudiesError> {
        refuse_study_of_job(&key.study)?;
        let TrialOfStudy { study, mut trial } = self.trial_of_study(&key.study, key.trial).await?;
        // A trial at attempt 0 was never assigned to a client: it has no lease to renew.
        if !trial.state.is_final() && trial.attempt > 0 {
            let at = self.clock.steady();
            let renew = |attempt| self.store.change_trial(&key.study, key.trial, TrialChange::Renew { attempt, at });
            trial = as_owner(key, &trial, renew).await?;
        }
        if trial.state == TrialState::Active {
            let curve = self.measurements(&study.id, &trial).await?;
            if let Some(Stop { reason, predicted_final }) =
                self.stopping.decide(&*self.store, &study, trial.id, &curve).await?
            {
                tracing::info!(study.name = %study.id, trial.id = %trial.id, reason, "a trial should stop early");
                trial = self.store.change_trial(&key.study, key.trial, TrialChange::Stop { predicted_final }).await?;
            }
        }
        Ok(trial.state == TrialState::Stopping)
    }
}

/// Makes a change on behalf of the owner of `trial`, as it was read.
async fn as_owner<F: Future<Output = Result<Trial, StoreError>>>(
    key: &TrialRef,
    trial: &Trial,
    change: impl Fn(u64) -> F,
) -> Result<Trial, StoreError> {
    match change(key.attempt_at(trial)).await {
        // The trial was queued when it was read, and was assigned to its first owner since.
        Err(StoreError::Refused(TransitionError::Fenced { current: 1, reported: 0, .. })) => change(1).await,
        outcome => outcome,
    }
}

/// Whether a request of `key` may complete `trial` as it was read. If not, the change is refused with the reason.
fn is_owner(key: &TrialRef, trial: &Trial) -> bool {
    let was_expired = trial.state == TrialState::Requested && trial.attempt > 0;
    !trial.state.is_final() && !was_expired && key.attempt_at(trial) == trial.attempt
}
