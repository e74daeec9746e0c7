//! Tests of each optimizer against the baseline, over their common problems.

use serde::Serialize;

use super::groups::Cells;
use super::log_gap::{log_gap, mean_over};
use super::options::{AnalysisError, AnalysisOptions};
use super::runs::RunSet;
use super::significance::assess_comparisons;
use crate::statistics::decision::{Assessment, Decision};
use crate::statistics::summary::standard_error;

/// The outcome of a test of one optimizer against another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Significantly better.
    Better,
    /// Significantly worse.
    Worse,
    /// No significant difference.
    None,
}

/// The test of one optimizer against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairTest {
    /// Index of the optimizer.
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    /// Number of common problems.
    pub problems: usize,
    /// Mean over problems of its log10 gap minus that of the baseline; the optimizer is better below 0.
    pub difference: f64,
    /// Standard error of `difference` over problems; `None` with fewer than 2.
    pub standard_error: Option<f64>,
    /// Lower end of the bootstrap interval of `difference`, with problems resampled; its coverage is 1 minus the level
    /// of the analysis.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of problems with a smaller log10 gap than the baseline.
    pub wins: usize,
    /// Number of problems with a greater one.
    pub losses: usize,
    /// Two-sided p-value of Wilcoxon's signed-rank test; 1 if all differences are 0.
    pub p_value: f64,
    /// The same after Holm's correction for the number of tested optimizers.
    pub adjusted_p: f64,
    /// Matched-pairs rank-biserial correlation, in [-1, 1]; the optimizer is better below 0.
    pub effect: f64,
    /// Better or worse if `adjusted_p` is below the level of the analysis, and `effect` and interval are on the same
    /// side of 0.
    pub finding: Finding,
}

impl From<Decision> for Finding {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Better => Self::Better,
            Decision::Worse => Self::Worse,
            Decision::NoDifference => Self::None,
        }
    }
}

/// Returns the tests in the order of the optimizers.
pub(super) fn pair_tests(
    set: &RunSet<'_>,
    cells: &Cells<'_>,
    evaluations: usize,
    options: &AnalysisOptions,
) -> Result<Vec<PairTest>, AnalysisError> {
    let (mut optimizers, mut comparisons) = (Vec::new(), Vec::new());
    for optimizer in (0..set.optimizers.len()).filter(|&optimizer| optimizer != set.baseline) {
        let pair = [optimizer, set.baseline];
        let mut differences = Vec::new();
        for problem in cells.common_problems(&pair, evaluations) {
            let runs = cells.paired(&pair, problem, evaluations);
            let of = |index: usize| mean_over(&runs[index], |run| log_gap(run, set, evaluations, options));
            differences.push(of(0) - of(1));
        }
        if !differences.is_empty() {
            optimizers.push(optimizer);
            comparisons.push(differences);
        }
    }
    let assessments = assess_comparisons(&comparisons, options)?;
    let tests = optimizers.into_iter().zip(&comparisons).zip(assessments);
    Ok(tests.map(|((optimizer, differences), assessment)| pair_test(optimizer, differences, &assessment)).collect())
}

fn pair_test(optimizer: usize, differences: &[f64], assessment: &Assessment) -> PairTest {
    PairTest {
        optimizer,
        problems: differences.len(),
        difference: assessment.mean_difference,
        standard_error: standard_error(differences),
        low: assessment.interval.low,
        high: assessment.interval.high,
        wins: differences.iter().filter(|difference| **difference < 0.0).count(),
        losses: differences.iter().filter(|difference| **difference > 0.0).count(),
        p_value: assessment.wilcoxon.p,
        adjusted_p: assessment.adjusted_p,
        effect: assessment.wilcoxon.rank_biserial,
        finding: assessment.decision.into(),
    }
}
