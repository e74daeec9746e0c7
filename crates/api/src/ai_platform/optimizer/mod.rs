//! Messages of the Optimizer: studies, trials, measurements, as published in `ml v1`.
//!
//! | Optimizer | here |
//! |---|---|
//! | `Study` | [`tunesmith_domain::Study`], with its `studyConfig` stored as sent |
//! | `childParameterSpecs` | parameters with a [`tunesmith_algorithms::problem::Condition`] |
//! | `Trial` | [`tunesmith_domain::Trial`]; `COMPLETED` is `SUCCEEDED` or `INFEASIBLE` |

mod attempt;
pub mod measurement;
mod note;
pub mod operation;
mod operation_name;
mod parameter_names;
mod requests;
pub mod study;
mod study_additions;
mod study_as_job;
mod study_config;
mod study_problem;
mod study_rendering;
pub mod trial;

pub use attempt::{AttemptMessage, NodeMessage};
pub use measurement::{MAX_METRICS, MeasurementMessage, MetricMessage};
pub use note::{NoteMessage, SetNoteRequest, etag_of_note};
pub use operation::{Operation, OperationResponse, Progress};
pub use operation_name::OperationName;
pub use parameter_names::{ParameterNames, PublishedNames};
pub use requests::{
    AddMeasurementRequest, CompleteTrialRequest, MAX_SUGGESTIONS, SuggestAdditions, SuggestTrialsRequest,
    infeasible_outcome, trial_and_attempt,
};
pub use study::{
    StudyConfigMessage, StudyList, StudyMessage, StudyRequest, StudyStateName, display_name, study_name,
    with_max_trials,
};
pub use study_additions::{
    CONTINUED_STUDIES, ConvexStopping, PRIOR_STUDIES, StudyAdditions, VizierSettings, source_notices,
};
pub use study_as_job::study_as_job;
pub use study_config::{
    AutomatedStoppingConfig, DoubleValueSpec, DoubleValues, IntegerValueSpec, IntegerValues, MetricSpec,
    StoppingConfig, StudyConfig, StudyParameterSpec, StudyScaleType, TextValues,
};
pub use study_problem::{StudyPlan, study_plan};
pub use trial::{
    MetricFolderChoice, TrialAdditions, TrialInputAdditions, TrialList, TrialMessage, TrialParameter, TrialRequest,
    TrialStateName, completed_point, point, trial_name,
};

pub use crate::ai_platform::rpc::FieldViolation;
pub use crate::ai_platform::size_limits::{MAX_PARAMETERS, check_study as check_size};
