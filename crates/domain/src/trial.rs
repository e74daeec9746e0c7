//! One trial and its life: requested, active, perhaps stopping, then succeeded or infeasible.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{Origin, ParameterValues, TrialId};

use super::{Measurement, TransitionError};

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialState {
    /// Queued, not given out.
    Requested,
    /// Given out: it runs or is about to.
    Active,
    /// Asked to stop early; its last measurement will be its result.
    Stopping,
    /// Has a final measurement.
    Succeeded,
    /// Ended without a usable result; its point is not tried again.
    Infeasible,
    /// Taken away by its user; only its number is still used up.
    Deleted,
}

impl TrialState {
    /// Whether nothing more will happen to the trial.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Infeasible | Self::Deleted)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "REQUESTED",
            Self::Active => "ACTIVE",
            Self::Stopping => "STOPPING",
            Self::Succeeded => "SUCCEEDED",
            Self::Infeasible => "INFEASIBLE",
            Self::Deleted => "DELETED",
        }
    }
}

impl fmt::Display for TrialState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many requests a trial remembers the keys of.
const MAX_REQUEST_KEYS: usize = 16;

/// For how long a trial belongs to its owner without a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// How long after a sign of life it ends.
    pub duration: Duration,
    /// When it ends, if no other sign of life comes.
    pub deadline: Timestamp,
}

impl Lease {
    /// A lease of `duration` from `at`. One that would end after the end of time does not end.
    pub fn starting(duration: Duration, at: Timestamp) -> Self {
        Self { duration, deadline: at.checked_add(duration).unwrap_or(Timestamp::MAX) }
    }
}

/// Everything known of a trial but its curve. Readable through [`Trial`]; changed only by a [`TrialChange`].
#[derive(Debug, Clone, PartialEq)]
pub struct TrialFields {
    /// Number in the study, from 1.
    pub id: TrialId,
    /// The point that is tried.
    pub parameters: ParameterValues,
    /// What proposed it; `None` if that was not recorded, as by versions that did not.
    pub origin: Option<Origin>,
    /// Where it stands.
    pub state: TrialState,
    /// Who was given the trial.
    pub client_id: String,
    /// The fencing number: how often the trial was started, 0 before the first time. Reports name the attempt they
    /// come from, and those of an earlier one are refused.
    pub attempt: u64,
    /// How many attempts ended because the place they ran in was lost, not by their own doing.
    pub lost_attempts: u64,
    /// How long its owner may be silent; `None`: for ever.
    pub lease: Option<Lease>,
    /// How many owners were silent for too long.
    pub expired_leases: u64,
    /// When it was created.
    pub create_time: Timestamp,
    /// When its first attempt began.
    pub start_time: Option<Timestamp>,
    /// When its result became final.
    pub end_time: Option<Timestamp>,
    /// How many measurements are stored: the sequence number of the next one.
    pub measurement_count: u64,
    /// Its result, once it succeeded.
    pub final_measurement: Option<Measurement>,
    /// Why it is infeasible.
    pub infeasible_reason: Option<String>,
    /// It was stopped before its own end; its result is its last report.
    pub stopped_early: bool,
    /// Why the study's algorithm did not propose it: it failed, and random search answered in its place.
    pub fallback_reason: Option<String>,
    /// The keys of the latest requests that changed it, the newest last: a request that is sent again is known by its
    /// key.
    pub request_keys: Vec<String>,
    /// Revision of the study at the last change, given by the store; rises with every change of any trial.
    pub revision: u64,
}

/// A trial in a state that its history allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial(TrialFields);

impl Deref for Trial {
    type Target = TrialFields;

    fn deref(&self) -> &TrialFields {
        &self.0
    }
}

/// A trial about to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTrial {
    /// Must be the study's next number.
    pub id: TrialId,
    /// The point to try.
    pub parameters: ParameterValues,
    /// What proposed it, if that is known.
    pub origin: Option<Origin>,
    /// Why it was not the study's algorithm.
    pub fallback_reason: Option<String>,
    /// Who gets it; empty if nobody does yet.
    pub client_id: String,
    /// The state that it is created in.
    pub start: TrialStart,
    /// The time now.
    pub create_time: Timestamp,
    /// The key of the request that creates it, if it has one.
    pub request_key: Option<String>,
}

/// How a trial's life begins.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialStart {
    /// Queued, until somebody is assigned to it.
    Requested,
    /// Given to its client, which begins the first attempt later.
    Given,
    /// Given to its client, whose first attempt begins with that.
    Begun {
        /// How long the client may be silent.
        lease: Option<Duration>,
    },
    /// Its user had the result already.
    Completed(Completion),
}

/// A change of one trial, applied by a store within one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialChange {
    /// A new attempt is about to be started; recorded before it is.
    BeginAttempt {
        /// Must be one more than the trial's present attempt, so that two starters cannot both succeed.
        attempt: u64,
        /// Whether the attempt before it was lost with the place it ran in.
        previous_lost: bool,
        /// The time now.
        at: Timestamp,
    },
    /// A queued trial is given to a client, whose attempt begins with that.
    Assign {
        /// Who gets it.
        client_id: String,
        /// How long the client may be silent.
        lease: Option<Duration>,
        /// The time now.
        at: Timestamp,
    },
    /// Its owner gave a sign of life. Without effect on a trial without a lease.
    Renew {
        /// The attempt that is alive.
        attempt: u64,
        /// The time now.
        at: Timestamp,
    },
    /// Its owner was silent for too long: the trial is queued again. Without effect if the lease has not ended.
    Expire {
        /// The attempt that was silent.
        attempt: u64,
        /// The time now.
        at: Timestamp,
    },
    /// Reports arrived. Those for a queued trial that nobody had yet come from its user, who runs it.
    Report {
        /// The attempt that reports.
        attempt: u64,
        /// What it reports, in the order of arrival.
        measurements: Vec<Measurement>,
        /// The time now.
        at: Timestamp,
        /// The key of the request, if it has one. Without effect if it is among the trial's latest.
        request_key: Option<String>,
    },
    /// The trial shall stop early. Without effect on one that is stopping or has its result.
    Stop,
    /// The trial has its result.
    Complete {
        /// The attempt that ended.
        attempt: u64,
        /// Reports that were not recorded yet.
        measurements: Vec<Measurement>,
        /// What came of it.
        completion: Completion,
        /// The time now.
        at: Timestamp,
    },
    /// Its user takes it away. From then on a store does not find it to change it.
    Delete {
        /// The time now.
        at: Timestamp,
    },
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Completion {
    /// It has a result.
    Succeeded {
        /// The result; every metric finite.
        final_measurement: Measurement,
    },
    /// It has none.
    Infeasible {
        /// Why.
        reason: String,
    },
}

impl Trial {
    /// A trial that is being created.
    ///
    /// # Errors
    /// [`TransitionError::BadMeasurement`] if it comes with a result that is not finite.
    pub fn new(new: NewTrial) -> Result<Self, TransitionError> {
        let mut trial = Self(TrialFields {
            id: new.id,
            parameters: new.parameters,
            origin: new.origin,
            state: TrialState::Requested,
            client_id: new.client_id.clone(),
            attempt: 0,
            lost_attempts: 0,
            lease: None,
            expired_leases: 0,
            create_time: new.create_time,
            start_time: None,
            end_time: None,
            measurement_count: 0,
            final_measurement: None,
            infeasible_reason: None,
            stopped_early: false,
            fallback_reason: new.fallback_reason,
            request_keys: new.request_key.into_iter().collect(),
            revision: 0,
        });
        let at = new.create_time;
        match new.start {
            TrialStart::Requested => {}
            TrialStart::Given => trial.0.state = TrialState::Active,
            TrialStart::Begun { lease } => trial.assign(new.client_id, lease, at)?,
            TrialStart::Completed(completion) => {
                trial.complete(0, Vec::new(), completion, at)?;
            }
        }
        Ok(trial)
    }

    /// A trial as a store kept it.
    pub fn restore(fields: TrialFields) -> Self {
        Self(fields)
    }

    /// Records the revision that the store gave to the latest change.
    pub fn set_revision(&mut self, revision: u64) {
        self.0.revision = revision;
    }

    /// Applies `change`, and returns the measurements to be stored after those there are: their first sequence number
    /// is the `measurement_count` from before the change. A change that was already made before, such as completing
    /// again with the same result, succeeds without effect.
    ///
    /// # Errors
    /// [`TransitionError`] if the state does not allow the change; the trial is then unchanged.
    pub fn apply(&mut self, change: TrialChange) -> Result<Vec<Measurement>, TransitionError> {
        match change {
            TrialChange::BeginAttempt { attempt, previous_lost, at } => {
                self.begin_attempt(attempt, previous_lost, at).map(|()| Vec::new())
            }
            TrialChange::Assign { client_id, lease, at } => self.assign(client_id, lease, at).map(|()| Vec::new()),
            TrialChange::Renew { attempt, at } => self.renew(attempt, at).map(|()| Vec::new()),
            TrialChange::Expire { attempt, at } => {
                self.expire(attempt, at);
                Ok(Vec::new())
            }
            TrialChange::Report { attempt, measurements, at, request_key } => {
                if request_key.as_ref().is_some_and(|key| self.request_keys.contains(key)) {
                    return Ok(Vec::new());
                }
                let measurements = self.report(attempt, measurements, at)?;
                self.remember(request_key);
                Ok(measurements)
            }
            TrialChange::Stop => self.stop().map(|()| Vec::new()),
            TrialChange::Complete { attempt, measurements, completion, at } => {
                self.complete(attempt, measurements, completion, at)
            }
            TrialChange::Delete { at } => {
                self.delete(at);
                Ok(Vec::new())
            }
        }
    }

    fn begin_attempt(&mut self, attempt: u64, previous_lost: bool, at: Timestamp) -> Result<(), TransitionError> {
        // A trial that was stopping when its place was lost keeps its state: it is completed from what it reported.
        if self.state != TrialState::Active {
            return Err(self.wrong_state("start"));
        }
        if attempt != self.attempt + 1 {
            return Err(TransitionError::Fenced { trial: self.id, current: self.attempt, reported: attempt });
        }
        self.0.attempt = attempt;
        self.0.lost_attempts += u64::from(previous_lost);
        self.0.start_time.get_or_insert(at);
        Ok(())
    }

    fn assign(&mut self, client_id: String, lease: Option<Duration>, at: Timestamp) -> Result<(), TransitionError> {
        if self.state != TrialState::Requested {
            return Err(self.wrong_state("assign"));
        }
        self.0.state = TrialState::Active;
        self.0.client_id = client_id;
        self.0.attempt += 1;
        self.0.lease = lease.map(|duration| Lease::starting(duration, at));
        self.0.start_time.get_or_insert(at);
        Ok(())
    }

    fn renew(&mut self, attempt: u64, at: Timestamp) -> Result<(), TransitionError> {
        self.check_fence(attempt)?;
        self.check_not_expired()?;
        if !self.is_owned() {
            return Err(self.wrong_state("renew the lease of"));
        }
        self.prolong_lease(at);
        Ok(())
    }

    fn expire(&mut self, attempt: u64, at: Timestamp) {
        let is_over = self.lease.is_some_and(|lease| lease.deadline <= at);
        if self.state == TrialState::Active && self.attempt == attempt && is_over {
            self.0.state = TrialState::Requested;
            self.0.client_id = String::new();
            self.0.lease = None;
            self.0.expired_leases += 1;
        }
    }

    fn delete(&mut self, at: Timestamp) {
        if self.state != TrialState::Deleted {
            self.0.state = TrialState::Deleted;
            self.0.lease = None;
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
            self.0.start_time.get_or_insert(at);
        }
        self.prolong_lease(at);
        self.0.measurement_count += measurements.len() as u64;
        Ok(measurements)
    }

    fn stop(&mut self) -> Result<(), TransitionError> {
        match self.state {
            TrialState::Active => {
                self.0.state = TrialState::Stopping;
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
        // An earlier owner's result is never taken for the present one's, be it the same.
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
        }
        self.0.measurement_count += measurements.len() as u64;
        self.0.lease = None;
        self.0.end_time = Some(at);
        Ok(measurements)
    }

    fn remember(&mut self, request_key: Option<String>) {
        let Some(key) = request_key else { return };
        if self.0.request_keys.len() == MAX_REQUEST_KEYS {
            self.0.request_keys.remove(0);
        }
        self.0.request_keys.push(key);
    }

    /// Whether somebody has the trial.
    fn is_owned(&self) -> bool {
        matches!(self.state, TrialState::Active | TrialState::Stopping)
    }

    fn prolong_lease(&mut self, at: Timestamp) {
        if let Some(lease) = &mut self.0.lease {
            *lease = Lease::starting(lease.duration, at);
        }
    }

    /// Refuses whoever had the trial before its lease ended.
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
            Completion::Infeasible { reason } => self.infeasible_reason.as_ref() == Some(reason),
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
