//! Trials: requested, active, possibly stopping, then succeeded or infeasible.

mod change;
mod location;
mod note;
mod request;
mod transitions;

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::early_stopping::FinalPrediction;
use tunesmith_algorithms::problem::{Origin, ParameterValues, TrialId};

use super::{Measurement, Metadata, MetricFolders};
pub use change::{CompletedStart, Completion, LossCause, NewTrial, TrialChange, TrialStart};
pub use location::{AttemptLocation, ReplicaNode};
pub use note::{NewNote, NoteError, TrialNote};
pub use request::{RecordedRequest, RecordedRequestError, RequestKey};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialState {
    /// Queued, without an owner.
    Requested,
    /// Assigned to a client; running or about to run.
    Active,
    /// Stopping early on request; its last measurement becomes its result.
    Stopping,
    /// Ended with a final measurement.
    Succeeded,
    /// Ended without a usable result; its parameter values are not tried again.
    Infeasible,
    /// Deleted by its user; its number is not reused.
    Deleted,
}

impl TrialState {
    /// Whether the trial has ended. Only deletion and, for an infeasible trial, a retry leave such a state.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Infeasible | Self::Deleted)
    }

    /// State name in upper case.
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

/// Ownership of a trial for a limited time without a report or renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Time from the last report or renewal to the deadline.
    pub duration: Duration,
    /// End of the lease unless renewed.
    pub deadline: Timestamp,
}

impl Lease {
    /// Lease of `duration` from `at`, ending at [`Timestamp::MAX`] at the latest.
    pub fn starting(duration: Duration, at: Timestamp) -> Self {
        Self { duration, deadline: at.checked_add(duration).unwrap_or(Timestamp::MAX) }
    }
}

/// Data of a trial, excluding its measurements. [`Trial`] gives read access; only a [`TrialChange`] modifies it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialFields {
    /// Number within the study, from 1.
    pub id: TrialId,
    pub parameters: ParameterValues,
    /// Algorithm that proposed the trial; `None` if a client chose its parameters.
    pub origin: Option<Origin>,
    pub state: TrialState,
    /// Owner; empty if there is none.
    pub client_id: String,
    /// Fencing number: attempts so far, 0 before the first. Reports name their attempt; those of earlier attempts are
    /// refused.
    pub attempt: u64,
    /// Attempts since the last retry or continuation that ended with a failure of their node or supervisor.
    pub lost_attempts: u64,
    /// Attempts since the last retry or continuation that the engine's scheduler preempted.
    pub preempted_attempts: u64,
    /// Total running time, since the last retry or continuation, of attempts that were lost, preempted or ended by lease expiry. Each
    /// counts until its loss was handled.
    pub lost_time: Duration,
    /// Known locations of attempts, in order. The oldest are dropped if there are many.
    pub places: Vec<AttemptLocation>,
    /// Number of measurements delivered by the agent of the current attempt.
    pub delivered: u64,
    /// Lease of the owner; `None` if ownership does not expire.
    pub lease: Option<Lease>,
    pub expired_leases: u64,
    pub create_time: Timestamp,
    /// Start of the first attempt; `None` after a retry or continuation until the next attempt.
    pub start_time: Option<Timestamp>,
    /// Start of the current attempt; `None` before the first one, and after a retry or continuation
    /// until the next one.
    pub attempt_start_time: Option<Timestamp>,
    /// Time of the result.
    pub end_time: Option<Timestamp>,
    /// Number of stored measurements, and thus the sequence number of the next one.
    pub measurement_count: u64,
    /// Event file folders that contain the metrics; one of them holds the curve of each metric.
    pub metric_folders: MetricFolders,
    /// Result of a succeeded trial.
    pub final_measurement: Option<Measurement>,
    pub infeasible_reason: Option<String>,
    /// Whether the trial was stopped early; its result is then its last measurement, if any.
    pub stopped_early: bool,
    /// Final value of the objective predicted by the rule that stopped the trial. Algorithms learn from it in place of the
    /// last measurement.
    pub predicted_final: Option<FinalPrediction>,
    /// Error of the study's algorithm, if random search stepped in.
    pub fallback_reason: Option<String>,
    /// Names of the parameters whose values the caller fixed; the algorithm chose the others.
    pub fixed_parameters: Vec<String>,
    /// Requests of the last day that changed the trial and had an idempotency key, newest last. They identify retries.
    pub request_keys: Vec<RecordedRequest>,
    /// Values attached by clients.
    pub metadata: Metadata,
    /// Latest note, without a text if it was removed; see [`Trial::note`].
    pub last_note: Option<TrialNote>,
    /// Study revision at the last change of this trial; increases with every change of any trial.
    pub revision: u64,
}

/// Trial in a state reached by legal transitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial(TrialFields);

impl Deref for Trial {
    type Target = TrialFields;

    fn deref(&self) -> &TrialFields {
        &self.0
    }
}

impl Trial {
    /// Creates a trial from stored fields.
    pub fn restore(fields: TrialFields) -> Self {
        Self(fields)
    }

    /// Whether the trial ended without a usable result and without an early stop.
    pub fn has_failed(&self) -> bool {
        self.state == TrialState::Infeasible && !self.stopped_early
    }
}
