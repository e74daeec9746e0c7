use super::*;
use crate::problem::{Condition, ParameterValue, ScaleType};

fn double(min: f64, max: f64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Double { min, max, scale }
}

fn with_normal(name: &str, kind: ParameterKind, mode: f64, spread: f64) -> ParameterSpec {
    let mode = ParameterValue::Double(mode);
    ParameterSpec::new(name, kind).unwrap().with_prior(ParameterPrior::Normal { mode, spread }).unwrap()
}

fn levels(weights: &[(&str, f64)]) -> ParameterSpec {
    let values = weights.iter().map(|(level, _)| (*level).to_owned()).collect();
    let weights =
        weights.iter().map(|(level, weight)| (ParameterValue::Categorical((*level).to_owned()), *weight)).collect();
    let spec = ParameterSpec::new("level", ParameterKind::Categorical { values }).unwrap();
    spec.with_prior(ParameterPrior::Weights(weights)).unwrap()
}

fn prior_density(parameters: Vec<ParameterSpec>) -> (Encoding, PriorDensity) {
    let space = SearchSpace::new(parameters).unwrap();
    let encoding = Encoding::new(&space);
    let prior = PriorDensity::new(&space, &encoding).unwrap();
    (encoding, prior)
}

fn density(parameters: Vec<ParameterSpec>, point: &[f64]) -> f64 {
    let (encoding, prior) = prior_density(parameters);
    prior.unfloored_log_density(&encoding, point)
}

#[test]
fn normal_prior_applies_to_the_scaled_coordinate() {
    let log = with_normal("x", double(1e-4, 1.0, ScaleType::UnitLog), 1e-3, 0.1);
    // The mode lies at 1/4.
    assert!(density(vec![log.clone()], &[0.25]).abs() < 1e-20);
    assert!((density(vec![log.clone()], &[0.45]) + 2.0).abs() < 1e-9);
    // Neither a change of units nor another parameter without a prior changes the density.
    let rescaled = with_normal("x", double(1e-2, 100.0, ScaleType::UnitLog), 0.1, 0.1);
    let other = ParameterSpec::new("a", double(0.0, 1.0, ScaleType::UnitLinear)).unwrap();
    for u in [0.0, 0.3, 0.9] {
        let expected = density(vec![log.clone()], &[u]);
        assert!((density(vec![rescaled.clone()], &[u]) - expected).abs() < 1e-9);
        assert!((density(vec![log.clone(), other.clone()], &[0.77, u]) - expected).abs() < 1e-12);
    }
}

#[test]
fn weights_are_relative_and_independent_of_their_order() {
    let one = vec![levels(&[("b", 3.0), ("a", 1.0), ("c", 6.0)])];
    let other = vec![levels(&[("c", 0.6), ("a", 0.1), ("b", 0.3)])];
    for (level, expected) in [(0.0, (1.0_f64 / 6.0).ln()), (1.0, 0.5_f64.ln()), (2.0, 0.0)] {
        assert!((density(one.clone(), &[level]) - expected).abs() < 1e-12);
        assert!((density(other.clone(), &[level]) - expected).abs() < 1e-12);
    }
    let (_, prior) = prior_density(one);
    assert_eq!(prior.mode(0), Some(2.0));
    assert_eq!([0.05, 0.15, 0.39, 0.45, 0.99].map(|u| prior.quantile(0, u).unwrap()), [0.0, 1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn inactive_parameters_do_not_contribute() {
    let parent = levels(&[("on", 1.0), ("off", 1.0)]);
    let child = with_normal("child", double(0.0, 1.0, ScaleType::UnitLinear), 0.9, 0.1);
    let child = child.with_condition(Condition::new("level", vec![ParameterValue::Categorical("on".into())]));
    // Levels in the order of their names: off, on.
    assert_eq!(density(vec![parent.clone(), child.clone()], &[0.5, 0.0]), 0.0);
    assert!((density(vec![parent, child], &[0.5, 1.0]) + 8.0).abs() < 1e-9);
}

#[test]
fn log_density_has_a_floor_far_from_the_mode() {
    let x = || with_normal("x", double(0.0, 1.0, ScaleType::UnitLinear), 0.0, 0.1);
    let y = || with_normal("y", double(0.0, 1.0, ScaleType::UnitLinear), 0.0, 0.1);
    let (encoding, prior) = prior_density(vec![x(), y()]);
    assert_eq!(prior.log_density(&encoding, &[0.0, 0.0]), 0.0);
    // One deviation each: almost the density itself.
    assert!((prior.log_density(&encoding, &[0.1, 0.1]) + 1.0).abs() < 2e-3);
    for far in [[1.0, 0.0], [1.0, 1.0]] {
        assert!((prior.log_density(&encoding, &far) + FLOOR).abs() < 1e-3);
    }
}

#[test]
fn gradient_and_quantiles_match_the_density() {
    let (encoding, prior) = prior_density(vec![with_normal("x", double(0.0, 1.0, ScaleType::UnitLinear), 0.7, 0.2)]);
    for u in [0.1, 0.7, 0.95] {
        let mut gradient = [1.0];
        prior.add_gradient(&encoding, &[u], 2.5, &mut gradient);
        let value = |u: f64| prior.log_density(&encoding, &[u]);
        let difference = 2.5 * (value(u + 1e-6) - value(u - 1e-6)) / 2e-6;
        assert!((gradient[0] - 1.0 - difference).abs() < 1e-6);
    }
    // Equal shares: the mass between two quantiles, by the trapezoidal rule over the density.
    let mass = |from: f64, to: f64| -> f64 {
        let at = |step: u32| from + (to - from) * (f64::from(step) + 0.5) / 1000.0;
        (0..1000).map(|step| prior.unfloored_log_density(&encoding, &[at(step)]).exp() * (to - from) / 1000.0).sum()
    };
    let whole = mass(0.0, 1.0);
    for share in [0.1, 0.5, 0.8] {
        let u = prior.quantile(0, share).unwrap();
        assert!((mass(0.0, u) / whole - share).abs() < 1e-5, "{share} {u}");
    }
}

#[test]
fn priors_that_do_not_fit_their_parameter_are_rejected() {
    use crate::problem::ParameterSpecError as Error;
    let check = |kind: ParameterKind, prior| ParameterSpec::new("p", kind).unwrap().with_prior(prior).unwrap_err();
    let normal = |mode, spread| ParameterPrior::Normal { mode, spread };
    let unit = double(0.0, 1.0, ScaleType::UnitLinear);
    let mode = ParameterValue::Double(2.0);
    assert_eq!(check(unit.clone(), normal(mode.clone(), 0.1)), Error::PriorModeInfeasible { mode });
    let inside = ParameterValue::Double(0.5);
    assert_eq!(check(unit.clone(), normal(inside.clone(), 0.0)), Error::PriorSpread { spread: 0.0 });
    assert!(matches!(check(unit.clone(), normal(inside, f64::NAN)), Error::PriorSpread { .. }));
    assert!(matches!(check(unit, ParameterPrior::Weights(vec![])), Error::PriorOfOtherKind { .. }));
    let kind = ParameterKind::Discrete { values: vec![1.0, 2.0], scale: ScaleType::UnitLinear };
    let weights = |weights: &[(f64, f64)]| {
        ParameterPrior::Weights(weights.iter().map(|(v, w)| (ParameterValue::Discrete(*v), *w)).collect())
    };
    assert!(matches!(check(kind.clone(), weights(&[(1.0, 1.0)])), Error::PriorWeightMissing { .. }));
    assert!(matches!(check(kind.clone(), weights(&[(1.0, 1.0), (2.0, 0.0)])), Error::PriorWeight { .. }));
    assert!(matches!(check(kind.clone(), weights(&[(1.0, 1.0), (1.0, 1.0)])), Error::PriorWeight { .. }));
    assert!(matches!(check(kind, weights(&[(1.0, 1.0), (3.0, 1.0)])), Error::PriorWeight { .. }));
}
