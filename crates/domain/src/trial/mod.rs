//! Trials: requested, active, possibly stopping, then succeeded or infeasible.

mod change;
mod location;
mod request;
mod transitions;

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{Origin, ParameterValues, TrialId};

use super::{Measurement, MetricFolders};
pub use change::{Completion, LossCause, NewTrial, TrialChange, TrialStart};
pub use location::{AttemptLocation, ReplicaNode};
pub use request::{RecordedRequest, RecordedRequestError, RequestKey};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialState {
    /// Queued, without an owner.
    Requested,
    /// Assigned to a client; it runs or is about to run.
    Active,
    /// Requested to stop early; its last measurement becomes its result.
    Stopping,
    /// Has a final measurement.
    Succeeded,
    /// Ended without a usable result; its parameter values are not tried again.
    Infeasible,
    /// Deleted by its user; its number is not used again.
    Deleted,
}

impl TrialState {
    /// Whether no transition leaves this state, except deletion and, for an infeasible trial, a retry.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Infeasible | Self::Deleted)
    }

    /// The name of the state, in upper case.
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

/// The time for which a trial belongs to its owner without a report or a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Time from the last report or renewal to the deadline.
    pub duration: Duration,
    /// When the lease ends, unless it is extended before.
    pub deadline: Timestamp,
}

impl Lease {
    /// A lease of `duration` from `at`. The deadline is at most [`Timestamp::MAX`].
    pub fn starting(duration: Duration, at: Timestamp) -> Self {
        Self { duration, deadline: at.checked_add(duration).unwrap_or(Timestamp::MAX) }
    }
}

/// The data of a trial without its measurements. [`Trial`] gives read access; only a [`TrialChange`] changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialFields {
    /// Number in the study, from 1.
    pub id: TrialId,
    /// The suggested parameter values.
    pub parameters: ParameterValues,
    /// The algorithm that proposed the trial; `None` if a client chose its parameters.
    pub origin: Option<Origin>,
    pub state: TrialState,
    /// The client that owns the trial; empty if it has no owner.
    pub client_id: String,
    /// The fencing number: the number of attempts so far, 0 before the first. Reports carry the attempt that they come
    /// from; reports of an earlier attempt are refused.
    pub attempt: u64,
    /// Number of attempts since the last retry that ended because their node or supervisor failed.
    pub lost_attempts: u64,
    /// Number of attempts since the last retry that ended because the engine's scheduler preempted them.
    pub preempted_attempts: u64,
    /// How long the attempts since the last retry ran that were lost or preempted, or whose lease expired, until the loss was
    /// handled.
    pub lost_time: Duration,
    /// Where the attempts ran, as far as it is known, in their order. The oldest ones are left out if there are many.
    pub places: Vec<AttemptLocation>,
    /// Number of measurements that the agent of the current attempt has delivered.
    pub delivered: u64,
    /// The owner's lease; `None` if ownership does not expire.
    pub lease: Option<Lease>,
    pub expired_leases: u64,
    /// When the trial was created.
    pub create_time: Timestamp,
    /// When the first attempt started; `None` after a retry until the next attempt starts.
    pub start_time: Option<Timestamp>,
    /// When the current attempt started; `None` before the first one, and after a retry until the next one.
    pub attempt_start_time: Option<Timestamp>,
    /// When the result became final.
    pub end_time: Option<Timestamp>,
    /// Number of stored measurements, which is the sequence number of the next one.
    pub measurement_count: u64,
    /// The folders of event files with the metrics, of which one is the curve of each metric.
    pub metric_folders: MetricFolders,
    /// The result of a succeeded trial.
    pub final_measurement: Option<Measurement>,
    /// Why the trial is infeasible.
    pub infeasible_reason: Option<String>,
    /// Whether the trial was stopped early; its result is then its last measurement, if it has one.
    pub stopped_early: bool,
    /// The error of the study's algorithm, if it failed and random search proposed the trial instead.
    pub fallback_reason: Option<String>,
    /// The requests of the last day that had an idempotency key and changed the trial, newest last. They identify
    /// repeated requests.
    pub request_keys: Vec<RecordedRequest>,
    /// Revision of the study at the last change of this trial; increases with every change of any trial.
    pub revision: u64,
}

/// A trial in a state that its transitions allow.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial(TrialFields);

impl Deref for Trial {
    type Target = TrialFields;

    fn deref(&self) -> &TrialFields {
        &self.0
    }
}

impl Trial {
    /// A trial with stored fields.
    pub fn restore(fields: TrialFields) -> Self {
        Self(fields)
    }

    /// Whether the trial ended without a usable result although it was not stopped early.
    pub fn has_failed(&self) -> bool {
        self.state == TrialState::Infeasible && !self.stopped_early
    }
}
