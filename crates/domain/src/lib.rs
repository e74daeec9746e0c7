#![doc = include_str!("../README.md")]

mod final_measurement;
mod ids;
mod job;
mod machine_plan;
mod measurement;
mod metric_folders;
mod plan;
mod ranking;
mod resources;
mod study;
mod study_stopping;
mod trial;

pub use final_measurement::{FinalSelection, NoFinalMeasurement, final_measurement};
pub use ids::{IdError, JobId, MAX_JOB_ID_LENGTH, StudyId};
pub use job::{Job, JobChange, JobFields, JobState, UnknownJobState};
pub use machine_plan::{MachineNotice, MachinePlan};
pub use measurement::{Measurement, MetricValue, Source};
pub use metric_folders::{MAX_FOLDER_BYTES, MAX_FOLDERS, MetricFolders, folder_order};
pub use plan::{JobPlan, PlanError, ProgramPlan, ReplicaPlan, Role, UnreadablePlan};
pub use ranking::{best_at_bounds, best_first, compare_results, compare_values, optimal_of_several};
pub use resources::{Accelerators, Resources};
pub use study::{Algorithm, CurveAxis, FinalMeasurement, Study, StudyChange, StudyFields, StudyState};
pub use study_stopping::{EndedTrial, StudyProgress, StudyStopping, StudyTime};
pub use trial::{
    AttemptPlace, Completion, Lease, LossCause, NewTrial, RecordedRequest, ReplicaNode, RequestKey, Trial, TrialChange,
    TrialFields, TrialStart, TrialState,
};
pub use tunesmith_algorithms::early_stopping::{StoppingRule, StoppingRuleKind};
pub use tunesmith_algorithms::problem::TrialId;

/// A JSON document of the protocol that a record was created by. It is stored so that the same protocol can return it;
/// the domain does not interpret it.
pub type Document = serde_json::Value;

/// A change that the current state does not allow. The record is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransitionError {
    /// The change is not possible from this state.
    #[error("cannot {change} {resource}: it is {state}")]
    WrongState {
        /// The trial, job or study.
        resource: String,
        /// The current state.
        state: String,
        /// The refused change, as a verb.
        change: &'static str,
    },
    /// The number of trials of a study, or of a job that has ended, can only be raised.
    #[error(
        "the maximum number of trials of {resource} is {current} and can only be raised; {requested} is not above it"
    )]
    NotRaised {
        /// The job or study.
        resource: String,
        /// The current maximum.
        current: u64,
        /// The requested maximum.
        requested: u64,
    },
    /// The job has no hyperparameters, or the study no limit, so that there is no number of trials to raise.
    #[error("{resource} has no maximum number of trials to raise")]
    NoTrials {
        /// The job or study.
        resource: String,
    },
    /// The report comes from a former attempt.
    #[error("trial {trial} is at attempt {current} now; the report of attempt {reported} is refused")]
    Fenced {
        /// The trial.
        trial: TrialId,
        /// The attempt that owns the trial.
        current: u64,
        /// The attempt that reported.
        reported: u64,
    },
    /// A delivery that does not follow the one before.
    #[error("the next measurement of trial {trial} has the number {expected}; the delivery starts at {given}")]
    OutOfSequence {
        /// The trial.
        trial: TrialId,
        /// The number of the next measurement.
        expected: u64,
        /// The number that the delivery starts at.
        given: u64,
    },
    /// The lease of the owner expired; the trial is queued again.
    #[error("the lease of attempt {attempt} of trial {trial} has expired: the trial is offered again")]
    LeaseExpired {
        /// The trial.
        trial: TrialId,
        /// The attempt whose lease expired.
        attempt: u64,
    },
    /// The trial is completed with another result.
    #[error("trial {trial} is already completed with {stored}")]
    AlreadyCompleted {
        /// The trial.
        trial: TrialId,
        /// The stored result.
        stored: String,
    },
    /// The record has another revision than the change requires.
    #[error("{resource} has been changed since it was read: read it again")]
    Outdated {
        /// The job.
        resource: String,
    },
    /// An idempotency key that was used for another request.
    #[error("the idempotency key {key} was used for another request to trial {trial}: use a new key for each request")]
    KeyReused {
        /// The trial.
        trial: TrialId,
        /// The key.
        key: String,
    },
    /// A measurement that is not valid.
    #[error("measurement {index} of trial {trial} is refused: {reason}")]
    BadMeasurement {
        /// The trial.
        trial: TrialId,
        /// The index of the measurement in the report.
        index: usize,
        /// The rule that the measurement breaks.
        reason: String,
    },
}
