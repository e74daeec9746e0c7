//! Known values, Monte Carlo, limits and derivatives.

use nalgebra::DMatrix;
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::*;
use crate::acquisition::log_expected_improvement::log_expected_improvement;
use crate::acquisition::{AcquisitionFunction, Criterion};
use crate::gp::{Hyperparameters, Kernel, TrainingSet};
use crate::numerics::latin_hypercube::stratified_normals;
use crate::numerics::normal::{distribution, log_density};
use crate::problem::TrialId;
use crate::problem::pareto::distinct_front;
use crate::rng::stream;

fn front(objectives: usize) -> Vec<Vec<f64>> {
    let points = [[0.9, 0.1, 0.4], [0.2, 0.8, 0.5], [0.5, 0.55, 0.2], [0.1, 0.3, 0.95], [0.45, 0.5, 0.6]];
    points.iter().map(|point| point[..objectives].to_vec()).collect()
}

fn boxes(objectives: usize) -> Boxes {
    Boxes::not_dominated(&front(objectives), &vec![0.0; objectives])
}

/// Volume above 0 dominated by `points`, by inclusion and exclusion.
fn volume(points: &[Vec<f64>]) -> f64 {
    let mut total = 0.0;
    for subset in 1_u32..1 << points.len() {
        let chosen = points.iter().enumerate().filter(|(index, _)| subset >> index & 1 == 1);
        let mut sides = vec![f64::INFINITY; points[0].len()];
        for (_, point) in chosen {
            sides.iter_mut().zip(point).for_each(|(side, value)| *side = side.min(value.max(0.0)));
        }
        let sign = if subset.count_ones() % 2 == 1 { 1.0 } else { -1.0 };
        total += sign * sides.iter().product::<f64>();
    }
    total
}

#[test]
fn one_objective_equals_expected_improvement() {
    let boxes = Boxes::not_dominated(&[vec![0.3], vec![0.7]], &[0.0]);
    for (mean, deviation) in [(0.5, 0.3), (-40.0, 0.2), (9.0, 1.0)] {
        let alone = log_expected_improvement(mean, deviation, 0.7);
        let at = log_improvement_and_derivatives(&boxes, &[mean], &[deviation]);
        assert_eq!(at.value, alone.value);
        assert_eq!((at.by_means[0], at.by_deviations[0]), (alone.by_mean, alone.by_deviation));
    }
}

/// One result (1, 1) above the origin; a point at (1, 1) with deviations 1. `EI(1) = phi(0)`, and `EI(0) = Phi(1) +
/// phi(1)`. Of the two columns the first is `(EI(0) - EI(1)) EI(1)`, the second `EI(1) EI(0)`.
#[test]
fn value_matches_hand_calculation() {
    let boxes = Boxes::not_dominated(&[vec![1.0, 1.0]], &[0.0, 0.0]);
    let near = log_density(0.0).exp();
    let far = distribution(1.0) + log_density(1.0).exp();
    let expected = (2.0 * far - near) * near;
    assert!((log_improvement(&boxes, &[1.0; 2], &[1.0; 2]).exp() - expected).abs() < 1e-14);
    assert!((expected - 0.705_206).abs() < 1e-6, "{expected}");
    // In three objectives: the octant without the unit cube, less the share of the cube.
    let boxes = Boxes::not_dominated(&[vec![1.0; 3]], &[0.0; 3]);
    let expected = far.powi(3) - (far - near).powi(3);
    assert!((log_improvement(&boxes, &[1.0; 3], &[1.0; 3]).exp() - expected).abs() < 1e-14);
}

#[test]
fn without_uncertainty_the_value_is_the_volume_gain() {
    for objectives in [2, 3] {
        for point in [[0.7, 0.7, 0.7], [0.95, 0.05, 0.5], [0.3, 0.6, 0.9], [1.5, 1.5, 1.5]] {
            let mut with = front(objectives);
            with.push(point[..objectives].to_vec());
            let gained = volume(&with) - volume(&front(objectives));
            let value = log_improvement(&boxes(objectives), &point[..objectives], &vec![1e-9; objectives]).exp();
            assert!((value - gained).abs() < 1e-7, "{objectives} {point:?}: {value} {gained}");
        }
    }
}

#[test]
fn value_matches_monte_carlo() {
    const DRAWS: usize = 40_000;
    let mut rng = stream(5, TrialId(1), "hypervolume monte carlo");
    for objectives in [2, 3] {
        let before = volume(&front(objectives));
        for (means, deviations) in [([0.4, 0.5, 0.3], [0.3, 0.2, 0.4]), ([0.8, 0.7, 0.9], [0.1, 0.3, 0.2])] {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..DRAWS {
                let draw = |j: usize, rng: &mut _| {
                    let e: f64 = StandardNormal.sample(rng);
                    means[j] + deviations[j] * e
                };
                let mut with = front(objectives);
                with.push((0..objectives).map(|j| draw(j, &mut rng)).collect());
                let gain = volume(&with) - before;
                sum += gain;
                squares += gain * gain;
            }
            let mean = sum / DRAWS as f64;
            let error = ((squares / DRAWS as f64 - mean * mean) / DRAWS as f64).sqrt();
            let value = log_improvement(&boxes(objectives), &means[..objectives], &deviations[..objectives]).exp();
            assert!((value - mean).abs() < 3.5 * error, "{objectives}: {value} {mean} +- {error}");
            assert!(error < 0.02 * mean);
        }
    }
}

#[test]
fn derivatives_match_finite_differences_near_and_far() {
    let mut rng = stream(6, TrialId(1), "hypervolume derivatives");
    for objectives in [2, 3] {
        let boxes = boxes(objectives);
        for round in 0..60 {
            // Deep in the dominated part with small deviations, as well as beyond the front.
            let spread = [0.02, 0.2, 2.0][round % 3];
            let means: Vec<f64> = (0..objectives).map(|_| rng.random_range(-1.0..1.5)).collect();
            let deviations: Vec<f64> = (0..objectives).map(|_| spread * rng.random_range(0.5..2.0)).collect();
            let at = log_improvement_and_derivatives(&boxes, &means, &deviations);
            assert_eq!(at.value, log_improvement(&boxes, &means, &deviations));
            assert!(at.value.is_finite(), "{means:?} {deviations:?}");
            for j in 0..objectives {
                let difference = |of_mean: bool| {
                    let h = 1e-5 * deviations[j];
                    let value = |by: f64| {
                        let (mut means, mut deviations) = (means.clone(), deviations.clone());
                        *(if of_mean { &mut means[j] } else { &mut deviations[j] }) += by;
                        log_improvement(&boxes, &means, &deviations)
                    };
                    (value(h) - value(-h)) / (2.0 * h)
                };
                for (derivative, expected) in
                    [(at.by_means[j], difference(true)), (at.by_deviations[j], difference(false))]
                {
                    let error = (derivative - expected).abs();
                    assert!(error < 1e-5 * expected.abs() + 1e-5 / spread, "{round} {j}: {derivative} {expected}");
                }
            }
        }
    }
}

#[test]
fn far_from_the_front_values_are_finite_and_gradients_point_to_it() {
    for objectives in [2, 3] {
        let mut last = f64::NEG_INFINITY;
        for mean in [-1e6, -1e3, -10.0, 0.0, 0.5, 2.0, 1e3] {
            let at =
                log_improvement_and_derivatives(&boxes(objectives), &vec![mean; objectives], &vec![0.01; objectives]);
            assert!(at.value.is_finite() && at.value > last, "{mean}: {at:?}");
            assert!(at.by_means.iter().all(|slope| *slope > 0.0 && slope.is_finite()), "{mean}: {at:?}");
            last = at.value;
        }
    }
}

#[test]
fn the_order_of_objectives_and_points_does_not_matter() {
    let turned = |points: &[Vec<f64>]| -> Vec<Vec<f64>> {
        points.iter().rev().map(|point| point.iter().rev().copied().collect()).collect()
    };
    for objectives in [2, 3] {
        let (means, deviations) = ([0.4, 0.5, 0.3], [0.3, 0.2, 0.4]);
        let value = log_improvement(&boxes(objectives), &means[..objectives], &deviations[..objectives]);
        let boxes = Boxes::not_dominated(&turned(&front(objectives)), &vec![0.0; objectives]);
        let reversed = |values: &[f64]| values[..objectives].iter().rev().copied().collect::<Vec<f64>>();
        let other = log_improvement(&boxes, &reversed(&means), &reversed(&deviations));
        assert!((value - other).abs() < 1e-12, "{value} {other}");
    }
}

#[test]
fn reference_point_is_a_tenth_of_the_range_worse_than_the_front() {
    let results = vec![vec![0.0, 10.0], vec![1.0, 5.0], vec![-9.0, -9.0]];
    let chosen: Vec<Vec<f64>> = distinct_front(&results).into_iter().map(|index| results[index].clone()).collect();
    assert_eq!(chosen.len(), 2);
    assert_eq!(infer_reference_point(&chosen, &results), [-2.0, -5.0]);
    // Of 20 results, a quarter of that margin; of 45 and more, a tenth of the range.
    let of =
        |count: usize| infer_reference_point(&chosen, &[results.clone(), vec![vec![-1.0, -1.0]; count - 3]].concat());
    assert_eq!(of(20), [-0.5, 2.5]);
    assert_eq!(of(45), [-0.1, 4.5]);
    assert_eq!(of(1000), [-0.1, 4.5]);
    // One point that dominates all: the range of everything.
    let results = vec![vec![1.0, 1.0], vec![0.0, -1.0], vec![1.0, 1.0]];
    assert_eq!(distinct_front(&results), [0]);
    assert_eq!(infer_reference_point(&results[..1], &results), [-1.0, -3.0]);
    assert_eq!(infer_reference_point(&results[..1], &results[..1]), [-1.0, -1.0]);
}

fn points(n: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = stream(seed, TrialId(1), "hypervolume tests");
    DMatrix::from_fn(n, 2, |_, _| rng.random())
}

fn objective(name: &str, f: impl Fn(f64, f64) -> f64) -> (ObjectiveModel, Vec<f64>) {
    let points = points(6, 1);
    let values: Vec<f64> = points.row_iter().map(|row| f(row[0], row[1])).collect();
    let kernel = Kernel {
        inverse_squared_lengthscales: vec![6.0, 3.0],
        categorical: vec![false; 2],
        radial_variance: 1.2,
        linear_variance: 0.4,
    };
    let data = TrainingSet {
        points,
        values: values.clone(),
        noise_weights: vec![1.0; 6],
        added_noise: vec![0.0; 6],
        categorical: vec![false; 2],
        noise: Default::default(),
    };
    let posterior = Posterior::new(Hyperparameters { kernel, noise_variance: 1e-3 }, &data).unwrap();
    (ObjectiveModel { name: name.into(), posterior }, values)
}

fn acquisition(objectives: usize) -> HypervolumeImprovement {
    let all = [
        objective("a", |a, b| (5.0 * a).sin() + 0.3 * b),
        objective("b", |a, b| -(a - 0.4).powi(2) - b),
        objective("c", |a, b| a * b),
    ];
    let results =
        (0..6).map(|row| all[..objectives].iter().map(|(_, values)| values[row]).collect()).collect::<Vec<_>>();
    let reference = infer_reference_point(&results, &results);
    let models = all.into_iter().take(objectives).map(|(model, _)| model).collect();
    HypervolumeImprovement::new(models, results, reference).unwrap()
}

fn normals(trial: u64) -> impl Fn(&str, usize) -> Vec<f64> {
    move |purpose, count| stratified_normals(&mut stream(3, TrialId(trial), purpose), count)
}

#[test]
fn gradients_by_the_point_match_finite_differences() {
    let probes = points(8, 4);
    for (objectives, pending) in [(1, 0), (2, 0), (3, 0), (2, 1), (3, 2)] {
        let mut acquisition = acquisition(objectives);
        for (i, row) in points(pending, 5).row_iter().enumerate() {
            acquisition.add_pending(&row.iter().copied().collect::<Vec<f64>>(), &normals(i as u64 + 1));
        }
        assert_eq!(acquisition.has_pending(), pending > 0);
        let values = acquisition.values(&probes);
        for (i, at) in acquisition.values_and_gradients(&probes).into_iter().enumerate() {
            assert!((at.value - values[i]).abs() < 1e-12);
            for (j, gradient) in at.gradient.into_iter().enumerate() {
                let difference = crate::acquisition::tests::central_difference(&acquisition, &probes, i, j);
                assert!((gradient - difference).abs() < 1e-5 * difference.abs().max(1.0), "{gradient} {difference}");
            }
        }
    }
}

#[test]
fn search_with_one_objective_equals_expected_improvement() {
    let (model, values) = objective("a", |a, b| (5.0 * a).sin() + 0.3 * b);
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let alone = AcquisitionFunction::new(model.posterior, Criterion::ExpectedImprovement, best, None);
    let probes = points(20, 7);
    for (value, expected) in acquisition(1).values(&probes).into_iter().zip(alone.values(&probes)) {
        assert!((value - expected).abs() < 1e-12 * expected.abs().max(1.0));
    }
}

#[test]
fn pending_trial_lowers_the_value_nearby() {
    for objectives in [2, 3] {
        let probes = points(5, 8);
        let fresh = acquisition(objectives).values(&probes);
        for (i, row) in probes.row_iter().enumerate() {
            let mut acquisition = acquisition(objectives);
            acquisition.add_pending(&row.iter().copied().collect::<Vec<f64>>(), &normals(1));
            let after = acquisition.values(&probes)[i];
            assert!(after < fresh[i] - 1.0, "{} {after}", fresh[i]);
            // The first samples are a subset of all of them.
            assert!(acquisition.values_over(&probes, 2).iter().all(|value| value.is_finite()));
        }
    }
}
