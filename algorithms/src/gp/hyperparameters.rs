//! Hyperparameters with their priors, bounds and starts.
//!
//! The vector `t` is `(ln l_1 .. ln l_d, ln s2, ln nz, ln s_lin)`; the last entry exists only if some feature is
//! ordered. `nz` is the noise variance of one observation.
//!
//! | entry | prior | box |
//! |---|---|---|
//! | `l` | LogNormal(sqrt 2 + ln(d)/2, sqrt 3) (Hvarfner et al. 2024, arXiv 2402.02229), a density in `l`; times the pooling below | [0.025, 400] |
//! | `s2` | `ln s2 ~ N(0, 1)` | [e^-4, e^4] |
//! | `nz` | `ln nz ~ N(-9, 3^2)`, with low noise `N(-14, 1.5^2)`, with high noise `N(-2.3, 1)`; see below | [1e-8, e] |
//! | `s_lin` | `ln s_lin ~ N(0, 2^2)` | [e^-12, e^8] |
//!
//! Length scales are pooled, as in a hierarchical model: `ln l_j ~ N(m, 1.5^2 / d)` around their mean `m`. A few trials
//! contain little information about `d` separate length scales (measured, see docs/experiments/006).
//!
//! If nothing is stated about the noise, `nz` has its first prior or, equally likely, that of high noise, from 40 observations
//! of 4 features on. With fewer observations, many functions without noise look noisy, and with fewer features the
//! observations outweigh the prior (measured, see docs/experiments/016).
//!
//! Hvarfner et al. fix `s2 = 1`; a free output scale performs better on functions with large ranges. The priors on `s2`,
//! `nz` and `s_lin` and all boxes come from measurements on our development problems.

use super::kernel::Kernel;
use super::training_set::TrainingSet;
use crate::problem::ObservationNoise;

/// Variance of log length scales in their prior.
const LENGTHSCALE_LOG_VARIANCE: f64 = 3.0;
/// Deviation of log length scales from their mean, times `sqrt(d)` (measured, see docs/experiments/006).
const POOLING_LOG_DEVIATION: f64 = 1.5;
const LENGTHSCALE_BOUNDS: (f64, f64) = (0.025, 400.0);
const RADIAL_LOG_BOUNDS: (f64, f64) = (-4.0, 4.0);
/// Mean and deviation of the log noise variance: measured for unknown noise, guesses for low and high noise. High noise has
/// a median of a tenth of the variance of the values, low noise of a millionth.
const NOISE_LOG_PRIOR: (f64, f64) = (-9.0, 3.0);
const LOW_NOISE_LOG_PRIOR: (f64, f64) = (-14.0, 1.5);
const HIGH_NOISE_LOG_PRIOR: (f64, f64) = (-2.3, 1.0);
/// Numbers of observations and features from which unknown noise may be high (measured, see docs/experiments/016).
const MAY_BE_HIGH_FROM: (usize, usize) = (40, 4);
const NOISE_BOUNDS: (f64, f64) = (1e-8, std::f64::consts::E);
const LINEAR_LOG_DEVIATION: f64 = 2.0;
const LINEAR_LOG_BOUNDS: (f64, f64) = (-12.0, 8.0);

/// Fitted or assumed parameters of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Hyperparameters {
    /// Covariance function.
    pub kernel: Kernel,
    /// `nz`, the noise variance of an observation of weight 1.
    pub noise_variance: f64,
}

impl Hyperparameters {
    /// Converts the vector `t`, with or without a linear term; `categorical` marks the categories among the features.
    pub(super) fn from_logs(t: &[f64], categorical: &[bool]) -> Self {
        let d = categorical.len();
        Self {
            kernel: Kernel {
                inverse_squared_lengthscales: t[..d].iter().map(|ln_l| (-2.0 * ln_l).exp()).collect(),
                categorical: categorical.to_vec(),
                radial_variance: t[d].exp(),
                linear_variance: t.get(d + 2).map_or(0.0, |ln| ln.exp()),
            },
            noise_variance: t[d + 1].exp(),
        }
    }

    /// Converts to the vector `t`.
    pub fn to_logs(&self) -> Vec<f64> {
        let kernel = &self.kernel;
        let mut t: Vec<f64> = kernel.inverse_squared_lengthscales.iter().map(|inverse| -0.5 * inverse.ln()).collect();
        t.extend([kernel.radial_variance.ln(), self.noise_variance.ln()]);
        if has_linear_term(&kernel.categorical) {
            t.push(kernel.linear_variance.ln());
        }
        t
    }

    /// Start of the search: length scales at the mode of their prior times `relative_lengthscale`, `s2 = s_lin = 1`,
    /// and the given noise.
    pub(super) fn start(categorical: &[bool], relative_lengthscale: f64, noise_variance: f64) -> Vec<f64> {
        let d = categorical.len();
        let mut t = vec![(lengthscale_mode(d) * relative_lengthscale).ln(); d];
        t.extend([0.0, noise_variance.ln()]);
        if has_linear_term(categorical) {
            t.push(0.0);
        }
        t
    }

    /// Default start, used when no fit is possible.
    pub fn default_for(categorical: &[bool]) -> Self {
        Self::from_logs(&Self::start(categorical, 1.0, 1e-3), categorical)
    }

    /// Lower and upper bounds of `t`.
    pub(super) fn bounds(categorical: &[bool]) -> (Vec<f64>, Vec<f64>) {
        let d = categorical.len();
        let mut bounds = vec![(LENGTHSCALE_BOUNDS.0.ln(), LENGTHSCALE_BOUNDS.1.ln()); d];
        bounds.extend([RADIAL_LOG_BOUNDS, (NOISE_BOUNDS.0.ln(), NOISE_BOUNDS.1.ln())]);
        if has_linear_term(categorical) {
            bounds.push(LINEAR_LOG_BOUNDS);
        }
        bounds.into_iter().unzip()
    }

    /// `l_j` of each feature.
    pub fn lengthscales(&self) -> Vec<f64> {
        self.kernel.inverse_squared_lengthscales.iter().map(|inverse| inverse.sqrt().recip()).collect()
    }
}

/// Mode `exp(mu - sd^2)` of the length-scale prior for `d` features, 0.205 sqrt(d).
pub(super) fn lengthscale_mode(d: usize) -> f64 {
    (lengthscale_log_mean(d) - LENGTHSCALE_LOG_VARIANCE).exp()
}

fn lengthscale_log_mean(d: usize) -> f64 {
    std::f64::consts::SQRT_2 + 0.5 * (d as f64).ln()
}

pub(super) fn has_linear_term(categorical: &[bool]) -> bool {
    categorical.iter().any(|categorical| !categorical)
}

/// Mean and deviation of the normal distributions, all equally likely, of the log noise variance of `data`.
pub(super) fn noise_log_priors(data: &TrainingSet) -> &'static [(f64, f64)] {
    let (observations, features) = data.points.shape();
    let may_be_high = observations >= MAY_BE_HIGH_FROM.0 && features >= MAY_BE_HIGH_FROM.1;
    match data.noise {
        ObservationNoise::Auto if may_be_high => &[NOISE_LOG_PRIOR, HIGH_NOISE_LOG_PRIOR],
        ObservationNoise::Auto => &[NOISE_LOG_PRIOR],
        ObservationNoise::Low => &[LOW_NOISE_LOG_PRIOR],
        ObservationNoise::High => &[HIGH_NOISE_LOG_PRIOR],
    }
}

/// `-ln prior(t)` up to a constant, for `d` features and the result of [`noise_log_priors`]; adds its gradient to
/// `gradient`.
pub(super) fn add_negative_log_prior(t: &[f64], d: usize, noise_priors: &[(f64, f64)], gradient: &mut [f64]) -> f64 {
    let mean = lengthscale_log_mean(d);
    let own_mean = t[..d].iter().sum::<f64>() / d.max(1) as f64;
    let pooled_variance = POOLING_LOG_DEVIATION * POOLING_LOG_DEVIATION / d.max(1) as f64;
    let mut loss = 0.0;
    for (ln_l, slope) in t[..d].iter().zip(gradient.iter_mut()) {
        // The leading term makes it a density in l: without it the mode would be 4.1 sqrt(d).
        loss += ln_l + (ln_l - mean).powi(2) / (2.0 * LENGTHSCALE_LOG_VARIANCE);
        *slope += 1.0 + (ln_l - mean) / LENGTHSCALE_LOG_VARIANCE;
        // The deviations sum to 0, so the derivative through the mean is 0.
        let deviation = ln_l - own_mean;
        loss += deviation * deviation / (2.0 * pooled_variance);
        *slope += deviation / pooled_variance;
    }
    let (signal, noise) = (normal(t[d], 0.0, 1.0), mixture(t[d + 1], noise_priors));
    loss += signal.0 + noise.0;
    gradient[d] += signal.1;
    gradient[d + 1] += noise.1;
    if t.len() > d + 2 {
        let linear = normal(t[d + 2], 0.0, LINEAR_LOG_DEVIATION);
        loss += linear.0;
        gradient[d + 2] += linear.1;
    }
    loss
}

/// `-ln` of a normal density at `x` up to a constant, and its derivative.
fn normal(x: f64, mean: f64, deviation: f64) -> (f64, f64) {
    let standardised = (x - mean) / deviation;
    (0.5 * standardised * standardised, standardised / deviation)
}

/// `-ln` of the mean of normal densities at `x` up to a constant, and its derivative; at least one mean and deviation.
fn mixture(x: f64, parts: &[(f64, f64)]) -> (f64, f64) {
    if let [(mean, deviation)] = parts {
        return normal(x, *mean, *deviation);
    }
    let costs = parts.iter().map(|(mean, deviation)| {
        let (cost, slope) = normal(x, *mean, *deviation);
        (cost + deviation.ln(), slope)
    });
    let least = costs.clone().map(|(cost, _)| cost).fold(f64::INFINITY, f64::min);
    // Relative to the most likely part, so that not all of them underflow.
    let (total, slopes) = costs.fold((0.0, 0.0), |(total, slopes), (cost, slope)| {
        let share = (least - cost).exp();
        (total + share, slopes + share * slope)
    });
    (least - f64::ln(total), slopes / total)
}
