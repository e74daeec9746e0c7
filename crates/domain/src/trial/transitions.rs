//! Legal changes of a trial, and their effects.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::early_stopping::FinalPrediction;

use super::location::note;
use super::{
    AttemptLocation, CompletedStart, Completion, Lease, LossCause, NewTrial, RecordedRequest, Trial, TrialChange,
    TrialFields, TrialStart, TrialState,
};
#[cfg(doc)]
use crate::Study;
use crate::{Measurement, Metadata, MetricFolders, TransitionError};

impl Trial {
    /// Creates a trial; [`Study::add_trial`] assigns its revision.
    ///
    /// # Errors
    /// [`TransitionError::BadMeasurement`] if it is created with a result that is not finite, or a negative step.
    pub fn new(new: NewTrial) -> Result<Self, TransitionError> {
        let mut trial = Self(TrialFields {
            id: new.id,
            parameters: new.parameters,
            origin: new.origin,
            state: TrialState::Requested,
            client_id: new.client_id.clone(),
            attempt: 0,
            lost_attempts: 0,
            preempted_attempts: 0,
            lost_time: Duration::ZERO,
            places: Vec::new(),
            delivered: 0,
            lease: None,
            expired_leases: 0,
            create_time: new.create_time,
            start_time: None,
            attempt_start_time: None,
            end_time: None,
            measurement_count: 0,
            metric_folders: MetricFolders::default(),
            final_measurement: None,
            infeasible_reason: None,
            stopped_early: false,
            predicted_final: None,
            fallback_reason: new.fallback_reason,
            fixed_parameters: new.fixed_parameters,
            request_keys: new
                .request_key
                .map(|request| RecordedRequest::new(request, new.create_time))
                .into_iter()
                .collect(),
            metadata: Metadata::default(),
            last_note: None,
            revision: 0,
        });
        let at = new.create_time;
        match new.start {
            TrialStart::Requested => {}
            TrialStart::Given => trial.0.state = TrialState::Active,
            TrialStart::Started { lease } => trial.assign(new.client_id, lease, at)?,
            TrialStart::Completed(CompletedStart { completion, measurements, stopped_early }) => {
                if stopped_early {
                    trial.0.state = TrialState::Stopping;
                }
                trial.complete(0, measurements, completion, at)?;
            }
        }
        Ok(trial)
    }

    /// Sets the revision that the study assigned to the latest change.
    pub(crate) fn with_revision(mut self, revision: u64) -> Self {
        self.0.revision = revision;
        self
    }

    /// Applies `change` and returns the measurements to append to the stored ones. Their sequence numbers start at the
    /// `measurement_count` before the change. Repeating a change, such as completing with the same result, succeeds
    /// without effect. The revision is not changed; see [`Study::change_trial`].
    ///
    /// # Errors
    /// [`TransitionError`] if the state does not allow the change; the trial is then unchanged.
    pub fn apply(&mut self, change: TrialChange) -> Result<Vec<Measurement>, TransitionError> {
        match change {
            TrialChange::BeginAttempt { attempt, previous_loss, at } => {
                self.begin_attempt(attempt, previous_loss, at).map(|()| Vec::new())
            }
            TrialChange::Assign { client_id, lease, at } => self.assign(client_id, lease, at).map(|()| Vec::new()),
            TrialChange::Renew { attempt, at } => self.renew(attempt, at).map(|()| Vec::new()),
            TrialChange::Expire { attempt, at } => {
                self.expire(attempt, at);
                Ok(Vec::new())
            }
            TrialChange::Report { attempt, measurements, at, request_key } => {
                if let Some(request) = &request_key
                    && self.has_recorded(request)?
                {
                    return Ok(Vec::new());
                }
                let measurements = self.report(attempt, measurements, at)?;
                if let Some(request) = request_key {
                    self.record(request, at);
                }
                Ok(measurements)
            }
            TrialChange::Deliver { attempt, from, to, measurements, at } => {
                self.deliver(attempt, from..to, measurements, at)
            }
            TrialChange::Locate(place) => self.place(place).map(|()| Vec::new()),
            TrialChange::Stop { predicted_final } => self.stop(predicted_final).map(|()| Vec::new()),
            TrialChange::Complete { attempt, measurements, completion, at } => {
                self.complete(attempt, measurements, completion, at)
            }
            TrialChange::Retry => {
                if self.has_failed() {
                    self.reopen();
                }
                Ok(Vec::new())
            }
            TrialChange::Continue => {
                if self.state == TrialState::Succeeded && self.stopped_early {
                    self.reopen();
                }
                Ok(Vec::new())
            }
            TrialChange::AddMetadata(metadata) => {
                let id = self.id;
                self.0.metadata.merge(metadata, || format!("trial {id}")).map(|()| Vec::new())
            }
            TrialChange::SetNote { note, at } => self.set_note(note, at).map(|()| Vec::new()),
            TrialChange::Delete { at } => {
                self.delete(at);
                Ok(Vec::new())
            }
        }
    }

    fn begin_attempt(
        &mut self,
        attempt: u64,
        previous_loss: Option<LossCause>,
        at: Timestamp,
    ) -> Result<(), TransitionError> {
        // A stopping trial whose attempt was lost is completed from its measurements, not restarted.
        if self.state != TrialState::Active {
            return Err(self.wrong_state("start"));
        }
        if attempt != self.attempt + 1 {
            return Err(TransitionError::Fenced { trial: self.id, current: self.attempt, reported: attempt });
        }
        self.0.attempt = attempt;
        self.0.delivered = 0;
        match previous_loss {
            Some(LossCause::Failure) => self.0.lost_attempts += 1,
            Some(LossCause::Preemption) => self.0.preempted_attempts += 1,
            None => {}
        }
        if previous_loss.is_some() {
            self.add_lost_time(at);
        }
        self.start_attempt(at);
        Ok(())
    }

    /// Sets the start time of the current attempt.
    fn start_attempt(&mut self, at: Timestamp) {
        let at = self.not_before(at);
        self.0.start_time.get_or_insert(at);
        self.0.attempt_start_time = Some(at);
    }

    /// Adds the time from the start of the current attempt to `at` to the lost time.
    fn add_lost_time(&mut self, at: Timestamp) {
        let ran = self.attempt_start_time.and_then(|start| Duration::try_from(at.duration_since(start)).ok());
        self.0.lost_time = self.lost_time.saturating_add(ran.unwrap_or_default());
    }

    fn assign(&mut self, client_id: String, lease: Option<Lease>, at: Timestamp) -> Result<(), TransitionError> {
        if self.state != TrialState::Requested {
            return Err(self.wrong_state("assign"));
        }
        self.0.state = TrialState::Active;
        self.0.client_id = client_id;
        self.0.attempt += 1;
        self.0.delivered = 0;
        self.0.lease = lease;
        self.start_attempt(at);
        Ok(())
    }

    fn renew(&mut self, attempt: u64, at: Timestamp) -> Result<(), TransitionError> {
        self.check_fence(attempt)?;
        self.check_not_expired()?;
        if !self.is_owned() {
            return Err(self.wrong_state("renew the lease of"));
        }
        self.extend_lease(at);
        Ok(())
    }

    fn expire(&mut self, attempt: u64, at: Timestamp) {
        let is_over = self.lease.is_some_and(|lease| lease.deadline <= at);
        if self.state == TrialState::Active && self.attempt == attempt && is_over {
            self.0.state = TrialState::Requested;
            self.0.client_id = String::new();
            self.0.lease = None;
            self.0.expired_leases += 1;
            self.add_lost_time(at);
        }
    }

    /// Removes the result, so that another attempt can start.
    fn reopen(&mut self) {
        self.0.state = TrialState::Active;
        self.0.final_measurement = None;
        self.0.infeasible_reason = None;
        self.0.stopped_early = false;
        self.0.predicted_final = None;
        self.0.lost_attempts = 0;
        self.0.preempted_attempts = 0;
        self.0.lost_time = Duration::ZERO;
        self.0.start_time = None;
        self.0.attempt_start_time = None;
        self.0.end_time = None;
    }

    fn delete(&mut self, at: Timestamp) {
        if self.state != TrialState::Deleted {
            self.0.state = TrialState::Deleted;
            self.0.lease = None;
            let at = self.not_before(at);
            self.0.end_time.get_or_insert(at);
        }
    }

    fn report(
        &mut self,
        attempt: u64,
        measurements: Vec<Measurement>,
        at: Timestamp,
    ) -> Result<Vec<Measurement>, TransitionError> {
        self.check_fence(attempt)?;
        if self.state.is_final() {
            return Err(self.wrong_state("add a measurement to"));
        }
        self.check_not_expired()?;
        self.check_measurements(&measurements)?;
        if self.state == TrialState::Requested {
            self.0.state = TrialState::Active;
            self.start_attempt(at);
        }
        self.extend_lease(at);
        self.count(&measurements);
        Ok(measurements)
    }

    fn deliver(
        &mut self,
        attempt: u64,
        numbers: Range<u64>,
        measurements: Vec<Measurement>,
        at: Timestamp,
    ) -> Result<Vec<Measurement>, TransitionError> {
        self.check_fence(attempt)?;
        if numbers.start != self.delivered || numbers.end < numbers.start {
            let (trial, expected, given) = (self.id, self.delivered, numbers.start);
            return Err(TransitionError::OutOfSequence { trial, expected, given });
        }
        let measurements = self.report(attempt, measurements, at)?;
        self.0.delivered = numbers.end;
        Ok(measurements)
    }

    fn place(&mut self, place: AttemptLocation) -> Result<(), TransitionError> {
        self.check_fence(place.attempt)?;
        if !self.state.is_final() && self.places.last() != Some(&place) {
            note(&mut self.0.places, place);
        }
        Ok(())
    }

    fn stop(&mut self, predicted_final: Option<FinalPrediction>) -> Result<(), TransitionError> {
        match self.state {
            TrialState::Active => {
                self.0.state = TrialState::Stopping;
                self.0.predicted_final = predicted_final.filter(FinalPrediction::is_finite);
                Ok(())
            }
            TrialState::Requested | TrialState::Deleted => Err(self.wrong_state("stop")),
            TrialState::Stopping | TrialState::Succeeded | TrialState::Infeasible => Ok(()),
        }
    }

    fn complete(
        &mut self,
        attempt: u64,
        measurements: Vec<Measurement>,
        completion: Completion,
        at: Timestamp,
    ) -> Result<Vec<Measurement>, TransitionError> {
        // The result of a former owner is refused even if it equals the stored one.
        self.check_fence(attempt)?;
        if self.state == TrialState::Deleted {
            return Err(self.wrong_state("complete"));
        }
        if self.state.is_final() {
            return if self.has_result(&completion) {
                Ok(Vec::new())
            } else {
                Err(TransitionError::AlreadyCompleted { trial: self.id, stored: self.result_text() })
            };
        }
        self.check_not_expired()?;
        self.check_measurements(&measurements)?;
        match completion {
            Completion::Succeeded { final_measurement } => {
                if let Some(metric) = final_measurement.metrics.iter().find(|metric| !metric.value.is_finite()) {
                    return Err(TransitionError::BadMeasurement {
                        trial: self.id,
                        index: measurements.len(),
                        reason: format!("the final value {} of {:?} is not finite", metric.value, metric.metric),
                    });
                }
                self.0.stopped_early = self.state == TrialState::Stopping;
                self.0.state = TrialState::Succeeded;
                self.0.final_measurement = Some(final_measurement);
            }
            Completion::Infeasible { reason } => {
                self.0.state = TrialState::Infeasible;
                self.0.infeasible_reason = Some(reason);
            }
            Completion::Stopped { reason } => {
                self.0.stopped_early = true;
                self.0.state = TrialState::Infeasible;
                self.0.infeasible_reason = Some(reason);
            }
        }
        self.count(&measurements);
        self.0.lease = None;
        self.0.end_time = Some(self.not_before(at));
        Ok(measurements)
    }

    /// Counts `measurements`, which are stored with the change.
    fn count(&mut self, measurements: &[Measurement]) {
        self.0.measurement_count += measurements.len() as u64;
        measurements.iter().for_each(|measurement| self.0.metric_folders.note(measurement));
    }

    /// Returns `at`, or the trial's latest time stamp if that is later: the system clock may have been set back.
    fn not_before(&self, at: Timestamp) -> Timestamp {
        at.max(self.create_time).max(self.start_time.unwrap_or(Timestamp::MIN))
    }

    fn is_owned(&self) -> bool {
        matches!(self.state, TrialState::Active | TrialState::Stopping)
    }

    fn extend_lease(&mut self, at: Timestamp) {
        if let Some(lease) = &mut self.0.lease {
            *lease = Lease::starting(lease.duration, at);
        }
    }

    /// Refuses the former owner of a trial whose lease expired.
    fn check_not_expired(&self) -> Result<(), TransitionError> {
        if self.state == TrialState::Requested && self.attempt > 0 {
            return Err(TransitionError::LeaseExpired { trial: self.id, attempt: self.attempt });
        }
        Ok(())
    }

    fn check_fence(&self, attempt: u64) -> Result<(), TransitionError> {
        if attempt == self.attempt {
            Ok(())
        } else {
            Err(TransitionError::Fenced { trial: self.id, current: self.attempt, reported: attempt })
        }
    }

    fn check_measurements(&self, measurements: &[Measurement]) -> Result<(), TransitionError> {
        match measurements.iter().position(|measurement| measurement.step < 0) {
            Some(index) => Err(TransitionError::BadMeasurement {
                trial: self.id,
                index,
                reason: format!("step {} is negative", measurements[index].step),
            }),
            None => Ok(()),
        }
    }

    fn has_result(&self, completion: &Completion) -> bool {
        match completion {
            Completion::Succeeded { final_measurement } => self.final_measurement.as_ref() == Some(final_measurement),
            Completion::Infeasible { reason } | Completion::Stopped { reason } => {
                self.infeasible_reason.as_ref() == Some(reason)
            }
        }
    }

    fn result_text(&self) -> String {
        match (&self.final_measurement, &self.infeasible_reason) {
            (Some(measurement), _) => {
                let values: Vec<String> = measurement
                    .metrics
                    .iter()
                    .map(|metric| format!("{}={:?} at step {}", metric.metric, metric.value, measurement.step))
                    .collect();
                values.join(", ")
            }
            (None, Some(reason)) => format!("no result: {reason}"),
            (None, None) => self.state.to_string(),
        }
    }

    fn wrong_state(&self, change: &'static str) -> TransitionError {
        TransitionError::WrongState { resource: format!("trial {}", self.id), state: self.state.to_string(), change }
    }
}
