//! Candidates drawn from the user's prior density of the optimum.

use nalgebra::DMatrix;

use super::region::Region;
use crate::encoding::Encoding;
use crate::numerics::latin_hypercube::stratified;
use crate::prior::PriorDensity;
use crate::problem::TrialId;
use crate::rng::stream;

/// One in this many candidates is drawn from the prior (a guess).
const SHARE: usize = 4;

/// Replaces coordinates of the first `candidates` (canonical, count x d), which fill the region, by draws from `prior`.
///
/// Changes only features with a prior, and moves the draws into `region`.
pub(super) fn draw_from_prior(
    prior: &PriorDensity,
    encoding: &Encoding,
    region: &Region,
    seed: u64,
    trial: TrialId,
    candidates: &mut DMatrix<f64>,
) {
    let count = candidates.nrows() / SHARE;
    for (j, feature) in encoding.features().iter().enumerate() {
        let mut rng = stream(seed, trial, &format!("beliefs/{}", feature.name));
        for (row, uniform) in stratified(&mut rng, count).into_iter().enumerate() {
            if let Some(u) = prior.quantile(j, uniform) {
                candidates[(row, j)] = region.axes[j].nearest(u);
            }
        }
    }
    if !encoding.is_conditional() {
        return;
    }
    for row in 0..count {
        let mut point: Vec<f64> = candidates.row(row).iter().copied().collect();
        // A parent may have moved. Newly active children start at their mode or in the middle.
        let was_active: Vec<bool> = (0..point.len()).map(|j| point[j] != encoding.neutral(j)).collect();
        encoding.reactivate(&mut point, &was_active, |j| {
            let middle = region.axes[j].middle();
            prior.mode(j).map_or(middle, |mode| region.axes[j].nearest(mode))
        });
        for (j, u) in point.into_iter().enumerate() {
            candidates[(row, j)] = u;
        }
    }
}
