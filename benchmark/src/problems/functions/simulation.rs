//! Sequential studies of test functions.

use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::problem::{CompletedTrial, TrialId, TrialOutcome};

use super::TestFunction;

/// Runs `designer` on `function` for at most `trials` trials, fewer if the space is exhausted, and returns the values
/// of the function in the order of the trials.
///
/// # Errors
/// The error of the designer.
pub fn simulate(designer: &dyn Designer, function: &TestFunction, trials: usize) -> Result<Vec<f64>, DesignerError> {
    let mut completed = Vec::with_capacity(trials);
    let mut values = Vec::with_capacity(trials);
    for index in 0..trials {
        let id = TrialId::FIRST.offset(index as u64);
        let history = History { completed: &completed, pending: &[] };
        let Some(suggestion) = designer.suggest(history, SuggestRequest::one(id))?.pop() else {
            break;
        };
        let parameters = suggestion.parameters;
        let value = function.value(&parameters);
        values.push(value);
        let outcome = TrialOutcome::Measured { values: vec![value], stopped_early: false };
        completed.push(CompletedTrial { id, parameters, outcome });
    }
    Ok(values)
}

/// Returns the smallest value so far after each trial; shape as `values`. Test functions are minimised.
pub fn best_so_far(values: &[f64]) -> Vec<f64> {
    let mut best = f64::INFINITY;
    let keep_best = |&value: &f64| {
        best = best.min(value);
        best
    };
    values.iter().map(keep_best).collect()
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::designers::{QuasiRandomSearch, RandomSearch};

    use super::*;
    use crate::problem::Problem;
    use crate::problems::functions::{branin, network_recipe};

    #[test]
    fn a_study_of_a_finite_space_ends_with_its_optimum() {
        let function = network_recipe();
        let values = simulate(&RandomSearch::new(function.statement(), 1), &function, 3_000).unwrap();
        assert_eq!(values.len(), 2_304);
        assert!((best_so_far(&values)[2_303] - function.optimum()).abs() < 1e-12);
    }

    #[test]
    fn more_trials_come_closer_to_the_optimum() {
        let function = branin();
        let values = simulate(&QuasiRandomSearch::new(function.statement(), 1), &function, 512).unwrap();
        let best = best_so_far(&values);
        assert!(best.is_sorted_by(|a, b| a >= b));
        assert!(best[511] - function.optimum() < 0.5, "{}", best[511]);
        assert!(best[511] < best[7]);
    }
}
