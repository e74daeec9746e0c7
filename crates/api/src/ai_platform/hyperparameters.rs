//! `HyperparameterSpec`: parameters, goal and trial counts of a tuning job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalars::int32_or_text;
use super::{Number, is_default};

pub const DEFAULT_METRIC_TAG: &str = "training/hptuning/metric";

/// Keys written by the `hypertune` package, which a metric of the same name would overwrite.
pub const RESERVED_METRIC_TAGS: [&str; 4] = ["trial", "global_step", "checkpoint_path", "timestamp"];

/// Parameters, goal and trial counts of a tuning job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("if" = {"required": ["resumePreviousJobId"]}, "else" = {"required": ["goal", "params"]}))]
pub struct HyperparameterSpec {
    /// Goal of the metric.
    pub goal: GoalType,
    /// Parameters, at least one, with different names.
    #[schemars(length(min = 1))]
    pub params: Vec<ParameterSpec>,
    /// Maximum number of trials. Default 1, also for 0.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 0), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub max_trials: Option<i32>,
    /// Maximum number of concurrent trials. Default 1, also for 0.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 0), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub max_parallel_trials: Option<i32>,
    /// Number of failed trials at which the job fails; 0, the default, leaves the decision to the service.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 0), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub max_failed_trials: Option<i32>,
    /// Metric tag in the trainers' reports. Default `training/hptuning/metric`. `trial`, `global_step`,
    /// `checkpoint_path` and `timestamp` are reserved.
    #[serde(skip_serializing_if = "is_default")]
    pub hyperparameter_metric_tag: String,
    /// Previous job to continue; the search uses its trials. Absent `goal`, `params` and `hyperparameterMetricTag` are
    /// inherited from that job; `algorithm` as well, if `params` are absent.
    #[serde(skip_serializing_if = "is_default")]
    pub resume_previous_job_id: String,
    /// Whether trials unlikely to become the best are stopped early; `tunesmith.earlyStopping` selects the rule.
    #[serde(skip_serializing_if = "is_default")]
    pub enable_trial_early_stopping: bool,
    /// Search algorithm.
    #[serde(skip_serializing_if = "is_default")]
    pub algorithm: Algorithm,
}

impl HyperparameterSpec {
    /// Tag under which trainers report the metric.
    pub fn metric_tag(&self) -> &str {
        if self.hyperparameter_metric_tag.is_empty() { DEFAULT_METRIC_TAG } else { &self.hyperparameter_metric_tag }
    }

    /// Whether the job continues an earlier one, which supplies absent fields.
    pub fn continues(&self) -> bool {
        !self.resume_previous_job_id.is_empty()
    }
}

/// Goal of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GoalType {
    /// Same as `MAXIMIZE`.
    #[default]
    GoalTypeUnspecified,
    /// Larger is better.
    Maximize,
    /// Smaller is better.
    Minimize,
}

/// Search algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Algorithm {
    /// Default: an algorithm chosen by the properties of the problem, usually Bayesian optimisation.
    #[default]
    AlgorithmUnspecified,
    /// Every point of a grid, once. All parameters must be `INTEGER`, `CATEGORICAL` or `DISCRETE`, or have an entry in
    /// `tunesmith.doubleResolution`.
    GridSearch,
    /// Independent random points.
    RandomSearch,
    /// Bayesian optimisation with a Gaussian process; named as the Optimizer's default algorithm.
    GaussianProcessBandit,
    /// (Tunesmith) Tree-structured Parzen estimator, for one metric.
    Tpe,
    /// (Tunesmith) Covariance matrix adaptation, for one metric. Supports no conditional parameters, and `CATEGORICAL`
    /// parameters only with a single value.
    CmaEs,
    /// (Tunesmith) Evenly spread points of a scrambled Sobol sequence, independent of results.
    QuasiRandomSearch,
}

/// Parameter of the search space.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["parameterName", "type"]))]
pub struct ParameterSpec {
    /// Name; the trainer gets the value as `--<parameterName>=<value>`.
    #[schemars(length(min = 1))]
    pub parameter_name: String,
    /// Type of the parameter's values.
    #[serde(rename = "type")]
    pub parameter_type: ParameterType,
    /// Lower bound of a `DOUBLE` or `INTEGER`, inclusive; whole for `INTEGER`, unset for `CATEGORICAL`. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_value: Option<Number>,
    /// Upper bound of a `DOUBLE` or `INTEGER`, inclusive; whole for `INTEGER`, unset for `CATEGORICAL`. Required unless
    /// `minValue` is negative, in which case the default is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_value: Option<Number>,
    /// Values of a `CATEGORICAL` parameter, at least one, all different.
    #[serde(skip_serializing_if = "is_default")]
    pub categorical_values: Vec<String>,
    /// Values of a `DISCRETE` parameter, strictly increasing, 1 to 1000 of them.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 1000))]
    pub discrete_values: Vec<Number>,
    /// Mapping of the range to the unit interval; unset for `CATEGORICAL`.
    #[serde(skip_serializing_if = "is_default")]
    pub scale_type: ScaleType,
}

impl ParameterSpec {
    /// Bounds of a `DOUBLE` or `INTEGER`. As in proto3, an absent bound is 0, unless the range would then be empty or
    /// a single point: `None`.
    pub fn bounds(&self) -> Option<(Number, Number)> {
        match (self.min_value, self.max_value) {
            (Some(min), Some(max)) => Some((min, max)),
            (None, Some(max)) => Some((Number::default(), max)),
            (Some(min), None) if min.0 < 0.0 => Some((min, Number::default())),
            (_, None) => None,
        }
    }
}

/// Type of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ParameterType {
    /// Invalid.
    #[default]
    #[schemars(skip)]
    ParameterTypeUnspecified,
    /// Real numbers in a range.
    Double,
    /// Whole numbers in a range.
    Integer,
    /// Unordered texts.
    Categorical,
    /// A list of numbers.
    Discrete,
}

/// Mapping of a range to the unit interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ScaleType {
    /// Linear; the default.
    #[default]
    None,
    /// Linear.
    UnitLinearScale,
    /// Logarithmic, with the finest resolution near the lower bound; the range must be strictly positive.
    UnitLogScale,
    /// Logarithmic, with the finest resolution near the upper bound; the range must be strictly positive.
    UnitReverseLogScale,
}
