//! The statistics of the analysis, in the shapes in which it has its numbers. Smaller is better throughout.

use rand::RngExt;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_algorithms::rng::stream;

use super::options::AnalysisOptions;
use crate::statistics::StatisticsError;
use crate::statistics::bootstrap::Interval;
use crate::statistics::friedman::friedman;
use crate::statistics::nemenyi::{critical_difference, groups};
use crate::statistics::ranks::mean_ranks;
use crate::statistics::summary::{mean, quantile};
use crate::statistics::verdict::{Judgement, VerdictOptions, judge};

/// Mean ranks, and whether they differ.
pub(super) struct RankTest {
    /// By contestant; 1 is best. Empty without problems.
    pub(super) mean_ranks: Vec<f64>,
    /// `None` with fewer than 2 contestants or problems.
    pub(super) difference: Option<RankDifference>,
}

/// See [`super::Ranking`].
pub(super) struct RankDifference {
    pub(super) friedman_p: f64,
    pub(super) critical_difference: f64,
    /// Columns.
    pub(super) cliques: Vec<Vec<usize>>,
}

/// `rows` has one row for each problem with one value for each contestant.
pub(super) fn rank_test(rows: &[Vec<f64>], significance: f64) -> Result<RankTest, StatisticsError> {
    let Some(contestants) = rows.first().map(Vec::len) else {
        return Ok(RankTest { mean_ranks: Vec::new(), difference: None });
    };
    let mean_ranks = mean_ranks(rows)?;
    if contestants < 2 || rows.len() < 2 {
        return Ok(RankTest { mean_ranks, difference: None });
    }
    let critical_difference = critical_difference(contestants, rows.len(), significance)?;
    let difference = RankDifference {
        friedman_p: friedman(rows)?.p,
        critical_difference,
        cliques: groups(&mean_ranks, critical_difference)?,
    };
    Ok(RankTest { mean_ranks, difference: Some(difference) })
}

/// Comparisons that are made together, each of differences by problem.
pub(super) fn judged(comparisons: &[Vec<f64>], options: &AnalysisOptions) -> Result<Vec<Judgement>, StatisticsError> {
    judge(comparisons, VerdictOptions { alpha: options.significance, resamples: options.resamples, seed: options.seed })
}

/// Percentile bootstrap interval of the mean over strata of the mean of each, with values drawn anew within each.
///
/// `strata` are not empty.
pub(super) fn stratified_interval(strata: &[Vec<f64>], options: &AnalysisOptions) -> Option<Interval> {
    let mut random = stream(options.seed, TrialId(0), "stratified bootstrap");
    let means: Vec<f64> = (0..options.resamples)
        .map(|_| {
            let mut sum = 0.0;
            for values in strata {
                let drawn: f64 = (0..values.len()).map(|_| values[random.random_range(0..values.len())]).sum();
                sum += drawn / values.len() as f64;
            }
            sum / strata.len() as f64
        })
        .collect();
    let tail = (1.0 - options.confidence) / 2.0;
    let (low, high) = (quantile(&means, tail)?, quantile(&means, 1.0 - tail)?);
    // Interpolation may go past the mean of values that are all the same in the last digit.
    let mean = mean(&strata.iter().map(|values| mean(values)).collect::<Vec<f64>>());
    Some(Interval { low: low.min(mean), high: high.max(mean) })
}
