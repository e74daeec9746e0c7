//! The loss of a fit: the negative log posterior density of the hyperparameters.
//!
//! `J(t) = 0.5 y'a + sum ln L_ii - ln prior(t)`. With `G = a a' - inv(K)`:
//! `dJ/d ln l_j = sum_ik G_ik s2 m'(r2_ik) D_j(i, k) / l_j^2` (`D_j` squared difference, or mismatch of categories),
//! `dJ/d ln s2 = -0.5 sum G_ik s2 m_ik`, `dJ/d ln nz = -0.5 nz sum w_i G_ii`,
//! `dJ/d ln s_lin = -0.5 sum G_ik s_lin (1/4 + v_i.v_k)` (Rasmussen & Williams 2006, equation 5.9).
//!
//! All matrices are symmetric; only their lower triangles are computed.

use nalgebra::{DMatrix, DVector};
use pulp::{Simd, WithSimd};

use super::features::Features;
use super::hyperparameters::{Hyperparameters, add_negative_log_prior, has_linear_term, noise_log_priors};
use super::matern::matern_with_derivative;
use super::training_set::TrainingSet;
use crate::numerics::elementary::{LANES, add_terms, total, vectorized};
use crate::numerics::lbfgs::{Evaluation, Objective};
use crate::numerics::lower_blocks::LowerBlocks;
use crate::numerics::padded::PaddedColumns;
use crate::numerics::triangular::InverseFactor;

/// Values of jitter to try on the diagonal, relative to its mean.
const JITTERS: [f64; 8] = [0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];

/// `J(t)` and its gradient; `None` if `K` cannot be factorised. `t` is described in the module `hyperparameters`.
pub fn negative_log_posterior(data: &TrainingSet, t: &[f64]) -> Option<(f64, Vec<f64>)> {
    Loss::new(data).evaluate_one(t)
}

/// Factorises `covariance + diag(noise)`, with increasing jitter while that fails; `None` if all attempts fail.
pub(super) fn factorize(mut covariance: DMatrix<f64>, noise: &[f64]) -> Option<InverseFactor> {
    let n = covariance.nrows();
    for (index, variance) in noise.iter().enumerate() {
        covariance[(index, index)] += variance;
    }
    let mean_diagonal = covariance.trace() / n.max(1) as f64;
    if !mean_diagonal.is_finite() {
        return None;
    }
    JITTERS.iter().find_map(|jitter| {
        let mut jittered = covariance.clone();
        for index in 0..n {
            jittered[(index, index)] += jitter * mean_diagonal;
        }
        InverseFactor::new(jittered)
    })
}

/// `J` for one set of observations.
pub(super) struct Loss<'a> {
    data: &'a TrainingSet,
    features: Features<'a>,
    values: DVector<f64>,
    /// `1/4 + v_i.v_k`, lower triangle; `None` without ordered features.
    linear: Option<LowerBlocks>,
}

impl<'a> Loss<'a> {
    pub(super) fn new(data: &'a TrainingSet) -> Self {
        let features = Features::new(&data.points, &data.categorical);
        let linear = has_linear_term(&data.categorical).then(|| vectorized(LinearTerm(&features)));
        Self { data, features, values: DVector::from_column_slice(&data.values), linear }
    }

    fn evaluate_one(&self, t: &[f64]) -> Option<(f64, Vec<f64>)> {
        let (data, features) = (self.data, &self.features);
        let d = data.points.ncols();
        let model = Hyperparameters::from_logs(t, &data.categorical);
        let noise: Vec<f64> = data.noise_weights.iter().map(|weight| weight * model.noise_variance).collect();
        let linear = self.linear.as_ref().filter(|_| t.len() > d + 2);
        let Covariances { radial, slopes, both } = vectorized(AllTerms { features, model: &model, linear });
        let factor = factorize(both, &noise)?;
        let whitened = &factor.inverse * &self.values;
        let solved = factor.inverse.tr_mul(&whitened);
        let mut gradient = vec![0.0; t.len()];
        vectorized(Contraction {
            data,
            features,
            model: &model,
            solved: &PaddedColumns::new(solved.as_view()),
            inverse: &mut LowerBlocks::of(&factor.inverse()),
            radial: &radial,
            slopes: &slopes,
            linear,
            gradient: &mut gradient,
        });
        let prior = add_negative_log_prior(t, d, noise_log_priors(data), &mut gradient);
        Some((0.5 * whitened.norm_squared() + factor.half_log_determinant + prior, gradient))
    }
}

impl Objective for Loss<'_> {
    fn evaluate(&self, _runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation> {
        let failed = || Evaluation { cost: f64::INFINITY, gradient: Vec::new() };
        let evaluation = |t: &Vec<f64>| self.evaluate_one(t).map(|(cost, gradient)| Evaluation { cost, gradient });
        points.iter().map(|t| evaluation(t).unwrap_or_else(failed)).collect()
    }
}

struct LinearTerm<'a>(&'a Features<'a>);

impl WithSimd for LinearTerm<'_> {
    type Output = LowerBlocks;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> LowerBlocks {
        let mut linear = LowerBlocks::zeros(self.0.points());
        let mut center = vec![0.0; self.0.count()];
        for k in 0..self.0.points() {
            self.0.copy_point(k, &mut center);
            self.0.products(simd, k, &center, linear.column_mut(k));
        }
        linear
    }
}

struct Covariances {
    /// `s2 m`.
    radial: LowerBlocks,
    /// `s2 m'`.
    slopes: LowerBlocks,
    /// `s2 m + s_lin (1/4 + v.v')`.
    both: DMatrix<f64>,
}

struct AllTerms<'a> {
    features: &'a Features<'a>,
    model: &'a Hyperparameters,
    linear: Option<&'a LowerBlocks>,
}

impl WithSimd for AllTerms<'_> {
    type Output = Covariances;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Covariances {
        let Self { features, model: Hyperparameters { kernel, .. }, linear } = self;
        let mut radial = LowerBlocks::zeros(features.points());
        let mut center = vec![0.0; features.count()];
        for k in 0..features.points() {
            features.copy_point(k, &mut center);
            features.squared_distances(simd, k, &center, &kernel.inverse_squared_lengthscales, radial.column_mut(k));
        }
        let mut slopes = radial.clone();
        let pairs = radial.blocks_mut().as_flattened_mut().iter_mut().zip(slopes.blocks_mut().as_flattened_mut());
        for (value, slope) in pairs {
            let (m, derivative) = matern_with_derivative(*value);
            *value = kernel.radial_variance * m;
            *slope = kernel.radial_variance * derivative;
        }
        let mut both = radial.clone();
        if let Some(linear) = linear {
            let pairs = both.blocks_mut().as_flattened_mut().iter_mut().zip(linear.blocks().as_flattened());
            pairs.for_each(|(sum, linear)| *sum += kernel.linear_variance * linear);
        }
        Covariances { radial, slopes, both: both.to_matrix() }
    }
}

struct Contraction<'a> {
    data: &'a TrainingSet,
    features: &'a Features<'a>,
    model: &'a Hyperparameters,
    /// `a`, one column.
    solved: &'a PaddedColumns,
    /// `inv(K)`, padded with zeros; it is overwritten.
    inverse: &'a mut LowerBlocks,
    radial: &'a LowerBlocks,
    slopes: &'a LowerBlocks,
    linear: Option<&'a LowerBlocks>,
    /// In the order of `t`.
    gradient: &'a mut [f64],
}

impl WithSimd for Contraction<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { data, features, model, solved, inverse, radial, slopes, linear, gradient } = self;
        let (n, d) = data.points.shape();
        let mut by_noise = 0.0;
        for k in 0..n {
            // G, with the weight of both triangles; zero beyond the last row.
            let weights = inverse.column_mut(k);
            let own = solved.at(k, 0);
            for (weights, others) in weights.iter_mut().zip(solved.blocks(k, 0)) {
                for (weight, other) in weights.iter_mut().zip(others) {
                    *weight = 2.0 * (own * other - *weight);
                }
            }
            weights[0][0] *= 0.5;
            by_noise += data.noise_weights[k] * weights[0][0];
        }
        // Partial sums of each entry of the gradient.
        let mut parts = vec![[0.0; LANES]; gradient.len()];
        let product = |a, b| simd.mul_f64s(a, b);
        add_terms(simd, &mut parts[d], inverse.blocks(), radial.blocks(), product);
        if let Some(linear) = linear {
            add_terms(simd, &mut parts[d + 2], inverse.blocks(), linear.blocks(), product);
        }
        let pairs = inverse.blocks_mut().as_flattened_mut().iter_mut().zip(slopes.blocks().as_flattened());
        pairs.for_each(|(weight, slope)| *weight *= slope);
        let none = simd.splat_f64s(0.0);
        for (j, parts) in parts[..d].iter_mut().enumerate() {
            for k in 0..n {
                let (feature, weights) = (features.blocks(k, j), inverse.column(k));
                let center = simd.splat_f64s(feature[0][0]);
                if features.is_categorical(j) {
                    add_terms(simd, parts, feature, weights, |u, weight| {
                        simd.select_f64s(simd.equal_f64s(u, center), none, weight)
                    });
                } else {
                    add_terms(simd, parts, feature, weights, |u, weight| {
                        let difference = simd.sub_f64s(u, center);
                        simd.mul_f64s(simd.mul_f64s(weight, difference), difference)
                    });
                }
            }
        }
        let kernel = &model.kernel;
        for (j, scale) in kernel.inverse_squared_lengthscales.iter().enumerate() {
            gradient[j] = total(parts[j]) * scale;
        }
        gradient[d] = -0.5 * total(parts[d]);
        gradient[d + 1] = -0.5 * model.noise_variance * by_noise;
        if linear.is_some() {
            gradient[d + 2] = -0.5 * kernel.linear_variance * total(parts[d + 2]);
        }
    }
}
