use std::collections::BTreeSet;

use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::{ParameterSpec, ParameterValue, TrialId};
use tunesmith_algorithms::sampling::sobol_point;

use super::categories::{chain_cost, cheapest_chain};
use super::*;
use crate::problems::functions::TestFunction;

fn functions(instance: u64) -> Vec<TestFunction> {
    vec![ackley53(instance), chain(instance), large_clauses(instance), hidden_hartmann6(instance)]
}

#[test]
fn names_are_unique_and_do_not_depend_on_the_instance() {
    let names =
        |instance: u64| -> Vec<String> { large().iter().map(|make| make(instance).name().to_owned()).collect() };
    let first = names(1);
    assert_eq!(first, names(9));
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len());
    assert_eq!(
        first,
        [
            "ackley/d53",
            "chain/d25",
            "clauses/d60",
            "hartmann6/d100",
            "f01/d50",
            "f08/d50",
            "f15/d50",
            "f01/d100",
            "f08/d100",
            "f15/d100"
        ]
    );
    for (make, name) in large().into_iter().zip(first) {
        let problem = make(1);
        let dimensions: usize = name.rsplit_once("/d").unwrap().1.parse().unwrap();
        assert_eq!(problem.statement().search_space().parameters().len(), dimensions, "{name}");
    }
}

#[test]
fn every_minimizer_has_the_optimal_value_and_its_neighbors_are_not_better() {
    for function in (1..=3).flat_map(functions) {
        let (name, point) = (function.name(), &function.minimizers()[0]);
        let space = function.statement().search_space();
        assert_eq!(space.check(point), Ok(()), "{name}");
        assert!((function.value(point) - function.optimum()).abs() < 1e-7, "{name}: {}", function.value(point));
        let encoding = Encoding::new(space);
        let best = encoding.encode(point).unwrap();
        let others = (1..=200).map(|id| sobol_point(&encoding, 1, TrialId(id)));
        let neighbors = (0..best.len()).map(|j| {
            let mut neighbor = best.clone();
            let other = sobol_point(&encoding, 2, TrialId(j as u64 + 1));
            neighbor[j] = other[j];
            neighbor
        });
        for other in others.chain(neighbors) {
            let value = function.value(&encoding.decode(&other));
            assert!(value >= function.optimum() - 1e-7, "{name}: {value}");
        }
    }
}

#[test]
fn instances_have_different_optima() {
    for (first, second) in functions(1).into_iter().zip(functions(2)) {
        assert!(second.value(&first.minimizers()[0]) > second.optimum() + 0.01, "{}", first.name());
    }
}

#[test]
fn ackley53_has_the_published_values() {
    // All categories wrong at the optimal numbers: mean of squares 50/53, cosines 1.
    let function = ackley53(4);
    let mut point = function.minimizers()[0].clone();
    for value in point.values_mut() {
        if let ParameterValue::Categorical(level) = value {
            *level = if level == "on" { "off".to_owned() } else { "on".to_owned() };
        }
    }
    let expected = 20.0 - 20.0 * (-0.2 * (50.0_f64 / 53.0).sqrt()).exp();
    assert!((function.value(&point) - expected).abs() < 1e-12, "{}", function.value(&point));
    // A number at distance 1/2 has the cosine -1.
    let mut point = function.minimizers()[0].clone();
    if let Some(ParameterValue::Double(x)) = point.get_mut("x02") {
        *x += if *x > 0.0 { -0.5 } else { 0.5 };
    }
    let e = std::f64::consts::E;
    let expected = 20.0 + e - 20.0 * (-0.2 * (0.25_f64 / 53.0).sqrt()).exp() - (51.0_f64 / 53.0).exp();
    assert!((function.value(&point) - expected).abs() < 1e-12, "{}", function.value(&point));
}

#[test]
fn the_cheapest_chain_is_that_of_an_enumeration() {
    for instance in 1..=5 {
        let all = (0..5_usize.pow(6)).map(|number| {
            let levels: Vec<usize> = (0..6).map(|choice| number / 5_usize.pow(choice) % 5).collect();
            (chain_cost(instance, &levels), levels)
        });
        let expected = all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert_eq!(cheapest_chain(instance, 6), expected);
    }
}

#[test]
fn functions_of_bbob_in_100_dimensions_have_their_optimum_at_the_minimizer() {
    for function in [1, 8, 15] {
        let problem = large_bbob(function, 100, 3);
        let best = problem.minimizer().to_vec();
        assert!((problem.value(&best) - problem.optimum()).abs() < 1e-9, "f{function}");
        for j in [0, 50, 99] {
            let mut point = best.clone();
            point[j] += 0.3;
            assert!(problem.value(&point) > problem.optimum() + 1e-3, "f{function}");
        }
        let names: Vec<&str> =
            problem.statement().search_space().parameters().iter().map(ParameterSpec::name).collect();
        assert_eq!((names[0], names[99]), ("x001", "x100"));
    }
}
