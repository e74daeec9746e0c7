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

use crate::problem::{Draw, Evaluation, EvaluationOutcome, Problem, Profile, Quality};
use functions::Function;

pub use mixint::{BbobMixintProblem, bbob_mixint};

/// Number of functions; they are numbered from 1.
pub const FUNCTIONS: u8 = 24;

/// Smallest number of variables; some functions combine neighbouring ones.
pub const MIN_DIMENSIONS: usize = 2;

/// Largest number of variables; COCO has other functions for more.
pub const MAX_DIMENSIONS: usize = 40;

/// Largest instance; above about 214,000 the seeds exceed the range of COCO's generator.
pub const MAX_INSTANCE: u64 = 200_000;

/// Bound of continuous variables: [-5, 5].
const BOUND: f64 = 5.0;

/// Returns a function of `dimensions` continuous variables in [-5, 5], named x01, x02, ..., with the minimised metric
/// `objective`.
///
/// # Errors
/// [`BbobError`] names the argument that is out of range.
pub fn bbob(function: u8, dimensions: usize, instance: u64) -> Result<BbobProblem, BbobError> {
    check_dimensions(dimensions)?;
    of_any_dimension(function, dimensions, instance)
}

/// Returns [`bbob`] for more dimensions than COCO's suite has: the same definitions, with dense rotations. Instances above
/// [`MAX_INSTANCE`] repeat the first ones.
pub(super) fn large_bbob(function: u8, dimensions: usize, instance: u64) -> BbobProblem {
    let instance = 1 + instance.wrapping_sub(1) % MAX_INSTANCE;
    of_any_dimension(function, dimensions, instance).expect("the suite names functions that exist")
}

/// Requires at least [`MIN_DIMENSIONS`].
fn of_any_dimension(function: u8, dimensions: usize, instance: u64) -> Result<BbobProblem, BbobError> {
    let implementation = checked_function(function, dimensions, instance)?;
    let optimum = random::optimal_value(function, instance);
    Ok(BbobProblem {
        profile: Profile::new(
            name(function, dimensions),
            statement((0..dimensions).map(|_| continuous())),
            Quality::Value { best_known: Some(optimum) },
        ),
        function: implementation,
        optimum,
    })
}

/// An instance of one of the functions, created by [`bbob`].
#[derive(Debug)]
pub struct BbobProblem {
    profile: Profile,
    function: Box<dyn Function>,
    optimum: f64,
}

impl BbobProblem {
    /// Returns the value at `point`, also outside the box; NaN if a coordinate is NaN or their number is wrong.
    pub fn value(&self, point: &[f64]) -> f64 {
        if !is_defined(point, self.minimizer().len()) {
            return f64::NAN;
        }
        self.optimum + self.function.excess(point)
    }

    /// The smallest value.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// The point of the box with the smallest value, one coordinate per variable.
    pub fn minimizer(&self) -> &[f64] {
        self.function.minimizer()
    }
}

impl Problem for BbobProblem {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _: Draw) -> Evaluation {
        evaluate(self.statement(), point, |coordinates| self.value(coordinates))
    }
}

/// The error of an argument out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BbobError {
    /// There is no function with this number.
    #[error("function {function} does not exist: the functions are 1 to {FUNCTIONS}")]
    UnknownFunction {
        /// The number.
        function: u8,
    },
    /// The functions are not defined for this number of variables.
    #[error("bbob does not support {dimensions} dimensions: {MIN_DIMENSIONS} to {MAX_DIMENSIONS} are allowed")]
    UnsupportedDimensions {
        /// The number of variables.
        dimensions: usize,
    },
    /// The mixed-integer functions are not defined for this number of variables.
    #[error("bbob-mixint does not support {dimensions} dimensions: multiples of 5 up to {MAX_DIMENSIONS} are allowed")]
    UnsupportedMixintDimensions {
        /// The number of variables.
        dimensions: usize,
    },
    /// There is no instance with this number.
    #[error("instance {instance} does not exist: the instances are 1 to {MAX_INSTANCE}")]
    UnknownInstance {
        /// The number.
        instance: u64,
    },
}

fn check_dimensions(dimensions: usize) -> Result<(), BbobError> {
    if !(MIN_DIMENSIONS..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(BbobError::UnsupportedDimensions { dimensions });
    }
    Ok(())
}

/// Requires valid `dimensions`.
fn checked_function(function: u8, dimensions: usize, instance: u64) -> Result<Box<dyn Function>, BbobError> {
    if !(1..=MAX_INSTANCE).contains(&instance) {
        return Err(BbobError::UnknownInstance { instance });
    }
    functions::function(function, dimensions, instance).ok_or(BbobError::UnknownFunction { function })
}

fn name(function: u8, dimensions: usize) -> String {
    format!("f{function:02}/d{dimensions:02}")
}

fn continuous() -> ParameterKind {
    ParameterKind::Double { min: -BOUND, max: BOUND, scale: ScaleType::UnitLinear }
}

/// Returns the statement with variables of these kinds: x01, x02 and so on, with three digits from 100 variables on.
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

/// Evaluates a point. A point outside the space is infeasible.
fn evaluate(statement: &ProblemStatement, point: &ParameterValues, value: impl FnOnce(&[f64]) -> f64) -> Evaluation {
    if let Err(error) = statement.search_space().check(point) {
        let outcome = EvaluationOutcome::Infeasible { reason: error.to_string() };
        return Evaluation { outcome, duration_secs: 1.0, curve: Vec::new() };
    }
    let parameters = statement.search_space().parameters().iter();
    let coordinates: Vec<f64> = parameters
        .filter_map(|parameter| match point.get(parameter.name()) {
            Some(ParameterValue::Double(coordinate)) => Some(*coordinate),
            Some(ParameterValue::Integer(coordinate)) => Some(*coordinate as f64),
            _ => None,
        })
        .collect();
    Evaluation::exact(value(&coordinates))
}

/// Whether a function of `dimensions` variables is defined at `point`.
fn is_defined(point: &[f64], dimensions: usize) -> bool {
    point.len() == dimensions && !point.iter().any(|coordinate| coordinate.is_nan())
}
