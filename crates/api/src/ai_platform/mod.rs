//! AI Platform Training's `ml v1` messages, spelled as published.
//!
//! | AI Platform | here |
//! |---|---|
//! | job | [`tunesmith_domain::Job`] |
//! | job with `trainingInput.hyperparameters` | a job that owns one [`tunesmith_domain::Study`], made by [`study_spec()`] |
//! | `hyperparameters.params` | the search space of the study's problem |
//! | `hyperparameterMetricTag`, `goal` | the study's first metric, and its only one without `tunesmith.metrics` |
//!
//! Messages are parsed by proto3's JSON rules, so numbers may be text. Written messages are canonical: 64-bit integers
//! are text, durations have the form `"3.5s"`, and fields at their default are omitted.

mod additions;
mod algorithm;
mod argument_rules;
mod built_in;
mod condition_rules;
mod continuation;
mod early_stopping;
mod hyperparameter_rules;
mod hyperparameters;
pub mod iam;
pub mod job;
mod labels;
pub mod logs;
pub mod machines;
mod metrics;
mod mlflow;
mod no_effect_rules;
mod notices;
mod number;
mod observation_noise;
pub mod optimizer;
mod output_rules;
pub mod packages;
pub mod plan;
pub mod prediction;
mod prior_knowledge_rules;
pub mod project;
pub mod proto_json;
mod repeats;
mod replica_config;
pub mod rpc;
mod rules;
mod scalars;
mod size_limits;
mod study_spec;
mod study_stopping;
mod training_input;
mod violations;
mod waiting;
mod without_effect;

pub use additions::{
    Additions, Confidence, DEFAULT_MAX_LOST_ATTEMPTS, DEFAULT_STOP_GRACE_PERIOD, FinalMeasurement, ParameterCondition,
    ParameterPrior, ParentValue,
};
pub use argument_rules::variable_fault;
pub use built_in::{BUILT_IN_ALGORITHMS, BuiltInAlgorithm, BuiltInAlgorithmOutput};
pub use continuation::{continued, inherited_fields, inherits_parameters};
pub use early_stopping::EarlyStoppingSettings;
pub use hyperparameters::{
    Algorithm, DEFAULT_METRIC_TAG, GoalType, HyperparameterSpec, ParameterSpec, ParameterType, RESERVED_METRIC_TAGS,
    ScaleType,
};
pub use labels::check_labels;
pub use metrics::{FurtherMetric, SafetyMetricConfig};
pub use mlflow::{MlflowConfig, MlflowExport, MlflowExportState};
pub use notices::{Notice, Notices, command_line_notices};
pub use number::Number;
pub use observation_noise::ObservationNoise;
pub use repeats::Repeats;
pub use replica_config::{AcceleratorConfig, AcceleratorType, DiskConfig, ReplicaConfig};
pub use rules::check;
pub use scalars::{Double, DurationError, Int64, ProtoDuration, is_time};
pub use study_spec::{StudySpecError, TuningSpec, study_spec};
pub use study_stopping::{StudyStoppingConfig, StudyTimeConstraint};
pub use training_input::{EncryptionConfig, ScaleTier, Scheduling, TrainingInput};
pub use violations::{Severity, Violation};
pub use without_effect::{names_machine, without_effect, without_effect_in_a_local_run};

/// Whether canonical JSON omits the field.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Minimum Jaro-Winkler similarity of related names. A guess, tried on typing errors.
const SIMILAR: f64 = 0.75;

/// Maximum length in bytes of compared names: longer ones are not misspellings.
const MAX_SIMILAR_BYTES: usize = 200;

/// Candidate most similar to `name`, ignoring case; `None` if none is similar.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_SIMILAR_BYTES {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['_', '-', ' '], "");
    let candidates = candidates.filter(|candidate| candidate.len() <= MAX_SIMILAR_BYTES);
    candidates
        .map(|candidate| (strsim::jaro_winkler(&plain(name), &plain(candidate)), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
