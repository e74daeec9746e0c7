//! Moves between the branches of a conditional space.

use super::region::Axis;
use super::search::Search;
use crate::encoding::Encoding;

/// Coordinates on `axis` of the values of feature `j` that activate other features, increasing.
pub(super) fn branch_coordinates(encoding: &Encoding, axis: &Axis, j: usize) -> Vec<f64> {
    let children = (0..encoding.dimensions()).filter(|&child| encoding.parent(child) == Some(j));
    let mut ordinals: Vec<u64> = children.flat_map(|child| encoding.parent_ordinals(child)).copied().collect();
    ordinals.sort_unstable();
    ordinals.dedup();
    let coordinates = ordinals.into_iter().map(|ordinal| encoding.coordinate_at(j, ordinal));
    coordinates.filter(|&u| axis.nearest(u) == u).collect()
}

/// Points to try after changing a parent's value from `point` to `changed`.
///
/// Newly active features start at the middle of their axes, or as in the best anchor that has them, if any.
pub(super) fn switch(search: &Search<'_>, point: &[f64], changed: Vec<f64>) -> Vec<Vec<f64>> {
    let was_active = search.encoding.active(point);
    let axes = &search.region.axes;
    let mut from_middle = changed.clone();
    search.encoding.reactivate(&mut from_middle, &was_active, |j| axes[j].middle());
    let observed = |j: usize| {
        let anchor = search.anchors.iter().find(|anchor| search.encoding.active(anchor)[j]);
        anchor.map_or(axes[j].middle(), |anchor| axes[j].nearest(anchor[j]))
    };
    let mut from_observed = changed;
    search.encoding.reactivate(&mut from_observed, &was_active, observed);
    if from_observed == from_middle { vec![from_middle] } else { vec![from_middle, from_observed] }
}
