use std::collections::BTreeSet;

use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_algorithms::sampling::sobol_point;

use super::contamination::{Chains, STAGES};
use super::*;

#[test]
fn names_have_the_number_of_parameters_and_do_not_depend_on_the_instance() {
    let names: Vec<String> = binary().iter().map(|make| make(1).name().to_owned()).collect();
    let expected = [
        "autocorrelation/d40",
        "autocorrelation/d40/exchanged",
        "contamination/d21",
        "contamination/d21/exchanged",
        "switches/d43",
    ];
    assert_eq!(names, expected);
    for (make, name) in binary().iter().zip(names) {
        let problem = make(7);
        assert_eq!(problem.name(), name);
        let dimensions: usize = name.split('/').nth(1).unwrap()[1..].parse().unwrap();
        assert_eq!(problem.statement().search_space().parameters().len(), dimensions);
    }
}

#[test]
fn every_minimizer_has_the_optimal_value_and_no_sample_is_better() {
    for problem in binary().iter().flat_map(|make| [make(1), make(2)]) {
        let (name, minimizer) = (problem.name(), &problem.minimizers()[0]);
        assert_eq!(problem.statement().search_space().check(minimizer), Ok(()), "{name}");
        assert!((problem.value(minimizer) - problem.optimum()).abs() < 1e-12, "{name}");
        let encoding = Encoding::new(problem.statement().search_space());
        for id in 1..=2_000 {
            let value = problem.value(&encoding.decode(&sobol_point(&encoding, 1, TrialId(id))));
            assert!(value > problem.optimum() - 1e-12, "{name}: {value}");
        }
    }
}

#[test]
fn exchanged_levels_move_the_optimum_with_the_instance() {
    let optima = |make: fn(u64) -> TestFunction| -> usize {
        (1..=5).map(|instance| format!("{:?}", make(instance).minimizers()[0])).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(binary().map(optima), [1, 5, 1, 5, 5]);
}

/// Energies of [table 1](https://arxiv.org/abs/1512.02475), and of equal signs: the sum of the first 39 squares.
#[test]
fn merit_factors_are_those_of_the_published_energies() {
    let problem = autocorrelation();
    assert!((problem.optimum() + 1600.0 / (2.0 * 108.0)).abs() < 1e-12);
    let equal = problem.minimizers()[0].keys().map(|name| (name.clone(), ParameterValue::Categorical("a".into())));
    assert!((problem.value(&equal.collect()) + 1600.0 / (2.0 * 20_540.0)).abs() < 1e-12);
}

/// Least cost of the stages from `stage` on, with the stages that prevent contamination, by enumeration.
fn cheapest(chains: &Chains, stage: usize, shares: &[f64; 100]) -> (f64, u32) {
    if stage == STAGES {
        return (0.0, 0);
    }
    let with = |prevents: bool| {
        let (cost, after) = chains.step(stage, shares, prevents);
        let (rest, bits) = cheapest(chains, stage + 1, &after);
        (cost + rest, bits | u32::from(prevents) << stage)
    };
    let (one, other) = (with(false), with(true));
    if other.0 < one.0 { other } else { one }
}

#[test]
fn the_optimum_of_contamination_is_found_by_enumeration() {
    let chains = Chains::new();
    let (cost, bits) = cheapest(&chains, 0, &chains.initial);
    let problem = contamination();
    assert!((problem.optimum() - cost).abs() < 1e-9, "{} at {bits:#b}", cost);
}
