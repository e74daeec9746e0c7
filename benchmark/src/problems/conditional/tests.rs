use std::collections::BTreeSet;

use tunesmith_algorithms::encoding::Encoding;

use super::*;
use crate::problem::Problem;
use crate::problems::descent::{descend, starts};

#[test]
fn every_minimizer_is_in_the_space_and_has_the_optimal_value() {
    for function in conditional() {
        let space = function.statement().search_space();
        assert!(space.is_conditional(), "{}", function.name());
        for point in function.minimizers() {
            assert_eq!(space.check(point), Ok(()), "{}", function.name());
            let excess = function.value(point) - function.optimum();
            assert!(excess.abs() < 1e-9, "{}: {excess:e} at {point:?}", function.name());
            let encoding = Encoding::new(space);
            let encoded = encoding.encode(point).unwrap();
            for (feature, active) in encoding.active(&encoded).into_iter().enumerate() {
                let coordinate = encoded[feature];
                assert!(!active || (coordinate - 0.5).abs() > 1e-3, "{}: {coordinate} of {point:?}", function.name());
            }
        }
    }
}

#[test]
fn no_descent_in_any_branch_goes_below_the_optimum() {
    for function in conditional() {
        let encoding = Encoding::new(function.statement().search_space());
        let mut reached = 0;
        let mut branches = BTreeSet::new();
        for start in starts(&encoding, 128, function.minimizers()) {
            let (point, value) = descend(&|point| function.value(point), &encoding, start, 0.1);
            branches.insert(encoding.active(&encoding.encode(&point).unwrap()));
            let excess = value - function.optimum();
            assert!(excess > -1e-9, "{}: {value:?} at {point:?}", function.name());
            reached += usize::from(excess < 1e-6);
        }
        assert!(reached > 0, "{}: no descent reached the optimum", function.name());
        assert!(branches.len() >= 3, "{}: descents ended in {} branches", function.name(), branches.len());
    }
}

#[test]
fn the_optimal_tree_is_found_by_enumeration() {
    let function = trees();
    let encoding = Encoding::new(function.statement().search_space());
    let numbering = encoding.numbering().unwrap();
    // No booster; 4 penalties; 3 shallow depths, and 5 deeper ones with growth by level or with 10 numbers of leaves; 5
    // rounds each.
    assert_eq!(numbering.size(), Some((1 + 4 + 3 + 5 * 11) * 5));
    let values: Vec<f64> =
        (0..315).map(|index| function.value(&encoding.point_at(&numbering.ordinals(index)))).collect();
    assert_eq!(values.iter().filter(|&&value| value <= function.optimum() + 1e-9).count(), 1);
    assert!(values.iter().all(|&value| value >= function.optimum()));
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<String> = conditional().iter().map(|problem| problem.name().to_owned()).collect();
    assert_eq!(names.len(), 6);
}
