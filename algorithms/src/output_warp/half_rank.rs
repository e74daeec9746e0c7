//! Half-rank transform: normal quantiles of their rank replace the values below the median.
//!
//! Source: OSS Vizier, `HalfRankComponent` in `vizier/_src/algorithms/designers/gp/output_warpers.py`. Values at or
//! above the median do not change. Order and scale are thus preserved where they matter, and a single huge loss cannot
//! dominate the model.

use crate::numerics::normal::{distribution, quantile};

/// Transforms `values` (larger is better, finite). With `m` the median, `D` the number of distinct values below it
/// (plus a half if `m` itself occurs) and `s` the root mean square distance to `m` of the distinct values above, a
/// value of dense rank `r` (worst = 1) below `m` becomes `m + s PhiInv(0.5 (r - 0.5) / D)`.
pub fn half_rank(values: &mut [f64]) {
    if let Some(transform) = HalfRank::fit(values) {
        values.iter_mut().for_each(|value| *value = transform.apply(*value));
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct HalfRank {
    median: f64,
    spread: f64,
    /// `D`.
    count: f64,
    /// Distinct values below the median, increasing.
    below: Vec<f64>,
}

impl HalfRank {
    /// Fits the transform; `None` for fewer than two values.
    pub(super) fn fit(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
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
        distinct.truncate(below);
        Some(Self { median, spread, count, below: distinct })
    }

    pub(super) fn apply(&self, value: f64) -> f64 {
        if value < self.median {
            let rank = self.below.partition_point(|other| *other < value) as f64 + 1.0;
            self.median + self.spread * quantile(0.5 * (rank - 0.5) / self.count)
        } else {
            value
        }
    }

    /// Value whose transform is `target`, interpolated linearly by rank below the median, and at least the lowest
    /// value.
    pub(super) fn inverse(&self, target: f64) -> f64 {
        let Some(&lowest) = self.below.first() else { return target };
        if target >= self.median {
            return target;
        }
        // The median follows the last of the values below it, at rank D + 1/2.
        let rank = 2.0 * self.count * distribution((target - self.median) / self.spread) + 0.5;
        // Rounding errors must not mix a value with its neighbour, which may be 1e30 away.
        let rank = if (rank - rank.round()).abs() < 1e-9 { rank.round() } else { rank };
        if rank <= 1.0 {
            return lowest;
        }
        let node = |index: usize| match self.below.get(index) {
            Some(&value) => (index as f64 + 1.0, value),
            None => (self.count + 0.5, self.median),
        };
        let left = (rank.floor() as usize - 1).min(self.below.len() - 1);
        let ((rank_left, value_left), (rank_right, value_right)) = (node(left), node(left + 1));
        let share = ((rank - rank_left) / (rank_right - rank_left)).clamp(0.0, 1.0);
        // Weighted, so that the difference of two huge values cannot overflow.
        value_left * (1.0 - share) + value_right * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_the_median_depend_on_ranks_only() {
        let mut mild = [-1.0, 0.5, 1.0, 2.0, 3.0];
        let mut harsh = [-1e30, -20.0, 1.0, 2.0, 3.0];
        half_rank(&mut mild);
        half_rank(&mut harsh);
        assert_eq!(mild, harsh);
        assert_eq!(mild[2..], [1.0, 2.0, 3.0]);
        assert!(mild[0] < mild[1] && mild[1] < 1.0);
    }

    #[test]
    fn known_values() {
        // Median 1, two distinct below plus a half: D = 2.5; s = sqrt((0 + 1 + 4) / 3).
        let mut values = [-1.0, 0.5, 1.0, 2.0, 3.0];
        half_rank(&mut values);
        let spread = (5.0_f64 / 3.0).sqrt();
        assert!((values[0] - (1.0 + spread * quantile(0.1))).abs() < 1e-12);
        assert!((values[1] - (1.0 + spread * quantile(0.3))).abs() < 1e-12);
    }
}
