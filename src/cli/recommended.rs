//! The trial that a model of the results recommends.

use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::insight::{InsightModel, Recommendation};
use tunesmith_algorithms::problem::{CompletedTrial, PendingTrial};

use tunesmith_domain::{Study, Trial};
use tunesmith_service::search_policy;

/// Returns the tried point with the best expected result of the first metric, by a Gaussian process. With noise it is a better choice
/// than the best result, which is also the luckiest (docs/experiments/016). `None` if there are too few results for a model.
pub(super) fn recommended(study: &Study, trials: &[Trial]) -> Option<Recommendation> {
    let (completed, pending) = history(study, trials);
    let metric = &study.problem.metrics()[0].name;
    let model = InsightModel::new(&study.problem, History { completed: &completed, pending: &pending }, metric).ok()?;
    model.recommendation()
}

/// Converts the trials of the study to the types of the algorithms.
pub(super) fn history(study: &Study, trials: &[Trial]) -> (Vec<CompletedTrial>, Vec<PendingTrial>) {
    let (mut completed, mut pending) = (Vec::new(), Vec::new());
    for trial in trials {
        let (id, parameters) = (trial.id, trial.parameters.clone());
        if trial.state.is_final() {
            let outcome = search_policy::outcome(trial, &study.problem);
            completed.push(CompletedTrial { id, parameters, outcome });
        } else {
            pending.push(PendingTrial { id, parameters });
        }
    }
    (completed, pending)
}
