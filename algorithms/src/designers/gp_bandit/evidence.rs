//! Training data of one output: one row per distinct point.

use crate::encoding::{Encoding, FeatureKind};
use crate::gp::TrainingSet;
use crate::transfer::{Ground, Grounds};

/// Slacks up to about so many times their median stay in proportion. On the seven constrained problems of the benchmark, 6
/// seeds, 60 trials: mean log10 gap -0.67 +- 0.25 against a unit of one median, better in 16 runs and worse in 5; with a
/// tenth of it +0.60 +- 0.33. The bend at zero that a small unit makes is no property of a smooth constraint.
const LINEAR_MEDIANS: f64 = 10.0;

/// Targets for the slacks of a constraint, mean 0 and population variance 1 unless they are equal, and the target of a
/// slack of 0. Large slacks are drawn together by `sign(c) ln(1 + |c| / (10 median|c|))`: the bilog transform of Eriksson
/// & Poloczek 2021, "Scalable Constrained Bayesian Optimization", arXiv 2002.08526, section 2, but with a unit, so that
/// the unit of the constraint does not matter.
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
    // The target of 0 must not be above that of a slack of 0 by a rounding error.
    let standardize = |target: f64| (target - mean) * scale;
    targets.iter_mut().for_each(|target| *target = standardize(*target));
    (targets, standardize(0.0))
}

/// Which features are categories.
pub(super) fn categorical(encoding: &Encoding) -> Vec<bool> {
    encoding.features().iter().map(|feature| matches!(feature.kind, FeatureKind::Categorical { .. })).collect()
}

/// What is known, one row per different point.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// Measured points first, then failed ones at a pessimistic value.
    pub(super) data: TrainingSet,
    /// How many rows are measured.
    pub(super) measured: usize,
    /// Whether the row is measured by a trial that ran to its end.
    pub(super) finished: Vec<bool>,
    /// Of a constraint, the value from which on it holds.
    pub(super) threshold: f64,
}

impl Evidence {
    /// What the measured values are built upon.
    pub(super) fn ground(&self, grounds: &Grounds) -> Option<Ground> {
        let measured = self.data.points.rows(0, self.measured).clone_owned();
        grounds.below(&measured, &self.data.values[..self.measured])
    }

    /// How many points failed.
    pub(super) fn failures(&self) -> usize {
        self.data.values.len() - self.measured
    }

    /// Rows that may be the incumbent: finished ones, or all measured ones if none is finished.
    pub(super) fn eligible(&self) -> Vec<usize> {
        let finished: Vec<usize> = (0..self.measured).filter(|&row| self.finished[row]).collect();
        if finished.is_empty() { (0..self.measured).collect() } else { finished }
    }

    /// Point of a row.
    pub(super) fn point(&self, row: usize) -> Vec<f64> {
        self.data.points.row(row).iter().copied().collect()
    }
}
