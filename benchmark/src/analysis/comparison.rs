//! Result of an analysis, the input of the reports.

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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Optimizer names, with the parts of the schedule in which their runs differ. All optimizer indices refer to this
    /// list.
    #[serde(rename = "contestants")]
    pub optimizers: Vec<String>,
    /// Index of the reference of all tests.
    pub baseline: usize,
    /// Index of random search, if it has runs.
    pub random: Option<usize>,
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
    /// Problems without any feasible result, as `suite/problem`; excluded from everything else.
    pub without_result: Vec<String>,
}

/// Results on a group of problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupComparison {
    pub suite: String,
    /// Number of parameters; `None` for all problems of a suite with several dimensions.
    pub dimension: Option<usize>,
    pub problems: usize,
    /// By increasing number of evaluations.
    pub checkpoints: Vec<Checkpoint>,
    pub curves: Vec<Curve>,
    pub target_curves: Vec<TargetCurve>,
    pub suggestion_times: Vec<SuggestionTime>,
    pub simulated_times: Vec<SimulatedTime>,
    /// Quality of the trials recommended to the user on noisy problems.
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

/// Filters `wanted` up to the largest budget shared by two optimizers, and appends that budget.
fn checkpoint_budgets(cells: &Cells<'_>, wanted: &[usize]) -> Vec<usize> {
    let (_, shared) = cells.budgets();
    let mut budgets: Vec<usize> =
        wanted.iter().copied().filter(|&evaluations| evaluations > 0 && evaluations <= shared).collect();
    budgets.push(shared);
    budgets.sort_unstable();
    budgets.dedup();
    budgets
}
