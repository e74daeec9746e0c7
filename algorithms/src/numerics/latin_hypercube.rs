//! Stratified uniform numbers: a Latin hypercube, one axis at a time.
//!
//! Source: McKay, Beckman & Conover 1979, Technometrics 21(2). Used instead of a Sobol sequence where axes must be
//! keyed by the name of the parameter instead of its position, and where there are more axes than good pairs of a
//! sequence.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::normal::quantile;

/// `count` numbers in `[0, 1)`, exactly one in each of `count` equal strata, in random order.
pub fn stratified(rng: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    let width = 1.0 / count as f64;
    let mut values: Vec<f64> = (0..count).map(|stratum| (stratum as f64 + rng.random::<f64>()) * width).collect();
    values.shuffle(rng);
    values
}

/// `count` standard normal numbers, one in each of `count` strata of equal probability, in random order.
pub fn stratified_normals(rng: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    /// Truncates the outermost 1e-12 of the distribution, so that quantiles are finite.
    const EDGE: f64 = 1e-12;
    stratified(rng, count).into_iter().map(|u| quantile(u.clamp(EDGE, 1.0 - EDGE))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::TrialId;
    use crate::rng::stream;

    #[test]
    fn each_stratum_contains_one_number() {
        let values = stratified(&mut stream(1, TrialId(1), "strata"), 100);
        let mut strata: Vec<usize> = values.iter().map(|u| (u * 100.0) as usize).collect();
        strata.sort_unstable();
        assert_eq!(strata, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let values = stratified_normals(&mut stream(1, TrialId(1), "normals"), 1000);
        let mean = values.iter().sum::<f64>() / 1000.0;
        let variance = values.iter().map(|v| v * v).sum::<f64>() / 1000.0;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
