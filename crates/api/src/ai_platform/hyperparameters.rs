//! `HyperparameterSpec`: what is tuned, towards which goal, with how many trials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalars::int32_or_text;
use super::{Double, is_default};

/// The metric tag of a spec that names none.
pub const DEFAULT_METRIC_TAG: &str = "training/hptuning/metric";

/// Keys of the lines that the `hypertune` package writes: a metric of such a name would overwrite them.
pub const RESERVED_METRIC_TAGS: [&str; 4] = ["trial", "global_step", "checkpoint_path", "timestamp"];

/// What is tuned, towards which goal, with how many trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["goal", "params"]))]
pub struct HyperparameterSpec {
    /// Which way the metric is better.
    pub goal: GoalType,
    /// The parameters, at least one, with different names.
    #[schemars(length(min = 1))]
    pub params: Vec<ParameterSpec>,
    /// How many trials in all, at least 1. Default 1.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 1), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub max_trials: Option<i32>,
    /// How many trials run at once, at least 1. Default 1.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 1), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub max_parallel_trials: Option<i32>,
    /// How many failed trials fail the job; 0, the default, leaves it to the service.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 0), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub max_failed_trials: Option<i32>,
    /// The tag under which trainers report the metric. Default `training/hptuning/metric`. `trial`, `global_step`,
    /// `checkpoint_path` and `timestamp` are reserved.
    #[serde(skip_serializing_if = "is_default")]
    pub hyperparameter_metric_tag: String,
    /// An earlier job whose study is continued, with its trials as knowledge.
    #[serde(skip_serializing_if = "is_default")]
    pub resume_previous_job_id: String,
    /// Stop trials early that will hardly become the best; `tunesmith.earlyStopping` chooses by which rule.
    #[serde(skip_serializing_if = "is_default")]
    pub enable_trial_early_stopping: bool,
    /// How points are chosen.
    #[serde(skip_serializing_if = "is_default")]
    pub algorithm: Algorithm,
}

impl HyperparameterSpec {
    /// The tag under which trainers report the metric, the default if the spec names none.
    pub fn metric_tag(&self) -> &str {
        if self.hyperparameter_metric_tag.is_empty() { DEFAULT_METRIC_TAG } else { &self.hyperparameter_metric_tag }
    }
}

/// Which way the metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GoalType {
    /// The same as `MAXIMIZE`.
    #[default]
    GoalTypeUnspecified,
    /// Larger is better.
    Maximize,
    /// Smaller is better.
    Minimize,
}

/// How points are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Algorithm {
    /// The algorithm that serves the problem best, chosen by rule: usually Bayesian optimisation. The default.
    #[default]
    AlgorithmUnspecified,
    /// Every point of a grid once. Every parameter must be `INTEGER`, `CATEGORICAL` or `DISCRETE`, or have an entry in
    /// `tunesmith.doubleResolution`.
    GridSearch,
    /// Independent draws.
    RandomSearch,
    /// Bayesian optimisation by a Gaussian process, by the name that the Optimizer has for the default.
    GaussianProcessBandit,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["parameterName", "type"]))]
pub struct ParameterSpec {
    /// The name; the trainer gets the value as `--<parameterName>=<value>`.
    #[schemars(length(min = 1))]
    pub parameter_name: String,
    /// The kind of its values.
    #[serde(rename = "type")]
    pub parameter_type: ParameterType,
    /// Lower bound, inclusive; required for `DOUBLE` and `INTEGER`, whole for `INTEGER`, unset for `CATEGORICAL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_value: Option<Double>,
    /// Upper bound, inclusive; required for `DOUBLE` and `INTEGER`, whole for `INTEGER`, unset for `CATEGORICAL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_value: Option<Double>,
    /// The values of a `CATEGORICAL` parameter, at least one, all different.
    #[serde(skip_serializing_if = "is_default")]
    pub categorical_values: Vec<String>,
    /// The values of a `DISCRETE` parameter, strictly increasing, 1 to 1000 of them.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 1000))]
    pub discrete_values: Vec<Double>,
    /// How the range is mapped to the unit interval; unset for `CATEGORICAL`.
    #[serde(skip_serializing_if = "is_default")]
    pub scale_type: ScaleType,
}

/// The kind of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ParameterType {
    /// An error.
    #[default]
    #[schemars(skip)]
    ParameterTypeUnspecified,
    /// Real numbers of a range.
    Double,
    /// Whole numbers of a range.
    Integer,
    /// Texts without order.
    Categorical,
    /// Listed numbers.
    Discrete,
}

/// How a range is mapped to the unit interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ScaleType {
    /// Evenly, the default.
    #[default]
    None,
    /// Evenly.
    UnitLinearScale,
    /// Logarithmically, finest near the lower bound; needs a strictly positive range.
    UnitLogScale,
    /// Logarithmically, finest near the upper bound; needs a strictly positive range.
    UnitReverseLogScale,
}
