//! Studies, trials and jobs: what they are, and which changes of state are legal.
//!
//! Not here: how they are stored, served or run. Every change of state is a value ([`TrialChange`], [`JobChange`],
//! [`StudyChange`]) that a store applies inside one transaction, so that all stores agree on what is legal.

mod final_measurement;
mod ids;
mod job;
mod measurement;
mod study;
mod trial;

pub use final_measurement::{FinalSelection, NoFinalMeasurement, final_measurement};
pub use ids::{IdError, JobId, MAX_JOB_ID_LENGTH, StudyId};
pub use job::{Job, JobChange, JobFields, JobState};
pub use measurement::{Measurement, MetricValue, Source};
pub use study::{Algorithm, CurveAxis, FinalMeasurement, StoppingRule, Study, StudyChange, StudyFields, StudyState};
pub use trial::{Completion, Lease, NewTrial, Trial, TrialChange, TrialFields, TrialStart, TrialState};
pub use tunesmith_algorithms::problem::TrialId;

/// A change that the present state does not allow. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransitionError {
    /// The change is not possible from this state.
    #[error("cannot {change} {resource}: it is {state}")]
    WrongState {
        /// Which trial, job or study.
        resource: String,
        /// Its state now.
        state: String,
        /// The verb that was refused.
        change: &'static str,
    },
    /// The report comes from a former owner: another attempt has taken over since.
    #[error("trial {trial} is now at attempt {current}, a report from attempt {reported} is refused")]
    Fenced {
        /// The trial.
        trial: TrialId,
        /// The attempt that owns the trial.
        current: u64,
        /// The attempt that reported.
        reported: u64,
    },
    /// The owner was silent for longer than its lease; the trial waits for another one.
    #[error("the lease of attempt {attempt} at trial {trial} has expired: the trial is offered again")]
    LeaseExpired {
        /// The trial.
        trial: TrialId,
        /// The attempt whose lease it was.
        attempt: u64,
    },
    /// The trial was completed before, with another result.
    #[error("trial {trial} is already completed with {stored}")]
    AlreadyCompleted {
        /// The trial.
        trial: TrialId,
        /// The result that is stored.
        stored: String,
    },
    /// The record has changed since the change was prepared.
    #[error("{resource} has changed meanwhile: read it again")]
    Outdated {
        /// Which job.
        resource: String,
    },
    /// A measurement that the rules do not admit.
    #[error("measurement {index} of trial {trial} is refused: {reason}")]
    BadMeasurement {
        /// The trial.
        trial: TrialId,
        /// Its index in the report.
        index: usize,
        /// The rule it breaks.
        reason: String,
    },
}
