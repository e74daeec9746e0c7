//! The messages of the Optimizer: studies, trials, measurements, as published in `ml v1`.
//!
//! | Optimizer | here |
//! |---|---|
//! | `Study` | [`tunesmith_domain::Study`], with its `studyConfig` kept as it was sent |
//! | `childParameterSpecs` | parameters with a [`tunesmith_algorithms::problem::Condition`] |
//! | `Trial` | [`tunesmith_domain::Trial`]; `COMPLETED` is `SUCCEEDED` or `INFEASIBLE` |

mod attempt;
pub mod measurement;
pub mod operation;
mod parameter_names;
mod requests;
pub mod study;
pub mod study_additions;
pub mod study_config;
mod study_problem;
mod study_rendering;
pub mod trial;

pub use measurement::{MAX_METRICS, MeasurementMessage, MetricMessage};
pub use operation::{Operation, Progress};
use parameter_names::ParameterNames;
pub use parameter_names::PublishedNames;
pub use requests::{AddMeasurementRequest, CompleteTrialRequest, SuggestAdditions, SuggestTrialsRequest};
pub use study::{StudyList, StudyMessage, StudyRequest};
pub use study_config::StudyConfig;
pub use study_problem::{StudyPlan, study_plan};
pub use trial::{TrialList, TrialMessage, TrialParameter, TrialRequest, point, result_of_infeasible_trial, trial_name};

pub use crate::ai_platform::rpc::FieldViolation;
