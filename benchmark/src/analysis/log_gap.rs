//! Gap of a run to the best known value, on the logarithmic scale of all comparisons.

use super::options::AnalysisOptions;
use super::runs::{Run, RunSet};
use tunesmith_statistics::summary::mean;

/// Log10 gap of a run after `evaluations`, at least the floor of its problem.
pub(super) fn log_gap(run: &Run<'_>, set: &RunSet<'_>, evaluations: usize, options: &AnalysisOptions) -> f64 {
    let floor = if set.problems[run.problem].is_exact { options.floor } else { options.coarse_floor };
    run.losses[evaluations - 1].max(floor).log10()
}

/// Mean of `number` over the runs of one optimizer on one problem; NaN without runs.
pub(super) fn mean_over(runs: &[&Run<'_>], number: impl Fn(&Run<'_>) -> f64) -> f64 {
    mean(&runs.iter().map(|run| number(run)).collect::<Vec<f64>>())
}
