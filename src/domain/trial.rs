//! One trial and its life: requested, active, perhaps stopping, then succeeded or infeasible.

use std::fmt;
use std::ops::Deref;

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
}

impl TrialState {
    /// Whether the trial has its result.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Infeasible)
    }
}

impl fmt::Display for TrialState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "REQUESTED",
            Self::Active => "ACTIVE",
            Self::Stopping => "STOPPING",
            Self::Succeeded => "SUCCEEDED",
            Self::Infeasible => "INFEASIBLE",
        })
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
    /// Who gets it.
    pub client_id: String,
    /// The time now.
    pub create_time: Timestamp,
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
    /// Reports arrived.
    Report {
        /// The attempt that reports.
        attempt: u64,
        /// What it reports, in the order of arrival.
        measurements: Vec<Measurement>,
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
    /// A trial that was just given out.
    pub fn new(new: NewTrial) -> Self {
        Self(TrialFields {
            id: new.id,
            parameters: new.parameters,
            origin: new.origin,
            state: TrialState::Active,
            client_id: new.client_id,
            attempt: 0,
            lost_attempts: 0,
            create_time: new.create_time,
            start_time: None,
            end_time: None,
            measurement_count: 0,
            final_measurement: None,
            infeasible_reason: None,
            stopped_early: false,
            revision: 0,
        })
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
            TrialChange::Report { attempt, measurements } => self.report(attempt, measurements),
            TrialChange::Stop => self.stop().map(|()| Vec::new()),
            TrialChange::Complete { attempt, measurements, completion, at } => {
                self.complete(attempt, measurements, completion, at)
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

    fn report(&mut self, attempt: u64, measurements: Vec<Measurement>) -> Result<Vec<Measurement>, TransitionError> {
        if !matches!(self.state, TrialState::Active | TrialState::Stopping) {
            return Err(self.wrong_state("add a measurement to"));
        }
        self.check_fence(attempt)?;
        self.check_measurements(&measurements)?;
        self.0.measurement_count += measurements.len() as u64;
        Ok(measurements)
    }

    fn stop(&mut self) -> Result<(), TransitionError> {
        match self.state {
            TrialState::Active => {
                self.0.state = TrialState::Stopping;
                Ok(())
            }
            TrialState::Requested => Err(self.wrong_state("stop")),
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
        if self.state.is_final() {
            return if self.has_result(&completion) {
                Ok(Vec::new())
            } else {
                Err(TransitionError::AlreadyCompleted { trial: self.id, stored: self.result_text() })
            };
        }
        if self.state == TrialState::Requested {
            return Err(self.wrong_state("complete"));
        }
        self.check_fence(attempt)?;
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
        self.0.end_time = Some(at);
        Ok(measurements)
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
