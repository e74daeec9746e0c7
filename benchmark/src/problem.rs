//! The interface of a benchmark problem: a search space and an evaluation for each of its points.

use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement, TrialId};

/// A problem whose evaluations are computed or looked up without delay.
///
/// # Contract for implementers
/// - The same point, seed and trial give the same evaluation in any process, unless the documentation of the
///   implementation states otherwise (a problem that runs a user's command does).
/// - Every point of the search space has an evaluation. Callers check points first; a point outside the space may
///   panic.
pub trait Problem: Send + Sync {
    /// The static properties of the problem.
    fn profile(&self) -> &Profile;

    /// Evaluates a trial at `point`. `draw` is the key of the noise of noisy problems.
    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation;

    /// [`Profile::name`].
    fn name(&self) -> &str {
        &self.profile().name
    }

    /// [`Profile::statement`].
    fn statement(&self) -> &ProblemStatement {
        &self.profile().statement
    }

    /// [`Profile::quality`].
    fn quality(&self) -> &Quality {
        &self.profile().quality
    }
}

/// The static properties of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name within its suite, with the number of dimensions where that varies: `f01/d05`, `branin`. No spaces. Runs of
    /// several seeds have the same name, so that their results are combined.
    pub name: String,
    /// The space and the metrics.
    pub statement: ProblemStatement,
    /// The measure of quality.
    pub quality: Quality,
    /// Number of constraint values of each result.
    pub constraints: usize,
    /// Smallest gap to the best known value that is meaningful. Below it, the best row of a table is found by chance.
    /// `None` if all gaps are meaningful.
    pub resolution: Option<f64>,
    /// Whether observed values differ from those without noise.
    pub is_noisy: bool,
}

impl Profile {
    /// Returns the profile of a problem without constraints, resolution and noise.
    pub fn new(name: impl Into<String>, statement: ProblemStatement, quality: Quality) -> Self {
        Self { name: name.into(), statement, quality, constraints: 0, resolution: None, is_noisy: false }
    }
}

/// The key of the random numbers of one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Seed of the run.
    pub seed: u64,
    /// The evaluated trial.
    pub trial: TrialId,
}

/// The quality of a set of results.
#[derive(Debug, Clone, PartialEq)]
pub enum Quality {
    /// The best value, for problems with one metric.
    Value {
        /// The optimum, or the best known value, in the sign of the metric.
        best_known: Option<f64>,
    },
    /// The dominated hypervolume, for problems with several metrics.
    Hypervolume {
        /// The reference point, worse than the front in each metric; one value per metric, in its sign.
        reference_point: Vec<f64>,
        /// The volume of the Pareto front, or the largest known volume.
        best_known: Option<f64>,
    },
}

/// The evaluation of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The outcome.
    pub outcome: EvaluationOutcome,
    /// The duration in simulated seconds; positive and finite.
    pub duration_secs: f64,
    /// Intermediate values of the first metric, by increasing step; empty if the trial reports only its final values.
    pub curve: Vec<CurvePoint>,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum EvaluationOutcome {
    /// The trial has values.
    Measured {
        /// The values that the search algorithm receives: one finite value per metric, with noise.
        observed: Vec<f64>,
        /// The values that the quality is computed from: the same without noise.
        noiseless: Vec<f64>,
        /// The constraints at this point; it is feasible if all are at most 0.
        constraints: Vec<f64>,
    },
    /// The trial has no values.
    Infeasible {
        /// The reason, as text.
        reason: String,
    },
}

/// An intermediate value of a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Step (epoch, number of trees) from 1.
    pub step: u64,
    /// Simulated time since the start of the trial, in seconds; at most its duration.
    pub elapsed_secs: f64,
    /// The first metric at this step.
    pub value: f64,
}

impl Evaluation {
    /// Returns an evaluation with one metric, without noise and constraints, that takes one simulated second.
    pub fn exact(value: f64) -> Self {
        Self::measured(vec![value], vec![value], Vec::new())
    }

    /// Returns an evaluation that takes one simulated second and has no intermediate values.
    pub fn measured(observed: Vec<f64>, noiseless: Vec<f64>, constraints: Vec<f64>) -> Self {
        Self {
            outcome: EvaluationOutcome::Measured { observed, noiseless, constraints },
            duration_secs: 1.0,
            curve: Vec::new(),
        }
    }
}
