//! Exact hypervolume: the volume of objective space dominated by a set of results.
//!
//! Notation: `m` metrics; the gain of a point is its improvement on the reference point in each metric. A gain
//! dominates the box between it and the origin. The hypervolume is the volume of the union of these boxes (Zitzler and
//! Thiele, Multiobjective optimization using evolutionary algorithms, 1998).
//!
//! Computed by slicing objectives (While, Bradstreet and Barone, A faster algorithm for calculating hypervolume, 2006):
//! n log n for two metrics, n^2 log n for three, a factor of n for each further one.

use crate::problem::Goal;
use crate::problem::pareto::weakly_dominates;

/// Returns the volume that `points` (each of shape `m`) dominate up to `reference_point` (shape `m`), both in the signs
/// of their metrics. 0 for no points.
///
/// Points add nothing if they are not better than the reference point in every metric, if their number of values
/// differs from that of `goals`, or if a value is NaN or infinite.
///
/// ```
/// use tunesmith_algorithms::problem::Goal::{Maximize, Minimize};
/// use tunesmith_algorithms::hypervolume::hypervolume;
///
/// // Maximised accuracy and minimised cost: two boxes of 0.9 x 2 and 0.5 x 6 that share 0.5 x 2.
/// let points = [vec![0.9, 8.0], vec![0.5, 4.0]];
/// let volume = hypervolume(&[Maximize, Minimize], &[0.0, 10.0], &points);
/// assert!((volume - 3.8).abs() < 1e-12);
/// ```
pub fn hypervolume(goals: &[Goal], reference_point: &[f64], points: &[Vec<f64>]) -> f64 {
    let mut front = Front::default();
    for point in points {
        if let Some(gain) = gain(goals, reference_point, point) {
            front.insert(gain);
        }
    }
    volume(front.gains, goals.len())
}

/// Hypervolume after each of `results`, in their order; `None` is a trial without values. Never decreases.
///
/// Values as in [`hypervolume`]. Computes only the volume added by each result, and skips dominated results.
pub fn hypervolume_curve<'a>(
    goals: &[Goal],
    reference_point: &[f64],
    results: impl Iterator<Item = Option<&'a [f64]>>,
) -> Vec<f64> {
    let mut front = Front::default();
    let mut total = 0.0;
    let mut curve = Vec::new();
    for result in results {
        let gain = result.and_then(|point| gain(goals, reference_point, point));
        if let Some(gain) = gain.filter(|gain| !front.dominates(gain)) {
            let mut shared = Front::default();
            for other in &front.gains {
                shared.insert(other.iter().zip(&gain).map(|(a, b)| a.min(*b)).collect());
            }
            let added = gain.iter().product::<f64>() - volume(shared.gains, goals.len());
            total += added.max(0.0);
            front.insert(gain);
        }
        curve.push(total);
    }
    curve
}

/// Improvement of `point` on the reference point; `None` unless it improves every metric.
fn gain(goals: &[Goal], reference_point: &[f64], point: &[f64]) -> Option<Vec<f64>> {
    if goals.is_empty() || point.len() != goals.len() || reference_point.len() != goals.len() {
        return None;
    }
    let gains = goals.iter().zip(point).zip(reference_point);
    let gains: Vec<f64> =
        gains.map(|((goal, &value), &corner)| goal.to_maximized(value) - goal.to_maximized(corner)).collect();
    gains.iter().all(|gain| *gain > 0.0 && gain.is_finite()).then_some(gains)
}

/// Gains, none of which covers another.
#[derive(Debug, Clone, Default)]
struct Front {
    gains: Vec<Vec<f64>>,
}

impl Front {
    /// Whether `gain` adds no volume.
    fn dominates(&self, gain: &[f64]) -> bool {
        self.gains.iter().any(|other| weakly_dominates(other, gain))
    }

    /// Adds `gain` unless another covers it, and drops those that it covers. Returns whether it was added.
    fn insert(&mut self, gain: Vec<f64>) -> bool {
        if self.dominates(&gain) {
            return false;
        }
        self.gains.retain(|other| !weakly_dominates(&gain, other));
        self.gains.push(gain);
        true
    }
}

/// Volume of the union of the boxes between the origin and each of `gains`, shape `metrics`; none covers another.
fn volume(mut gains: Vec<Vec<f64>>, metrics: usize) -> f64 {
    let last = metrics.saturating_sub(1);
    gains.sort_by(|a, b| b[last].total_cmp(&a[last]));
    match metrics {
        0 => 0.0,
        1 => gains.first().map_or(0.0, |gain| gain[0]),
        2 => {
            // The first metric grows as the second falls: each box adds a strip at its side.
            let mut width = 0.0;
            let strip = |gain: &Vec<f64>| {
                let strip = (gain[0] - width) * gain[1];
                width = gain[0];
                strip
            };
            gains.iter().map(strip).sum()
        }
        _ => {
            // Slices along the last metric, from the best downwards; each contains the boxes that reach it, without
            // that metric.
            let mut slice = Front::default();
            let (mut area, mut total) = (0.0, 0.0);
            for (index, gain) in gains.iter().enumerate() {
                if slice.insert(gain[..last].to_vec()) {
                    area = volume(slice.gains.clone(), last);
                }
                let below = gains.get(index + 1).map_or(0.0, |next| next[last]);
                total += area * (gain[last] - below);
            }
            total
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::problem::pareto;

    const MINIMIZE: [Goal; 4] = [Goal::Minimize; 4];

    #[test]
    fn volumes_equal_those_computed_by_hand() {
        let goals = &MINIMIZE[..2];
        assert_eq!(hypervolume(goals, &[4.0, 4.0], &[]), 0.0);
        // Steps of a stair: 3 x 1, 2 x 1, 1 x 1.
        let stair = [vec![1.0, 3.0], vec![2.0, 2.0], vec![3.0, 1.0]];
        assert_eq!(hypervolume(goals, &[4.0, 4.0], &stair), 6.0);
        let upwards: Vec<Vec<f64>> = stair.iter().map(|point| vec![-point[0], point[1]]).collect();
        assert_eq!(hypervolume(&[Goal::Maximize, Goal::Minimize], &[-4.0, 4.0], &upwards), 6.0);
        // Three boxes of 1 x 1 x 2 along the axes, which share the unit cube: 3 x 2 - 2.
        let cross = [vec![0.0, 1.0, 1.0], vec![1.0, 0.0, 1.0], vec![1.0, 1.0, 0.0]];
        assert_eq!(hypervolume(&MINIMIZE[..3], &[2.0; 3], &cross), 4.0);
        // The same in four dimensions: 4 x 2 - 3.
        let cross: Vec<Vec<f64>> =
            (0..4).map(|axis| (0..4).map(|i| if i == axis { 0.0 } else { 1.0 }).collect()).collect();
        assert_eq!(hypervolume(&MINIMIZE, &[2.0; 4], &cross), 5.0);
        assert_eq!(hypervolume(&MINIMIZE[..1], &[2.0], &[vec![1.5], vec![0.5]]), 1.5);
    }

    #[test]
    fn points_not_better_than_the_reference_point_add_nothing() {
        let useless = [vec![5.0, 0.0], vec![4.0, 0.0], vec![f64::NAN, 0.0], vec![f64::NEG_INFINITY, 0.0], vec![1.0]];
        assert_eq!(hypervolume(&MINIMIZE[..2], &[4.0, 4.0], &useless), 0.0);
        assert_eq!(hypervolume(&[], &[], &[vec![]]), 0.0);
    }

    /// Sum over all subsets of the volume of their intersection, with alternating signs; shares no code with the
    /// implementation.
    fn inclusion_exclusion(corner: f64, points: &[Vec<f64>]) -> f64 {
        let mut total = 0.0;
        for subset in 1_u32..1 << points.len() {
            let chosen = points.iter().enumerate().filter(|(index, _)| subset >> index & 1 == 1);
            let mut sides = vec![f64::INFINITY; points[0].len()];
            for (_, point) in chosen {
                sides.iter_mut().zip(point).for_each(|(side, value)| *side = side.min((corner - value).max(0.0)));
            }
            let sign = if subset.count_ones() % 2 == 1 { 1.0 } else { -1.0 };
            total += sign * sides.iter().product::<f64>();
        }
        total
    }

    /// Up to `most` points, some on a coarse grid, which causes ties.
    fn point_sets(most: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
        (1_usize..=4, any::<bool>()).prop_flat_map(move |(metrics, coarse)| {
            let value = (0.0..1.2).prop_map(move |x: f64| if coarse { (x * 4.0).round() / 4.0 } else { x });
            prop::collection::vec(prop::collection::vec(value, metrics), 1..=most)
        })
    }

    proptest! {
        #[test]
        fn volumes_equal_inclusion_and_exclusion(points in point_sets(8)) {
            let metrics = points[0].len();
            let volume = hypervolume(&MINIMIZE[..metrics], &vec![1.0; metrics], &points);
            prop_assert!((volume - inclusion_exclusion(1.0, &points)).abs() < 1e-12);
        }

        #[test]
        fn order_and_dominated_points_do_not_change_the_volume(points in point_sets(20)) {
            let goals = &MINIMIZE[..points[0].len()];
            let corner = vec![1.0; goals.len()];
            let volume = hypervolume(goals, &corner, &points);
            let reversed: Vec<_> = points.iter().rev().cloned().collect();
            prop_assert!((hypervolume(goals, &corner, &reversed) - volume).abs() < 1e-12);
            let negated: Vec<Vec<f64>> = points.iter().map(|point| point.iter().map(|value| -value).collect()).collect();
            let front: Vec<_> = pareto::front(&negated).into_iter().map(|index| points[index].clone()).collect();
            prop_assert!((hypervolume(goals, &corner, &front) - volume).abs() < 1e-12);
            let worse = points[0].iter().map(|value| value + 0.01).collect();
            let more = [points, vec![worse]].concat();
            prop_assert!((hypervolume(goals, &corner, &more) - volume).abs() < 1e-12);
        }

        #[test]
        fn a_curve_never_decreases_and_is_the_volume_of_the_results_so_far(points in point_sets(20)) {
            let goals = &MINIMIZE[..points[0].len()];
            let corner = vec![1.0; goals.len()];
            // Every third trial has no values.
            let results = points.iter().enumerate().map(|(i, point)| (i % 3 != 1).then_some(point.as_slice()));
            let curve = hypervolume_curve(goals, &corner, results.clone());
            prop_assert_eq!(curve.len(), points.len());
            prop_assert!(curve.is_sorted());
            for (count, volume) in curve.iter().enumerate() {
                let so_far: Vec<_> = results.clone().take(count + 1).flatten().map(<[f64]>::to_vec).collect();
                prop_assert!((hypervolume(goals, &corner, &so_far) - volume).abs() < 1e-12);
            }
        }
    }
}
