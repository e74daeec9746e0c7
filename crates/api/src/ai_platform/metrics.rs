//! Additional metrics and constraints of jobs and studies.
//!
//! Terms as in Vertex AI: a metric with a `safetyConfig` is a constraint, whose goal is the safe direction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::{ConstraintSpec, Goal, MetricSpec};

use super::violations::Violations;
use super::{Additions, Algorithm, Double, GoalType, HyperparameterSpec, RESERVED_METRIC_TAGS, is_default};

/// Metric in addition to `hyperparameterMetricTag`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["metric"]))]
pub struct FurtherMetric {
    /// (Tunesmith) Metric tag in the trainers' reports.
    #[schemars(length(min = 1))]
    pub metric: String,
    /// (Tunesmith) Goal of the metric.
    pub goal: GoalType,
    /// (Tunesmith) Makes the metric a constraint, which is not optimised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_config: Option<SafetyMetricConfig>,
}

/// Limit of a metric that is a constraint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SafetyMetricConfig {
    /// (Tunesmith) Last safe value: results above it violate the constraint with goal `MINIMIZE`, results below it with
    /// `MAXIMIZE`. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub safety_threshold: Double,
    /// (Tunesmith) Fraction of safe trials, from 0 to 1, below which the search avoids possibly unsafe points. Default
    /// 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_min_safe_trials_fraction: Option<Double>,
}

impl GoalType {
    /// The goal; `MAXIMIZE` by default.
    pub(super) fn to_domain(self) -> Goal {
        match self {
            Self::GoalTypeUnspecified | Self::Maximize => Goal::Maximize,
            Self::Minimize => Goal::Minimize,
        }
    }

    pub(super) fn of_domain(goal: Goal) -> Self {
        match goal {
            Goal::Maximize => Self::Maximize,
            Goal::Minimize => Self::Minimize,
        }
    }
}

impl SafetyMetricConfig {
    pub(super) fn constraint(&self, name: &str, goal: GoalType) -> ConstraintSpec {
        let constraint = ConstraintSpec::new(name, goal.to_domain(), self.safety_threshold.0);
        let fraction = self.desired_min_safe_trials_fraction.map_or(0.0, |fraction| fraction.0);
        ConstraintSpec { min_safe_fraction: fraction, ..constraint }
    }

    pub(super) fn of_domain(constraint: &ConstraintSpec) -> Self {
        let fraction = Some(Double(constraint.min_safe_fraction)).filter(|fraction| fraction.0 != 0.0);
        Self { safety_threshold: Double(constraint.threshold), desired_min_safe_trials_fraction: fraction }
    }

    /// Checks the limit of the metric at `place`.
    pub(super) fn check(&self, place: &str, violations: &mut Violations) {
        let threshold = self.safety_threshold;
        if !threshold.0.is_finite() {
            let field = format_args!("{place}.safetyConfig.safetyThreshold");
            violations.error(field, format_args!("{threshold} is no threshold"), "a finite number");
        }
        if let Some(fraction) = self.desired_min_safe_trials_fraction
            && !(0.0..=1.0).contains(&fraction.0)
        {
            violations.error(
                format_args!("{place}.safetyConfig.desiredMinSafeTrialsFraction"),
                format_args!("{fraction} is out of range"),
                "a number from 0 to 1",
            );
        }
    }
}

/// Metrics and constraints of a job; the first metric is `hyperparameterMetricTag`.
pub(super) fn metrics(spec: &HyperparameterSpec, additions: &Additions) -> (Vec<MetricSpec>, Vec<ConstraintSpec>) {
    let first = MetricSpec { name: spec.metric_tag().to_owned(), goal: spec.goal.to_domain() };
    let (mut metrics, mut constraints) = (vec![first], Vec::new());
    for FurtherMetric { metric, goal, safety_config } in &additions.metrics {
        match safety_config {
            None => metrics.push(MetricSpec { name: metric.clone(), goal: goal.to_domain() }),
            Some(safety) => constraints.push(safety.constraint(metric, *goal)),
        }
    }
    (metrics, constraints)
}

/// Checks a job's additional metrics and what they exclude.
pub(super) fn check_metrics(spec: &HyperparameterSpec, additions: &Additions, violations: &mut Violations) {
    let further = &additions.metrics;
    for (index, FurtherMetric { metric, safety_config, .. }) in further.iter().enumerate() {
        let place = format!("tunesmith.metrics[{index}]");
        let field = format!("{place}.metric");
        let earlier = further[..index].iter().position(|earlier| earlier.metric == *metric);
        if metric.is_empty() {
            violations.error(field, "is empty", "the tag under which trainers report the metric");
        } else if RESERVED_METRIC_TAGS.contains(&metric.as_str()) {
            violations.error(
                field,
                format_args!("{metric:?} is reserved for the bookkeeping of the hypertune package"),
                format_args!("any tag except {}", RESERVED_METRIC_TAGS.join(", ")),
            );
        } else if metric == spec.metric_tag() {
            let message = format_args!("{metric:?} is already the metric of hyperparameterMetricTag");
            violations.error(field, message, "a tag that no other metric has");
        } else if let Some(earlier) = earlier {
            let message = format_args!("{metric:?} is already the tag of tunesmith.metrics[{earlier}]");
            violations.error(field, message, "a tag that no other metric has");
        }
        if let Some(safety) = safety_config {
            safety.check(&place, violations);
        }
    }
    if further.is_empty() {
        return;
    }
    if let Algorithm::Tpe | Algorithm::CmaEs = spec.algorithm {
        let name = if spec.algorithm == Algorithm::Tpe { "TPE" } else { "CMA_ES" };
        violations.error(
            "hyperparameters.algorithm",
            format_args!("{name} optimises one metric, not {}", 1 + further.len()),
            "without algorithm, or GAUSSIAN_PROCESS_BANDIT, GRID_SEARCH, RANDOM_SEARCH, QUASI_RANDOM_SEARCH",
        );
    }
    let objectives = further.iter().filter(|metric| metric.safety_config.is_none()).count();
    if spec.enable_trial_early_stopping && objectives > 0 {
        violations.error(
            "hyperparameters.enableTrialEarlyStopping",
            format_args!("trials are compared by one metric, and tunesmith.metrics adds {objectives}"),
            "false with several metrics; constraints (metrics with safetyConfig) do not count",
        );
    }
}
