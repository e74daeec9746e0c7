//! Statistical tests of the analysis. Smaller values are better.

use super::options::AnalysisOptions;
use tunesmith_statistics::StatisticsError;
use tunesmith_statistics::decision::{Assessment, DecisionOptions, assess};
use tunesmith_statistics::friedman::friedman;
use tunesmith_statistics::nemenyi::{critical_difference, groups};
use tunesmith_statistics::ranks::mean_ranks;

pub(super) struct RankTest {
    /// Mean rank of each optimizer; 1 is best. Empty without problems.
    pub(super) mean_ranks: Vec<f64>,
    /// `None` with fewer than 2 optimizers or problems.
    pub(super) difference: Option<RankDifference>,
}

pub(super) struct RankDifference {
    pub(super) friedman_p: f64,
    pub(super) critical_difference: f64,
    /// Groups of column indices.
    pub(super) cliques: Vec<Vec<usize>>,
}

/// Ranks the optimizers and tests their differences. `rows` has one row per problem with one value per optimizer.
pub(super) fn rank_test(rows: &[Vec<f64>], significance: f64) -> Result<RankTest, StatisticsError> {
    let Some(optimizers) = rows.first().map(Vec::len) else {
        return Ok(RankTest { mean_ranks: Vec::new(), difference: None });
    };
    if optimizers < 2 || rows.len() < 2 {
        return Ok(RankTest { mean_ranks: mean_ranks(rows)?, difference: None });
    }
    let test = friedman(rows)?;
    let critical_difference = critical_difference(optimizers, rows.len(), significance)?;
    let cliques = groups(&test.mean_ranks, critical_difference)?;
    let difference = RankDifference { friedman_p: test.p, critical_difference, cliques };
    Ok(RankTest { mean_ranks: test.mean_ranks, difference: Some(difference) })
}

/// Assesses simultaneous comparisons; each contains one difference per problem.
pub(super) fn assess_comparisons(
    comparisons: &[Vec<f64>],
    options: &AnalysisOptions,
) -> Result<Vec<Assessment>, StatisticsError> {
    assess(
        comparisons,
        DecisionOptions { alpha: options.significance, resamples: options.resamples, seed: options.seed },
    )
}
