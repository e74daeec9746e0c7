#![doc = include_str!("../README.md")]

mod agent;
mod batch_prediction;
mod execution;
mod final_measurement;
mod ids;
mod job;
mod log_name;
mod machine_plan;
mod measurement;
mod metadata;
mod metric_folders;
mod plan;
mod ranking;
mod refusal;
mod resources;
mod source_studies;
mod study;
mod study_spec;
mod study_stopping;
mod suggestion;
mod trial;
mod waiting;

pub use agent::{AgentCommand, AgentEnd, AgentReport, AgentResponse, LogPiece, LogPosition};
pub use batch_prediction::{BatchPrediction, PredictionCounts};
pub use execution::{ExecutorJobId, ExitStatus, ProgramEnd, StopReason};
pub use final_measurement::{FinalSelection, GivenResult, NoFinalMeasurement, ReportedOutcome, final_measurement};
pub use ids::{IdError, JobId, MAX_JOB_ID_LENGTH, StudyId};
pub use job::{Job, JobChange, JobFields, JobState, UnknownJobState};
pub use log_name::{LogName, LogStream, MASTER, PACKAGES, canonical_number};
pub use machine_plan::{MachineNotice, MachinePlan, RESUME_PREVIOUS_JOB};
pub use measurement::{KnownReports, Measurement, MetricValue, ReportKey};
pub use metadata::{Metadata, MetadataKey, MetadataValue};
pub use metric_folders::{MAX_FOLDER_BYTES, MAX_FOLDERS, MetricFolders, folder_order};
pub use plan::{
    BUILT_IN_TRAINERS, JobPlan, PlanError, ProgramPlan, ReplicaPlan, Role, TrainerContract, UnreadablePlan, Variable,
};
pub use ranking::{
    RankedFields, RankedTrial, best_at_bounds, best_first, compare_results, compare_values, is_feasible,
    optimal_of_several,
};
pub use refusal::{Code, FieldViolation, MAX_VIOLATIONS, Refusal, with_omitted};
pub use resources::{Accelerators, Resources};
pub use source_studies::{SourceRelation, SourceStudies};
pub use study::{CurveAxis, FinalMeasurement, Study, StudyChange, StudyFields, StudyState};
pub use study_spec::{NewStudy, StudySpec};
pub use study_stopping::{EndedTrial, StudyProgress, StudyStopping, StudyTime};
pub use suggestion::{SuggestionOperation, SuggestionRequest};
pub use trial::{
    AttemptLocation, CompletedStart, Completion, Lease, LossCause, NewNote, NewTrial, NoteError, RecordedRequest,
    RecordedRequestError, ReplicaNode, RequestKey, Trial, TrialChange, TrialFields, TrialNote, TrialStart, TrialState,
};
pub use tunesmith_algorithms::designers::Algorithm;
pub use tunesmith_algorithms::early_stopping::{FinalPrediction, StoppingRule, StoppingRuleKind};
pub use tunesmith_algorithms::problem::{FixedParameters, TrialId};
pub use waiting::{WaitKind, Waiting};

/// JSON document in the form of the protocol that created a record. Stored for that protocol to return; the domain does
/// not interpret it.
pub type Document = serde_json::Value;

/// Change that the current state does not allow. The record is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransitionError {
    #[error("cannot {change} {resource}: it is {state}")]
    WrongState { resource: String, state: String, change: &'static str },
    #[error(
        "the maximum number of trials of {resource} is {current} and can only be raised; {requested} is not above it"
    )]
    NotRaised { resource: String, current: u64, requested: u64 },
    #[error("{resource} has no maximum number of trials to raise")]
    NoTrials { resource: String },
    #[error("trial {trial} is at attempt {current} now; the report of attempt {reported} is refused")]
    Fenced { trial: TrialId, current: u64, reported: u64 },
    #[error("the next measurement of trial {trial} has the number {expected}; the delivery starts at {given}")]
    OutOfSequence {
        trial: TrialId,
        expected: u64,
        /// Index of the first delivered measurement.
        given: u64,
    },
    /// The owner's lease expired, and the trial is queued again.
    #[error("the lease of attempt {attempt} of trial {trial} has expired: the trial is offered again")]
    LeaseExpired { trial: TrialId, attempt: u64 },
    #[error("trial {trial} is already completed with {stored}")]
    AlreadyCompleted { trial: TrialId, stored: String },
    #[error("{resource} has been changed since it was read: read it again")]
    Outdated { resource: String },
    #[error("the idempotency key {key} was used for another request to trial {trial}: use a new key for each request")]
    KeyReused { trial: TrialId, key: String },
    #[error("the metadata of {resource} would have {bytes} bytes; at most {} are kept", Metadata::MAX_BYTES)]
    TooMuchMetadata { resource: String, bytes: usize },
    #[error("measurement {index} of trial {trial} is refused: {reason}")]
    BadMeasurement {
        trial: TrialId,
        /// Index of the measurement within the report.
        index: usize,
        reason: String,
    },
}
