//! The density of a single trial along one feature.
//!
//! Notation: `m` coordinate of the trial, `s` width, `phi` and `Phi` density and distribution function of the standard
//! normal, `[a, b]` the range of the feature, `C` number of levels,
//! `Z = Phi((b - m) / s) - Phi((a - m) / s)`.
//!
//! | feature | density or probability of `x` |
//! | --- | --- |
//! | continuous, large grid | `phi((x - m) / s) / (s Z)` on `[a, b] = [0, 1]` |
//! | grid | the mass of that density over the cell of `x`, `[a, b]` being all cells |
//! | categorical | `1 - t` if `x = m`, else `t / (C - 1)` |
//!
//! Cells meet halfway between neighbouring grid points. The outermost cells are symmetric about their point, so that
//! the end values are as likely as the others. The prior, and a trial without the feature, are uniform: density 1, the
//! cell's share of `[a, b]`, `1 / C`.
//!
//! Sources: truncated Gaussian kernels of Bergstra et al. 2011; the kernel of Aitchison and Aitken 1976 for categorical
//! parameters.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::encoding::FeatureKind;
use crate::numerics::normal::{LN_SQRT_2PI, distribution, quantile};

/// Number of deviations beyond which a tail does not change a probability near one; skipping it saves half of the work.
const NEGLIGIBLE_TAIL: f64 = 8.5;

/// Kernel of one feature, the same for all trials of a group.
#[derive(Debug, Clone)]
pub(super) enum Kernel {
    /// Truncated Gaussian.
    Interval {
        /// `s`, positive.
        width: f64,
    },
    /// Mass of a truncated Gaussian over cells.
    Cells {
        /// Bounds of the cells, increasing: one more than grid points.
        edges: Vec<f64>,
        /// `s`, positive.
        width: f64,
    },
    /// Share `t` for all other levels together.
    Levels {
        /// `C`, at least 2.
        count: usize,
        /// `t`, at most `(C - 1) / C`.
        other: f64,
    },
}

impl Kernel {
    /// Kernel of a feature: of `width` if it is ordered, otherwise with the share `other` for the other levels.
    pub(super) fn new(kind: &FeatureKind, width: f64, other: f64) -> Self {
        match kind {
            FeatureKind::Continuous | FeatureKind::LargeGrid => Self::Interval { width },
            FeatureKind::Grid { points } => Self::Cells { edges: cell_edges(points), width },
            FeatureKind::Categorical { levels } => {
                let count = *levels;
                Self::Levels { count, other: other.min((count - 1) as f64 / count as f64) }
            }
        }
    }

    /// Number of values; `None` for an interval.
    pub(super) fn values(&self) -> Option<usize> {
        match self {
            Self::Interval { .. } => None,
            Self::Cells { edges, .. } => Some(edges.len() - 1),
            Self::Levels { count, .. } => Some(*count),
        }
    }

    /// Index of the value at coordinate `u`, below [`Self::values`]; 0 for an interval.
    pub(super) fn index(&self, u: f64) -> usize {
        match self {
            Self::Interval { .. } => 0,
            // Grid points lie strictly inside their cells.
            Self::Cells { edges, .. } => edges.partition_point(|&edge| edge <= u).clamp(1, edges.len() - 1) - 1,
            Self::Levels { count, .. } => (u as usize).min(count - 1),
        }
    }

    /// For an interval and a trial at `m`: `ln` of the factor of `exp(-((x - m) / s)^2 / 2)`. 0 for other kernels.
    pub(super) fn log_factor(&self, m: f64) -> f64 {
        match self {
            Self::Interval { width } => {
                let (near, far) = (m.min(1.0 - m) / width, m.max(1.0 - m) / width);
                let beyond = if far < NEGLIGIBLE_TAIL { distribution(-far) } else { 0.0 };
                -LN_SQRT_2PI - (width * (1.0 - distribution(-near) - beyond)).ln()
            }
            Self::Cells { .. } | Self::Levels { .. } => 0.0,
        }
    }

    /// `ln` of the probability of value number `x` for a trial at each of the `centers` and, last, for a uniform
    /// component; shape `[centers + 1]`. Empty for an interval.
    pub(super) fn log_masses(&self, x: usize, centers: &[f64]) -> Vec<f64> {
        /// Lower bound of masses that underflow.
        const SMALLEST: f64 = 1e-300;
        match self {
            Self::Interval { .. } => vec![],
            Self::Cells { edges, width } => {
                let (first, last) = (edges[0], edges[edges.len() - 1]);
                let (low, high) = (edges[x], edges[x + 1]);
                let mass = |m: &f64| {
                    let total = normal_mass((first - m) / width, (last - m) / width);
                    (normal_mass((low - m) / width, (high - m) / width) / total).max(SMALLEST).ln()
                };
                let uniform = ((high - low) / (last - first)).max(SMALLEST).ln();
                centers.iter().map(mass).chain([uniform]).collect()
            }
            Self::Levels { count, other } => {
                let others = (other / (*count as f64 - 1.0)).max(SMALLEST).ln();
                let own = (-other).ln_1p();
                let mass = |m: &f64| if *m as usize == x { own } else { others };
                centers.iter().map(mass).chain([-(*count as f64).ln()]).collect()
            }
        }
    }

    /// Draws a coordinate from the kernel of a trial at `m`; for a grid, a coordinate inside the drawn cell.
    pub(super) fn draw(&self, m: f64, rng: &mut ChaCha8Rng) -> f64 {
        let uniform: f64 = rng.random();
        match self {
            Self::Interval { width } => truncated(m, *width, 0.0, 1.0, uniform),
            Self::Cells { edges, width } => truncated(m, *width, edges[0], edges[edges.len() - 1], uniform),
            Self::Levels { count, other } => {
                if uniform >= *other {
                    return m;
                }
                let step = 1 + pick(uniform / other, count - 1);
                ((m as usize + step) % count) as f64
            }
        }
    }

    pub(super) fn draw_uniform(&self, rng: &mut ChaCha8Rng) -> f64 {
        let uniform: f64 = rng.random();
        match self {
            Self::Interval { .. } => uniform,
            Self::Cells { edges, .. } => edges[0] + uniform * (edges[edges.len() - 1] - edges[0]),
            Self::Levels { count, .. } => pick(uniform, *count) as f64,
        }
    }
}

/// Index below `count` selected by `uniform` in `[0, 1)`.
fn pick(uniform: f64, count: usize) -> usize {
    ((uniform * count as f64) as usize).min(count - 1)
}

/// `Phi(b) - Phi(a)` for `a <= b`, computed in the tail with better accuracy.
fn normal_mass(a: f64, b: f64) -> f64 {
    if a > 0.0 { distribution(-a) - distribution(-b) } else { distribution(b) - distribution(a) }
}

/// Quantile `uniform` of the normal distribution around `m`, truncated to `[low, high]`, which contains `m`.
fn truncated(m: f64, width: f64, low: f64, high: f64, uniform: f64) -> f64 {
    let below = distribution((low - m) / width);
    let p = below + uniform * (distribution((high - m) / width) - below);
    let z = if p > 0.0 && p < 1.0 { quantile(p) } else { 0.0 };
    (m + width * z).clamp(low, high)
}

fn cell_edges(points: &[f64]) -> Vec<f64> {
    let halves = points.windows(2).map(|pair| 0.5 * (pair[0] + pair[1]));
    let last = points.len() - 1;
    let outer = |end: f64, next: f64| end + 0.5 * (end - next);
    let mut edges = vec![outer(points[0], points[1])];
    edges.extend(halves);
    edges.push(outer(points[last], points[last - 1]));
    edges
}
