//! The result of an analysis: what reports render.

use serde::Serialize;

use super::checkpoint::{Checkpoint, checkpoint};
use super::curves::{Curve, TargetCurve, curves, target_curves};
use super::failures::{FailureSummary, failures};
use super::groups::{Cells, GroupKey, groups};
use super::options::{AnalysisError, AnalysisOptions};
use super::runs::RunSet;
use super::simulated_time::{SimulatedTime, simulated_times};
use super::suggestion_time::{SuggestionTime, suggestion_times};
use crate::record::RunRecord;

/// Optimizers compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Their names, with what the schedule of their runs has of its own; all indices of optimizers mean this list.
    #[serde(rename = "contestants")]
    pub optimizers: Vec<String>,
    /// Index of the one that the others are tested against.
    pub baseline: usize,
    /// Index of random search, if it takes part.
    pub random: Option<usize>,
    /// How many runs count.
    pub runs: usize,
    /// [`AnalysisOptions::floor`].
    pub floor: f64,
    /// [`AnalysisOptions::coarse_floor`].
    pub coarse_floor: f64,
    /// [`AnalysisOptions::significance`].
    pub significance: f64,
    /// [`AnalysisOptions::confidence`].
    pub confidence: f64,
    /// By suite: all of it, then by dimension.
    pub groups: Vec<GroupComparison>,
    /// Failures and limits.
    pub failures: Vec<FailureSummary>,
    /// Problems, as `suite/problem`, on which no run found anything feasible; they are left out of all else.
    pub without_result: Vec<String>,
}

/// Optimizers on a group of problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupComparison {
    /// The suite.
    pub suite: String,
    /// The number of parameters; `None`: all problems of a suite of several.
    pub dimension: Option<usize>,
    /// How many problems.
    pub problems: usize,
    /// By increasing number of evaluations.
    pub checkpoints: Vec<Checkpoint>,
    /// Best-so-far curves.
    pub curves: Vec<Curve>,
    /// Shares of targets reached.
    pub target_curves: Vec<TargetCurve>,
    /// Wall time of suggestions.
    pub suggestion_times: Vec<SuggestionTime>,
    /// Simulated time beside the baseline.
    pub simulated_times: Vec<SimulatedTime>,
}

/// Compares the optimizers of `records`.
///
/// # Errors
/// [`AnalysisError`]: no runs, a name without runs, a setting out of range.
pub fn compare_optimizers(records: &[RunRecord], options: &AnalysisOptions) -> Result<Comparison, AnalysisError> {
    let set = RunSet::new(records, options)?;
    let groups = groups(&set).iter().map(|group| group_comparison(&set, group, options)).collect::<Result<_, _>>()?;
    Ok(Comparison {
        failures: failures(&set.optimizers, &set.failed),
        baseline: set.baseline,
        random: set.random,
        runs: set.runs.len(),
        floor: options.floor,
        coarse_floor: options.coarse_floor,
        significance: options.significance,
        confidence: options.confidence,
        groups,
        without_result: set.without_result,
        optimizers: set.optimizers,
    })
}

fn group_comparison(
    set: &RunSet<'_>,
    group: &GroupKey,
    options: &AnalysisOptions,
) -> Result<GroupComparison, AnalysisError> {
    let cells = Cells::new(set, group);
    let optimizers = set.optimizers.len();
    let mut checkpoints = Vec::new();
    for evaluations in checkpoint_budgets(&cells, &options.checkpoints) {
        checkpoints.extend(checkpoint(set, &cells, evaluations, options)?);
    }
    Ok(GroupComparison {
        suite: group.suite.clone(),
        dimension: group.dimension,
        problems: group.problems.len(),
        checkpoints,
        curves: curves(set, &cells, options)?,
        target_curves: target_curves(set, &cells, options)?,
        suggestion_times: suggestion_times(&cells, optimizers),
        simulated_times: simulated_times(&cells, optimizers, set.baseline),
    })
}

/// Those of `wanted` that two optimizers reach, and the largest that two reach.
fn checkpoint_budgets(cells: &Cells<'_>, wanted: &[usize]) -> Vec<usize> {
    let (_, shared) = cells.budgets();
    let mut budgets: Vec<usize> =
        wanted.iter().copied().filter(|&evaluations| evaluations > 0 && evaluations <= shared).collect();
    budgets.push(shared);
    budgets.sort_unstable();
    budgets.dedup();
    budgets
}
