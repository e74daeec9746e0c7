//! Mixed-integer functions of BBOB: the suite `bbob-mixint` of COCO, with integers for four fifths of the variables.
//!
//! The first fifth of the variables has 2 values, the next ones 4, 8 and 16, and the last fifth is continuous. The
//! integers 0 to n - 1 represent n evenly spaced coordinates in (-4, 4), which is n + 1 steps wide, all shifted so that
//! the minimizer is one of them. The optimum of the continuous function therefore remains.
//!
//! A factor per function scales all values, including the optimum, so that a given precision is similarly hard to
//! reach.
//!
//! Source: T. Tušar, D. Brockhoff, N. Hansen, Mixed-Integer Benchmark Problems for Single- and Bi-Objective
//! Optimization, GECCO 2019, and the COCO platform for the factors and the rounding.

use tunesmith_algorithms::problem::{ParameterKind, ScaleType};

use super::transformations::round_half_up;
use super::{BbobError, BbobProblem, MAX_DIMENSIONS};

/// Number of equal groups of variables; the last is continuous.
const FIFTHS: usize = 5;

/// Number of values in each of the first four fifths.
const VALUES: [u8; 4] = [2, 4, 8, 16];

/// Scale factors of f1 to f24.
const FACTORS: [f64; 24] = [
    1.0, 1e-3, 1e-1, 1e-1, 1.0, // separable
    1e-2, 1.0, 1e-2, 1e-2, // moderate conditioning
    1e-3, 1e-2, 1e-4, 1e-1, 1.0, // high conditioning
    1e-1, 1.0, 10.0, 1.0, 10.0, // multi-modal
    1e-1, 1.0, 1.0, 10.0, 1e-1, // weakly structured
];

/// Bound of the coordinates represented by integers, before the shift.
const INNER_BOUND: f64 = 4.0;

/// Added to the minimizer before rounding, to break ties.
const ROUNDING_OFFSET: f64 = 1e-7;

/// Creates a function of `dimensions` variables, x01, x02, ...: integers from 0 for the first four fifths, then
/// continuous ones in [-5, 5], with the minimised metric `objective`.
///
/// `dimensions` is a multiple of 5, at most 40. COCO's suite has 5, 10, 20 and 40; its larger problems consist of other
/// functions.
///
/// # Errors
/// [`BbobError`] for an argument out of range.
pub fn bbob_mixint(function: u8, dimensions: usize, instance: u64) -> Result<BbobProblem, BbobError> {
    if dimensions == 0 || dimensions > MAX_DIMENSIONS || !dimensions.is_multiple_of(FIFTHS) {
        return Err(BbobError::UnsupportedMixintDimensions { dimensions });
    }
    let counts: Vec<u8> = VALUES.iter().flat_map(|count| std::iter::repeat_n(*count, dimensions / FIFTHS)).collect();
    // An unknown function has no factor and is rejected.
    let factor = FACTORS.get(usize::from(function).wrapping_sub(1)).copied().unwrap_or(1.0);
    BbobProblem::new(function, dimensions, instance, &counts, factor)
}

/// Coordinates represented by the values of an integer variable.
#[derive(Debug)]
pub(super) struct Grid {
    /// Largest value; the smallest is 0.
    last: u8,
    /// Downward shift of the coordinates.
    shift: f64,
}

impl Grid {
    /// Creates `count` values, one of which represents `optimum`, and sets `optimum` to that value.
    pub(super) fn through(count: u8, optimum: &mut f64) -> Self {
        let mut grid = Self { last: count - 1, shift: 0.0 };
        let (least, greatest) = grid.ends();
        let index = f64::from(grid.last) * (*optimum - least) / (greatest - least);
        let index = round_half_up(index + ROUNDING_OFFSET).clamp(0.0, f64::from(grid.last));
        grid.shift = grid.coordinate(index) - *optimum;
        *optimum = index;
        grid
    }

    /// Coordinate represented by the integer nearest to `value`.
    pub(super) fn coordinate(&self, value: f64) -> f64 {
        let (least, greatest) = self.ends();
        let index = round_half_up(value).clamp(0.0, f64::from(self.last));
        least + (greatest - least) * index / f64::from(self.last) - self.shift
    }

    /// First and last coordinate before the shift.
    fn ends(&self) -> (f64, f64) {
        let step = 2.0 * INNER_BOUND / (f64::from(self.last) + 2.0);
        (step - INNER_BOUND, INNER_BOUND - step)
    }

    pub(super) fn kind(&self) -> ParameterKind {
        ParameterKind::Integer { min: 0, max: i64::from(self.last), scale: ScaleType::UnitLinear }
    }
}
