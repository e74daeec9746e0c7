use std::collections::BTreeSet;

use super::interactions::{FEW, MANY_LEVELS, MIXED_LEVELS, PAIR_LEVELS, few_sum, pair_sum, rest_term};
use super::*;
use crate::problem::Problem;

/// Levels with the smallest value, and the value.
fn least<const N: usize>(counts: [usize; N], value: impl Fn(&[usize; N]) -> f64) -> ([usize; N], f64) {
    let mut levels = [0; N];
    let mut best = (levels, value(&levels));
    loop {
        let Some(next) = (0..N).find(|&place| levels[place] + 1 < counts[place]) else { return best };
        levels[..next].fill(0);
        levels[next] += 1;
        let found = value(&levels);
        if found < best.1 {
            best = (levels, found);
        }
    }
}

fn letters(levels: &[usize]) -> String {
    levels.iter().map(|&level| letter(level)).collect()
}

/// Levels of the unique minimizer of `function`.
fn minimizer<const N: usize>(function: &TestFunction) -> String {
    assert_eq!(function.minimizers().len(), 1);
    letters(&levels_of::<N>(&function.minimizers()[0]))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

#[test]
fn coefficients_equal_splitmix64_and_are_uniform() {
    // First output of SplitMix64 with seed 0, the finaliser of the increment.
    let first = 0xe220_a839_7b1d_cdaf_u64;
    let increment = 0x9e37_79b9_7f4a_7c15_usize;
    assert_eq!(coefficient(&[increment]), (first >> 11) as f64 / (1_u64 << 53) as f64);
    let sample: Vec<f64> = (0..10_000).map(|index| coefficient(&[index / 100, index % 100])).collect();
    let mean = sample.iter().sum::<f64>() / 1e4;
    let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e4;
    assert!((mean - 0.5).abs() < 0.01, "{mean}");
    assert!((variance - 1.0 / 12.0).abs() < 0.003, "{variance}");
}

#[test]
fn the_optimum_of_pair_interactions_is_found_by_enumeration() {
    let (levels, value) = least(PAIR_LEVELS, |levels| pair_sum(1, levels));
    let function = pair_interactions();
    assert_eq!(minimizer::<9>(&function), letters(&levels));
    assert_eq!(function.optimum(), value);
}

#[test]
fn the_optimum_of_few_of_many_is_separable() {
    let (few, value) = least([MANY_LEVELS; 4], |levels| few_sum(*levels));
    let function = few_of_many();
    let mut levels = [0; 12];
    let mut rest = 0.0;
    for (index, level) in levels.iter_mut().enumerate() {
        *level = match FEW.iter().position(|which| *which == index) {
            Some(place) => few[place],
            None => {
                let ([level], term) = least([MANY_LEVELS], |&[level]| rest_term(index, level));
                rest += term;
                level
            }
        };
    }
    assert_eq!(minimizer::<12>(&function), letters(&levels));
    assert!(close(function.optimum(), value + rest), "{}", function.optimum());
}

#[test]
fn the_optimum_of_mixed_interactions_is_that_of_the_pairs() {
    let (levels, value) = least(MIXED_LEVELS, |levels| pair_sum(2, levels));
    let function = mixed_interactions();
    assert_eq!(minimizer::<8>(&function), letters(&levels));
    assert!(close(function.optimum(), value), "{}", function.optimum());
    // Other doubles add twice the squared difference.
    let mut point = function.minimizers()[0].clone();
    if let Some(ParameterValue::Double(x)) = point.get_mut("x02") {
        *x += 0.1;
    }
    assert!(close(function.value(&point), value + 0.02));
}

#[test]
fn the_optimum_of_the_landscape_is_found_by_enumeration() {
    let (levels, value) = least([landscape::LEVELS; landscape::CHOICES], landscape::contributions);
    let function = landscape();
    assert_eq!(minimizer::<{ landscape::CHOICES }>(&function), letters(&levels));
    assert_eq!(function.optimum(), value);
}

#[test]
fn all_clauses_can_be_satisfied_but_rarely_by_neighboring_assignments() {
    let function = clauses();
    assert_eq!(function.optimum(), 0.0);
    let best = &function.minimizers()[0];
    // Negating almost any switch violates a clause: the optimum is not on a wide plateau.
    let mut free = 0;
    for (name, value) in best {
        let other = if *value == ParameterValue::Categorical("on".into()) { "off" } else { "on" };
        let mut point = best.clone();
        point.insert(name.clone(), ParameterValue::Categorical(other.to_owned()));
        free += usize::from(function.value(&point) < 0.5);
    }
    assert!(free <= 3, "{free} switches may be turned around");
    let on = (0..clauses::SWITCHES).filter(|&switch| clauses::planted(switch)).count();
    assert!((6..=18).contains(&on), "{on} switches are on");
}

#[test]
fn the_optimal_treatments_are_found_by_enumeration() {
    let (treatments, value) = least([stations::TREATMENTS.len(); stations::STATIONS], stations::cost);
    let function = stations();
    let names = treatments.map(|treatment| stations::TREATMENTS[treatment].0);
    let minimizer = &function.minimizers()[0];
    assert_eq!((0..stations::STATIONS).map(|station| level(minimizer, &name(station))).collect::<Vec<_>>(), names);
    assert_eq!(function.optimum(), value, "{treatments:?}");
    // The problem would be trivial if one treatment, or none, were optimal everywhere.
    assert!(names.iter().collect::<BTreeSet<_>>().len() >= 3, "{names:?}");
}

#[test]
fn the_optimal_item_is_found_by_enumeration() {
    let ([item, usage], value) =
        least([catalogue::ITEMS, catalogue::USES.len()], |&[item, usage]| catalogue::misfit(item, usage));
    assert_eq!((item, usage), catalogue::BEST);
    assert!(close(catalogue().optimum(), value));
}

#[test]
fn minimizers_are_points_of_mostly_categorical_spaces() {
    for function in categorical() {
        let space = function.statement().search_space();
        for minimizer in function.minimizers() {
            assert_eq!(space.check(minimizer), Ok(()), "{}", function.name());
            assert_eq!(function.value(minimizer), function.optimum(), "{}", function.name());
        }
        let is_category = |spec: &&ParameterSpec| matches!(spec.kind(), ParameterKind::Categorical { .. });
        let categories = space.parameters().iter().filter(is_category).count();
        assert!(2 * categories >= space.parameters().len(), "{}", function.name());
    }
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<String> = categorical().iter().map(|problem| problem.name().to_owned()).collect();
    assert_eq!(names.len(), 7);
}
