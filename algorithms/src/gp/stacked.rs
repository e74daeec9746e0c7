//! A posterior of residuals on top of a stack of models of source studies.
//!
//! Notation: `mu_b`, `s_b` mean and deviation of the stack below, `mu_t`, `s_t` those of the model on top, which was
//! conditioned on `y - (a + b mu_b)`. Then
//!
//! - `mu = a + b mu_b + mu_t`
//! - `s = s_t^alpha (b s_b)^(1 - alpha)`, `alpha = beta2 / (1 + beta2)`,
//!   `beta2 = (f_t / f_b)(1 + f_b + 1)`, `f = max(n - p, n / (1 + p))` degrees of freedom of a model with `p`
//!   hyperparameters fitted to `n` observations.
//!
//! Source: Golovin et al. 2017, "Google Vizier", KDD, section on transfer learning; the combination of deviations as in
//! OSS Vizier (`vizier/_src/algorithms/designers/gp/transfer_learning.py`, with its default mismatch of 1). We depart
//! from it by `a` and `b`: the values of each study are standardised separately, so that a few trials near the optimum
//! would otherwise contradict the source study by an offset and a factor. Without a stack below, all results are those of
//! the [`Posterior`] alone.

use std::sync::Arc;

use nalgebra::DMatrix;

use super::hyperparameters::Hyperparameters;
use super::posterior::{Posterior, Prediction, RunningPrediction};

/// A posterior and the stack that it corrects, if any.
#[derive(Debug, Clone)]
pub struct StackedPosterior {
    top: Posterior,
    below: Option<Below>,
}

#[derive(Debug, Clone)]
struct Below {
    stack: Arc<StackedPosterior>,
    line: Line,
    alpha: f64,
}

/// Map `a + b mu` from the values of the stack below to those on top.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// `a`, finite.
    pub offset: f64,
    /// `b`, finite, above 0.
    pub slope: f64,
}

/// Predictions for m points.
#[derive(Debug, Clone)]
pub struct StackedPrediction {
    top: Prediction,
    below: Option<Corrected>,
}

#[derive(Debug, Clone)]
struct Corrected {
    /// S x m.
    means: DMatrix<f64>,
    /// Length m.
    deviations: Vec<f64>,
    below: Box<StackedPrediction>,
}

impl StackedPrediction {
    /// `mu` of each point in each fantasy sample, S x m.
    pub fn means(&self) -> &DMatrix<f64> {
        self.below.as_ref().map_or(&self.top.means, |corrected| &corrected.means)
    }

    /// `s` of each point, length m, above zero.
    pub fn deviations(&self) -> &[f64] {
        self.below.as_ref().map_or(&self.top.deviations, |corrected| &corrected.deviations)
    }
}

/// Predictions for m fixed points, updated incrementally while fantasies are added. Fantasies change only the model on top.
#[derive(Debug, Clone)]
pub struct RunningStackedPrediction {
    /// Prediction of the model on top, with the means of the whole stack.
    top: RunningPrediction,
    /// `alpha`, and `(b s_b)^(1 - alpha)` of each point.
    below: Option<(f64, Vec<f64>)>,
}

impl RunningStackedPrediction {
    /// `mu_s` of point `i` in the first few fantasy samples.
    pub fn means(&self, i: usize) -> &[f64] {
        self.top.means(i)
    }

    /// `s` of each point, length m, above zero.
    pub fn deviations(&self) -> impl Iterator<Item = f64> {
        self.top.deviations().enumerate().map(|(i, top)| match &self.below {
            Some((alpha, factors)) => top.powf(*alpha) * factors[i],
            None => top,
        })
    }
}

impl From<Posterior> for StackedPosterior {
    fn from(top: Posterior) -> Self {
        Self { top, below: None }
    }
}

impl StackedPosterior {
    /// Puts `top`, conditioned on the residuals from `line` of the means of `stack`, on top of `stack`.
    pub fn over(stack: Arc<StackedPosterior>, line: Line, top: Posterior) -> Self {
        let ratio = freedom(&top) / freedom(&stack.top);
        let beta2 = ratio * (2.0 + freedom(&stack.top));
        Self { top, below: Some(Below { stack, line, alpha: beta2 / (1.0 + beta2) }) }
    }

    /// Hyperparameters of the model on top.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        self.top.hyperparameters()
    }

    /// `S`, the number of fantasy samples.
    pub fn samples(&self) -> usize {
        self.top.samples()
    }

    /// Predicts the latent function at the rows of `points` (m x d).
    pub fn predict(&self, points: &DMatrix<f64>) -> StackedPrediction {
        self.predict_over(points, self.samples())
    }

    /// Mean of the first sample at the rows of `points` (m x d), length m; the same bits as those of [`Self::predict`].
    pub fn means(&self, points: &DMatrix<f64>) -> Vec<f64> {
        let mut means = self.top.first_means(points);
        if let Some(Below { stack, line, .. }) = &self.below {
            for (mean, below) in means.iter_mut().zip(stack.means(points)) {
                *mean += line.offset + line.slope * below;
            }
        }
        means
    }

    /// Contributions to [`Self::means`] at the rows of `points` (m x d), up to a constant: one list of length m for each
    /// model, that of the lowest one first.
    pub fn parts(&self, points: &DMatrix<f64>) -> Vec<Vec<f64>> {
        let mut parts = Vec::new();
        if let Some(Below { stack, line, .. }) = &self.below {
            parts = stack.parts(points);
            parts.iter_mut().flatten().for_each(|part| *part *= line.slope);
        }
        parts.push(self.top.first_means(points));
        parts
    }

    /// [`Self::predict`] with the means of at most the first `samples` fantasy samples.
    pub fn predict_over(&self, points: &DMatrix<f64>, samples: usize) -> StackedPrediction {
        let top = self.top.predict_over(points, samples);
        let Some(Below { stack, line, alpha }) = &self.below else {
            return StackedPrediction { top, below: None };
        };
        let below = stack.predict_over(points, 1);
        let mut means = top.means.clone();
        for (mut column, mean) in means.column_iter_mut().zip(below.means().row(0).iter()) {
            column.add_scalar_mut(line.offset + line.slope * mean);
        }
        let deviation = |(top, below): (&f64, &f64)| top.powf(*alpha) * (line.slope * below).powf(1.0 - alpha);
        let deviations = top.deviations.iter().zip(below.deviations()).map(deviation).collect();
        StackedPrediction { top, below: Some(Corrected { means, deviations, below: Box::new(below) }) }
    }

    /// [`Self::predict_over`] as a running prediction for [`Self::update`].
    pub fn follow(&self, points: DMatrix<f64>, samples: usize) -> RunningStackedPrediction {
        let Some(Below { stack, line, alpha }) = &self.below else {
            return RunningStackedPrediction { top: self.top.follow(points, samples), below: None };
        };
        let below = stack.predict_over(&points, 1);
        let mut top = self.top.follow(points, samples);
        let offsets: Vec<f64> = below.means().row(0).iter().map(|mean| line.offset + line.slope * mean).collect();
        top.shift_means(&offsets);
        let factors = below.deviations().iter().map(|below| (line.slope * below).powf(1.0 - alpha)).collect();
        RunningStackedPrediction { top, below: Some((*alpha, factors)) }
    }

    /// [`Posterior::update`] for the stack.
    pub fn update(&self, running: &mut RunningStackedPrediction, samples: usize) {
        self.top.update(&mut running.top, samples);
    }

    /// [`Posterior::gradients`] for `mu` and `s` of the whole stack.
    pub fn gradients(
        &self,
        points: &DMatrix<f64>,
        prediction: &StackedPrediction,
        by_means: &DMatrix<f64>,
        by_variances: &[f64],
    ) -> Vec<Vec<f64>> {
        let (Some(Below { stack, line, alpha }), Some(corrected)) = (&self.below, &prediction.below) else {
            return self.top.gradients(points, &prediction.top, by_means, by_variances);
        };
        // ds^2 = s^2 (alpha ds_t^2 / s_t^2 + (1 - alpha) ds_b^2 / s_b^2).
        let part = |share: f64, deviations: &[f64]| -> Vec<f64> {
            let ratios = corrected.deviations.iter().zip(deviations).map(|(whole, part)| (whole / part).powi(2));
            by_variances.iter().zip(ratios).map(|(by_variance, ratio)| by_variance * share * ratio).collect()
        };
        let mut gradients =
            self.top.gradients(points, &prediction.top, by_means, &part(*alpha, &prediction.top.deviations));
        let below_by_means = by_means.row_sum() * line.slope;
        let below_by_means = DMatrix::from_row_slice(1, points.nrows(), below_by_means.as_slice());
        let others = stack.gradients(
            points,
            &corrected.below,
            &below_by_means,
            &part(1.0 - alpha, corrected.below.deviations()),
        );
        for (gradient, other) in gradients.iter_mut().zip(others) {
            gradient.iter_mut().zip(other).for_each(|(sum, slope)| *sum += slope);
        }
        gradients
    }

    /// [`Posterior::fantasize`] for the stack. The drawn values have the uncertainty of the model on top and condition
    /// only that model.
    pub fn fantasize(&mut self, point: &[f64], normals: &[f64]) -> Vec<f64> {
        let mut drawn = self.top.fantasize(point, normals);
        if let Some(Below { stack, line, .. }) = &self.below {
            let mean = stack.means(&DMatrix::from_row_slice(1, point.len(), point))[0];
            drawn.iter_mut().for_each(|value| *value += line.offset + line.slope * mean);
        }
        drawn
    }
}

/// `f`, the degrees of freedom of a model.
fn freedom(posterior: &Posterior) -> f64 {
    let kernel = &posterior.hyperparameters().kernel;
    // Length scales, both variances, noise.
    let parameters = (kernel.categorical.len() + 2 + usize::from(kernel.linear_variance > 0.0)) as f64;
    let n = posterior.observations() as f64;
    (n - parameters).max(n / (1.0 + parameters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::{Kernel, TrainingSet};

    const NOISE: f64 = 0.1;

    /// A study of one point in one dimension, under a Matern kernel of length scale and variance 1.
    fn one_point(u: f64, value: f64) -> Posterior {
        let kernel = Kernel {
            inverse_squared_lengthscales: vec![1.0],
            categorical: vec![false],
            radial_variance: 1.0,
            linear_variance: 0.0,
        };
        let data = TrainingSet {
            points: DMatrix::from_element(1, 1, u),
            values: vec![value],
            noise_weights: vec![1.0],
            added_noise: vec![0.0; 1],
            noise: Default::default(),
            categorical: vec![false],
        };
        Posterior::new(Hyperparameters { kernel, noise_variance: NOISE }, &data).unwrap()
    }

    fn matern(distance: f64) -> f64 {
        let z = 5.0_f64.sqrt() * distance;
        (1.0 + z + z * z / 3.0) * (-z).exp()
    }

    fn stack() -> StackedPosterior {
        let line = Line { offset: 0.25, slope: 2.0 };
        // The study on top has the value 1.5 at 0.6.
        let base_there = matern(0.4) * 0.8 / (1.0 + NOISE);
        let residual = 1.5 - (0.25 + 2.0 * base_there);
        StackedPosterior::over(Arc::new(one_point(0.2, 0.8).into()), line, one_point(0.6, residual))
    }

    #[test]
    fn stack_of_two_points_matches_hand_calculation() {
        let at = 0.35;
        let prediction = stack().predict(&DMatrix::from_element(1, 1, at));
        let base = matern(0.15) * 0.8 / (1.0 + NOISE);
        let residual = 1.5 - (0.25 + 2.0 * matern(0.4) * 0.8 / (1.0 + NOISE));
        let expected = 0.25 + 2.0 * base + matern(0.25) * residual / (1.0 + NOISE);
        assert!((prediction.means()[(0, 0)] - expected).abs() < 1e-12, "{prediction:?}");
        // One observation, three hyperparameters: f = 1/4 for both, so beta2 = 2 + 1/4.
        let alpha = 2.25 / 3.25;
        let top = (1.0 - matern(0.25).powi(2) / (1.0 + NOISE)).sqrt();
        let below = (1.0 - matern(0.15).powi(2) / (1.0 + NOISE)).sqrt();
        let expected = top.powf(alpha) * (2.0 * below).powf(1.0 - alpha);
        assert!((prediction.deviations()[0] - expected).abs() < 1e-12, "{prediction:?}");
    }

    #[test]
    fn gradients_match_finite_differences() {
        let stack = stack();
        let value = |u: f64| {
            let prediction = stack.predict(&DMatrix::from_element(1, 1, u));
            0.7 * prediction.means()[(0, 0)] - 1.3 * prediction.deviations()[0].powi(2)
        };
        for at in [0.05, 0.3, 0.9] {
            let points = DMatrix::from_element(1, 1, at);
            let by_means = DMatrix::from_element(1, 1, 0.7);
            let gradient = stack.gradients(&points, &stack.predict(&points), &by_means, &[-1.3])[0][0];
            let difference = (value(at + 1e-5) - value(at - 1e-5)) / 2e-5;
            assert!((gradient - difference).abs() < 1e-7, "{gradient} {difference}");
        }
    }

    #[test]
    fn fantasy_moves_the_mean_only_if_it_differs_from_it() {
        let mut stack = stack();
        let at = DMatrix::from_element(1, 1, 0.9);
        let before = stack.predict(&at).means()[(0, 0)];
        let drawn = stack.fantasize(&[0.9], &[0.0, 1.0]);
        let after = stack.predict(&at).means().clone();
        assert!((drawn[0] - before).abs() < 1e-12 && (after[(0, 0)] - before).abs() < 1e-9, "{drawn:?}");
        assert!((after[(1, 0)] - drawn[1]).abs() < 1e-4 && drawn[1] > before + 0.1, "{after:?} {drawn:?}");
    }

    #[test]
    fn means_equal_those_of_a_prediction() {
        // More points than are evaluated together.
        let at = DMatrix::from_fn(300, 1, |row, _| row as f64 / 299.0);
        let mut stacked = stack();
        for posterior in [one_point(0.3, 1.0).into(), stack()] {
            let expected: Vec<f64> = posterior.predict(&at).means().row(0).iter().copied().collect();
            assert_eq!(posterior.means(&at), expected);
        }
        stacked.fantasize(&[0.9], &[0.5, -1.0]);
        let expected: Vec<f64> = stacked.predict_over(&at, 1).means().row(0).iter().copied().collect();
        assert_eq!(stacked.means(&at), expected);
    }

    #[test]
    fn parts_add_up_to_the_mean_without_its_offset() {
        let at = DMatrix::from_row_slice(2, 1, &[0.1, 0.7]);
        let [below, top] = &stack().parts(&at)[..] else { panic!("a stack of two") };
        for (i, u) in [0.1, 0.7].into_iter().enumerate() {
            let base = matern((u - 0.2_f64).abs()) * 0.8 / (1.0 + NOISE);
            assert!((below[i] - 2.0 * base).abs() < 1e-12, "{below:?}");
            assert!((0.25 + below[i] + top[i] - stack().means(&at)[i]).abs() < 1e-12, "{top:?}");
        }
    }

    #[test]
    fn running_prediction_equals_a_fresh_one() {
        let mut stack = stack();
        let at = DMatrix::from_row_slice(3, 1, &[0.05, 0.4, 0.8]);
        let mut running = stack.follow(at.clone(), 2);
        for (place, pending) in [0.9, 0.3].into_iter().enumerate() {
            stack.fantasize(&[pending], &[0.5, -1.0 - place as f64]);
            stack.update(&mut running, 2);
            let fresh = stack.predict(&at);
            for (i, deviation) in running.deviations().enumerate() {
                assert!((deviation - fresh.deviations()[i]).abs() < 1e-9, "{deviation}");
                for (sample, mean) in running.means(i).iter().enumerate() {
                    assert!((mean - fresh.means()[(sample, i)]).abs() < 1e-9, "{mean}");
                }
            }
        }
    }
}
