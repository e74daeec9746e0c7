//! Benchmark problems: a search space and an evaluation of each of its points.

use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement, TrialId};
use tunesmith_algorithms::transfer::SourceStudy;

/// A problem whose evaluations are computed or looked up without delay.
///
/// # Contract for implementers
/// - The same point, seed and trial give the same evaluation in any process, unless documented otherwise (as for a
///   user's command).
/// - Every point of the search space has an evaluation. Callers check points first; a point outside the space may
///   panic.
pub trait Problem: Send + Sync {
    fn profile(&self) -> &Profile;

    /// Evaluates a trial at `point`. `draw` is the key of the noise.
    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation;

    /// Studies that optimizers may learn from before the first trial, oldest first; none by default.
    fn sources(&self) -> Vec<SourceStudy> {
        Vec::new()
    }

    fn name(&self) -> &str {
        &self.profile().name
    }

    fn statement(&self) -> &ProblemStatement {
        &self.profile().statement
    }

    fn quality(&self) -> &Quality {
        &self.profile().quality
    }
}

/// Static properties of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name within its suite, with the dimension where that varies: `f01/d05`, `branin`. No spaces. Equal for all
    /// seeds, whose results are combined.
    pub name: String,
    pub statement: ProblemStatement,
    pub quality: Quality,
    /// Number of constraint values per result.
    pub constraints: usize,
    /// Smallest meaningful gap to the best known value; below it, finding the best row of a table is chance. `None` if
    /// all gaps are meaningful.
    pub resolution: Option<f64>,
    /// Whether observed values contain noise.
    pub is_noisy: bool,
}

impl Profile {
    /// Creates a profile without constraints, resolution and noise.
    pub fn new(name: impl Into<String>, statement: ProblemStatement, quality: Quality) -> Self {
        Self { name: name.into(), statement, quality, constraints: 0, resolution: None, is_noisy: false }
    }
}

/// Key of the random numbers of one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Seed of the run.
    pub seed: u64,
    pub trial: TrialId,
}

/// Measure of quality of a set of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// Best value, for problems with one metric.
    Value {
        /// Optimum or best known value, in the sign of the metric.
        best_known: Option<f64>,
    },
    /// Dominated hypervolume, for problems with several metrics.
    Hypervolume {
        /// Worse than the front in each metric; one value per metric, in its sign.
        reference_point: Vec<f64>,
        /// Volume of the Pareto front, or the largest known volume.
        best_known: Option<f64>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub outcome: EvaluationOutcome,
    /// Simulated seconds; positive and finite.
    pub duration_secs: f64,
    /// Intermediate values of the first metric, by increasing step; empty if the trial reports only final values.
    pub curve: Vec<CurvePoint>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EvaluationOutcome {
    Measured {
        /// Values seen by the search algorithm: one finite value per metric, with noise.
        observed: Vec<f64>,
        /// Values that determine the quality: the same without noise.
        noiseless: Vec<f64>,
        /// Constraint values; feasible if all are at most 0.
        constraints: Vec<f64>,
    },
    /// The trial failed and has no values.
    Infeasible { reason: String },
}

/// Intermediate value of a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Step (epoch, number of trees) from 1.
    pub step: u64,
    /// Simulated seconds since the start of the trial; at most its duration.
    pub elapsed_secs: f64,
    /// The first metric at this step.
    pub value: f64,
}

impl Evaluation {
    /// Evaluation with one metric, without noise and constraints, that takes one simulated second.
    pub fn exact(value: f64) -> Self {
        Self::measured(vec![value], vec![value], Vec::new())
    }

    /// Failed evaluation that takes one simulated second.
    pub fn infeasible(reason: impl Into<String>) -> Self {
        Self { outcome: EvaluationOutcome::Infeasible { reason: reason.into() }, duration_secs: 1.0, curve: Vec::new() }
    }

    /// Evaluation without intermediate values that takes one simulated second.
    pub fn measured(observed: Vec<f64>, noiseless: Vec<f64>, constraints: Vec<f64>) -> Self {
        Self {
            outcome: EvaluationOutcome::Measured { observed, noiseless, constraints },
            duration_secs: 1.0,
            curve: Vec::new(),
        }
    }
}
