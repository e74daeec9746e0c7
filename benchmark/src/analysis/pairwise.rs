use serde::Serialize;

use super::groups::Cells;
use super::log_gap::{log_gap, mean_over};
use super::options::{AnalysisError, AnalysisOptions};
use super::runs::RunSet;
use super::significance::assess_comparisons;
use tunesmith_statistics::decision::{Assessment, Decision};
use tunesmith_statistics::summary::standard_error;

/// Test of one optimizer against the baseline, on their common problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairTest {
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    /// Number of problems with a smaller log10 gap than the baseline.
    pub wins: usize,
    /// Number of problems with a greater one.
    pub losses: usize,
    /// Statistics of the difference from the baseline.
    #[serde(flatten)]
    pub test: DifferenceTest,
}

/// Statistics of the paired log10 gaps of two optimizers, one difference per problem; below 0 the first is better.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DifferenceTest {
    pub problems: usize,
    /// Mean difference over problems.
    pub difference: f64,
    /// Standard error of `difference` over problems; `None` with fewer than 2.
    pub standard_error: Option<f64>,
    /// Lower end of the bootstrap interval of `difference` over resampled problems; its coverage is 1 minus the
    /// significance level.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Two-sided p-value of Wilcoxon's signed-rank test; 1 if all differences are 0.
    pub p_value: f64,
    /// `p_value` after Holm's correction for all comparisons made together.
    pub adjusted_p: f64,
    /// Matched-pairs rank-biserial correlation, in [-1, 1].
    pub effect: f64,
    /// Better or worse if `adjusted_p` is below the significance level and `effect` and interval are on the same side
    /// of 0.
    pub finding: Decision,
}

impl DifferenceTest {
    pub(super) fn new(differences: &[f64], assessment: &Assessment) -> Self {
        Self {
            problems: differences.len(),
            difference: assessment.mean_difference,
            standard_error: standard_error(differences),
            low: assessment.interval.low,
            high: assessment.interval.high,
            p_value: assessment.wilcoxon.p,
            adjusted_p: assessment.adjusted_p,
            effect: assessment.wilcoxon.rank_biserial,
            finding: assessment.decision,
        }
    }
}

/// Tests in optimizer order.
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
    let test = |((optimizer, differences), assessment): ((usize, &Vec<f64>), Assessment)| PairTest {
        optimizer,
        wins: differences.iter().filter(|difference| **difference < 0.0).count(),
        losses: differences.iter().filter(|difference| **difference > 0.0).count(),
        test: DifferenceTest::new(differences, &assessment),
    };
    Ok(tests.map(test).collect())
}
