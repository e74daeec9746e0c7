//! The 24 noiseless functions of BBOB and their mixed-integer variants.
//!
//! Each function has many instances, which shift and rotate it. The number of the instance is the seed of a run, so it
//! is not part of the name of the problem. Values equal those of the COCO platform: `benches/reference/bbob.py` writes
//! the table that `tests/bbob_reference.rs` compares with.
//!
//! Not included: the noisy functions, those with two objectives, and the large-scale variants with block rotations.
//!
//! Source: N. Hansen, S. Finck, R. Ros, A. Auger, Real-Parameter Black-Box Optimization Benchmarking 2009: Noiseless
//! Functions Definitions, INRIA RR-6829; for the mixed-integer ones T. Tušar, D. Brockhoff, N. Hansen, Mixed-Integer
//! Benchmark Problems for Single- and Bi-Objective Optimization, GECCO 2019.
//!
//! ```
//! use tunesmith_benchmark::problem::Problem;
//! use tunesmith_benchmark::problems::bbob::bbob;
//!
//! let sphere = bbob(1, 5, 1)?;
//! assert_eq!(sphere.name(), "f01/d05");
//! assert_eq!(sphere.optimum(), 79.48);
//! assert_eq!(sphere.value(sphere.minimizer()), 79.48);
//! # Ok::<(), tunesmith_benchmark::problems::bbob::BbobError>(())
//! ```

mod functions;
mod matrix;
mod mixint;
mod random;
#[cfg(test)]
mod tests;
mod transformations;

use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, ScaleType,
    SearchSpace,
};

use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};
use functions::Function;
use mixint::Grid;

pub use mixint::bbob_mixint;

/// Number of functions, numbered from 1.
pub const FUNCTIONS: u8 = 24;

/// Smallest number of variables; some functions combine neighbouring ones.
pub const MIN_DIMENSIONS: usize = 2;

/// Largest number of variables; COCO has other functions for more.
pub const MAX_DIMENSIONS: usize = 40;

/// Largest instance; above about 214,000 the seeds exceed the range of COCO's generator.
pub const MAX_INSTANCE: u64 = 200_000;

/// Bound of continuous variables: [-5, 5].
const BOUND: f64 = 5.0;

/// Creates a function of `dimensions` continuous variables in [-5, 5], named x01, x02, ..., with the minimised metric
/// `objective`.
///
/// # Errors
/// [`BbobError`] for an argument out of range.
pub fn bbob(function: u8, dimensions: usize, instance: u64) -> Result<BbobProblem, BbobError> {
    if !(MIN_DIMENSIONS..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(BbobError::UnsupportedDimensions { dimensions });
    }
    BbobProblem::new(function, dimensions, instance, &[], 1.0)
}

/// [`bbob`] beyond the dimensions of COCO's suite: the same definitions, with dense rotations. Instances above
/// [`MAX_INSTANCE`] repeat the first ones.
pub(super) fn large_bbob(function: u8, dimensions: usize, instance: u64) -> BbobProblem {
    let instance = 1 + instance.wrapping_sub(1) % MAX_INSTANCE;
    BbobProblem::new(function, dimensions, instance, &[], 1.0).expect("the suite names functions that exist")
}

/// Instance of a function, created by [`bbob`] or [`bbob_mixint`].
#[derive(Debug)]
pub struct BbobProblem {
    profile: Profile,
    function: Function,
    /// Integer variables, which come first; the others are continuous.
    grids: Vec<Grid>,
    factor: f64,
    /// Optimum before scaling.
    inner_optimum: f64,
    minimizer: Vec<f64>,
}

impl BbobProblem {
    /// `counts` are the numbers of values of the integer variables; `dimensions` are at least [`MIN_DIMENSIONS`].
    fn new(function: u8, dimensions: usize, instance: u64, counts: &[u8], factor: f64) -> Result<Self, BbobError> {
        if !(1..=MAX_INSTANCE).contains(&instance) {
            return Err(BbobError::UnknownInstance { instance });
        }
        let implementation = functions::function(function, dimensions, instance);
        let implementation = implementation.ok_or(BbobError::UnknownFunction { function })?;
        let inner_optimum = random::optimal_value(function, instance);
        let mut minimizer = implementation.minimizer.clone();
        let grids: Vec<Grid> =
            counts.iter().zip(&mut minimizer).map(|(count, coordinate)| Grid::through(*count, coordinate)).collect();
        let continuous = ParameterKind::Double { min: -BOUND, max: BOUND, scale: ScaleType::UnitLinear };
        let kinds = grids.iter().map(Grid::kind).chain(std::iter::repeat_n(continuous, dimensions - grids.len()));
        let quality = Quality::Value { best_known: Some(factor * inner_optimum) };
        let profile = Profile::new(format!("f{function:02}/d{dimensions:02}"), statement(kinds), quality);
        Ok(Self { profile, function: implementation, grids, factor, inner_optimum, minimizer })
    }

    /// Value at `point`: integers first, then continuous coordinates. Non-integers are rounded to the nearest integer
    /// in range; continuous coordinates may lie outside the box. NaN if a coordinate is NaN or their number is wrong.
    pub fn value(&self, point: &[f64]) -> f64 {
        if point.len() != self.minimizer.len() || point.iter().any(|coordinate| coordinate.is_nan()) {
            return f64::NAN;
        }
        let mut coordinates = point.to_vec();
        for (coordinate, grid) in coordinates.iter_mut().zip(&self.grids) {
            *coordinate = grid.coordinate(*coordinate);
        }
        self.factor * (self.inner_optimum + self.function.excess(&coordinates))
    }

    pub fn optimum(&self) -> f64 {
        self.factor * self.inner_optimum
    }

    /// Minimizer, one number per variable, integral for the integers.
    pub fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }
}

impl Problem for BbobProblem {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    /// A point outside the space is infeasible.
    fn evaluate(&self, point: &ParameterValues, _: Draw) -> Evaluation {
        let space = self.statement().search_space();
        if let Err(error) = space.check(point) {
            return Evaluation::infeasible(error.to_string());
        }
        let coordinate = |parameter: &ParameterSpec| match point.get(parameter.name()) {
            Some(ParameterValue::Double(coordinate)) => Some(*coordinate),
            Some(ParameterValue::Integer(coordinate)) => Some(*coordinate as f64),
            _ => None,
        };
        Evaluation::exact(self.value(&space.parameters().iter().filter_map(coordinate).collect::<Vec<f64>>()))
    }
}

/// Argument out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BbobError {
    #[error("function {function} does not exist: the functions are 1 to {FUNCTIONS}")]
    UnknownFunction { function: u8 },
    #[error("bbob does not support {dimensions} dimensions: {MIN_DIMENSIONS} to {MAX_DIMENSIONS} are allowed")]
    UnsupportedDimensions { dimensions: usize },
    #[error("bbob-mixint does not support {dimensions} dimensions: multiples of 5 up to {MAX_DIMENSIONS} are allowed")]
    UnsupportedMixintDimensions { dimensions: usize },
    #[error("instance {instance} does not exist: the instances are 1 to {MAX_INSTANCE}")]
    UnknownInstance { instance: u64 },
}

/// Statement with variables of these kinds: x01, x02 and so on, with three digits from 100 variables on.
fn statement(kinds: impl Iterator<Item = ParameterKind>) -> ProblemStatement {
    let kinds: Vec<ParameterKind> = kinds.collect();
    let digits = if kinds.len() < 100 { 2 } else { 3 };
    let parameters = kinds.into_iter().enumerate().map(|(index, kind)| {
        ParameterSpec::new(format!("x{:0digits$}", index + 1), kind).expect("the ranges are those of BBOB, not empty")
    });
    let space = SearchSpace::new(parameters.collect()).expect("there are variables, and each has its own number");
    let objective = MetricSpec { name: "objective".to_owned(), goal: Goal::Minimize };
    ProblemStatement::new(space, vec![objective]).expect("one metric is enough")
}
