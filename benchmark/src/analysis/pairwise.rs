//! Each contestant against the baseline, over the problems that the two have.

use serde::Serialize;

use super::groups::Cells;
use super::log_gap::{log_gap, mean_over};
use super::options::{AnalysisError, AnalysisOptions};
use super::runs::RunSet;
use super::significance::judged;
use crate::statistics::summary::standard_error;
use crate::statistics::verdict::{Judgement, Verdict};

/// What a test says of one contestant beside another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It is better, at the level of the analysis.
    Better,
    /// It is worse, at the level of the analysis.
    Worse,
    /// The difference is inside the noise.
    None,
}

/// One contestant against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairTest {
    /// Index of the contestant.
    pub contestant: usize,
    /// How many problems both have.
    pub problems: usize,
    /// Mean over problems of its log10 gap minus that of the baseline; below 0 it is better.
    pub difference: f64,
    /// Standard error of `difference` over problems; `None` with fewer than 2.
    pub standard_error: Option<f64>,
    /// Lower end of the bootstrap interval of `difference`, problems drawn anew; its coverage is 1 less the level of the
    /// analysis.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// On how many problems its log10 gap is smaller.
    pub wins: usize,
    /// On how many it is greater.
    pub losses: usize,
    /// Two-sided p-value of Wilcoxon's signed-rank test; 1 where all differences are 0.
    pub p_value: f64,
    /// The same after Holm's correction for the number of contestants tested.
    pub adjusted_p: f64,
    /// Matched-pairs rank-biserial correlation, in [-1, 1]; below 0 it is better.
    pub effect: f64,
    /// Better or worse if `adjusted_p` is below the level of the analysis, and `effect` and interval are on one side of 0.
    pub finding: Finding,
}

impl From<Verdict> for Finding {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Better => Self::Better,
            Verdict::Worse => Self::Worse,
            Verdict::NoDifference => Self::None,
        }
    }
}

/// In the order of the contestants.
pub(super) fn pair_tests(
    set: &RunSet<'_>,
    cells: &Cells<'_>,
    evaluations: usize,
    options: &AnalysisOptions,
) -> Result<Vec<PairTest>, AnalysisError> {
    let (mut contestants, mut comparisons) = (Vec::new(), Vec::new());
    for contestant in (0..set.contestants.len()).filter(|&contestant| contestant != set.baseline) {
        let pair = [contestant, set.baseline];
        let mut differences = Vec::new();
        for problem in cells.common_problems(&pair, evaluations) {
            let runs = cells.paired(&pair, problem, evaluations);
            let of = |index: usize| mean_over(&runs[index], |run| log_gap(run, set, evaluations, options));
            differences.push(of(0) - of(1));
        }
        if !differences.is_empty() {
            contestants.push(contestant);
            comparisons.push(differences);
        }
    }
    let judgements = judged(&comparisons, options)?;
    let tests = contestants.into_iter().zip(&comparisons).zip(judgements);
    Ok(tests.map(|((contestant, differences), judgement)| pair_test(contestant, differences, &judgement)).collect())
}

fn pair_test(contestant: usize, differences: &[f64], judgement: &Judgement) -> PairTest {
    PairTest {
        contestant,
        problems: differences.len(),
        difference: judgement.mean_difference,
        standard_error: standard_error(differences),
        low: judgement.interval.low,
        high: judgement.interval.high,
        wins: differences.iter().filter(|difference| **difference < 0.0).count(),
        losses: differences.iter().filter(|difference| **difference > 0.0).count(),
        p_value: judgement.wilcoxon.p,
        adjusted_p: judgement.adjusted_p,
        effect: judgement.wilcoxon.rank_biserial,
        finding: judgement.verdict.into(),
    }
}
