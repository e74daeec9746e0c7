//! Requests of a trial's owner: measurements, completion, early stopping.

use super::{ReportedOutcome, Studies, StudiesError, TrialOfStudy, TrialRef, completion, digests, refuse_study_of_job};
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
        if let Some(request) = &request_key
            && trial.has_recorded(request).map_err(StoreError::from)?
        {
            return Ok(TrialOfStudy { study, trial });
        }
        let (now, steady) = (self.clock.now(), self.clock.steady());
        let trial = if !trial.state.is_final() && self.is_latest(key, &trial, &measurement).await? {
            self.change_as_owner(key, trial, |attempt| TrialChange::Renew { attempt, at: steady }).await?
        } else {
            let report = |attempt| TrialChange::Report {
                attempt,
                measurements: vec![measurement.clone()],
                // A trial at attempt 0 has no lease; the report may be its start.
                at: if attempt == 0 { now } else { steady },
                request_key: request_key.clone(),
            };
            self.change_as_owner(key, trial, report).await?
        };
        Ok(TrialOfStudy { study, trial })
    }

    /// Makes a change on behalf of the owner of `trial`, as it was read.
    async fn change_as_owner(
        &self,
        key: &TrialRef,
        trial: Trial,
        change: impl Fn(u64) -> TrialChange,
    ) -> Result<Trial, StudiesError> {
        let attempt = key.attempt_at(&trial);
        match self.store.change_trial(&key.study, key.trial, change(attempt)).await {
            // The trial was queued when it was read, and was assigned to its first owner since.
            Err(StoreError::Refused(TransitionError::Fenced { current: 1, reported: 0, .. })) => {
                Ok(self.store.change_trial(&key.study, key.trial, change(1)).await?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Whether `measurement` repeats the latest one.
    async fn is_latest(&self, key: &TrialRef, trial: &Trial, measurement: &Measurement) -> Result<bool, StoreError> {
        let has_place = measurement.step > 0 || measurement.elapsed_secs.is_some();
        let Some(last) = trial.measurement_count.checked_sub(1).filter(|_| has_place) else { return Ok(false) };
        let latest = self.store.measurements(&key.study, key.trial, last, 1).await?;
        Ok(latest.first().is_some_and(|latest| {
            (latest.step, latest.elapsed_secs) == (measurement.step, measurement.elapsed_secs)
                && latest.metrics == measurement.metrics
        }))
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
            completion::require_measurement(&study, &trial, &self.measurements(&study.id, &trial).await?)?;
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
        self.change_as_owner(key, trial, complete).await
    }

    /// Requests a trial's owner to stop; its last measurement will be its result.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`]; [`StoreError::Refused`] if the trial has no owner.
    pub async fn stop(&self, key: &TrialRef) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(&key.study)?;
        let TrialOfStudy { study, .. } = self.trial_of_study(&key.study, key.trial).await?;
        let trial = self.store.change_trial(&key.study, key.trial, TrialChange::Stop).await?;
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
            trial = self.change_as_owner(key, trial, |attempt| TrialChange::Renew { attempt, at }).await?;
        }
        if trial.state == TrialState::Active {
            let curve = self.measurements(&study.id, &trial).await?;
            if let Some(reason) = self.stopping.decide(&*self.store, &study, trial.id, &curve).await? {
                tracing::info!(study.name = %study.id, trial.id = %trial.id, reason, "a trial should stop early");
                trial = self.store.change_trial(&key.study, key.trial, TrialChange::Stop).await?;
            }
        }
        Ok(trial.state == TrialState::Stopping)
    }
}

/// Whether a request of `key` may complete `trial` as it was read. If not, the change is refused with the reason.
fn is_owner(key: &TrialRef, trial: &Trial) -> bool {
    let was_expired = trial.state == TrialState::Requested && trial.attempt > 0;
    !trial.state.is_final() && !was_expired && key.attempt_at(trial) == trial.attempt
}
