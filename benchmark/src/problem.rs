//! The interface of a benchmark problem: a search space, and the answer for each of its points.

use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement, TrialId};

/// A problem whose answers the benchmark can compute, or look up, without waiting for them.
///
/// # Contract for implementers
/// - The same point, seed and trial give the same evaluation in any process, unless the documentation of the
///   implementation says otherwise (a user's command does).
/// - Every point of the search space has an evaluation. Callers check points before: a point outside the space may
///   panic.
pub trait Problem: Send + Sync {
    /// What is known of it before anything is tried.
    fn profile(&self) -> &Profile;

    /// What a trial at `point` gives. `draw` keys the noise of problems that have some.
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

/// What is known of a problem before anything is tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name within its suite, with what tells variants apart but for the instance: `f01/d05`, `branin`. Results of
    /// several seeds are put together under it. No spaces.
    pub name: String,
    /// The space and the metrics.
    pub statement: ProblemStatement,
    /// How results are turned into one number.
    pub quality: Quality,
    /// How many constraint values come with each result.
    pub constraints: usize,
    /// Gaps to the best known value below this say nothing about an algorithm: of a table, whose best row is found by
    /// luck. `None` where every gap counts.
    pub resolution: Option<f64>,
}

impl Profile {
    /// A problem without constraints, of which every gap counts.
    pub fn new(name: impl Into<String>, statement: ProblemStatement, quality: Quality) -> Self {
        Self { name: name.into(), statement, quality, constraints: 0, resolution: None }
    }
}

/// Keys the randomness of one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Seed of the run.
    pub seed: u64,
    /// The trial that is evaluated.
    pub trial: TrialId,
}

/// How good a set of results is.
#[derive(Debug, Clone, PartialEq)]
pub enum Quality {
    /// By its best value; problems with one metric.
    Value {
        /// The optimum, or the best value that is known, in the sign of the metric.
        best_known: Option<f64>,
    },
    /// By the volume of objective space that it dominates; problems with several metrics.
    Hypervolume {
        /// The corner that bounds the volume, worse than the front in each metric; one value per metric, in its sign.
        reference_point: Vec<f64>,
        /// The volume of the Pareto front, or the largest known.
        best_known: Option<f64>,
    },
}

/// What a trial gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Its end.
    pub outcome: Outcome,
    /// How long it takes, in simulated seconds; positive and finite.
    pub duration_secs: f64,
    /// What it reports on the way of its first metric, by increasing step; empty if it only reports its end.
    pub curve: Vec<CurvePoint>,
}

/// How a trial ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With values.
    Measured {
        /// What the search algorithm is told: one finite value per metric, noise included.
        observed: Vec<f64>,
        /// What the algorithm is judged by: the same without noise.
        noiseless: Vec<f64>,
        /// The constraints of the problem at this point; it is feasible if all are at most 0.
        constraints: Vec<f64>,
    },
    /// Without values.
    Infeasible {
        /// Why, for people.
        reason: String,
    },
}

/// One report of a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Step (epoch, number of trees) from 1.
    pub step: u64,
    /// Simulated time since the trial began, in seconds; at most its duration.
    pub elapsed_secs: f64,
    /// The first metric at this step.
    pub value: f64,
}

impl Evaluation {
    /// The evaluation of a problem with one metric, no noise and no constraint, which takes one simulated second.
    pub fn exact(value: f64) -> Self {
        Self::measured(vec![value], vec![value], Vec::new())
    }

    /// An evaluation that takes one simulated second and reports only its end.
    pub fn measured(observed: Vec<f64>, noiseless: Vec<f64>, constraints: Vec<f64>) -> Self {
        Self { outcome: Outcome::Measured { observed, noiseless, constraints }, duration_secs: 1.0, curve: Vec::new() }
    }
}
