//! Evidence of noise: whether the results of one point would differ.
//!
//! A rough but exact function and noise look the same to a model with one result for each point, so its fitted noise
//! variance alone is no evidence: it is also what the model cannot explain, as in a narrow valley.

use super::model::InsightModel;
use crate::problem::ObservationNoise;

/// Ratio of the fitted noise to the signal variance from which there may be noise. Smaller ones occur with exact results
/// as often as with noise (measured, see docs/experiments/023).
const LEAST_NOISE_TO_SIGNAL: f64 = 0.25;
/// Deviations of the difference by which another point is better than the best measured one under the model if that one is
/// noise without further evidence (measured, see docs/experiments/023).
const CERTAIN_DEVIATIONS: f64 = 4.0;
/// Number of pairs of the nearest points whose results are compared, and the ratio of their variance to the fitted
/// noise below which the results are exact (measured, see docs/experiments/023).
const NEAREST_PAIRS: usize = 5;
const EXACT_PAIRS: f64 = 0.07;
/// Minimum number of points among which pairs are searched. A guess.
const FEWEST_COMPARED: usize = 10;

impl InsightModel {
    /// Whether there is evidence of noise: a statement of the user, different results of the same point, a best result that
    /// the model rejects, or a large fitted noise variance that the results of the nearest points confirm.
    pub fn is_noisy(&self) -> bool {
        match self.data.noise {
            ObservationNoise::Low => return false,
            ObservationNoise::High => return true,
            ObservationNoise::Auto => {}
        }
        let finished = self.rows.iter().filter(|row| row.finished);
        let mut deviations = finished.filter_map(|row| Some((row.deviation?, row.value))).peekable();
        if deviations.peek().is_some() {
            // Sums of equal values may differ by rounding errors.
            return deviations.any(|(deviation, value)| deviation > 1e-9 * value.abs());
        }
        // A single wrong result raises the fitted noise, so that the others seem to be exact.
        self.best_is_refuted() || (self.noise_to_signal() >= LEAST_NOISE_TO_SIGNAL && !self.neighbours_are_equal())
    }

    /// Whether the model is certain that another measured point is better than the best one.
    fn best_is_refuted(&self) -> bool {
        self.rows_by_mean().first().is_some_and(|&row| self.exceeds(row, self.best_row(), CERTAIN_DEVIATIONS))
    }

    /// Whether the results of the nearest points among the better half differ by much less than the fitted noise.
    fn neighbours_are_equal(&self) -> bool {
        let mut rows: Vec<usize> = (0..self.rows.len()).filter(|&row| self.rows[row].finished).collect();
        rows.sort_by(|&a, &b| self.rows[b].value.total_cmp(&self.rows[a].value).then(a.cmp(&b)));
        rows.truncate((rows.len() / 2).max(FEWEST_COMPARED));
        let mut pairs = Vec::with_capacity(rows.len() * rows.len() / 2);
        for (place, &a) in rows.iter().enumerate() {
            for &b in &rows[place + 1..] {
                pairs.push((self.squared_distance(a, b), (self.data.values[a] - self.data.values[b]).powi(2)));
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        pairs.truncate(NEAREST_PAIRS);
        // The difference of two results has twice the variance of one.
        let variance = pairs.iter().map(|(_, squared)| 0.5 * squared).sum::<f64>() / pairs.len().max(1) as f64;
        variance < EXACT_PAIRS * self.posterior.hyperparameters().noise_variance
    }

    /// Squared distance of the points of two rows, in length scales. Categories that differ are 1 apart.
    fn squared_distance(&self, a: usize, b: usize) -> f64 {
        let kernel = &self.posterior.hyperparameters().kernel;
        let coordinates = self.rows[a].point.iter().zip(&self.rows[b].point);
        let features = coordinates.zip(&kernel.categorical).zip(&kernel.inverse_squared_lengthscales);
        features
            .map(|(((a, b), categorical), scale)| {
                let squared = if *categorical { f64::from(a != b) } else { (a - b).powi(2) };
                squared * scale
            })
            .sum()
    }
}
