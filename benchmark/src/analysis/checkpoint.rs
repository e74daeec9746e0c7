//! Results after a given number of evaluations: gaps, scores, ranks and their tests.
//!
//! The unit of all tests is the problem: the log10 gaps of its seeds are averaged first.

use serde::Serialize;

use super::groups::Cells;
use super::log_gap::{log_gap, mean_over};
use super::options::{AnalysisError, AnalysisOptions};
use super::pairwise::{PairTest, pair_tests};
use super::runs::{Run, RunSet};
use super::significance::rank_test;
use tunesmith_statistics::score::normalized_score;
use tunesmith_statistics::summary::mean;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checkpoint {
    pub evaluations: usize,
    /// Number of problems on which all optimizers of `standings` have a result, the basis of means and ranks.
    pub problems: usize,
    /// Best mean rank first.
    pub standings: Vec<Standing>,
    /// Optimizers with results on fewer than half of the problems, which would leave few common ones. They appear only
    /// in `pairs`.
    pub partial: Vec<Partial>,
    /// `None` with fewer than 2 optimizers or problems.
    pub ranking: Option<Ranking>,
    /// Tests of each other optimizer against the baseline; empty if the baseline has no results.
    pub pairs: Vec<PairTest>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Index into [`super::Comparison::optimizers`].
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    pub runs: usize,
    /// Mean over problems of the mean over seeds of the log10 gap, floored at [`AnalysisOptions::floor`].
    pub mean_log_gap: f64,
    /// The same, floored at [`AnalysisOptions::coarse_floor`].
    pub coarse_mean_log_gap: f64,
    /// Mean [`normalized_score`] over problems of the mean loss: random search scores 0, the best known value 100.
    /// `None` without random search, or if no problem has a score.
    pub normalised_score: Option<f64>,
    /// Mean rank over problems; 1 is best.
    pub mean_rank: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Partial {
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    pub problems: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// p-value of the Friedman test.
    pub friedman_p: f64,
    /// Nemenyi's critical difference: mean ranks further apart than this differ significantly.
    pub critical_difference: f64,
    /// Groups of optimizers, by index, whose mean ranks do not differ significantly, by increasing rank. Each has at
    /// least two members; none is a subset of another.
    pub cliques: Vec<Vec<usize>>,
}

#[derive(Clone, Default)]
struct Column {
    runs: usize,
    coarse_log_gaps: Vec<f64>,
    scores: Vec<f64>,
}

/// Computes the results after `evaluations`; `None` if no optimizer has a result.
pub(super) fn checkpoint(
    set: &RunSet<'_>,
    cells: &Cells<'_>,
    evaluations: usize,
    options: &AnalysisOptions,
) -> Result<Option<Checkpoint>, AnalysisError> {
    let (optimizers, partial) = cells.coverage(evaluations);
    let problems = cells.common_problems(&optimizers, evaluations);
    if optimizers.is_empty() {
        return Ok(None);
    }
    // One row per problem, one column per optimizer.
    let mut log_gaps: Vec<Vec<f64>> = Vec::new();
    // By optimizer.
    let mut columns = vec![Column::default(); optimizers.len()];
    let random = set.random.and_then(|random| optimizers.iter().position(|&optimizer| optimizer == random));
    for &problem in &problems {
        let paired = cells.paired(&optimizers, problem, evaluations);
        let loss = |runs: &Vec<&Run<'_>>| mean_over(runs, |run| run.losses[evaluations - 1]);
        let random_loss = random.map(|random| loss(&paired[random]));
        log_gaps
            .push(paired.iter().map(|runs| mean_over(runs, |run| log_gap(run, set, evaluations, options))).collect());
        for (column, runs) in columns.iter_mut().zip(&paired) {
            let coarse_gap = |run: &Run<'_>| run.losses[evaluations - 1].max(options.coarse_floor).log10();
            column.coarse_log_gaps.push(mean_over(runs, coarse_gap));
            column.runs += runs.len();
            column.scores.extend(random_loss.and_then(|random_loss| normalized_score(loss(runs), random_loss, 0.0)));
        }
    }
    let rank_test = rank_test(&log_gaps, options.significance)?;
    let mut standings: Vec<Standing> = if problems.is_empty() {
        Vec::new()
    } else {
        let standing = |(index, (&optimizer, column)): (usize, (&usize, &Column))| Standing {
            optimizer,
            runs: column.runs,
            mean_log_gap: mean(&log_gaps.iter().map(|row| row[index]).collect::<Vec<f64>>()),
            coarse_mean_log_gap: mean(&column.coarse_log_gaps),
            normalised_score: (!column.scores.is_empty()).then(|| mean(&column.scores)),
            mean_rank: rank_test.mean_ranks[index],
        };
        optimizers.iter().zip(&columns).enumerate().map(standing).collect()
    };
    standings.sort_by(|one, other| one.mean_rank.total_cmp(&other.mean_rank));
    let name = |clique: &Vec<usize>| clique.iter().map(|&index| optimizers[index]).collect();
    let ranking = rank_test.difference.as_ref().map(|difference| Ranking {
        friedman_p: difference.friedman_p,
        critical_difference: difference.critical_difference,
        cliques: difference.cliques.iter().map(name).collect(),
    });
    Ok(Some(Checkpoint {
        evaluations,
        problems: problems.len(),
        standings,
        partial: partial.into_iter().map(|(optimizer, problems)| Partial { optimizer, problems }).collect(),
        ranking,
        pairs: pair_tests(set, cells, evaluations, options)?,
    }))
}
