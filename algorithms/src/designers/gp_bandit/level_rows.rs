//! Levels of categorical parameters in the first trials.
//!
//! Blocks contain each level of a parameter once, in random order: a Latin hypercube over levels (McKay, Beckman &
//! Conover 1979). So every level is tried as early as possible, and any two trials of a block differ in every such
//! parameter. Stepping along one parameter at a time, as for ordered parameters, would try only one further level of
//! each (docs/experiments/015).

use rand::seq::SliceRandom;

use crate::acquisition::Axis;
use crate::encoding::Encoding;
use crate::problem::TrialId;
use crate::rng::stream;

/// Maximum number of levels for steps along one parameter, as for ordered ones: a step then covers all levels
/// (measured, see docs/experiments/015).
const MOST_STEPPED: usize = 2;

/// Whether the levels of `axis` form blocks.
pub(super) fn is_in_blocks(axis: &Axis) -> bool {
    matches!(axis, Axis::Levels(levels) if *levels > MOST_STEPPED)
}

/// Largest number of levels in a block; 0 without blocks.
pub(super) fn longest_block(axes: &[Axis]) -> usize {
    let levels = |axis: &Axis| match axis {
        Axis::Levels(levels) if is_in_blocks(axis) => Some(*levels),
        _ => None,
    };
    axes.iter().filter_map(levels).max().unwrap_or(0)
}

/// Replaces the level of parameter `j` in each of `points`. The first is `first`, if given. Independent of the order in
/// which the levels are listed.
pub(super) fn assign(
    points: &mut [Vec<f64>],
    (encoding, seed): (&Encoding, u64),
    j: usize,
    levels: usize,
    first: Option<f64>,
) {
    let mut by_name: Vec<f64> = (0..levels).map(|level| level as f64).collect();
    by_name.sort_by_cached_key(|&level| encoding.value(j, level).to_string());
    let purpose = format!("levels/{}", encoding.features()[j].name);
    for (block, rows) in points.chunks_mut(levels).enumerate() {
        let mut order = by_name.clone();
        order.shuffle(&mut stream(seed, TrialId(block as u64), &purpose));
        if let Some(place) = order.iter().position(|&level| block == 0 && Some(level) == first) {
            order.swap(0, place);
        }
        for (point, level) in rows.iter_mut().zip(order) {
            point[j] = level;
        }
    }
}
