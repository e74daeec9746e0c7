//! Normal distribution of proposals, and its update by a generation.
//!
//! Notation: `n` dimensions, `m` mean `[n]`, `sigma` step size, `C` covariance `[n, n]`, `A` diagonal scaling `[n]`
//! (ones unless some feature is a grid), `y ~ N(0, C)` step `[n]`, `x = m + sigma A y` point `[n]`, `p_sigma` and `p_c`
//! evolution paths `[n]`, `w` weights by rank.
//!
//! Source: Hansen 2016, arXiv 1604.00772, equations 38 to 47, with the active (negative) update. Departures: the
//! symmetric root of `C` maps normals to steps instead of `B D` (the same distribution, but independent of the order
//! and signs of eigenvectors). Steps longer than `sqrt(n) + 2 n / (n + 2)` in the metric of `C` are shortened to that
//! length (Hansen 2011, Injecting External Solutions Into CMA-ES, arXiv 1110.4181), since a history may contain trials
//! from other distributions.

use nalgebra::{DMatrix, DVector};

use super::constants::Constants;

/// Smallest eigenvalue as a share of the largest; smaller ones are raised to it.
const SMALLEST_EIGENVALUE: f64 = 1e-30;

/// State of one run of the strategy.
#[derive(Debug, Clone)]
pub(super) struct Distribution {
    /// `m`.
    pub(super) mean: DVector<f64>,
    /// `sigma`, positive.
    pub(super) step_size: f64,
    /// `A`, positive.
    pub(super) scaling: DVector<f64>,
    /// `C`, symmetric.
    covariance: DMatrix<f64>,
    /// `C^(1/2)`, symmetric.
    root: DMatrix<f64>,
    /// `C^(-1/2)`, symmetric.
    inverse_root: DMatrix<f64>,
    /// Ratio of the largest to the smallest eigenvalue of `C`.
    condition: f64,
    /// `p_sigma`.
    step_path: DVector<f64>,
    /// `p_c`.
    covariance_path: DVector<f64>,
    generation: i32,
}

impl Distribution {
    /// Isotropic distribution around `mean`.
    pub(super) fn new(mean: DVector<f64>, step_size: f64) -> Self {
        let n = mean.len();
        Self {
            mean,
            step_size,
            scaling: DVector::from_element(n, 1.0),
            covariance: DMatrix::identity(n, n),
            root: DMatrix::identity(n, n),
            inverse_root: DMatrix::identity(n, n),
            condition: 1.0,
            step_path: DVector::zeros(n),
            covariance_path: DVector::zeros(n),
            generation: 0,
        }
    }

    /// Point for independent standard `normals`, shape `[n]`.
    pub(super) fn point(&self, normals: &DVector<f64>) -> DVector<f64> {
        &self.mean + (&self.root * normals).component_mul(&self.scaling) * self.step_size
    }

    /// Step `y` to a point.
    pub(super) fn step_to(&self, point: &DVector<f64>) -> DVector<f64> {
        (point - &self.mean).component_div(&self.scaling) / self.step_size
    }

    /// Standard deviation along feature `j`.
    pub(super) fn deviation(&self, j: usize) -> f64 {
        self.step_size * self.scaling[j] * self.covariance[(j, j)].sqrt()
    }

    pub(super) fn condition(&self) -> f64 {
        self.condition
    }

    /// Whether all numbers are finite and the deviations positive.
    pub(super) fn is_sound(&self) -> bool {
        let finite = |values: &DVector<f64>| values.iter().all(|value| value.is_finite());
        let positive = |j| self.deviation(j) > 0.0 && self.deviation(j).is_finite();
        finite(&self.mean) && finite(&self.scaling) && self.condition.is_finite() && (0..self.mean.len()).all(positive)
    }

    /// Updates the state by one generation of `steps`, best first, one per weight of `constants`.
    pub(super) fn update(&mut self, constants: &Constants, steps: &[DVector<f64>]) {
        let n = constants.dimensions as f64;
        let longest = n.sqrt() + 2.0 * n / (n + 2.0);
        let whitened: Vec<DVector<f64>> = steps.iter().map(|step| &self.inverse_root * step).collect();
        let shares: Vec<f64> = whitened.iter().map(|white| (longest / white.norm()).min(1.0)).collect();
        let mut mean_step = DVector::zeros(constants.dimensions);
        let mut mean_white = DVector::zeros(constants.dimensions);
        let positive = constants.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        for (rank, weight) in positive {
            mean_step.axpy(weight * shares[rank], &steps[rank], 1.0);
            mean_white.axpy(weight * shares[rank], &whitened[rank], 1.0);
        }
        self.mean += mean_step.component_mul(&self.scaling) * self.step_size;

        let (c_sigma, c_c) = (constants.step_path_rate, constants.covariance_path_rate);
        let gain = |rate: f64| (rate * (2.0 - rate) * constants.selection_mass).sqrt();
        self.step_path *= 1.0 - c_sigma;
        self.step_path.axpy(gain(c_sigma), &mean_white, 1.0);
        let length = self.step_path.norm();
        self.generation = self.generation.saturating_add(1);
        let settled = (1.0 - (1.0 - c_sigma).powi(self.generation.saturating_mul(2))).sqrt();
        let stalled = length / settled >= (1.4 + 2.0 / (n + 1.0)) * constants.expected_length;
        self.step_size *= (c_sigma / constants.step_damping * (length / constants.expected_length - 1.0)).exp();
        self.covariance_path *= 1.0 - c_c;
        if !stalled {
            self.covariance_path.axpy(gain(c_c), &mean_step, 1.0);
        }

        let (c_1, c_mu) = (constants.rank_one_rate, constants.rank_mu_rate);
        let lost = if stalled { c_c * (2.0 - c_c) } else { 0.0 };
        self.covariance *= 1.0 + c_1 * lost - c_1 - c_mu * constants.weights.iter().sum::<f64>();
        self.covariance.ger(c_1, &self.covariance_path, &self.covariance_path, 1.0);
        for (rank, weight) in constants.weights.iter().enumerate() {
            let square = shares[rank] * shares[rank];
            let scale = if *weight < 0.0 {
                // A step of length 0 has no effect, so any finite number can replace its inverse.
                n / (square * whitened[rank].norm_squared()).max(f64::MIN_POSITIVE.sqrt())
            } else {
                1.0
            };
            self.covariance.ger(c_mu * weight * scale * square, &steps[rank], &steps[rank], 1.0);
        }
        self.decompose();
    }

    /// Symmetrises `C` and computes its roots.
    fn decompose(&mut self) {
        self.covariance = (&self.covariance + self.covariance.transpose()) * 0.5;
        let eigen = self.covariance.clone().symmetric_eigen();
        let largest = eigen.eigenvalues.max();
        let values = eigen.eigenvalues.map(|value| value.max(largest * SMALLEST_EIGENVALUE));
        self.condition = largest / values.min();
        let basis = &eigen.eigenvectors;
        let with = |diagonal: DVector<f64>| basis * DMatrix::from_diagonal(&diagonal) * basis.transpose();
        self.root = with(values.map(f64::sqrt));
        self.inverse_root = with(values.map(|value| value.sqrt().recip()));
    }

    #[cfg(test)]
    pub(super) fn covariance(&self) -> &DMatrix<f64> {
        &self.covariance
    }
}
