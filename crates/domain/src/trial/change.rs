//! Creation and changes of trials, as values. Not here: the rules for legal changes.

use jiff::Timestamp;
use tunesmith_algorithms::early_stopping::FinalPrediction;
use tunesmith_algorithms::problem::{Origin, ParameterValues, TrialId};

use super::{AttemptLocation, Lease, NewNote, RequestKey};
use crate::{Measurement, Metadata};

/// Trial to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTrial {
    /// The study's next trial number.
    pub id: TrialId,
    pub parameters: ParameterValues,
    /// Algorithm that proposed the trial, if any.
    pub origin: Option<Origin>,
    /// Error of the study's algorithm, if random search stepped in.
    pub fallback_reason: Option<String>,
    /// Names of the parameters whose values the caller fixed; the algorithm chose the others.
    pub fixed_parameters: Vec<String>,
    /// Owner; empty for a queued trial.
    pub client_id: String,
    /// Initial state.
    pub start: TrialStart,
    pub create_time: Timestamp,
    /// Idempotency key of the request, if any.
    pub request_key: Option<RequestKey>,
}

/// Cause of an attempt's end other than its program or user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// Failure of the attempt's node or supervisor.
    Failure,
    /// Preemption by the engine's scheduler in favour of other work.
    Preemption,
}

/// Initial state of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialStart {
    /// Queued until assigned to a client.
    Requested,
    /// Assigned to its client, which starts the first attempt later.
    Given,
    /// Assigned to its client, with the first attempt started.
    Started {
        /// `None` if ownership does not expire.
        lease: Option<Lease>,
    },
    /// Created with its result.
    Completed(CompletedStart),
}

/// Result of a trial that is created completed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedStart {
    pub completion: Completion,
    /// Curve, in order of arrival.
    pub measurements: Vec<Measurement>,
    /// Whether the trial was stopped before its end.
    pub stopped_early: bool,
}

impl From<Completion> for CompletedStart {
    fn from(completion: Completion) -> Self {
        Self { completion, measurements: Vec::new(), stopped_early: false }
    }
}

/// Change of one trial; stores apply it in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialChange {
    /// Records a new attempt before it starts.
    BeginAttempt {
        /// Must follow the current attempt, so that only one of two concurrent callers succeeds.
        attempt: u64,
        /// Cause of the previous attempt's loss; `None` if it was not lost, or if this is the first attempt.
        previous_loss: Option<LossCause>,
        at: Timestamp,
    },
    /// Assigns a queued trial to a client and starts an attempt.
    Assign {
        client_id: String,
        /// `None` if ownership does not expire.
        lease: Option<Lease>,
        at: Timestamp,
    },
    /// Extends the lease. No effect on a trial without one.
    Renew {
        attempt: u64,
        /// Current time of the lease clock.
        at: Timestamp,
    },
    /// Queues the trial again after its lease expired. No effect before that.
    Expire {
        /// Attempt whose lease expired.
        attempt: u64,
        /// Current time of the lease clock.
        at: Timestamp,
    },
    /// Adds measurements. A queued trial that never had an owner becomes active.
    Report {
        attempt: u64,
        /// In order of arrival.
        measurements: Vec<Measurement>,
        /// Current time; for a trial with a lease, of the lease clock.
        at: Timestamp,
        /// Idempotency key of the request, if any. A recorded request has no effect; a recorded key with other content
        /// is refused.
        request_key: Option<RequestKey>,
    },
    /// Adds measurements numbered by the agent, so that redelivery has no effect.
    Deliver {
        attempt: u64,
        /// Index of the first measurement within the attempt, from 0; see
        /// [`TrialFields::delivered`](super::TrialFields).
        from: u64,
        /// Index after the last measurement. It includes measurements omitted as already reported by another attempt.
        to: u64,
        /// In order of arrival.
        measurements: Vec<Measurement>,
        at: Timestamp,
    },
    /// Records the location of the current attempt. No effect if already recorded, or if the trial has its result.
    Locate(AttemptLocation),
    /// Requests an early stop. No effect on a trial that is stopping or has its result.
    Stop {
        /// Final value of the objective that a stopping rule predicts; ignored if not finite.
        predicted_final: Option<FinalPrediction>,
    },
    /// Sets the result.
    Complete {
        /// Attempt that ended.
        attempt: u64,
        /// Measurements not yet added.
        measurements: Vec<Measurement>,
        completion: Completion,
        at: Timestamp,
    },
    /// Returns a failed trial to its client, which starts the next attempt later. Measurements are kept. No effect on a
    /// trial in another state, or on one stopped early.
    Retry,
    /// Returns a trial that was stopped early with a result to its client, which starts the next attempt later; the program
    /// continues from its checkpoint. Measurements are kept. No effect on a trial in another state.
    Continue,
    /// Adds values, which replace those with the same key. Allowed in every state.
    AddMetadata(Metadata),
    /// Sets the note; an empty text removes it. Allowed in every state. No effect if the note has this text.
    SetNote { note: NewNote, at: Timestamp },
    /// Deletes the trial. Stores answer later changes with a not-found error.
    Delete {
        /// Current time.
        at: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Completion {
    Succeeded {
        /// All values are finite.
        final_measurement: Measurement,
    },
    /// No usable result.
    Infeasible {
        /// Text for display.
        reason: String,
    },
    /// No usable result because of an early stop; not a failure.
    Stopped {
        /// Missing part of the result, for display.
        reason: String,
    },
}
