//! Levels of parameters without an order in the first trials.
//!
//! Blocks contain each level of a parameter once, in random order: a Latin hypercube over levels (McKay, Beckman &
//! Conover 1979). So every level is tried as early as possible, and any two trials of a block differ in every such
//! parameter. Stepping along one parameter at a time, as for ordered parameters, would try only one further level of
//! each (docs/experiments/015). Many parameters of two levels, of any kind, form blocks too: they have no middle, and a
//! design around the first level of each is worse than random points (docs/experiments/022).

use rand::seq::SliceRandom;

use crate::acquisition::Axis;
use crate::encoding::Encoding;
use crate::problem::TrialId;
use crate::rng::stream;

/// Maximum number of parameters of two levels for steps along each of them (a guess; blocks are measured with 21 and
/// more of them, see docs/experiments/022).
const MOST_TWO_LEVEL_STEPS: usize = 4;

/// Block length of each axis, its number of levels; `None` for an axis without blocks.
pub(super) fn block_lengths(axes: &[Axis]) -> Vec<Option<usize>> {
    let has_two = |axis: &Axis| match axis {
        Axis::Levels(levels) => *levels == 2,
        Axis::Grid(grid) => grid.len() == 2,
        Axis::Interval { .. } => false,
    };
    let are_many = axes.iter().filter(|axis| has_two(axis)).count() > MOST_TWO_LEVEL_STEPS;
    let length = |axis: &Axis| match axis {
        _ if has_two(axis) => are_many.then_some(2),
        Axis::Levels(levels) => Some(*levels),
        _ => None,
    };
    axes.iter().map(length).collect()
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
    let mut by_name: Vec<f64> = (0..levels).map(|level| encoding.coordinate_at(j, level as u64)).collect();
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
