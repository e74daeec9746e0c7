//! The values that describe how a trial is created and changed. Not here: which changes are legal.

use jiff::Timestamp;
use tunesmith_algorithms::problem::{Origin, ParameterValues, TrialId};

use super::{AttemptLocation, Lease, RequestKey};
use crate::Measurement;

/// A trial that is about to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTrial {
    /// The study's next trial number.
    pub id: TrialId,
    pub parameters: ParameterValues,
    /// The algorithm that proposed the trial, if one did.
    pub origin: Option<Origin>,
    /// The error of the study's algorithm, if random search proposed the trial instead.
    pub fallback_reason: Option<String>,
    /// The client that owns the trial; empty for a queued trial.
    pub client_id: String,
    /// The initial state.
    pub start: TrialStart,
    /// The current time.
    pub create_time: Timestamp,
    /// The idempotency key of the request, if it has one.
    pub request_key: Option<RequestKey>,
}

/// Why an attempt ended although neither its program nor its user ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// The node or the supervisor of the attempt failed.
    Failure,
    /// The scheduler of the engine took the place of the attempt for other work.
    Preemption,
}

/// The initial state of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialStart {
    /// Queued, until it is assigned to a client.
    Requested,
    /// Assigned to its client, which starts the first attempt later.
    Given,
    /// Assigned to its client, with the first attempt started.
    Started {
        /// The lease; `None` if ownership does not expire.
        lease: Option<Lease>,
    },
    /// Created with its result.
    Completed(Completion),
}

/// A change of one trial, applied by a store within one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialChange {
    /// Records a new attempt, before it is started.
    BeginAttempt {
        /// Number of the attempt. It must follow the current one, so that of two callers only one succeeds.
        attempt: u64,
        /// Why the previous attempt was lost; `None` if it was not, or if this is the first.
        previous_loss: Option<LossCause>,
        /// The current time.
        at: Timestamp,
    },
    /// Assigns a queued trial to a client and starts an attempt.
    Assign {
        client_id: String,
        /// The lease; `None` if ownership does not expire.
        lease: Option<Lease>,
        /// The current time.
        at: Timestamp,
    },
    /// Extends the lease. No effect on a trial without a lease.
    Renew {
        attempt: u64,
        /// The current time of the clock that leases are measured with.
        at: Timestamp,
    },
    /// Queues the trial again after its lease has expired. No effect if the lease has not expired.
    Expire {
        /// The attempt whose lease expired.
        attempt: u64,
        /// The current time of the clock that leases are measured with.
        at: Timestamp,
    },
    /// Adds measurements. A queued trial that never had an owner becomes active.
    Report {
        attempt: u64,
        /// The measurements, in the order of arrival.
        measurements: Vec<Measurement>,
        /// The current time; for a trial with a lease, of the clock that leases are measured with.
        at: Timestamp,
        /// The idempotency key of the request, if it has one. No effect if the trial has recorded the
        /// request before; refused if it has recorded the key with another content.
        request_key: Option<RequestKey>,
    },
    /// Adds measurements that the agent beside the program numbers, so that a repeated delivery has no effect.
    Deliver {
        /// The attempt of the agent.
        attempt: u64,
        /// Number of the first measurement among those of the attempt, from 0: [`TrialFields::delivered`](super::TrialFields).
        from: u64,
        /// Number of the measurement after the last one. It counts those that are left out because another attempt has
        /// reported them.
        to: u64,
        /// The measurements, in the order of arrival.
        measurements: Vec<Measurement>,
        /// The current time.
        at: Timestamp,
    },
    /// Records where the current attempt runs. No effect if that is recorded, or if the trial has its result.
    Locate(AttemptLocation),
    /// Requests an early stop. No effect on a trial that is stopping or has its result.
    Stop,
    /// Sets the result.
    Complete {
        /// The attempt that ended.
        attempt: u64,
        /// Measurements that were not added before.
        measurements: Vec<Measurement>,
        /// The result.
        completion: Completion,
        /// The current time.
        at: Timestamp,
    },
    /// Returns a failed trial to its client, which begins its next attempt later. No effect on a trial in another state, or
    /// on one that was stopped early. Its measurements are kept.
    Retry,
    /// Deletes the trial. Stores refuse later changes of it as not found.
    Delete {
        /// The current time.
        at: Timestamp,
    },
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Completion {
    /// A final measurement.
    Succeeded {
        /// The final measurement; every metric is finite.
        final_measurement: Measurement,
    },
    /// No usable result.
    Infeasible {
        /// The reason, for people.
        reason: String,
    },
    /// No usable result, because the trial was stopped early. It has not failed.
    Stopped {
        /// What is missing, for people.
        reason: String,
    },
}
