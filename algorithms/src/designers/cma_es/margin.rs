//! Margin for ordered features with few values: the thresholds of their cells, and a lower bound on the probability of
//! leaving a cell.
//!
//! A normal distribution that has shrunk into one grid cell proposes the same value forever. The margin moves the mean
//! and widens the scaling of such a feature so that at least a share `alpha = 1 / (lambda n)` of the proposals leaves
//! the cell of the mean.
//!
//! Notation: `m` mean and `s` standard deviation of the feature, `l` thresholds between neighbouring values, `p_low`
//! and `p_up` probabilities of the values below and above the cell of the mean, `z_p` quantile of the standard normal.
//!
//! Source: Hamano, Saito, Nomura & Shirakawa 2022, CMA-ES with Margin, arXiv 2205.13482, section 4. Their quantiles of
//! the chi-square distribution with one degree of freedom are written here as `z_(1-p)`, the square root.

use super::distribution::Distribution;
use crate::encoding::FeatureKind;
use crate::numerics::normal::{distribution, quantile};

/// Range of an ordered feature, with its thresholds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Increasing; empty for a continuous feature.
    thresholds: Vec<f64>,
}

impl Range {
    /// Range of an ordered feature; `None` for a categorical one. The range of a grid extends half a step beyond its
    /// ends, so that the end values are as likely as the others.
    pub(super) fn new(kind: &FeatureKind) -> Option<Self> {
        match kind {
            FeatureKind::Categorical { .. } => None,
            FeatureKind::Continuous | FeatureKind::LargeGrid => Some(Self { low: 0.0, high: 1.0, thresholds: vec![] }),
            FeatureKind::Grid { points } => {
                let last = points.len() - 1;
                Some(Self {
                    low: points[0] - 0.5 * (points[1] - points[0]),
                    high: points[last] + 0.5 * (points[last] - points[last - 1]),
                    thresholds: points.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect(),
                })
            }
        }
    }

    pub(super) fn is_grid(&self) -> bool {
        !self.thresholds.is_empty()
    }
}

/// Applies the margin `alpha` to all grids.
pub(super) fn keep_margin(state: &mut Distribution, ranges: &[Range], alpha: f64) {
    for (j, range) in ranges.iter().enumerate().filter(|(_, range)| range.is_grid()) {
        let (m, s) = (state.mean[j], state.deviation(j));
        let (mean, deviation) = with_margin(&range.thresholds, m, s, alpha);
        state.mean[j] = mean;
        state.scaling[j] *= deviation / s;
    }
}

/// Mean and standard deviation that leave the cell of `m` often enough; `thresholds` is not empty.
fn with_margin(thresholds: &[f64], m: f64, s: f64, alpha: f64) -> (f64, f64) {
    let above = thresholds.partition_point(|&threshold| threshold < m);
    if above == 0 || above == thresholds.len() {
        // An outermost cell has one threshold.
        let threshold = thresholds[above.saturating_sub(1)];
        let farthest = s * quantile(1.0 - alpha);
        return (m.clamp(threshold - farthest, threshold + farthest), s);
    }
    let (low, up) = (thresholds[above - 1], thresholds[above]);
    let (p_low, p_up) = (distribution((low - m) / s), distribution((m - up) / s));
    let least = 0.5 * alpha;
    if p_low >= least && p_up >= least {
        return (m, s);
    }
    let p_middle = 1.0 - p_low - p_up;
    let (raised_low, raised_up) = (p_low.max(least), p_up.max(least));
    let total = raised_low + raised_up + p_middle;
    let share = (1.0 - total) / (total - 3.0 * least);
    let shrunk = |raised: f64| (raised + share * (raised - least)).clamp(f64::MIN_POSITIVE, 0.499);
    let (z_low, z_up) = (quantile(1.0 - shrunk(raised_low)), quantile(1.0 - shrunk(raised_up)));
    ((low * z_up + up * z_low) / (z_low + z_up), (up - low) / (z_low + z_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_distributions_do_not_change() {
        assert_eq!(with_margin(&[0.25, 0.75], 0.5, 0.2, 0.05), (0.5, 0.2));
        assert_eq!(with_margin(&[0.25, 0.75], 0.2, 0.2, 0.05), (0.2, 0.2));
    }

    #[test]
    fn margin_of_an_inner_cell_is_split_between_both_sides() {
        let alpha = 0.02;
        let (m, s) = with_margin(&[0.25, 0.75], 0.5, 1e-3, alpha);
        assert!((m - 0.5).abs() < 1e-12);
        assert!((distribution((0.25 - m) / s) - alpha / 2.0).abs() < 1e-9);
        // Near the upper threshold its probability is already large enough; only the other one is raised.
        let (m, s) = with_margin(&[0.25, 0.75], 0.74, 0.02, alpha);
        assert!((distribution((0.25 - m) / s) - alpha / 2.0).abs() < 1e-9);
        let before = distribution((0.74 - 0.75) / 0.02);
        let after = distribution((m - 0.75) / s);
        assert!((after - before).abs() < alpha, "{before} {after}");
    }

    #[test]
    fn mean_in_an_outermost_cell_moves_towards_the_threshold() {
        let (m, s) = with_margin(&[0.5], 1.0, 0.1, 0.05);
        assert_eq!(s, 0.1);
        assert!((distribution((0.5 - m) / s) - 0.05).abs() < 1e-9);
        let (m, _) = with_margin(&[0.5], 0.0, 0.1, 0.05);
        assert!((distribution((m - 0.5) / s) - 0.05).abs() < 1e-9);
    }
}
