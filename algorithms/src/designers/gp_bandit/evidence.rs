//! Training data of one output: one row per distinct point.

use crate::gp::TrainingSet;
use crate::problem::TrialId;
use crate::transfer::{SourceModel, SourceModels};

/// Slacks up to about this many medians keep their proportions (measured, see docs/experiments/011).
const LINEAR_MEDIANS: f64 = 10.0;

/// Targets for the slacks of a constraint, mean 0 and population variance 1 unless they are equal, and the target of a
/// slack of 0. Large slacks are compressed by `sign(c) ln(1 + |c| / (10 median|c|))`: the bilog transform of Eriksson &
/// Poloczek 2021, "Scalable Constrained Bayesian Optimization", arXiv 2002.08526, section 2, but relative to the
/// median, so that the unit of the constraint does not matter.
pub(super) fn slack_targets(slacks: &[f64]) -> (Vec<f64>, f64) {
    let mut sizes: Vec<f64> = slacks.iter().map(|slack| slack.abs()).filter(|size| *size > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(1.0);
    let bilog = |slack: &f64| (slack.abs() / median / LINEAR_MEDIANS).min(1e300).ln_1p().copysign(*slack);
    let mut targets: Vec<f64> = slacks.iter().map(bilog).collect();
    let count = targets.len().max(1) as f64;
    let mean = targets.iter().sum::<f64>() / count;
    let deviation = (targets.iter().map(|target| (target - mean).powi(2)).sum::<f64>() / count).sqrt();
    let scale = if deviation > 1e-12 { deviation.recip() } else { 1.0 };
    // One closure for both: the target of 0 must not exceed that of a slack of 0 by a rounding error.
    let standardize = |target: f64| (target - mean) * scale;
    targets.iter_mut().for_each(|target| *target = standardize(*target));
    (targets, standardize(0.0))
}

/// Evidence on one output, one row per distinct point.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// Measured points first, then failed ones with a pessimistic value.
    pub(super) data: TrainingSet,
    /// Trials that give the value of each measured row.
    pub(super) trials: Vec<Vec<TrialId>>,
    /// Number of measured rows.
    pub(super) measured: usize,
    /// Whether a trial that was not stopped early measured the row.
    pub(super) finished: Vec<bool>,
    /// Smallest value at which the constraint holds; 0 for an objective.
    pub(super) threshold: f64,
}

impl Evidence {
    /// Source model that predicts the measured values, if any.
    pub(super) fn source_model(&self, source_models: &SourceModels) -> Option<SourceModel> {
        let measured = self.data.points.rows(0, self.measured).clone_owned();
        source_models.source_model_for(&measured, &self.data.values[..self.measured])
    }

    pub(super) fn failures(&self) -> usize {
        self.data.values.len() - self.measured
    }

    /// Candidate rows for the incumbent: finished ones, or all measured ones if none is finished.
    pub(super) fn eligible(&self) -> Vec<usize> {
        let finished: Vec<usize> = (0..self.measured).filter(|&row| self.finished[row]).collect();
        if finished.is_empty() { (0..self.measured).collect() } else { finished }
    }

    pub(super) fn point(&self, row: usize) -> Vec<f64> {
        self.data.points.row(row).iter().copied().collect()
    }
}
