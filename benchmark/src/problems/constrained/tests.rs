use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::TrialId;

use super::*;
use crate::problem::EvaluationOutcome;
use crate::problem::{Draw, Problem};
use crate::problems::descent::{descend, starts};

#[test]
fn every_minimizer_is_feasible_and_has_the_optimal_value() {
    for function in constrained() {
        let point = &function.minimizers()[0];
        assert_eq!(function.statement().search_space().check(point), Ok(()), "{}", function.name());
        let at = function.value(point);
        assert!(at.is_feasible(), "{}: {:?}", function.name(), at.constraints);
        let excess = at.value - function.optimum();
        assert!(excess.abs() < 1e-9 * function.optimum().abs().max(1.0), "{}: {excess:e}", function.name());
    }
}

#[test]
fn no_feasible_descent_goes_below_the_optimum() {
    for function in constrained() {
        let encoding = Encoding::new(function.statement().search_space());
        let scale = function.optimum().abs();
        // Worse than any feasible point, and increasing with the violation.
        let penalized = |point: &ParameterValues| {
            let at = function.value(point);
            let violation: f64 = at.constraints.iter().map(|constraint| constraint.max(0.0)).sum();
            if violation > 0.0 { 1e9 + 1e6 * violation } else { at.value }
        };
        let (mut feasible, mut best) = (0, f64::INFINITY);
        for start in starts(&encoding, 64, function.minimizers()) {
            let (point, value) = descend(&penalized, &encoding, start, 0.1);
            if value >= 1e9 {
                continue;
            }
            feasible += 1;
            best = best.min(value);
            assert!(value > function.optimum() - 1e-6 * scale, "{}: {value} at {point:?}", function.name());
        }
        assert!(feasible >= 32, "{}: {feasible} descents found feasible points", function.name());
        assert!(best < function.optimum() + 0.02 * scale, "{}: {best} is the best found", function.name());
    }
}

#[test]
fn optima_equal_the_published_ones() {
    // Gramacy et al. 2016 for the first; papers on these versions since 2005 for the last four.
    let published = [0.5998, -2.0, 0.2532, 0.012665, 6059.714, 1.724852, 2994.471];
    for (function, published) in constrained().iter().zip(published) {
        let relative = (function.optimum() - published) / published;
        assert!(relative.abs() < 3e-4, "{}: {}", function.name(), function.optimum());
    }
}

#[test]
fn evaluations_contain_the_constraints() {
    let suite = constrained();
    let numbers: Vec<_> = suite
        .iter()
        .zip(constrained())
        .map(|(problem, function)| {
            let draw = Draw { seed: 1, trial: TrialId(1) };
            let EvaluationOutcome::Measured { observed, noiseless, constraints } =
                problem.evaluate(&function.minimizers()[0], draw).outcome
            else {
                panic!("no values")
            };
            assert_eq!((observed.len(), &observed), (1, &noiseless), "{}", problem.name());
            assert_eq!(problem.profile().constraints, constraints.len(), "{}", problem.name());
            (problem.name().to_owned(), constraints.len())
        })
        .collect();
    let stated = [
        ("gramacy", 2),
        ("gardner1", 1),
        ("gardner2", 1),
        ("tension_spring", 4),
        ("pressure_vessel", 3),
        ("welded_beam", 7),
        ("speed_reducer", 11),
    ];
    assert_eq!(numbers, stated.map(|(name, count)| (name.to_owned(), count)));
    // The middle of the square violates Gramacy's wavy constraint.
    let at = gramacy().value(&builders::point_of_doubles(&[0.0, 0.5]));
    assert_eq!(at, Constrained { value: 0.5, constraints: vec![0.5 - 0.5 * (-std::f64::consts::TAU).sin(), -1.25] });
}
