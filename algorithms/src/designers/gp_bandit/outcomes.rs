//! History of each output: one per metric, one per constraint.

use rand::RngExt;

use super::observations::Observations;
use super::outputs::Outputs;
use crate::designer::{DesignerError, History};
use crate::encoding::Encoding;
use crate::output_warp::warp;
use crate::problem::{ConstraintSpec, MetricSpec, TrialId};
use crate::rng::stream;

/// Weight of the log probability of a constraint satisfied by fewer trials than the user wants (a guess: a probability
/// of 0.9 then counts as much as 0.43 without the weight).
const CAUTIOUS: f64 = 8.0;
/// Weight of the sum relative to the maximum in a scalarised value (Knowles 2006).
const AUGMENTATION: f64 = 0.05;

/// One history per output, all with the same trials and the same measured ones.
#[derive(Debug, Clone)]
pub(super) struct Outcomes {
    /// Metric values, at least one history.
    pub(super) objectives: Vec<Observations>,
    /// Constraint slacks, 0 or more where the constraint holds.
    pub(super) constraints: Vec<Observations>,
    /// Factor of the log probability of each constraint.
    pub(super) constraint_weights: Vec<f64>,
}

impl Outcomes {
    pub(super) fn new(encoding: &Encoding, outputs: &Outputs, history: History<'_>) -> Result<Self, DesignerError> {
        let mut objectives = Observations::of_outputs(encoding, outputs, history)?;
        let constraints = objectives.split_off(outputs.metrics.len());
        let weight = |(slacks, (_, constraint)): (&Observations, &(usize, ConstraintSpec))| {
            let (measured, wanted) = (slacks.measured(), constraint.min_safe_fraction);
            let safe = slacks.measured_values().iter().filter(|slack| **slack >= 0.0).count();
            if (safe as f64) < wanted * measured as f64 { CAUTIOUS } else { 1.0 }
        };
        let constraint_weights = constraints.iter().zip(&outputs.constraints).map(weight).collect();
        Ok(Self { objectives, constraints, constraint_weights })
    }

    pub(super) fn are_informative(&self) -> bool {
        self.objectives.iter().chain(&self.constraints).any(Observations::are_informative)
    }

    /// Random augmented Chebyshev scalarisation of the objectives for `trial`: `-(max_j w_j f_j + 0.05 sum_j w_j f_j)`,
    /// where `f_j` is 0 for the best and 1 for the worst of the warped values so far, and the weights are uniform on
    /// the simplex. (Knowles 2006, "ParEGO", IEEE Trans. Evol. Comp. 10, section 4; weights on a grid there.)
    pub(super) fn scalarized(&self, outputs: &Outputs, seed: u64, trial: TrialId) -> Self {
        let draw = |(_, metric): &(usize, MetricSpec)| {
            let uniform: f64 = stream(seed, trial, &format!("weight/{}", metric.name)).random();
            -(1.0 - uniform).ln()
        };
        let weights: Vec<f64> = outputs.metrics.iter().map(draw).collect();
        let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut largest: Vec<f64> = Vec::new();
        let mut sums: Vec<f64> = Vec::new();
        for (objective, weight) in self.objectives.iter().zip(&weights) {
            let values = warp(&objective.measured_values(), objective.measured() < objective.completed());
            let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let range = best - values.iter().copied().fold(f64::INFINITY, f64::min);
            largest.resize(values.len(), 0.0);
            sums.resize(values.len(), 0.0);
            for (i, value) in values.iter().enumerate().filter(|_| range > 0.0) {
                let loss = weight / total * (best - value) / range;
                largest[i] = largest[i].max(loss);
                sums[i] += loss;
            }
        }
        let scalars = largest.iter().zip(&sums).map(|(largest, sum)| -(largest + AUGMENTATION * sum)).collect();
        Self {
            objectives: vec![self.objectives[0].with_measured_values(scalars)],
            constraints: self.constraints.clone(),
            constraint_weights: self.constraint_weights.clone(),
        }
    }
}
