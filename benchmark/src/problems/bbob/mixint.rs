//! The mixed-integer functions of BBOB, with integers for four fifths of the variables: the suite `bbob-mixint` of
//! COCO.
//!
//! The first fifth of the variables has 2 values, the next ones 4, 8 and 16, and the last fifth is continuous. The
//! integers 0 to n - 1 represent n evenly spaced coordinates in (-4, 4), which is n + 1 steps wide, all shifted so that
//! the minimizer is one of them. The optimum of the continuous function therefore remains.
//!
//! Values, including the optimum, are multiplied by a factor for each function, so that a given precision is similarly
//! hard to reach.
//!
//! Source: T. Tušar, D. Brockhoff, N. Hansen, Mixed-Integer Benchmark Problems for Single- and Bi-Objective
//! Optimization, GECCO 2019, and the COCO platform for the factors and the rounding.

use tunesmith_algorithms::problem::{ParameterKind, ParameterValues, ScaleType};

use super::functions::Function;
use super::transformations::round_half_up;
use super::{BbobError, MAX_DIMENSIONS, checked_function, continuous, evaluate, is_defined, name, random, statement};
use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};

/// Number of equal groups of variables; the last is continuous.
const FIFTHS: usize = 5;

/// Number of values of the variables of the first four fifths.
const VALUES: [u8; 4] = [2, 4, 8, 16];

/// Factors of the values of f1 to f24.
const FACTORS: [f64; 24] = [
    1.0, 1e-3, 1e-1, 1e-1, 1.0, // separable
    1e-2, 1.0, 1e-2, 1e-2, // moderate conditioning
    1e-3, 1e-2, 1e-4, 1e-1, 1.0, // high conditioning
    1e-1, 1.0, 10.0, 1.0, 10.0, // multi-modal
    1e-1, 1.0, 1.0, 10.0, 1e-1, // weakly structured
];

/// Bound of the coordinates that integers represent, before the shift.
const INNER_BOUND: f64 = 4.0;

/// Added to the minimizer before it is rounded to an integer, to break ties.
const ROUNDING_OFFSET: f64 = 1e-7;

/// Returns a function of `dimensions` variables, x01, x02, ...: integers from 0 for the first four fifths, then
/// continuous ones in [-5, 5], with the minimised metric `objective`.
///
/// `dimensions` is a multiple of 5, at most 40. COCO's suite has 5, 10, 20 and 40; its larger problems consist of other
/// functions.
///
/// # Errors
/// [`BbobError`] names the argument that is out of range.
pub fn bbob_mixint(function: u8, dimensions: usize, instance: u64) -> Result<BbobMixintProblem, BbobError> {
    if dimensions == 0 || dimensions > MAX_DIMENSIONS || !dimensions.is_multiple_of(FIFTHS) {
        return Err(BbobError::UnsupportedMixintDimensions { dimensions });
    }
    let implementation = checked_function(function, dimensions, instance)?;
    let factor = FACTORS[usize::from(function) - 1];
    let inner_optimum = random::optimal_value(function, instance);
    let optimum = factor * inner_optimum;
    let counts = VALUES.iter().flat_map(|count| std::iter::repeat_n(*count, dimensions / FIFTHS));
    let mut minimizer = implementation.minimizer().to_vec();
    let grids: Vec<Grid> =
        counts.zip(&mut minimizer).map(|(count, coordinate)| Grid::through(count, coordinate)).collect();
    let kinds = grids.iter().map(Grid::kind).chain((grids.len()..dimensions).map(|_| continuous()));
    Ok(BbobMixintProblem {
        profile: Profile::new(
            name(function, dimensions),
            statement(kinds),
            Quality::Value { best_known: Some(optimum) },
        ),
        function: implementation,
        grids,
        factor,
        inner_optimum,
        optimum,
        minimizer,
    })
}

/// An instance of one of the mixed-integer functions, created by [`bbob_mixint`].
#[derive(Debug)]
pub struct BbobMixintProblem {
    profile: Profile,
    function: Box<dyn Function>,
    /// The integer variables, which come first; the others are continuous.
    grids: Vec<Grid>,
    factor: f64,
    /// The optimum before scaling.
    inner_optimum: f64,
    optimum: f64,
    minimizer: Vec<f64>,
}

impl BbobMixintProblem {
    /// Returns the value at `point`, which has integers first and then continuous coordinates. Other numbers in place
    /// of integers are rounded to the nearest one in range; continuous coordinates may lie outside the box. NaN if a
    /// coordinate is NaN or their number is wrong.
    pub fn value(&self, point: &[f64]) -> f64 {
        if !is_defined(point, self.minimizer.len()) {
            return f64::NAN;
        }
        let mut coordinates = point.to_vec();
        for (coordinate, grid) in coordinates.iter_mut().zip(&self.grids) {
            *coordinate = grid.coordinate(*coordinate);
        }
        self.factor * (self.inner_optimum + self.function.excess(&coordinates))
    }

    /// The smallest value.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// The point of the space with the smallest value, one number per variable, integral for the integers.
    pub fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }
}

impl Problem for BbobMixintProblem {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _: Draw) -> Evaluation {
        evaluate(self.statement(), point, |coordinates| self.value(coordinates))
    }
}

/// The coordinates that the values of an integer variable represent.
#[derive(Debug)]
struct Grid {
    /// The largest value; the smallest is 0.
    last: u8,
    /// The shift of the coordinates, downwards.
    shift: f64,
}

impl Grid {
    /// Creates `count` values, one of which represents `optimum`, and sets `optimum` to that value.
    fn through(count: u8, optimum: &mut f64) -> Self {
        let mut grid = Self { last: count - 1, shift: 0.0 };
        let (least, greatest) = grid.ends();
        let index = f64::from(grid.last) * (*optimum - least) / (greatest - least);
        let index = round_half_up(index + ROUNDING_OFFSET).clamp(0.0, f64::from(grid.last));
        grid.shift = grid.coordinate(index) - *optimum;
        *optimum = index;
        grid
    }

    /// The coordinate that the integer nearest to `value` represents.
    fn coordinate(&self, value: f64) -> f64 {
        let (least, greatest) = self.ends();
        let index = round_half_up(value).clamp(0.0, f64::from(self.last));
        least + (greatest - least) * index / f64::from(self.last) - self.shift
    }

    /// The first and the last coordinate before the shift.
    fn ends(&self) -> (f64, f64) {
        let step = 2.0 * INNER_BOUND / (f64::from(self.last) + 2.0);
        (step - INNER_BOUND, INNER_BOUND - step)
    }

    fn kind(&self) -> ParameterKind {
        ParameterKind::Integer { min: 0, max: i64::from(self.last), scale: ScaleType::UnitLinear }
    }
}
