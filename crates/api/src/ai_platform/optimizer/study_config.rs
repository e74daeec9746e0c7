//! `StudyConfig`: search space, metrics and algorithm of a study.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::study_additions::StudyAdditions;
use crate::ai_platform::{Algorithm, Double, GoalType, Int64, Number, ParameterType, SafetyMetricConfig, is_default};

/// Search space, metrics and algorithm of a study.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyConfig {
    /// Metrics, at least one, with different names.
    #[serde(skip_serializing_if = "is_default")]
    pub metrics: Vec<MetricSpec>,
    /// Unconditional parameters, at least one.
    #[serde(skip_serializing_if = "is_default")]
    pub parameters: Vec<StudyParameterSpec>,
    /// Search algorithm.
    #[serde(skip_serializing_if = "is_default")]
    pub algorithm: Algorithm,
    /// Early stopping rule. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_stopping_config: Option<AutomatedStoppingConfig>,
    /// Tunesmith's extensions.
    #[serde(skip_serializing_if = "is_default")]
    pub tunesmith: StudyAdditions,
}

/// Metric or constraint of a study.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MetricSpec {
    /// Name of the metric.
    pub metric: String,
    /// Goal of the metric.
    #[serde(skip_serializing_if = "is_default")]
    pub goal: GoalType,
    /// (Tunesmith) Makes the metric a constraint, which is not optimised. At least one metric must not be a constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_config: Option<SafetyMetricConfig>,
}

/// Parameter with its child parameters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyParameterSpec {
    /// Name of the parameter.
    pub parameter: String,
    /// Type of the parameter's values.
    #[serde(rename = "type")]
    pub parameter_type: ParameterType,
    /// Mapping of the range to the unit interval.
    #[serde(skip_serializing_if = "is_default")]
    pub scale_type: StudyScaleType,
    /// Range of a `DOUBLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub double_value_spec: Option<DoubleValueSpec>,
    /// Range of an `INTEGER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integer_value_spec: Option<IntegerValueSpec>,
    /// Values of a `CATEGORICAL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categorical_value_spec: Option<TextValues>,
    /// Values of a `DISCRETE`, strictly increasing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discrete_value_spec: Option<DoubleValues>,
    /// Parameters that are active only for some values of this one.
    #[serde(skip_serializing_if = "is_default")]
    pub child_parameter_specs: Vec<StudyParameterSpec>,
    /// For a child parameter: values of a `CATEGORICAL` parent for which it is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_categorical_values: Option<TextValues>,
    /// For a child parameter: values of a `DISCRETE` parent for which it is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_discrete_values: Option<DoubleValues>,
    /// For a child parameter: values of an `INTEGER` parent for which it is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_int_values: Option<IntegerValues>,
}

/// Mapping of a range to the unit interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StudyScaleType {
    /// Linear; the default.
    #[default]
    ScaleTypeUnspecified,
    /// Linear.
    UnitLinearScale,
    /// Logarithmic, with the finest resolution near the lower bound.
    UnitLogScale,
    /// Logarithmic, with the finest resolution near the upper bound.
    UnitReverseLogScale,
}

/// Range of a `DOUBLE`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DoubleValueSpec {
    /// Lower bound, inclusive.
    pub min_value: Double,
    /// Upper bound, inclusive.
    pub max_value: Double,
}

/// Range of an `INTEGER`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct IntegerValueSpec {
    /// Lower bound, inclusive.
    pub min_value: Int64,
    /// Upper bound, inclusive.
    pub max_value: Int64,
}

/// List of texts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextValues {
    /// Texts.
    pub values: Vec<String>,
}

/// List of numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DoubleValues {
    /// Numbers.
    pub values: Vec<Number>,
}

/// List of whole numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IntegerValues {
    /// Whole numbers.
    pub values: Vec<Int64>,
}

/// Early stopping rule, at most one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AutomatedStoppingConfig {
    /// Stops trials whose extrapolated curve is unlikely to end as the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_curve_stopping_config: Option<StoppingConfig>,
    /// Stops trials whose best value is worse than the median of the other trials' averages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_automated_stopping_config: Option<StoppingConfig>,
}

/// Axis along which curves are compared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StoppingConfig {
    /// Whether curves are compared by elapsed time instead of by step.
    #[serde(skip_serializing_if = "is_default")]
    pub use_elapsed_time: bool,
}
