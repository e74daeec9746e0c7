use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_algorithms::sampling::sobol_point;

use super::*;
use crate::problem::{Draw, EvaluationOutcome, Problem};
use crate::problems::descent::{descend, starts};
use crate::problems::functions::builders::point_of_doubles;

#[test]
fn about_half_of_each_space_fails() {
    let shares: Vec<(String, f64)> = failing()
        .iter()
        .map(|function| {
            let encoding = Encoding::new(function.statement().search_space());
            let fails = |id: &u64| function.value(&encoding.decode(&sobol_point(&encoding, 1, TrialId(*id)))).is_none();
            let failed = (1..=2000).filter(fails).count();
            (function.name().to_owned(), failed as f64 / 2000.0)
        })
        .collect();
    assert!(shares.iter().all(|(_, share)| (0.4..=0.65).contains(share)), "{shares:?}");
}

#[test]
fn every_minimizer_has_the_optimal_value_and_no_descent_goes_below() {
    for function in failing() {
        let (name, point) = (function.name(), &function.minimizers()[0]);
        assert_eq!(function.statement().search_space().check(point), Ok(()), "{name}");
        let value = function.value(point).unwrap_or_else(|| panic!("{name}: the minimizer fails"));
        assert!((value - function.optimum()).abs() < 1e-6, "{name}: {value}");
        let encoding = Encoding::new(function.statement().search_space());
        let penalized = |point: &ParameterValues| function.value(point).unwrap_or(1e9);
        let mut best = f64::INFINITY;
        // The search keeps the category levels of its start; one start has those of the minimizer.
        let exact = encoding.encode(point).unwrap();
        for start in starts(&encoding, 32, std::slice::from_ref(point)).into_iter().chain([exact]) {
            let (_, value) = descend(&penalized, &encoding, start, 0.1);
            best = best.min(value);
        }
        assert!(best > function.optimum() - 1e-6 && best < function.optimum() + 1e-3, "{name}: {best}");
    }
}

#[test]
fn evaluation_of_a_failing_point_has_no_values() {
    let problem = half_space(2);
    let draw = Draw { seed: 1, trial: TrialId(1) };
    // The centre of the squares is beyond the plane; the opposite corner is not.
    let at = |x: f64, y: f64| problem.evaluate(&point_of_doubles(&[x, y]), draw).outcome;
    assert!(matches!(at(1.0, 0.0), EvaluationOutcome::Infeasible { .. }));
    assert!(matches!(at(0.0, 1.0), EvaluationOutcome::Measured { .. }));
}
