//! The result of an analysis, which reports render.

use serde::Serialize;

use super::checkpoint::{Checkpoint, checkpoint};
use super::curves::{Curve, TargetCurve, curves, target_curves};
use super::failures::{FailureSummary, failures};
use super::groups::{Cells, GroupKey, groups};
use super::handed_out::{HandedOut, handed_out};
use super::options::{AnalysisError, AnalysisOptions};
use super::runs::RunSet;
use super::simulated_time::{SimulatedTime, simulated_times};
use super::suggestion_time::{SuggestionTime, suggestion_times};
use crate::record::RunRecord;

/// A comparison of optimizers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Names of the optimizers, with the parts of the schedule in which their runs differ. All indices of optimizers
    /// refer to this list.
    #[serde(rename = "contestants")]
    pub optimizers: Vec<String>,
    /// Index of the optimizer that the others are tested against.
    pub baseline: usize,
    /// Index of random search, if it has runs.
    pub random: Option<usize>,
    /// Number of runs.
    pub runs: usize,
    /// [`AnalysisOptions::floor`].
    pub floor: f64,
    /// [`AnalysisOptions::coarse_floor`].
    pub coarse_floor: f64,
    /// [`AnalysisOptions::significance`].
    pub significance: f64,
    /// [`AnalysisOptions::confidence`].
    pub confidence: f64,
    /// By suite: first the whole suite, then each dimension.
    pub groups: Vec<GroupComparison>,
    /// Failures and unsupported problems.
    pub failures: Vec<FailureSummary>,
    /// Problems, as `suite/problem`, without any feasible result; they are excluded from all else.
    pub without_result: Vec<String>,
}

/// The results on a group of problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupComparison {
    /// The suite.
    pub suite: String,
    /// The number of parameters; `None` for all problems of a suite with several.
    pub dimension: Option<usize>,
    /// Number of problems.
    pub problems: usize,
    /// By increasing number of evaluations.
    pub checkpoints: Vec<Checkpoint>,
    /// Best-so-far curves.
    pub curves: Vec<Curve>,
    /// Shares of reached targets.
    pub target_curves: Vec<TargetCurve>,
    /// Wall time of suggestions.
    pub suggestion_times: Vec<SuggestionTime>,
    /// Simulated time relative to the baseline.
    pub simulated_times: Vec<SimulatedTime>,
    /// What a user would be given of noisy problems.
    pub handed_out: Vec<HandedOut>,
}

/// Compares the optimizers of `records`.
///
/// # Errors
/// [`AnalysisError`] if there are no runs, a name has no runs, or a setting is out of range.
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
        simulated_times: simulated_times(&cells, optimizers, set.baseline, options.coarse_floor),
        handed_out: handed_out(set, &cells, group),
    })
}

/// The values of `wanted` up to the largest budget that two optimizers share, and that budget.
fn checkpoint_budgets(cells: &Cells<'_>, wanted: &[usize]) -> Vec<usize> {
    let (_, shared) = cells.budgets();
    let mut budgets: Vec<usize> =
        wanted.iter().copied().filter(|&evaluations| evaluations > 0 && evaluations <= shared).collect();
    budgets.push(shared);
    budgets.sort_unstable();
    budgets.dedup();
    budgets
}
