//! Coordinate search for tests of the problems' optima.

use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::{ParameterValues, TrialId};
use tunesmith_algorithms::sampling::sobol_point;

/// Minimises from `start` in the unit cube by coordinate search with halved steps, down to steps of 1e-9 of the box.
/// Returns the point and its value.
pub(crate) fn descend(
    value: &dyn Fn(&ParameterValues) -> f64,
    encoding: &Encoding,
    start: Vec<f64>,
    first_step: f64,
) -> (ParameterValues, f64) {
    let value = |u: &[f64]| value(&encoding.decode(u));
    let (mut best, mut step) = (start, first_step);
    let mut least = value(&best);
    // Limit for valleys not aligned with the axes, where the search is slow.
    for _ in 0..2_000 {
        if step <= 1e-9 {
            break;
        }
        let before = least;
        for axis in 0..best.len() {
            for sign in [1.0, -1.0] {
                let mut moved = best.clone();
                moved[axis] = (moved[axis] + sign * step).clamp(0.0, 1.0);
                let value = value(&moved);
                if value < least {
                    (best, least) = (moved, value);
                }
            }
        }
        if least == before {
            step /= 2.0;
        }
    }
    (encoding.decode(&best), least)
}

/// `count` evenly spread points of the cube, and 32 points within 0.01 of each of `centers`.
pub(crate) fn starts(encoding: &Encoding, count: u64, centers: &[ParameterValues]) -> Vec<Vec<f64>> {
    let spread: Vec<_> = (1..=count).map(|id| sobol_point(encoding, 1, TrialId(id))).collect();
    let mut starts = spread.clone();
    for center in centers {
        let center = encoding.encode(center).unwrap();
        for offset in spread.iter().take(32) {
            let near = |(c, u): (&f64, &f64)| (c + 0.02 * (u - 0.5)).clamp(0.0, 1.0);
            starts.push(center.iter().zip(offset).map(near).collect());
        }
    }
    starts
}
