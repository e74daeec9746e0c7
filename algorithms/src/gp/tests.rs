//! Gradients, closed forms and limits of the model.

use nalgebra::DMatrix;
use rand::RngExt;

use super::hyperparameters::lengthscale_mode;
use super::loss::Loss;
use super::*;
use crate::numerics::lbfgs::{Evaluation, Objective};
use crate::problem::{ObservationNoise, TrialId};
use crate::rng::stream;

fn data(n: usize, categorical: &[bool], seed: u64) -> TrainingSet {
    let mut rng = stream(seed, TrialId(1), "gp tests");
    let points = DMatrix::from_fn(n, categorical.len(), |_, j| {
        let u: f64 = rng.random();
        if categorical[j] { (u * 3.0).floor() } else { u }
    });
    TrainingSet {
        values: (0..n).map(|i| points.row(i).iter().map(|u| (3.0 * u).sin()).sum::<f64>() - 0.5).collect(),
        noise_weights: (0..n).map(|i| 1.0 / (1 + i % 3) as f64).collect(),
        added_noise: (0..n).map(|i| 0.01 * (i % 2) as f64).collect(),
        noise: Default::default(),
        categorical: categorical.to_vec(),
        points,
    }
}

fn model(lengthscale: f64, noise_variance: f64, linear_variance: f64, d: usize) -> Hyperparameters {
    let kernel = Kernel {
        inverse_squared_lengthscales: vec![lengthscale.powi(-2); d],
        categorical: vec![false; d],
        radial_variance: 1.3,
        linear_variance,
    };
    Hyperparameters { kernel, noise_variance }
}

fn unit_data(points: &[f64], values: &[f64], noise_weights: &[f64]) -> TrainingSet {
    TrainingSet {
        points: DMatrix::from_column_slice(points.len(), 1, points),
        values: values.to_vec(),
        noise_weights: noise_weights.to_vec(),
        added_noise: vec![0.0; points.len()],
        noise: Default::default(),
        categorical: vec![false],
    }
}

/// Mean and variance at one point of a model of one feature.
fn at(posterior: &Posterior, u: f64) -> (f64, f64) {
    let prediction = posterior.predict(&DMatrix::from_element(1, 1, u));
    (prediction.means[(0, 0)], prediction.deviations[0].powi(2))
}

#[test]
fn covariances_match_the_formula_at_sizes_around_the_blocks() {
    let kernel = Kernel {
        inverse_squared_lengthscales: vec![4.0, 0.5, 9.0],
        categorical: vec![false, true, false],
        radial_variance: 1.3,
        linear_variance: 0.7,
    };
    for (n, m) in [(1, 1), (7, 70), (8, 3), (9, 130), (40, 33), (600, 2)] {
        let (a, b) = (data(n, &kernel.categorical, 1).points, data(m, &kernel.categorical, 2).points);
        let cross = kernel.cross(&a, &b);
        for (i, k) in (0..n).flat_map(|i| (0..m).map(move |k| (i, k))) {
            let difference = |j: usize| a[(i, j)] - b[(k, j)];
            let category = if difference(1) == 0.0 { 0.0 } else { 0.5 };
            let r2: f64 = 4.0 * difference(0).powi(2) + category + 9.0 * difference(2).powi(2);
            let z = (5.0 * r2).sqrt();
            let linear = |j: usize| (2.0 * a[(i, j)] - 1.0) * (2.0 * b[(k, j)] - 1.0);
            let expected = 1.3 * (1.0 + z + z * z / 3.0) * (-z).exp() + 0.7 * (0.25 + linear(0) + linear(2));
            assert!((cross[(i, k)] - expected).abs() < 1e-13, "{n} {m} {i} {k}");
        }
    }
    let constant = Kernel { inverse_squared_lengthscales: vec![], categorical: vec![], ..kernel };
    let cross = constant.cross(&DMatrix::zeros(3, 0), &DMatrix::zeros(2, 0));
    assert!(cross.shape() == (3, 2) && cross.iter().all(|value| *value == 1.3 + 0.7 * 0.25));
}

#[test]
fn gradient_of_the_loss_matches_central_differences() {
    let mixed = [false, true, false, true, false, false];
    let thirty = [false; 30];
    let cases = [(14, &[false][..]), (14, &[true]), (14, &mixed), (14, &[false; 6]), (14, &thirty), (40, &mixed)];
    for (case, (observations, categorical)) in cases.into_iter().enumerate() {
        let data = data(observations, categorical, case as u64);
        let d = categorical.len();
        let mut rng = stream(case as u64, TrialId(2), "parameters");
        let length = d + 2 + usize::from(categorical.contains(&false));
        let mut t: Vec<f64> = (0..length).map(|_| rng.random_range(-1.0..1.0)).collect();
        t[d + 1] -= 4.0;
        let (_, gradient) = negative_log_posterior(&data, &t).unwrap();
        for index in 0..length {
            let h = 1e-5;
            let shifted = |by: f64| {
                let mut t = t.clone();
                t[index] += by;
                negative_log_posterior(&data, &t).unwrap().0
            };
            let difference = (shifted(h) - shifted(-h)) / (2.0 * h);
            let error = (gradient[index] - difference).abs();
            assert!(error < 1e-6 * difference.abs().max(1.0), "{case} {index}: {} {difference}", gradient[index]);
        }
    }
}

#[test]
fn points_of_a_round_are_evaluated_as_one_at_a_time() {
    for n in [5, 127, 128, 150] {
        let data = data(n, &[false, true, false], 4);
        let points: Vec<_> = (0..3).map(|k| vec![0.1 * k as f64; 6]).chain([vec![f64::NAN; 6]]).collect();
        let loss = Loss::new(&data);
        // Again, with matrices already used for other points.
        for count in [4, 1, 0, 3] {
            let together = loss.evaluate(&[0, 1, 2, 3][..count], &points[..count]);
            assert_eq!(together.len(), count, "{n}");
            for (t, evaluation) in points.iter().zip(together) {
                match negative_log_posterior(&data, t) {
                    Some((cost, gradient)) => assert_eq!(evaluation, Evaluation { cost, gradient }, "{n}"),
                    None => assert_eq!(evaluation.cost, f64::INFINITY, "{n}"),
                }
            }
        }
    }
}

#[test]
fn gradient_is_finite_where_points_coincide() {
    let mut data = data(4, &[false, false], 1);
    let row = data.points.row(0).clone_owned();
    data.points.row_mut(1).copy_from(&row);
    let (_, gradient) = negative_log_posterior(&data, &[0.0, 0.0, 0.0, -5.0, 0.0]).unwrap();
    assert!(gradient.iter().all(|g| g.is_finite()));
}

#[test]
fn lengthscale_prior_has_its_published_mode() {
    for d in [1, 6, 30] {
        assert!((lengthscale_mode(d) - 0.2048 * (d as f64).sqrt()).abs() < 1e-3 * (d as f64).sqrt());
        let none = TrainingSet {
            points: DMatrix::zeros(0, d),
            values: vec![],
            noise_weights: vec![],
            added_noise: vec![],
            noise: Default::default(),
            categorical: vec![false; d],
        };
        let mut t = vec![lengthscale_mode(d).ln(); d];
        t.extend([0.0, -9.0, 0.0]);
        let (_, gradient) = negative_log_posterior(&none, &t).unwrap();
        assert!(gradient.iter().all(|g| g.abs() < 1e-12), "{gradient:?}");
        assert_eq!(fit(&none), Hyperparameters::default_for(&none.categorical));
    }
}

#[test]
fn posterior_of_one_observation_matches_the_closed_form() {
    let model = model(0.4, 0.1, 0.7, 1);
    let posterior = Posterior::new(model.clone(), &unit_data(&[0.2], &[1.5], &[1.0])).unwrap();
    let k = |a: f64, b: f64| {
        let z = (5.0 * ((a - b) / 0.4).powi(2)).sqrt();
        1.3 * (1.0 + z + z * z / 3.0) * (-z).exp() + 0.7 * (0.25 + (2.0 * a - 1.0) * (2.0 * b - 1.0))
    };
    for u in [0.0, 0.2, 0.7, 1.0] {
        let (mean, variance) = at(&posterior, u);
        let total = k(0.2, 0.2) + 0.1;
        assert!((mean - k(u, 0.2) * 1.5 / total).abs() < 1e-12);
        assert!((variance - (k(u, u) - k(u, 0.2).powi(2) / total)).abs() < 1e-12);
    }
}

#[test]
fn posterior_of_two_observations_matches_hand_calculation() {
    let posterior =
        Posterior::new(model(0.4, 0.1, 0.0, 1), &unit_data(&[0.2, 0.5], &[1.5, -0.5], &[1.0, 0.5])).unwrap();
    let k = |a: f64, b: f64| {
        let z = (5.0 * ((a - b) / 0.4).powi(2)).sqrt();
        1.3 * (1.0 + z + z * z / 3.0) * (-z).exp()
    };
    let (a, b, c) = (1.4, 1.35, k(0.2, 0.5));
    let determinant = a * b - c * c;
    let (k1, k2) = (k(0.2, 0.9), k(0.5, 0.9));
    let (mean, variance) = at(&posterior, 0.9);
    assert!((mean - (k1 * (b * 1.5 + c * 0.5) + k2 * (-c * 1.5 - a * 0.5)) / determinant).abs() < 1e-12);
    let explained = (k1 * k1 * b - 2.0 * k1 * k2 * c + k2 * k2 * a) / determinant;
    assert!((variance - (1.3 - explained)).abs() < 1e-12);
}

#[test]
fn posterior_interpolates_without_noise() {
    let data = unit_data(&[0.1, 0.4, 0.8], &[0.3, -1.0, 0.9], &[1.0; 3]);
    let posterior = Posterior::new(model(0.3, 1e-8, 0.0, 1), &data).unwrap();
    for (u, y) in [(0.1, 0.3), (0.4, -1.0), (0.8, 0.9)] {
        let (mean, variance) = at(&posterior, u);
        assert!((mean - y).abs() < 1e-6 && variance < 1e-7);
    }
}

#[test]
fn mean_of_two_with_half_the_noise_equals_two_observations() {
    let twice = unit_data(&[0.2, 0.2, 0.6], &[1.0, 0.4, -1.0], &[1.0; 3]);
    let merged = unit_data(&[0.2, 0.6], &[0.7, -1.0], &[0.5, 1.0]);
    let (twice, merged) = (
        Posterior::new(model(0.3, 0.2, 1.0, 1), &twice).unwrap(),
        Posterior::new(model(0.3, 0.2, 1.0, 1), &merged).unwrap(),
    );
    for u in [0.0, 0.2, 0.5, 0.9] {
        let (a, b) = (at(&twice, u), at(&merged, u));
        assert!((a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9);
    }
}

#[test]
fn fantasy_equals_an_observation_without_noise() {
    let data = unit_data(&[0.1, 0.7], &[0.3, -1.0], &[1.0; 2]);
    let mut posterior = Posterior::new(model(0.3, 1e-6, 1.0, 1), &data).unwrap();
    let drawn = posterior.fantasize(&[0.4], &[-1.0, 0.5]);
    let prediction = posterior.predict(&DMatrix::from_element(1, 1, 0.9));
    for (s, value) in drawn.iter().enumerate() {
        let more = unit_data(&[0.1, 0.7, 0.4], &[0.3, -1.0, *value], &[1.0, 1.0, 1.0]);
        let (mean, variance) = at(&Posterior::new(model(0.3, 1e-6, 1.0, 1), &more).unwrap(), 0.9);
        assert!((prediction.means[(s, 0)] - mean).abs() < 1e-4);
        assert!((prediction.deviations[0].powi(2) - variance).abs() < 1e-4);
    }
}

#[test]
fn identical_points_with_different_values_are_accepted() {
    let data = unit_data(&[0.5; 40], &(0..40).map(|i| f64::from(i % 2)).collect::<Vec<_>>(), &[1.0; 40]);
    assert!(Posterior::new(fit(&data), &data).is_some());
}

#[test]
fn subsets_keep_the_best_the_latest_and_the_nearest() {
    let mut data = data(300, &[false, true], 1);
    data.values[17] = 100.0;
    let kept = representative_subset(&data, 64, None);
    assert_eq!(kept.len(), 64);
    assert!(kept.contains(&17) && kept.contains(&299) && kept.windows(2).all(|pair| pair[0] < pair[1]));
    let center: Vec<f64> = data.points.row(123).iter().copied().collect();
    assert!(representative_subset(&data, 64, Some(&center)).contains(&123));
    assert_eq!(representative_subset(&data, 300, None).len(), 300);
}

/// `k` term by term, as documented in the module `kernel`.
fn naive_covariance(kernel: &Kernel, a: &[f64], b: &[f64]) -> f64 {
    let (mut squared_distance, mut product) = (0.0, 0.25);
    for (j, (u, w)) in a.iter().zip(b).enumerate() {
        if kernel.categorical[j] {
            squared_distance += if u == w { 0.0 } else { kernel.inverse_squared_lengthscales[j] };
        } else {
            squared_distance += (u - w).powi(2) * kernel.inverse_squared_lengthscales[j];
            product += (2.0 * u - 1.0) * (2.0 * w - 1.0);
        }
    }
    let z = (5.0 * squared_distance).sqrt();
    kernel.radial_variance * (1.0 + z + z * z / 3.0) * (-z).exp() + kernel.linear_variance * product
}

#[test]
fn covariances_match_the_formula_term_by_term() {
    let categorical = [false, true, false, false, true];
    let (a, b) = (data(37, &categorical, 1).points, data(53, &categorical, 2).points);
    let kernel = Kernel {
        inverse_squared_lengthscales: vec![0.3, 2.0, 11.0, 400.0, 0.01],
        categorical: categorical.to_vec(),
        radial_variance: 1.7,
        linear_variance: 0.6,
    };
    let row = |m: &DMatrix<f64>, i: usize| -> Vec<f64> { m.row(i).iter().copied().collect() };
    let covariance = kernel.cross(&a, &b);
    let mut largest: f64 = 0.0;
    for i in 0..37 {
        for k in 0..53 {
            largest = largest.max((covariance[(i, k)] - naive_covariance(&kernel, &row(&a, i), &row(&b, k))).abs());
        }
        let own = naive_covariance(&kernel, &row(&a, i), &row(&a, i));
        largest = largest.max((kernel.variances(&a)[i] - own).abs());
    }
    assert!(largest < 1e-10, "{largest:e}");
}

#[test]
fn covariances_of_mixed_points_are_positive_semidefinite() {
    let categorical = [false, true, true, false];
    for (seed, scale) in [(1, 0.01), (2, 1.0), (3, 1600.0)] {
        let mut points = data(60, &categorical, seed).points;
        // Some repeated points, and some that differ only in a category.
        for i in 0..10 {
            let row = points.row(i).clone_owned();
            points.row_mut(59 - i).copy_from(&row);
            points[(59 - i, 1)] = (i % 3) as f64;
        }
        let kernel = Kernel {
            inverse_squared_lengthscales: vec![scale; 4],
            categorical: categorical.to_vec(),
            radial_variance: 1.0,
            linear_variance: 0.5,
        };
        let covariance = kernel.cross(&points, &points);
        assert!((&covariance - covariance.transpose()).amax() < 1e-12);
        let least = covariance.symmetric_eigenvalues().min();
        assert!(least > -1e-9, "{scale}: {least:e}");
    }
}

#[test]
fn two_hundred_appended_points_match_a_rebuilt_model() {
    let categorical = [false, false, true];
    let all = data(220, &categorical, 5);
    let hyperparameters = Hyperparameters {
        kernel: Kernel {
            inverse_squared_lengthscales: vec![100.0, 400.0, 4.0],
            categorical: categorical.to_vec(),
            radial_variance: 1.3,
            linear_variance: 0.4,
        },
        noise_variance: 1e-3,
    };
    let first: Vec<usize> = (0..20).collect();
    let mut appended = Posterior::new(hyperparameters.clone(), &all.select(&first)).unwrap();
    let mut whole = all.clone();
    let variances = hyperparameters.kernel.variances(&all.points);
    let mut rng = stream(5, TrialId(1), "appended");
    for (i, variance) in variances.into_iter().enumerate().skip(20) {
        let point: Vec<f64> = all.points.row(i).iter().copied().collect();
        let normal = rng.random_range(-2.0..2.0);
        whole.values[i] = appended.fantasize(&point, &[normal])[0];
        // The noise that keeps repeated fantasies from being singular.
        whole.noise_weights[i] = 1e-6 * variance / hyperparameters.noise_variance;
        whole.added_noise[i] = 0.0;
    }
    let anew = Posterior::new(hyperparameters, &whole).unwrap();
    let probes = data(50, &categorical, 6).points;
    let (a, b) = (appended.predict(&probes), anew.predict(&probes));
    let means = (&a.means - &b.means).amax();
    let deviations = a.deviations.iter().zip(&b.deviations).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(means < 1e-9 && deviations < 1e-9, "{means:e} {deviations:e}");
}

#[test]
fn refit_keeps_the_optimum_and_improves_other_starts() {
    let data = data(40, &[false, true, false], 4);
    let best = fit(&data);
    let cost = |model: &Hyperparameters| negative_log_posterior(&data, &model.to_logs()).unwrap().0;
    let again = refit(&data, &best);
    assert!(cost(&again) <= cost(&best) + 1e-9 * cost(&best).abs());
    let far = Hyperparameters::default_for(&data.categorical);
    let nearer = refit(&data, &far);
    assert!(cost(&nearer) < cost(&far));
}

#[test]
fn stated_noise_selects_the_prior_of_the_noise() {
    let noisy = |noise| {
        let mut data = TrainingSet { noise, ..data(12, &[false], 3) };
        data.values.iter_mut().enumerate().for_each(|(i, value)| *value += if i % 2 == 0 { 0.2 } else { -0.2 });
        fit(&data).noise_variance
    };
    let [low, auto, high] = [ObservationNoise::Low, ObservationNoise::Auto, ObservationNoise::High].map(noisy);
    assert!(low < auto && auto < 0.1 * high && high > 0.02, "{low} {auto} {high}");
    let exact = |noise| fit(&TrainingSet { noise, ..data(12, &[false], 3) }).noise_variance;
    assert!(exact(ObservationNoise::Low) < 1e-5 && exact(ObservationNoise::High) > 1e-3);
}

#[test]
fn unknown_noise_may_be_high_from_forty_observations_of_four_features() {
    let noise_variance = |observations, features: usize, noise: f64| {
        let mut data = data(observations, &[false; 6][..features], 3);
        data.values.iter_mut().enumerate().for_each(|(i, value)| *value += if i % 3 == 0 { noise } else { -noise });
        fit(&data).noise_variance
    };
    // Six length scales explain noise as well.
    let (few, enough) = (noise_variance(39, 6, 0.4), noise_variance(40, 6, 0.4));
    assert!(few < 0.01 && enough > 0.1, "{few} {enough}");
    assert!(noise_variance(40, 6, 0.0) < 1e-3);
    // One length scale does not.
    let one = noise_variance(39, 1, 0.4);
    assert!(one > 0.1, "{one}");
}

#[test]
fn leaving_one_out_equals_the_model_without_it() {
    let all = data(9, &[false, true], 5);
    let model = Hyperparameters { noise_variance: 0.05, ..Hyperparameters::default_for(&all.categorical) };
    let left_out = Posterior::new(model.clone(), &all).unwrap().leave_one_out(&all.values);
    for (i, (mean, deviation)) in left_out.into_iter().enumerate() {
        let others: Vec<usize> = (0..9).filter(|other| *other != i).collect();
        let posterior = Posterior::new(model.clone(), &all.select(&others)).unwrap();
        let prediction = posterior.predict(&all.points.rows(i, 1).clone_owned());
        let noisy = prediction.deviations[0].powi(2) + all.noise_variances(0.05)[i];
        assert!((mean - prediction.means[(0, 0)]).abs() < 1e-9, "{i}: {mean}");
        assert!((deviation.powi(2) - noisy).abs() < 1e-9, "{i}: {deviation}");
    }
}
