//! Acquisition functions of a fitted model: limits, Monte Carlo and gradients; and the region of the search.

use std::collections::HashSet;

use nalgebra::{DMatrix, DVector};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::constrained::BoundedOutcome;
use super::log_expected_improvement::log_expected_improvement;
use super::*;
use crate::encoding::Encoding;
use crate::gp::{Hyperparameters, Kernel, Posterior, TrainingSet};
use crate::numerics::latin_hypercube::stratified_normals;
use crate::problem::{ParameterKind, ParameterSpec, ScaleType, SearchSpace, TrialId};
use crate::rng::stream;

/// Two ordered features and a category.
const CATEGORICAL: [bool; 3] = [false, true, false];
const NOISE: f64 = 1e-3;

fn points(n: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = stream(seed, TrialId(1), "acquisition tests");
    DMatrix::from_fn(n, 3, |_, j| {
        let u: f64 = rng.random();
        if CATEGORICAL[j] { (u * 3.0).floor() } else { u }
    })
}

fn data() -> TrainingSet {
    let points = points(7, 1);
    TrainingSet {
        values: points.row_iter().map(|row| (5.0 * row[0]).sin() - (row[2] - 0.4).powi(2) + 0.3 * row[1]).collect(),
        noise_weights: vec![1.0; 7],
        added_noise: vec![0.0; 7],
        noise: Default::default(),
        categorical: CATEGORICAL.to_vec(),
        points,
    }
}

fn model() -> Hyperparameters {
    let kernel = Kernel {
        inverse_squared_lengthscales: vec![6.0, 1.0, 3.0],
        categorical: CATEGORICAL.to_vec(),
        radial_variance: 1.2,
        linear_variance: 0.4,
    };
    Hyperparameters { kernel, noise_variance: NOISE }
}

fn acquisition(threshold: f64, feasibility: bool) -> AcquisitionFunction {
    by_criterion(Criterion::ExpectedImprovement, threshold, feasibility)
}

fn by_criterion(criterion: Criterion, threshold: f64, feasibility: bool) -> AcquisitionFunction {
    let feasibility = feasibility.then(|| {
        let labels = TrainingSet { values: (0..7).map(|i| f64::from(i % 3) - 1.0).collect(), ..data() };
        let posterior = Posterior::new(model(), &labels).unwrap();
        BoundedOutcome { posterior, threshold: 0.1, weight: 2.5 }
    });
    AcquisitionFunction::new(Posterior::new(model(), &data()).unwrap(), criterion, threshold, feasibility)
}

fn normals(pending: u64) -> Vec<f64> {
    stratified_normals(&mut stream(3, TrialId(pending), "fantasy"), FANTASY_SAMPLES)
}

#[test]
fn without_pending_trials_the_value_is_the_analytic_one() {
    let acquisition = acquisition(0.7, false);
    let probes = points(40, 2);
    let prediction = acquisition.posterior().predict(&probes);
    let gradients = acquisition.values_and_gradients(&probes);
    for (i, value) in acquisition.values(&probes).into_iter().enumerate() {
        let alone = log_expected_improvement(prediction.means()[(0, i)], prediction.deviations()[i], 0.7).value;
        assert_eq!(value.to_bits(), alone.to_bits());
        assert_eq!(value.to_bits(), gradients[i].value.to_bits());
    }
}

#[test]
fn threshold_at_a_point_is_the_mean_there_in_each_sample() {
    let mut given = acquisition(0.7, false);
    let (at, probes) = (points(1, 5), points(20, 2));
    let at: Vec<f64> = at.iter().copied().collect();
    let mean = given.posterior().predict(&DMatrix::from_row_slice(1, 3, &at)).means()[(0, 0)];
    assert_eq!(given.with_threshold_at(&at).values(&probes), acquisition(mean, false).values(&probes));
    // With a pending trial the means differ between samples, and the threshold is below the largest of them.
    given.add_pending(&[0.2, 1.0, 0.9], &normals(8));
    let mut over_all = acquisition(10.0, false);
    over_all.add_pending(&[0.2, 1.0, 0.9], &normals(8));
    let own = given.with_threshold_at(&at).values(&probes);
    assert!(own.iter().zip(over_all.values(&probes)).all(|(own, other)| *own > other), "{own:?}");
}

/// Expected improvement at `probe` with one pending trial, from draws of both latent values: mean and standard error.
fn monte_carlo(pending: &DMatrix<f64>, probe: &DMatrix<f64>, threshold: f64) -> (f64, f64) {
    const DRAWS: usize = 1_000_000;
    let (data, kernel) = (data(), model().kernel);
    let inverse = (kernel.cross(&data.points, &data.points) + DMatrix::identity(7, 7) * NOISE).try_inverse().unwrap();
    let both = DMatrix::from_rows(&[pending.row(0).clone_owned(), probe.row(0).clone_owned()]);
    let cross = kernel.cross(&data.points, &both);
    let means = cross.transpose() * &inverse * DVector::from_vec(data.values);
    let covariance = kernel.cross(&both, &both) - cross.transpose() * inverse * cross;
    let deviation = covariance[(0, 0)].sqrt();
    let slope = covariance[(0, 1)] / deviation;
    let rest = (covariance[(1, 1)] - slope * slope).sqrt();
    let mut rng = stream(9, TrialId(1), "monte carlo");
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..DRAWS {
        let (e, f): (f64, f64) = (StandardNormal.sample(&mut rng), StandardNormal.sample(&mut rng));
        let improvement = means[1] + slope * e + rest * f - threshold.max(means[0] + deviation * e);
        let gain = improvement.max(0.0);
        sum += gain;
        squares += gain * gain;
    }
    let mean = sum / DRAWS as f64;
    (mean, ((squares / DRAWS as f64 - mean * mean) / DRAWS as f64).sqrt())
}

#[test]
fn value_with_one_pending_trial_matches_monte_carlo() {
    const REPEATS: u64 = 64;
    for (threshold, seed) in [(0.7, 11), (0.7, 12), (1.5, 13)] {
        let (pending, probe) = (points(1, seed), points(1, seed + 100));
        let row: Vec<f64> = pending.row(0).iter().copied().collect();
        let one = |repeat: u64| {
            let mut acquisition = acquisition(threshold, false);
            acquisition.add_pending(&row, &normals(repeat));
            acquisition.values(&probe)[0].exp()
        };
        let values: Vec<f64> = (1..=REPEATS).map(one).collect();
        let n = REPEATS as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * (n - 1.0));
        let (expected, error) = monte_carlo(&pending, &probe, threshold);
        let allowed = 3.0 * (variance + error * error).sqrt();
        assert!((mean - expected).abs() < allowed, "{seed}: {mean:e}, {expected:e} +- {allowed:e}");
        // The comparison is meaningful only if the bound is tight.
        assert!(allowed < 0.05 * expected, "{seed}: {allowed:e} of {expected:e}");
    }
}

#[test]
fn gradients_agree_with_central_differences() {
    assert_gradients(Criterion::ExpectedImprovement);
}

#[test]
fn gradients_of_the_upper_confidence_bound_agree_with_central_differences() {
    assert_gradients(Criterion::UpperConfidenceBound { beta: DEFAULT_BETA });
}

#[test]
fn gradients_of_the_mean_agree_with_central_differences() {
    assert_gradients(Criterion::Mean);
}

#[test]
fn pending_trial_removes_the_deviation_but_not_the_mean() {
    let probes = points(1, 4);
    let row: Vec<f64> = probes.row(0).iter().copied().collect();
    let prediction = acquisition(0.0, false).posterior().predict(&probes);
    let (mean, deviation) = (prediction.means()[(0, 0)], prediction.deviations()[0]);
    let value = |criterion, pending| {
        let mut acquisition = by_criterion(criterion, 0.0, false);
        if pending {
            acquisition.add_pending(&row, &normals(1));
        }
        acquisition.values(&probes)[0]
    };
    let bound = Criterion::UpperConfidenceBound { beta: 2.0 };
    assert!((value(bound, false) - mean - 2.0 * deviation).abs() < 1e-12);
    assert_eq!(value(Criterion::Mean, false), mean);
    // 128 samples leave a small error of the mean; the remaining deviation is the noise of the fantasy.
    assert!((value(Criterion::Mean, true) - mean).abs() < 0.02 * deviation);
    assert!((value(bound, true) - mean).abs() < 0.05 * deviation);
}

/// Central difference of the value at row `i` of `probes` along feature `j`.
pub(super) fn central_difference(acquisition: &dyn Acquisition, probes: &DMatrix<f64>, i: usize, j: usize) -> f64 {
    let h = 1e-5;
    let shifted = |by: f64| {
        let mut probe = probes.rows(i, 1).clone_owned();
        probe[(0, j)] += by;
        acquisition.values(&probe)[0]
    };
    (shifted(h) - shifted(-h)) / (2.0 * h)
}

fn assert_gradients(criterion: Criterion) {
    let probes = points(12, 4);
    for (pending, feasibility) in [(0, false), (0, true), (1, false), (3, true)] {
        let mut acquisition = by_criterion(criterion, 0.9, feasibility);
        for (i, row) in points(pending, 5).row_iter().enumerate() {
            acquisition.add_pending(&row.iter().copied().collect::<Vec<f64>>(), &normals(i as u64 + 1));
        }
        for (i, at) in acquisition.values_and_gradients(&probes).into_iter().enumerate() {
            for (j, gradient) in at.gradient.into_iter().enumerate() {
                if CATEGORICAL[j] {
                    assert_eq!(gradient, 0.0);
                    continue;
                }
                let difference = central_difference(&acquisition, &probes, i, j);
                let error = (gradient - difference).abs();
                assert!(error < 1e-6 * difference.abs().max(1.0), "{pending} {i} {j}: {gradient} {difference}");
            }
        }
    }
}

#[test]
fn search_stays_in_the_box_except_for_categories() {
    let levels = ["x", "y", "z"].map(str::to_owned).to_vec();
    let unit = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let parameters = [("a", unit.clone()), ("b", ParameterKind::Categorical { values: levels }), ("c", unit)];
    let specs = parameters.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
    let encoding = Encoding::new(&SearchSpace::new(specs).unwrap());
    let whole = Region::whole(&encoding);
    let mut levels_met = HashSet::new();
    for (trial, center) in points(24, 6).row_iter().enumerate() {
        let center: Vec<f64> = center.iter().copied().collect();
        let region = whole.around(&center, &[0.2, 0.2, 0.2]);
        let search = Search {
            encoding: &encoding,
            region: &region,
            scales: &[0.3; 3],
            anchors: std::slice::from_ref(&center),
            prior: None,
            used: &HashSet::new(),
            seed: 1,
            trial: TrialId(trial as u64 + 1),
        };
        let found = search.maximize(&acquisition(0.7, false)).unwrap();
        assert!((found[0] - center[0]).abs() <= 0.1 + 1e-12 && (found[2] - center[2]).abs() <= 0.1 + 1e-12);
        levels_met.insert((center[1] as u8, found[1] as u8));
    }
    assert!(levels_met.iter().any(|(from, to)| from != to), "{levels_met:?}");
}

#[test]
fn box_smaller_than_a_step_contains_the_grid_neighbours() {
    let kind = |max| ParameterKind::Integer { min: 0, max, scale: ScaleType::UnitLinear };
    let specs = [("a", 1), ("b", 4), ("c", 100)].map(|(name, max)| ParameterSpec::new(name, kind(max)).unwrap());
    let encoding = Encoding::new(&SearchSpace::new(specs.to_vec()).unwrap());
    let region = Region::whole(&encoding).around(&[1.0, 0.5, 0.0], &[0.01, 0.01, 0.08]);
    let expected = [vec![0.0, 1.0], vec![0.25, 0.5, 0.75], vec![0.0, 0.01, 0.02, 0.03, 0.04]];
    assert_eq!(region.axes, expected.map(Axis::Grid));
}
