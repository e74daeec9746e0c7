//! Pareto dominance between points of objective space, and the front of a set of points.
//!
//! All objectives are maximised, as by [`Goal::to_maximized`](super::Goal::to_maximized). Two values are equal if `==`
//! holds, so `0.0` and `-0.0` are equal. A point with a NaN in any objective neither dominates nor is dominated, and is
//! on no front. Infinite values are compared as numbers.
//!
//! Notation: `n` points, `m` objectives.

use std::cmp::Ordering;

/// Whether `a` is at least as good as `b` in every objective. Equal points weakly dominate each other. Shapes: `m`.
pub fn weakly_dominates(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a >= b)
}

/// Whether `a` is at least as good as `b` in every objective and better in one. Shapes: `m`.
///
/// ```
/// use tunesmith_algorithms::problem::pareto::dominates;
///
/// assert!(dominates(&[2.0, 1.0], &[1.0, 1.0]));
/// assert!(!dominates(&[2.0, 0.0], &[1.0, 1.0]));
/// assert!(!dominates(&[1.0, 1.0], &[1.0, 1.0]));
/// ```
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    weakly_dominates(a, b) && a != b
}

/// Indices, increasing, of the `points` (shape `n x m`) that no other point dominates. Points that are equal do not
/// dominate each other, so all copies of a point of the front are on it. Points with a NaN are not on the front.
///
/// Takes O(n log n) for one and two objectives, else O(n log n + n f) for a front of f points.
///
/// ```
/// use tunesmith_algorithms::problem::pareto::front;
///
/// let points = [[1.0, 3.0], [2.0, 2.0], [1.0, 2.0], [2.0, 2.0], [f64::NAN, 9.0]];
/// assert_eq!(front(&points), [0, 1, 3]);
/// ```
pub fn front<P: AsRef<[f64]>>(points: &[P]) -> Vec<usize> {
    let mut front = best_first(points);
    front.sort_unstable();
    front
}

/// The [`front`] with one index, the smallest, for each group of equal points.
///
/// ```
/// use tunesmith_algorithms::problem::pareto::distinct_front;
///
/// assert_eq!(distinct_front(&[[1.0, 3.0], [2.0, 2.0], [2.0, 2.0]]), [0, 1]);
/// ```
pub fn distinct_front<P: AsRef<[f64]>>(points: &[P]) -> Vec<usize> {
    let mut front = best_first(points);
    front.dedup_by(|b, a| points[*a].as_ref() == points[*b].as_ref());
    front.sort_unstable();
    front
}

/// Indices of the front in descending lexicographic order of the points; copies are adjacent, by index.
fn best_first<P: AsRef<[f64]>>(points: &[P]) -> Vec<usize> {
    let point = |index: usize| points[index].as_ref();
    let is_known = |index: &usize| !point(*index).iter().any(|value| value.is_nan());
    let mut order: Vec<usize> = (0..points.len()).filter(is_known).collect();
    // A point is dominated only by points before it.
    order.sort_by(|&a, &b| point(b).partial_cmp(point(a)).unwrap_or(Ordering::Equal));
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        let candidate = point(index);
        let is_dominated = if candidate.len() <= 2 {
            // The latest point of the front has the largest second value so far.
            front.last().is_some_and(|&last| dominates(point(last), candidate))
        } else {
            front.iter().any(|&other| dominates(point(other), candidate))
        };
        if !is_dominated {
            front.push(index);
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dominance_needs_one_better_value_and_no_worse_one() {
        assert!(dominates(&[1.0, 2.0, 4.0], &[1.0, 2.0, 3.0]));
        assert!(!dominates(&[1.0, 2.0, 3.0], &[1.0, 2.0, 4.0]));
        assert!(!dominates(&[5.0, 1.0], &[4.0, 2.0]));
        assert!(dominates(&[f64::INFINITY, 0.0], &[1.0, 0.0]));
        assert!(weakly_dominates(&[0.0, 1.0], &[-0.0, 1.0]) && !dominates(&[0.0, 1.0], &[-0.0, 1.0]));
    }

    #[test]
    fn nan_points_dominate_nothing_and_are_on_no_front() {
        assert!(!dominates(&[f64::NAN, 9.0], &[1.0, 1.0]) && !dominates(&[9.0, 9.0], &[f64::NAN, 1.0]));
        assert_eq!(front(&[[f64::NAN, 9.0], [1.0, 1.0], [0.0, f64::NAN]]), [1]);
        assert_eq!(front(&[[f64::NAN]]), [0_usize; 0]);
    }

    #[test]
    fn front_keeps_all_copies_and_the_distinct_front_the_first() {
        let points = [[0.0, 3.0], [1.0, 1.0], [-0.0, 3.0], [2.0, 1.0], [0.0, 3.0], [2.0, 0.0]];
        assert_eq!(front(&points), [0, 2, 3, 4]);
        assert_eq!(distinct_front(&points), [0, 3]);
        assert_eq!(front(&[[1.0], [2.0], [2.0], [0.0]]), [1, 2]);
        assert_eq!(front(&[[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), [0, 1, 3]);
    }

    #[test]
    fn front_without_points_is_empty_and_points_without_objectives_are_equal() {
        assert_eq!(front::<Vec<f64>>(&[]), [0_usize; 0]);
        assert_eq!(front(&[Vec::new(), Vec::new()]), [0, 1]);
    }

    proptest! {
        #[test]
        fn front_equals_that_of_pairwise_comparisons(
            objectives in 1_usize..=4,
            values in prop::collection::vec(prop_oneof![9 => (0_u8..6).prop_map(f64::from), 1 => Just(f64::NAN)], 0..80),
        ) {
            let points: Vec<&[f64]> = values.chunks_exact(objectives).collect();
            let is_known = |index: &usize| !points[*index].iter().any(|value| value.is_nan());
            let on_front = |index: &usize| !points.iter().any(|other| dominates(other, points[*index]));
            let expected: Vec<usize> = (0..points.len()).filter(is_known).filter(on_front).collect();
            prop_assert_eq!(front(&points), expected);
        }
    }
}
