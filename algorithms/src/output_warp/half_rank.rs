//! Values below the median replaced by what a normal distribution would have at their rank.
//!
//! Source: OSS Vizier, `HalfRankComponent` in `vizier/_src/algorithms/designers/gp/output_warpers.py`. Values at or
//! above the median keep their value, so order and scale survive where it matters, and one huge loss cannot flatten
//! the model.

use crate::numerics::normal::quantile;

/// Applies the transform to `values` (larger is better, finite). With `m` the median, `D` the number of distinct
/// values below it (plus a half if `m` itself occurs) and `s` the root mean square distance to `m` of the distinct
/// values above, a value of dense rank `r` (worst = 1) below becomes `m + s PhiInv(0.5 (r - 0.5) / D)`.
pub fn half_rank(values: &mut [f64]) {
    if values.len() < 2 {
        return;
    }
    let median = super::median(values);
    let mut distinct = values.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let below = distinct.partition_point(|value| *value < median);
    let count = below as f64 + if distinct.get(below) == Some(&median) { 0.5 } else { 0.0 };
    let spread_of = |values: &[f64]| {
        (values.iter().map(|value| (value - median) * (value - median)).sum::<f64>() / values.len() as f64).sqrt()
    };
    let above = spread_of(&distinct[below..]);
    let spread = if above > 0.0 { above } else { spread_of(&distinct) };
    for value in values.iter_mut().filter(|value| **value < median) {
        let rank = distinct.partition_point(|other| other < value) as f64 + 1.0;
        *value = median + spread * quantile(0.5 * (rank - 0.5) / count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rank_counts_below_the_median() {
        let mut mild = [-1.0, 0.5, 1.0, 2.0, 3.0];
        let mut harsh = [-1e30, -20.0, 1.0, 2.0, 3.0];
        half_rank(&mut mild);
        half_rank(&mut harsh);
        assert_eq!(mild, harsh);
        assert_eq!(mild[2..], [1.0, 2.0, 3.0]);
        assert!(mild[0] < mild[1] && mild[1] < 1.0);
    }

    #[test]
    fn values_by_hand() {
        // Median 1, two distinct below plus a half: D = 2.5; s = sqrt((0 + 1 + 4) / 3).
        let mut values = [-1.0, 0.5, 1.0, 2.0, 3.0];
        half_rank(&mut values);
        let spread = (5.0_f64 / 3.0).sqrt();
        assert!((values[0] - (1.0 + spread * quantile(0.1))).abs() < 1e-12);
        assert!((values[1] - (1.0 + spread * quantile(0.3))).abs() < 1e-12);
    }
}
