use crate::acquisition::hypervolume::HypervolumeImprovement;
use crate::problem::{ConstraintSpec, MetricSpec, ObservationNoise, ProblemStatement};

/// Metrics and constraints of a problem, each sorted by name, so that the order of their definition does not matter.
#[derive(Debug, Clone)]
pub(super) struct Outputs {
    /// Metrics with their indices among the values of a trial.
    pub(super) metrics: Vec<(usize, MetricSpec)>,
    /// Constraints with their indices among the values of a trial.
    pub(super) constraints: Vec<(usize, ConstraintSpec)>,
    pub(super) noise: ObservationNoise,
}

impl Outputs {
    pub(super) fn new(problem: &ProblemStatement) -> Self {
        let mut metrics: Vec<_> = problem.metrics().iter().cloned().enumerate().collect();
        let places = metrics.len()..;
        let mut constraints: Vec<_> = places.zip(problem.constraints().iter().cloned()).collect();
        metrics.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        constraints.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        Self { metrics, constraints, noise: problem.observation_noise() }
    }

    /// Whether the metrics have one acquisition function, expected hypervolume improvement.
    pub(super) fn have_hypervolume(&self) -> bool {
        (2..=HypervolumeImprovement::MOST_OBJECTIVES).contains(&self.metrics.len())
    }

    pub(super) fn count(&self) -> usize {
        self.metrics.len() + self.constraints.len()
    }

    /// Metric values, maximised, and constraint slacks; `None` if one of them is not finite.
    pub(super) fn read(&self, values: &[f64]) -> Option<Vec<f64>> {
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let metrics = self.metrics.iter().map(|(place, metric)| metric.goal.to_maximized(values[*place]));
        let constraints = self.constraints.iter().map(|(place, constraint)| constraint.slack(values[*place]));
        Some(metrics.chain(constraints).collect())
    }
}
