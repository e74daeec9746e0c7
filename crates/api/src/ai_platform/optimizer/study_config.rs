//! `StudyConfig`: what a study searches, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ai_platform::{Algorithm, Double, GoalType, Int64, ParameterType, ProtoDuration, is_default};

/// What a study searches, and how.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyConfig {
    /// The metrics, at least one, with different names.
    #[serde(skip_serializing_if = "is_default")]
    pub metrics: Vec<MetricSpec>,
    /// The parameters that always exist, at least one.
    #[serde(skip_serializing_if = "is_default")]
    pub parameters: Vec<StudyParameterSpec>,
    /// How points are chosen.
    #[serde(skip_serializing_if = "is_default")]
    pub algorithm: Algorithm,
    /// Whether and how running trials are stopped early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_stopping_config: Option<AutomatedStoppingConfig>,
    /// Additions of ours.
    #[serde(skip_serializing_if = "is_default")]
    pub tunesmith: StudyAdditions,
}

/// Additions of ours to a study.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyAdditions {
    /// Key of all randomness; drawn if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Int64>,
    /// How many trials there may be in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_trials: Option<Int64>,
    /// How long the owner of a trial may be silent before the trial is offered again; for ever if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_lease: Option<ProtoDuration>,
    /// Which report becomes the result of a trial that is completed without one.
    #[serde(skip_serializing_if = "is_default")]
    pub final_measurement: crate::ai_platform::FinalMeasurement,
}

/// One metric.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MetricSpec {
    /// Its name.
    pub metric: String,
    /// Which way it is better.
    #[serde(skip_serializing_if = "is_default")]
    pub goal: GoalType,
}

/// One parameter, with those that hang on it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyParameterSpec {
    /// Its name.
    pub parameter: String,
    /// The kind of its values.
    #[serde(rename = "type")]
    pub parameter_type: ParameterType,
    /// How the range is mapped to the unit interval.
    #[serde(skip_serializing_if = "is_default")]
    pub scale_type: StudyScaleType,
    /// The range of a `DOUBLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub double_value_spec: Option<DoubleValueSpec>,
    /// The range of an `INTEGER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integer_value_spec: Option<IntegerValueSpec>,
    /// The values of a `CATEGORICAL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categorical_value_spec: Option<TextValues>,
    /// The values of a `DISCRETE`, strictly increasing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discrete_value_spec: Option<DoubleValues>,
    /// Parameters that exist for some values of this one.
    #[serde(skip_serializing_if = "is_default")]
    pub child_parameter_specs: Vec<StudyParameterSpec>,
    /// Of a child: for which values of its `CATEGORICAL` parent it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_categorical_values: Option<TextValues>,
    /// Of a child: for which values of its `DISCRETE` parent it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_discrete_values: Option<DoubleValues>,
    /// Of a child: for which values of its `INTEGER` parent it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_int_values: Option<IntegerValues>,
}

/// How a range is mapped to the unit interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StudyScaleType {
    /// Evenly, the default.
    #[default]
    ScaleTypeUnspecified,
    /// Evenly.
    UnitLinearScale,
    /// Logarithmically, finest near the lower bound.
    UnitLogScale,
    /// Logarithmically, finest near the upper bound.
    UnitReverseLogScale,
}

/// The range of a `DOUBLE`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DoubleValueSpec {
    /// Lower bound, inclusive.
    pub min_value: Double,
    /// Upper bound, inclusive.
    pub max_value: Double,
}

/// The range of an `INTEGER`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct IntegerValueSpec {
    /// Lower bound, inclusive.
    pub min_value: Int64,
    /// Upper bound, inclusive.
    pub max_value: Int64,
}

/// Some texts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextValues {
    /// The texts.
    pub values: Vec<String>,
}

/// Some numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DoubleValues {
    /// The numbers.
    pub values: Vec<Double>,
}

/// Some whole numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IntegerValues {
    /// The numbers.
    pub values: Vec<Int64>,
}

/// When running trials are stopped early. With neither rule, never.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AutomatedStoppingConfig {
    /// A trial whose curve will hardly end as the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_curve_stopping_config: Option<StoppingConfig>,
    /// A trial that was never as good as the others were on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_automated_stopping_config: Option<StoppingConfig>,
}

/// Along what curves are compared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StoppingConfig {
    /// By elapsed time instead of by step.
    #[serde(skip_serializing_if = "is_default")]
    pub use_elapsed_time: bool,
}
