//! The kernel widths of a group.
//!
//! Notation: `n` trials of the group in which the feature is active, `d` dimensions, `SS` sum of squared differences
//! from their mean along the feature, `C` number of levels.
//!
//! | group | ordered feature | categorical feature: share `t` of the other levels |
//! | --- | --- | --- |
//! | good, values differ | `0.8 sqrt((SS + 2 * 0.2^2) / (n + 2)) n^(-1/(d+4))` | `(C - 1) / (n + 1 + C)` |
//! | good, some values equal | `0.2 n^(-1/(d+4))` | the same |
//! | bad | `0.2 n^(-1/(d+4))` | the same |
//!
//! On a grid of `K` values the width is at least `0.7 / (K - 1)`, so that neighbours keep a positive probability.
//!
//! Sources: the rate is that of Scott 1992, Multivariate Density Estimation; the constant width of the bad group and
//! the categorical share are those of Optuna's multivariate mode. Departure: in Optuna every width is 0.2 (before the
//! rate) and at least `1 / (n + 2)`. Here the width of the good group follows the spread of the good trials, shrunk
//! towards 0.2 by two imaginary trials, and thus narrows as they concentrate. This assumes that better trials lie
//! nearby.
//!
//! If good trials have equal values, small steps do not change the value, and the good group has the constant width
//! too. Both rules are measured in docs/experiments/042.

use super::kernel::Kernel;
use super::mixture::Component;
use crate::encoding::{Encoding, Feature, FeatureKind};

/// Factor of the deviation of the good trials (measured, docs/experiments/042).
const GOOD_FACTOR: f64 = 0.8;
/// Width of a group of one trial (Optuna's).
const WIDEST: f64 = 0.2;
/// Number of imaginary good trials with deviation [`WIDEST`] (measured, docs/experiments/042).
const IMAGINARY: f64 = 2.0;
/// Smallest width on a grid, in steps (measured, docs/experiments/042).
const LEAST_STEPS: f64 = 0.7;

/// Group that a width belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Good {
        /// Whether trials of equal value were excluded.
        plateau: bool,
    },
    Bad,
}

/// One kernel per feature for the trials of a group.
pub(super) fn kernels(encoding: &Encoding, components: &[Component], group: Group) -> Vec<Kernel> {
    let d = encoding.dimensions() as f64;
    let kernel = |(j, feature): (usize, &Feature)| {
        let coordinates: Vec<f64> = components.iter().filter(|c| c.active[j]).map(|c| c.point[j]).collect();
        let n = coordinates.len() as f64;
        let deviation = match group {
            Group::Good { plateau: false } => GOOD_FACTOR * shrunk_deviation(&coordinates),
            Group::Good { plateau: true } => WIDEST,
            Group::Bad => WIDEST,
        };
        let width = deviation * n.max(1.0).powf(-1.0 / (d + 4.0));
        match &feature.kind {
            FeatureKind::Continuous | FeatureKind::LargeGrid => Kernel::new(&feature.kind, width, 0.0),
            FeatureKind::Grid { points } => {
                let least = LEAST_STEPS / (points.len() - 1) as f64;
                Kernel::new(&feature.kind, width.max(least), 0.0)
            }
            FeatureKind::Categorical { levels } => {
                let levels = *levels as f64;
                Kernel::new(&feature.kind, width, (levels - 1.0) / (n + 1.0 + levels))
            }
        }
    };
    encoding.features().iter().enumerate().map(kernel).collect()
}

/// Standard deviation including the imaginary trials; [`WIDEST`] if there are no others.
fn shrunk_deviation(coordinates: &[f64]) -> f64 {
    let n = coordinates.len() as f64;
    let mean = coordinates.iter().sum::<f64>() / n.max(1.0);
    let squares: f64 = coordinates.iter().map(|u| (u - mean) * (u - mean)).sum();
    ((squares + IMAGINARY * WIDEST * WIDEST) / (n + IMAGINARY)).sqrt()
}
