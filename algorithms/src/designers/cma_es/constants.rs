//! Default strategy parameters.
//!
//! Notation as in the source: `n` dimensions, `lambda` trials per generation, `mu` of them with positive weights, `w`
//! weights by rank, `mu_eff` variance-effective selection mass.
//!
//! Source: Hansen 2016, The CMA Evolution Strategy: A Tutorial, arXiv 1604.00772, table 1 and equations 49 to 58.

/// Strategy parameters for one number of dimensions and one population size.
#[derive(Debug, Clone)]
pub(super) struct Constants {
    /// `n`.
    pub(super) dimensions: usize,
    /// `w`, the best rank first; the second half is negative. Shape `[lambda]`.
    pub(super) weights: Vec<f64>,
    /// `mu_eff`.
    pub(super) selection_mass: f64,
    /// `c_sigma`.
    pub(super) step_path_rate: f64,
    /// `d_sigma`.
    pub(super) step_damping: f64,
    /// `c_c`.
    pub(super) covariance_path_rate: f64,
    /// `c_1`.
    pub(super) rank_one_rate: f64,
    /// `c_mu`.
    pub(super) rank_mu_rate: f64,
    /// `E ||N(0, I)||`.
    pub(super) expected_length: f64,
}

impl Constants {
    /// `lambda` of the first run: `4 + floor(3 ln n)`, for `n >= 1`.
    pub(super) fn default_population(dimensions: usize) -> usize {
        4 + (3.0 * (dimensions as f64).ln()).floor() as usize
    }

    /// Defaults for `dimensions` of at least 1 and a `population` of at least 4.
    pub(super) fn new(dimensions: usize, population: usize) -> Self {
        const ALPHA_COVARIANCE: f64 = 2.0;
        let n = dimensions as f64;
        let half = ((population as f64 + 1.0) / 2.0).ln();
        let raw: Vec<f64> = (1..=population).map(|rank| half - (rank as f64).ln()).collect();
        let (positive, negative) = raw.split_at(population / 2);
        let mass = |weights: &[f64]| {
            let sum: f64 = weights.iter().sum();
            sum * sum / weights.iter().map(|weight| weight * weight).sum::<f64>()
        };
        let (mu_eff, mu_eff_negative) = (mass(positive), mass(negative));
        let covariance_path_rate = (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n);
        let rank_one_rate = ALPHA_COVARIANCE / ((n + 1.3).powi(2) + mu_eff);
        let rank_mu_rate = (ALPHA_COVARIANCE * (0.25 + mu_eff + 1.0 / mu_eff - 2.0)
            / ((n + 2.0).powi(2) + ALPHA_COVARIANCE * mu_eff / 2.0))
            .min(1.0 - rank_one_rate);
        let step_path_rate = (mu_eff + 2.0) / (n + mu_eff + 5.0);
        let negative_sum = (1.0 + rank_one_rate / rank_mu_rate)
            .min(1.0 + 2.0 * mu_eff_negative / (mu_eff + 2.0))
            .min((1.0 - rank_one_rate - rank_mu_rate) / (n * rank_mu_rate));
        let (positive_total, negative_total): (f64, f64) = (positive.iter().sum(), -negative.iter().sum::<f64>());
        let weight = |raw: &f64| if *raw >= 0.0 { raw / positive_total } else { negative_sum * raw / negative_total };
        Self {
            dimensions,
            weights: raw.iter().map(weight).collect(),
            selection_mass: mu_eff,
            step_path_rate,
            step_damping: 1.0 + 2.0 * (((mu_eff - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + step_path_rate,
            covariance_path_rate,
            rank_one_rate,
            rank_mu_rate,
            expected_length: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }

    /// `lambda`.
    pub(super) fn population(&self) -> usize {
        self.weights.len()
    }
}
