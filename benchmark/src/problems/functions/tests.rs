use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::TrialId;

use super::*;
use crate::problem::EvaluationOutcome;
use crate::problems::descent::{descend, starts};

/// The suite and the additional function.
fn all() -> Vec<TestFunction> {
    [classic(), vec![training_recipe()]].concat()
}

#[test]
fn every_minimizer_is_in_the_space_and_has_the_optimal_value() {
    for function in all() {
        assert!(!function.minimizers().is_empty());
        for point in function.minimizers() {
            assert_eq!(function.statement().search_space().check(point), Ok(()), "{}", function.name());
            let excess = function.value(point) - function.optimum();
            assert!(excess.abs() < 1e-9, "{}: {excess:e} at {point:?}", function.name());
        }
    }
}

#[test]
fn no_descent_goes_below_the_optimum() {
    let functions = all();
    for function in functions.iter().filter(|function| function.statement().search_space().cardinality().is_none()) {
        let encoding = Encoding::new(function.statement().search_space());
        let count = if encoding.dimensions() <= 3 { 256 } else { 64 };
        let mut reached = 0;
        for start in starts(&encoding, count, function.minimizers()) {
            let (point, value) = descend(&|point| function.value(point), &encoding, start, 0.1);
            let excess = value - function.optimum();
            assert!(excess > -1e-9, "{}: {value:?} at {point:?}", function.name());
            reached += usize::from(excess < 1e-6);
        }
        assert!(reached > 0, "{}: no descent reached the optimum", function.name());
    }
}

#[test]
fn the_optimum_of_the_network_recipe_is_found_by_enumeration() {
    let function = network_recipe();
    let encoding = Encoding::new(function.statement().search_space());
    let numbering = encoding.numbering().unwrap();
    assert_eq!(numbering.size(), Some(2304));
    let values = (0..2304).map(|index| function.value(&encoding.point_at(&numbering.ordinals(index))));
    let optimal = values.filter(|&value| value <= function.optimum() + 1e-9).count();
    assert_eq!(optimal, function.minimizers().len());
}

#[test]
fn no_minimizer_is_in_the_middle_of_a_range() {
    for function in classic() {
        let encoding = Encoding::new(function.statement().search_space());
        for minimizer in function.minimizers() {
            for coordinate in encoding.encode(minimizer).unwrap() {
                assert!((coordinate - 0.5).abs() > 1e-3, "{}: {coordinate} of {minimizer:?}", function.name());
            }
        }
    }
}

/// Molga and Smutnicki, Test functions for optimization needs, 2005, give -4.687 and -9.66; the digits
/// for 2 dimensions are those of Surjanovic and Bingham.
#[test]
fn the_optima_of_michalewicz_equal_the_published_ones() {
    for (dimensions, published) in [(2, -1.8013), (5, -4.687658), (10, -9.66015)] {
        let optimum = michalewicz(dimensions).optimum();
        assert!((optimum - published).abs() < 5e-5, "{dimensions} dimensions: {optimum}");
    }
}

#[test]
fn values_at_other_points_equal_those_of_the_formulas() {
    let at = |function: TestFunction, x: &[f64]| function.value(&builders::point_of_doubles(x));
    assert!((at(goldstein_price(), &[0.0, 0.0]) - 600.0_f64.ln()).abs() < 1e-12);
    assert_eq!(at(rosenbrock(3), &[0.0, 0.0, 2.0]), 402.0);
    assert!((at(rastrigin(2), &[0.5, 1.0]) - 21.25).abs() < 1e-12);
    assert!((at(bohachevsky(), &[1.0, 1.0]) - 3.6).abs() < 1e-12);
    assert!((at(griewank(2), &[200.0, 0.0]) - (11.0 - 200.0_f64.cos())).abs() < 1e-12);
    assert_eq!(at(styblinski_tang(2), &[1.0, 2.0]), -24.0);
    assert!((at(six_hump_camel(), &[1.0, 1.0]) - (3.0 + 7.0 / 30.0)).abs() < 1e-12);
}

#[test]
fn the_suite_has_unique_names_and_noiseless_values() {
    let suite = classic();
    let mut names: Vec<_> = suite.iter().map(|problem| problem.name()).collect();
    assert!(names.iter().all(|name| !name.contains(' ')));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 27);
    let minimizer = branin().minimizers()[0].clone();
    let evaluation = suite[0].evaluate(&minimizer, Draw { seed: 1, trial: TrialId(1) });
    let EvaluationOutcome::Measured { observed, noiseless, constraints } = evaluation.outcome else {
        panic!("no values")
    };
    assert!((observed[0] - 0.397887357729738).abs() < 1e-9);
    assert_eq!((observed, constraints), (noiseless, vec![]));
}
