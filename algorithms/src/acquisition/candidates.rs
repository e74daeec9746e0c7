//! Candidates for screening, before refinement of the best.
//!
//! Three quarters fill the region (a Latin hypercube, one stream per feature name). One quarter are perturbations of
//! the best observed points, which matter in high dimensions (Papenmeier et al. 2025; TuRBO's code also moves each
//! coordinate with probability `min(1, 20/d)`). All of them are starts of the refinement, never proposals.
//!
//! A perturbation may activate parameters that its origin lacks; these are drawn from their whole axes.

use nalgebra::DMatrix;
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::branches::branch_coordinates;
use super::region::{Axis, Region, has_children};
use crate::encoding::Encoding;
use crate::numerics::latin_hypercube::stratified;
use crate::problem::TrialId;
use crate::rng::stream;

/// Range of `-log10` of the size of a perturbation.
const PERTURBATION_DECADES: (f64, f64) = (0.7, 3.0);
/// Mean number of coordinates moved by a perturbation, at most.
const MOVED_COORDINATES: f64 = 20.0;

/// Number of candidates of a search, for any number of features (measured up to 20 features, see docs/experiments/007;
/// a guess beyond).
pub(super) const CANDIDATES: usize = 512;

/// Draws `count` canonical candidates (count x d) inside `region`, a function of `seed` and `trial`. `anchors` are the
/// best observed points.
pub(super) fn candidates(
    encoding: &Encoding,
    region: &Region,
    anchors: &[Vec<f64>],
    seed: u64,
    trial: TrialId,
    count: usize,
) -> DMatrix<f64> {
    let perturbed = if anchors.is_empty() { 0 } else { count / 4 };
    let mut points = DMatrix::zeros(count, region.axes.len());
    let moving = (MOVED_COORDINATES / region.axes.len() as f64).min(1.0);
    let resampling = 1.0 / region.axes.len() as f64;
    let active: Vec<Vec<bool>> = anchors.iter().map(|anchor| encoding.active(anchor)).collect();
    for (j, (axis, feature)) in region.axes.iter().zip(encoding.features()).enumerate() {
        let mut rng = stream(seed, trial, &format!("candidates/{}", feature.name));
        let branches = match axis {
            Axis::Interval { .. } if has_children(encoding, j) => branch_coordinates(encoding, axis, j),
            _ => Vec::new(),
        };
        for (row, uniform) in stratified(&mut rng, count - perturbed).into_iter().enumerate() {
            points[(row, j)] = match 2.0 * uniform {
                // For a parent too long to list, uniform draws would miss the few values with children.
                twice if !branches.is_empty() && twice >= 1.0 => Axis::Grid(branches.clone()).at(twice - 1.0),
                twice if !branches.is_empty() => axis.at(twice),
                _ => axis.at(uniform),
            };
        }
        for row in count - perturbed..count {
            let anchor = anchors[row % anchors.len()][j];
            let decades = rng.random_range(PERTURBATION_DECADES.0..PERTURBATION_DECADES.1);
            let normal: f64 = StandardNormal.sample(&mut rng);
            let choice: f64 = rng.random();
            points[(row, j)] = match axis {
                _ if !active[row % anchors.len()][j] => axis.draw(&mut rng),
                Axis::Levels(_) if choice < resampling => axis.draw(&mut rng),
                Axis::Levels(_) => anchor,
                _ if choice < moving => axis.nearest(anchor + normal * 10.0_f64.powf(-decades)),
                _ => axis.nearest(anchor),
            };
        }
    }
    if encoding.is_conditional() {
        for mut row in points.row_iter_mut() {
            let mut point: Vec<f64> = row.iter().copied().collect();
            encoding.canonicalize(&mut point);
            row.copy_from_slice(&point);
        }
    }
    points
}
