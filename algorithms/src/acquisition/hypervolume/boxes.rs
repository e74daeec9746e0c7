//! Decomposition of the part of objective space not dominated by a front into disjoint boxes.
//!
//! All objectives are maximised. With two objectives, the boxes are the columns of a staircase. With three, the points
//! are processed by decreasing third objective: each point raises the staircase of the first two objectives and closes
//! the boxes above the raised columns. `n` points give at most `n + 1` and `2 n + 1` boxes.
//!
//! Source: Yang et al. 2019, "Efficient computation of expected hypervolume improvement using box decomposition
//! algorithms", J. Global Optimization 75, sections 3 and 4 (the same boxes; they keep the staircase in a balanced
//! tree, which is faster for larger fronts than ours).

/// Largest supported number of objectives.
pub(super) const MOST_OBJECTIVES: usize = 3;

/// Boxes as indices into shared bounds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Boxes {
    /// Finite bounds of each objective, strictly increasing, at least one.
    pub(super) bounds: Vec<Vec<f64>>,
    /// Indices of the lower and upper bound for each box and objective; one past the end is infinity.
    pub(super) boxes: Vec<Vec<(usize, usize)>>,
}

impl Boxes {
    /// Decomposes the part of objective space that is better than `reference` (length 1 to 3) in every objective and
    /// not dominated by `points`. Points that are not better than `reference` in every objective are ignored.
    pub(super) fn not_dominated(points: &[Vec<f64>], reference: &[f64]) -> Self {
        let mut inside: Vec<&[f64]> = points
            .iter()
            .map(Vec::as_slice)
            .filter(|point| point.iter().zip(reference).all(|(value, least)| value > least))
            .collect();
        let finite = match *reference {
            [least] => {
                let best = inside.iter().map(|point| point[0]).fold(least, f64::max);
                vec![vec![(best, f64::INFINITY)]]
            }
            [first, second] => {
                let mut stair = Stair::new(first, second);
                for point in inside {
                    stair.raise(point[0], point[1], f64::INFINITY);
                }
                let column = |strip: Strip| vec![(strip.left, strip.right), (strip.bottom, f64::INFINITY)];
                stair.strips.into_iter().map(column).collect()
            }
            [first, second, third] => {
                inside.sort_by(|a, b| b[2].total_cmp(&a[2]));
                let mut stair = Stair::new(first, second);
                let mut boxes = Vec::new();
                let mut close = |strips: Vec<Strip>, level: f64| {
                    for Strip { left, right, bottom, top } in strips.into_iter().filter(|strip| strip.top > level) {
                        boxes.push(vec![(left, right), (bottom, f64::INFINITY), (level, top)]);
                    }
                };
                for point in inside {
                    close(stair.raise(point[0], point[1], point[2]), point[2]);
                }
                close(stair.strips, third);
                boxes
            }
            _ => Vec::new(),
        };
        Self::indexed(reference.len(), &finite)
    }

    fn indexed(objectives: usize, boxes: &[Vec<(f64, f64)>]) -> Self {
        let bounds: Vec<Vec<f64>> = (0..objectives)
            .map(|j| {
                let ends = boxes.iter().flat_map(|sides| [sides[j].0, sides[j].1]);
                let mut ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
                ends.sort_by(f64::total_cmp);
                ends.dedup();
                ends
            })
            .collect();
        let index = |j: usize, end: f64| bounds[j].partition_point(|bound| *bound < end);
        let indices =
            |sides: &Vec<(f64, f64)>| (0..objectives).map(|j| (index(j, sides[j].0), index(j, sides[j].1))).collect();
        Self { boxes: boxes.iter().map(indices).collect(), bounds }
    }
}

/// Column of the staircase: the first objective between `left` and `right`, the second above `bottom`, the third below
/// `top`.
#[derive(Debug, Clone, Copy)]
struct Strip {
    left: f64,
    right: f64,
    bottom: f64,
    top: f64,
}

/// Non-dominated part of the first two objectives: columns from left to right with decreasing bottoms.
struct Stair {
    strips: Vec<Strip>,
}

impl Stair {
    fn new(left: f64, bottom: f64) -> Self {
        Self { strips: vec![Strip { left, right: f64::INFINITY, bottom, top: f64::INFINITY }] }
    }

    /// Removes the part dominated by (`first`, `second`). New columns have the top `level`. Returns the replaced
    /// columns.
    fn raise(&mut self, first: f64, second: f64, level: f64) -> Vec<Strip> {
        let is_raised = |strip: &Strip| strip.left < first && strip.bottom < second;
        let start = self.strips.iter().position(is_raised);
        let Some(start) = start else { return Vec::new() };
        let count = self.strips[start..].iter().take_while(|strip| is_raised(strip)).count();
        let replaced = self.strips[start..start + count].to_vec();
        let mut columns = vec![Strip { left: replaced[0].left, right: first, bottom: second, top: level }];
        if let Some(last) = replaced.last().filter(|last| last.right > first) {
            columns.push(Strip { left: first, top: level, ..*last });
        }
        self.strips.splice(start..start + count, columns);
        replaced
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sides(boxes: &Boxes) -> Vec<Vec<(f64, f64)>> {
        let end = |j: usize, index: usize| boxes.bounds[j].get(index).copied().unwrap_or(f64::INFINITY);
        let one = |sides: &Vec<(usize, usize)>| -> Vec<(f64, f64)> {
            sides.iter().enumerate().map(|(j, (lower, upper))| (end(j, *lower), end(j, *upper))).collect()
        };
        boxes.boxes.iter().map(one).collect()
    }

    const END: f64 = f64::INFINITY;

    #[test]
    fn boxes_match_hand_calculation() {
        assert_eq!(sides(&Boxes::not_dominated(&[vec![2.0], vec![3.0]], &[0.0])), [[(3.0, END)]]);
        assert_eq!(sides(&Boxes::not_dominated(&[], &[0.0, 1.0])), [[(0.0, END), (1.0, END)]]);
        // One point that lies below the reference in the second objective, and one that is dominated.
        let points = [vec![3.0, 1.0], vec![1.0, 2.0], vec![9.0, -1.0], vec![0.5, 1.5], vec![3.0, 1.0]];
        let stair = [[(0.0, 1.0), (2.0, END)], [(1.0, 3.0), (1.0, END)], [(3.0, END), (0.0, END)]];
        assert_eq!(sides(&Boxes::not_dominated(&points, &[0.0, 0.0])), stair);
        let cube = Boxes::not_dominated(&[vec![1.0; 3]], &[0.0; 3]);
        let expected = [
            [(0.0, END), (0.0, END), (1.0, END)],
            [(0.0, 1.0), (1.0, END), (0.0, 1.0)],
            [(1.0, END), (0.0, END), (0.0, 1.0)],
        ];
        assert_eq!(sides(&cube), expected);
    }

    proptest! {
        /// A probe is in exactly one box if nothing dominates it, and in none otherwise.
        #[test]
        fn boxes_cover_the_non_dominated_part_without_overlap(
            objectives in 1_usize..=3,
            values in prop::collection::vec(0_u8..9, 0..60),
            probes in prop::collection::vec(0.0..9.0_f64, 60),
        ) {
            let points: Vec<Vec<f64>> = values
                .chunks_exact(objectives)
                .map(|point| point.iter().map(|value| f64::from(*value)).collect())
                .collect();
            let reference = vec![1.0; objectives];
            let boxes = Boxes::not_dominated(&points, &reference);
            prop_assert!(boxes.boxes.len() <= 2 * points.len() + 1);
            let sides = sides(&boxes);
            for probe in probes.chunks_exact(objectives) {
                let holds = |sides: &&Vec<(f64, f64)>| sides.iter().zip(probe).all(|((l, u), y)| l < y && y < u);
                let dominates = |point: &Vec<f64>| point.iter().zip(probe).all(|(value, y)| value >= y);
                let free = probe.iter().all(|y| *y > 1.0) && !points.iter().any(dominates);
                prop_assert_eq!(sides.iter().filter(holds).count(), usize::from(free));
            }
        }
    }
}
