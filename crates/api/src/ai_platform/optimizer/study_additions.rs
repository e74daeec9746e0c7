//! Tunesmith's extensions of a `StudyConfig`. They share types and rules with those of jobs.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::{
    ParameterKind, ParameterPrior as Prior, ParameterSpec, ParameterValues, ScaleType,
};

use crate::ai_platform::additions::{EarlyStopping, early_stopping};
use crate::ai_platform::{
    Additions, Algorithm, Double, EarlyStoppingSettings, FinalMeasurement, HyperparameterSpec, Int64, Notice, Number,
    ObservationNoise, ParameterCondition, ParameterPrior, ParameterSpec as WireParameter, ParameterType, ParentValue,
    ProtoDuration, Repeats, ScaleType as WireScale, StudyStoppingConfig, is_default,
};
use tunesmith_domain::{StoppingRuleKind, Study};

/// Field that names related source studies.
pub const PRIOR_STUDIES: &str = "studyConfig.tunesmith.priorStudies";
/// Field that names continued source studies.
pub const CONTINUED_STUDIES: &str = "studyConfig.tunesmith.continuedStudies";

/// Notices about the trials reused from `continued` and `related` studies, as described.
pub fn source_notices(continued: Option<String>, related: Option<String>) -> impl Iterator<Item = Notice> {
    let described = [(CONTINUED_STUDIES, continued), (PRIOR_STUDIES, related)].into_iter();
    described.filter_map(|(field, text)| Some(Notice { field: field.to_owned(), description: text? }))
}

/// Tunesmith's extensions of a study.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyAdditions {
    /// Name for display, such as that of a study of Vertex AI. Default: the ID.
    #[serde(skip_serializing_if = "is_default")]
    pub display_name: String,
    /// Random seed; drawn at random if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Int64>,
    /// Maximum number of trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_trials: Option<Int64>,
    /// Time without a request of its client after which a trial is assigned to another client. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_lease: Option<ProtoDuration>,
    /// Noise: variation between trials with the same parameters. Default `AUTO`.
    #[serde(skip_serializing_if = "is_default")]
    pub observation_noise: ObservationNoise,
    /// Repetition of the best trials with other seeds or folds, as in jobs. None by default. Without `maxTrials`, the
    /// repetition starts after 30 trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Report that becomes the result of a trial completed without one.
    #[serde(skip_serializing_if = "is_default")]
    pub final_measurement: FinalMeasurement,
    /// Prior distributions of the best values of some parameters, as in jobs. The second parameter of the same name
    /// under one parent is called `name#2`, here and in `initialTrials`.
    #[serde(skip_serializing_if = "is_default")]
    pub priors: Vec<ParameterPrior>,
    /// First trials, in order: values by parameter name. A parameter without a value gets the mode of its prior, or the
    /// middle of its range on its scale.
    #[serde(skip_serializing_if = "is_default")]
    pub initial_trials: Vec<BTreeMap<String, ParentValue>>,
    /// By parameter name: number of grid points of a `DOUBLE` parameter for `GRID_SEARCH`, at least 1.
    #[serde(skip_serializing_if = "is_default")]
    pub double_resolution: BTreeMap<String, NonZeroU32>,
    /// IDs of other studies in the same location, oldest first. A model of their trials informs the search for as long
    /// as it predicts the results of this study, whatever their unit and offset; their own source studies are included.
    #[serde(skip_serializing_if = "is_default")]
    pub prior_studies: Vec<String>,
    /// IDs of studies of the same program and metrics in the same location, oldest first. Their trials inside the search
    /// space count as results of this study and are not repeated; the studies that they continue are included.
    #[serde(skip_serializing_if = "is_default")]
    pub continued_studies: Vec<String>,
    /// Early stopping rule; replaces `automatedStoppingConfig`.
    #[serde(skip_serializing_if = "Option::is_none", with = "early_stopping")]
    #[schemars(with = "Option<EarlyStopping>")]
    pub early_stopping: Option<StoppingRuleKind>,
    /// Thresholds of the early stopping rule, regardless of where the rule is given.
    #[serde(skip_serializing_if = "is_default")]
    pub early_stopping_settings: EarlyStoppingSettings,
    /// Rules that end the study.
    #[serde(skip_serializing_if = "is_default")]
    pub study_stopping_config: StudyStoppingConfig,
    /// Settings of a study of Vertex AI or OSS Vizier that have no other place here. They are returned to their clients.
    #[serde(skip_serializing_if = "is_default")]
    pub vizier: VizierSettings,
}

/// Settings of clients of Vertex AI and OSS Vizier, returned to them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct VizierSettings {
    /// Algorithm as requested from OSS Vizier, such as `NSGA2`.
    #[serde(skip_serializing_if = "is_default")]
    pub algorithm: String,
    /// By parameter name: type of the values in clients of OSS Vizier, `AS_BOOLEAN`, `AS_INTEGER` or `AS_FLOAT`.
    #[serde(skip_serializing_if = "is_default")]
    pub external_types: BTreeMap<String, String>,
    /// Vertex AI's `convexAutomatedStoppingSpec`; applied as the rule `DECAY_CURVE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convex_stopping: Option<ConvexStopping>,
    /// Vertex AI's `shouldStopAsap`. No effect: running trials end by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub should_stop_asap: Option<bool>,
    /// `disableTransferLearning` of Vertex AI's `v1beta1`. Other studies are used only if `priorStudies` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_transfer_learning: Option<bool>,
}

/// Vertex AI's `convexAutomatedStoppingSpec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ConvexStopping {
    /// Last step of a trial.
    #[serde(skip_serializing_if = "is_default")]
    pub max_step_count: Int64,
    /// Step before which no trial is stopped.
    #[serde(skip_serializing_if = "is_default")]
    pub min_step_count: Int64,
    /// Measurements before which no trial is stopped.
    #[serde(skip_serializing_if = "is_default")]
    pub min_measurement_count: Int64,
    /// Name of the learning rate. No effect.
    #[serde(skip_serializing_if = "is_default")]
    pub learning_rate_parameter_name: String,
    /// Whether stopped trials are predicted again. No effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_all_stopped_trials: Option<bool>,
}

/// Converts a study's parameters and related extensions to those of a job, so that the rules and conversions of jobs
/// apply.
pub(super) fn as_of_a_job(
    parameters: &[ParameterSpec],
    algorithm: Algorithm,
    study: &StudyAdditions,
) -> (HyperparameterSpec, Additions) {
    let conditions = parameters.iter().filter_map(|spec| {
        let condition = spec.condition()?;
        let values = condition.values().iter().map(|value| ParentValue(value.to_string()));
        let parent = condition.parent().to_owned();
        Some(ParameterCondition { parameter: spec.name().to_owned(), parent, values: values.collect() })
    });
    let additions = Additions {
        conditions: conditions.collect(),
        priors: study.priors.clone(),
        initial_trials: study.initial_trials.clone(),
        double_resolution: study.double_resolution.clone(),
        observation_noise: study.observation_noise,
        repeats: study.repeats.clone(),
        ..Additions::default()
    };
    let params = parameters.iter().map(wire_parameter).collect();
    (HyperparameterSpec { params, algorithm, ..HyperparameterSpec::default() }, additions)
}

fn wire_parameter(spec: &ParameterSpec) -> WireParameter {
    let scale_type = |scale: &ScaleType| match scale {
        ScaleType::UnitLinear => WireScale::UnitLinearScale,
        ScaleType::UnitLog => WireScale::UnitLogScale,
        ScaleType::UnitReverseLog => WireScale::UnitReverseLogScale,
    };
    let wire = WireParameter { parameter_name: spec.name().to_owned(), ..WireParameter::default() };
    match spec.kind() {
        ParameterKind::Double { min, max, scale } => WireParameter {
            parameter_type: ParameterType::Double,
            min_value: Some(Number::from(*min)),
            max_value: Some(Number::from(*max)),
            scale_type: scale_type(scale),
            ..wire
        },
        ParameterKind::Integer { min, max, scale } => WireParameter {
            parameter_type: ParameterType::Integer,
            min_value: Some(i128::from(*min).into()),
            max_value: Some(i128::from(*max).into()),
            scale_type: scale_type(scale),
            ..wire
        },
        ParameterKind::Discrete { values, scale } => WireParameter {
            parameter_type: ParameterType::Discrete,
            discrete_values: values.iter().copied().map(Number::from).collect(),
            scale_type: scale_type(scale),
            ..wire
        },
        ParameterKind::Categorical { values } => {
            WireParameter { parameter_type: ParameterType::Categorical, categorical_values: values.clone(), ..wire }
        }
    }
}

/// Priors of the parameters of `study`.
pub(super) fn priors_of(study: &Study) -> Vec<ParameterPrior> {
    let prior = |spec: &ParameterSpec| {
        let prior = ParameterPrior { parameter: spec.name().to_owned(), ..ParameterPrior::default() };
        Some(match spec.prior()? {
            Prior::Normal { mode, spread } => {
                ParameterPrior { mode: Some(ParentValue(mode.to_string())), spread: Some(Double(*spread)), ..prior }
            }
            Prior::Weights(weights) => {
                let weights = weights.iter().map(|(value, weight)| (value.to_string(), Double(*weight))).collect();
                ParameterPrior { weights, ..prior }
            }
        })
    };
    study.problem.search_space().parameters().iter().filter_map(prior).collect()
}

/// Initial points of `study`.
pub(super) fn initial_trials_of(study: &Study) -> Vec<BTreeMap<String, ParentValue>> {
    let point = |point: &ParameterValues| {
        point.iter().map(|(name, value)| (name.clone(), ParentValue(value.to_string()))).collect()
    };
    study.initial_points.iter().map(point).collect()
}
