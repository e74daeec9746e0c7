//! Metrics, constraints and the problem statement.

use serde::{Deserialize, Serialize};

use super::{Repeats, RepeatsError, SearchSpace};

/// Direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Goal {
    /// Larger is better.
    #[default]
    Maximize,
    /// Smaller is better.
    Minimize,
}

impl Goal {
    /// Flips the sign of a minimised `value`, so that larger is better. Its own inverse.
    pub fn to_maximized(self, value: f64) -> f64 {
        match self {
            Self::Maximize => value,
            Self::Minimize => -value,
        }
    }

    /// `value` in the orientation in which lower is better. Its own inverse.
    ///
    /// ```
    /// use tunesmith_algorithms::problem::Goal;
    ///
    /// assert_eq!(Goal::Maximize.loss(0.9), -0.9);
    /// assert_eq!(Goal::Maximize.loss(Goal::Maximize.loss(0.9)), 0.9);
    /// assert_eq!(Goal::Minimize.loss(0.9), 0.9);
    /// ```
    pub fn loss(self, value: f64) -> f64 {
        match self {
            Self::Maximize => -value,
            Self::Minimize => value,
        }
    }

    /// Whether `a` is strictly better than `b`. False if either is NaN.
    pub fn is_better(self, a: f64, b: f64) -> bool {
        self.to_maximized(a) > self.to_maximized(b)
    }
}

/// Metric reported by trials and optimised by the search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// Tag under which trainers report the metric.
    pub name: String,
    /// Direction in which the metric improves.
    pub goal: Goal,
}

/// Reported value that a usable trial keeps on one side of a threshold. It is not optimised.
///
/// The terms are those of Vizier's safety metrics: a goal, and a threshold to reach in the direction of the goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstraintSpec {
    /// Tag under which trainers report the value.
    pub name: String,
    /// [`Goal::Minimize`]: the constraint holds for values up to the threshold. [`Goal::Maximize`]: for values from the
    /// threshold on.
    pub goal: Goal,
    /// Limit, inclusive; finite.
    pub threshold: f64,
    /// Target share of feasible trials, from 0, for no target, to 1. While a smaller share of the measured trials
    /// satisfies the constraint, the search avoids points that may violate it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_safe_fraction: f64,
}

fn is_zero(fraction: &f64) -> bool {
    *fraction == 0.0
}

impl ConstraintSpec {
    /// Constraint without a target for the share of feasible trials.
    pub fn new(name: impl Into<String>, goal: Goal, threshold: f64) -> Self {
        Self { name: name.into(), goal, threshold, min_safe_fraction: 0.0 }
    }

    /// Distance of `value` from the threshold: positive on the feasible side, negative if the constraint is violated.
    /// NaN for NaN. Clamped to the range of finite doubles.
    pub fn slack(&self, value: f64) -> f64 {
        let slack = self.goal.to_maximized(value) - self.goal.to_maximized(self.threshold);
        slack.clamp(-f64::MAX, f64::MAX)
    }

    /// Whether `value` satisfies the constraint. False for NaN.
    pub fn holds(&self, value: f64) -> bool {
        self.slack(value) >= 0.0
    }
}

/// Differences between trials of the same point, in the terms of Vizier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum ObservationNoise {
    /// Unknown: the Gaussian process estimates it. No point is tried twice.
    #[default]
    Auto,
    /// Close to none: trials of the same point have the same result. No point is tried twice.
    Low,
    /// Substantial: a point may be tried again.
    High,
}

/// Input of a search algorithm: the space, the metrics and the constraints, without the service's bookkeeping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProblemStatement {
    search_space: SearchSpace,
    metrics: Vec<MetricSpec>,
    /// Absent in records that predate constraints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    constraints: Vec<ConstraintSpec>,
    /// Absent in records that predate it.
    #[serde(default, skip_serializing_if = "is_auto")]
    observation_noise: ObservationNoise,
    /// Absent in records that predate it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeats: Option<Repeats>,
}

fn is_auto(noise: &ObservationNoise) -> bool {
    *noise == ObservationNoise::Auto
}

impl ProblemStatement {
    /// Creates a problem with one or more metrics.
    ///
    /// # Errors
    /// [`ProblemError::NoMetric`] if `metrics` is empty, [`ProblemError::RepeatedMetric`] if two metrics share a name.
    pub fn new(search_space: SearchSpace, metrics: Vec<MetricSpec>) -> Result<Self, ProblemError> {
        if metrics.is_empty() {
            return Err(ProblemError::NoMetric);
        }
        for (index, metric) in metrics.iter().enumerate() {
            if metrics[..index].iter().any(|other| other.name == metric.name) {
                return Err(ProblemError::RepeatedMetric { name: metric.name.clone() });
            }
        }
        let observation_noise = ObservationNoise::default();
        Ok(Self { search_space, metrics, constraints: Vec::new(), observation_noise, repeats: None })
    }

    /// Replaces the constraints.
    ///
    /// # Errors
    /// [`ProblemError::RepeatedMetric`] if two constraints share a name, or a constraint and a metric do;
    /// [`ProblemError::ThresholdNotFinite`]; [`ProblemError::FractionOutOfRange`].
    pub fn with_constraints(self, constraints: Vec<ConstraintSpec>) -> Result<Self, ProblemError> {
        for (index, constraint) in constraints.iter().enumerate() {
            let ConstraintSpec { name, threshold, min_safe_fraction, .. } = constraint;
            let is_metric = self.metrics.iter().any(|metric| metric.name == *name);
            if is_metric || constraints[..index].iter().any(|other| other.name == *name) {
                return Err(ProblemError::RepeatedMetric { name: name.clone() });
            }
            if !threshold.is_finite() {
                return Err(ProblemError::ThresholdNotFinite { name: name.clone(), threshold: *threshold });
            }
            if !(0.0..=1.0).contains(min_safe_fraction) {
                return Err(ProblemError::FractionOutOfRange { name: name.clone(), fraction: *min_safe_fraction });
            }
        }
        Ok(Self { constraints, ..self })
    }

    /// Replaces the observation noise.
    #[must_use]
    pub fn with_observation_noise(self, observation_noise: ObservationNoise) -> Self {
        Self { observation_noise, ..self }
    }

    /// Differences between trials of the same point.
    pub fn observation_noise(&self) -> ObservationNoise {
        self.observation_noise
    }

    /// Replaces the repetition of the best points.
    ///
    /// # Errors
    /// The first setting that does not fit the problem; see [`RepeatsError`].
    pub fn with_repeats(self, repeats: Option<Repeats>) -> Result<Self, RepeatsError> {
        repeats.as_ref().map_or(Ok(()), |repeats| repeats.check(&self))?;
        Ok(Self { repeats, ..self })
    }

    /// Repetition of the best points with other seeds or folds, if requested.
    pub fn repeats(&self) -> Option<&Repeats> {
        self.repeats.as_ref()
    }

    pub(super) fn with_space_without_repeats(self, search_space: SearchSpace) -> Self {
        Self { search_space, repeats: None, ..self }
    }

    /// Parameters of the problem.
    pub fn search_space(&self) -> &SearchSpace {
        &self.search_space
    }

    /// Metrics, at least one, in the order of the values of [`super::TrialOutcome::Measured`].
    pub fn metrics(&self) -> &[MetricSpec] {
        &self.metrics
    }

    /// Conditions of a usable trial; may be empty. Their values follow those of the metrics in
    /// [`super::TrialOutcome::Measured`].
    pub fn constraints(&self) -> &[ConstraintSpec] {
        &self.constraints
    }

    /// Names of all values reported by a trial, in the order of [`super::TrialOutcome::Measured`].
    pub fn value_names(&self) -> impl Iterator<Item = &str> {
        let metrics = self.metrics.iter().map(|metric| metric.name.as_str());
        metrics.chain(self.constraints.iter().map(|constraint| constraint.name.as_str()))
    }
}

/// Reason why a search space and metrics do not form a problem.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// The list of metrics is empty.
    #[error("at least one metric is needed")]
    NoMetric,
    /// Two metrics or constraints share a name.
    #[error("metric {name:?} is defined twice")]
    RepeatedMetric {
        /// Repeated name.
        name: String,
    },
    /// The threshold of a constraint is NaN or infinite.
    #[error("the threshold of constraint {name:?} is {threshold:?}, not a finite number")]
    ThresholdNotFinite {
        /// Name of the constraint.
        name: String,
        /// Its threshold.
        threshold: f64,
    },
    /// The target share of feasible trials is not between 0 and 1.
    #[error("the fraction of safe trials of constraint {name:?} is {fraction:?}, not a number from 0 to 1")]
    FractionOutOfRange {
        /// Name of the constraint.
        name: String,
        /// Fraction as given.
        fraction: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{ParameterKind, ParameterSpec};

    fn statement() -> ProblemStatement {
        let kind = ParameterKind::Categorical { values: vec!["a".into()] };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        ProblemStatement::new(space, vec![MetricSpec { name: "loss".into(), goal: Goal::Minimize }]).unwrap()
    }

    fn constraint(name: &str, goal: Goal, threshold: f64) -> ConstraintSpec {
        ConstraintSpec::new(name, goal, threshold)
    }

    #[test]
    fn constraint_holds_up_to_and_including_the_threshold() {
        let at_most = constraint("size", Goal::Minimize, 3.0);
        assert_eq!([2.0, 3.0, 4.0].map(|value| at_most.slack(value)), [1.0, 0.0, -1.0]);
        assert_eq!([3.0, 3.1, f64::NAN].map(|value| at_most.holds(value)), [true, false, false]);
        let at_least = constraint("recall", Goal::Maximize, 0.5);
        assert!(at_least.holds(0.5) && !at_least.holds(0.25));
        assert_eq!(constraint("c", Goal::Minimize, f64::MAX).slack(f64::MIN), f64::MAX);
    }

    #[test]
    fn constraints_with_repeated_names_or_infinite_thresholds_are_rejected() {
        let with = |constraints| statement().with_constraints(constraints);
        let repeated = |name: &str| Err(ProblemError::RepeatedMetric { name: name.into() });
        assert_eq!(with(vec![constraint("loss", Goal::Minimize, 0.0)]), repeated("loss"));
        let twice = vec![constraint("c", Goal::Minimize, 0.0), constraint("c", Goal::Maximize, 1.0)];
        assert_eq!(with(twice), repeated("c"));
        let infinite = with(vec![constraint("c", Goal::Minimize, f64::INFINITY)]).unwrap_err();
        assert_eq!(infinite.to_string(), "the threshold of constraint \"c\" is inf, not a finite number");
        let mostly = |fraction| ConstraintSpec { min_safe_fraction: fraction, ..constraint("c", Goal::Minimize, 0.0) };
        for fraction in [-0.1, 1.1, f64::NAN] {
            let refused = with(vec![mostly(fraction)]).unwrap_err().to_string();
            assert!(refused.ends_with("not a number from 0 to 1"), "{refused}");
        }
        assert!(with(vec![mostly(1.0)]).is_ok());
        let problem = with(vec![constraint("c", Goal::Minimize, 0.0)]).unwrap();
        assert_eq!(problem.value_names().collect::<Vec<_>>(), ["loss", "c"]);
        assert_eq!(problem.constraints().len(), 1);
        assert_eq!(problem.with_constraints(Vec::new()), Ok(statement()));
    }
}
