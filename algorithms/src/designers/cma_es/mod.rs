//! Covariance matrix adaptation (CMA-ES): an evolution strategy for ordered parameters.
//!
//! Trials are drawn from a normal distribution over the encoded space. Its mean, step size and covariance move towards
//! the better half of each generation and away from the worse half. It starts at the centre of the space, which is the
//! first trial, and learns from every completed trial, including user-supplied ones. There is no state between
//! requests except [memory] of replays: the history is replayed, with one eigendecomposition per generation.
//!
//! - Ranges: a draw outside is repeated up to [`RESAMPLES`] times, then its coordinates are clipped to their ranges.
//!   The evaluated point is used for learning.
//! - Parameters with few values: the margin of Hamano et al. 2022 prevents premature convergence. Large integer ranges
//!   are treated as continuous and rounded.
//! - Failed trials rank last. Trials stopped early rank by their value.
//! - Pending trials do not block: further trials are drawn from the same distribution.
//! - Categorical parameters are rejected, because any order of levels would be arbitrary. Conditional parameters are
//!   rejected, too.
//!
//! The submodules name their sources. The default strategy parameters are those of Hansen 2016, except for the initial
//! step size, which is measured.

mod constants;
mod distribution;
mod margin;
mod memory;
mod replay;
#[cfg(test)]
mod tests;

use nalgebra::DVector;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use self::distribution::Distribution;
use self::margin::Range;
use self::memory::Memory;
use self::replay::{Completed, State};
use super::{NumberedPoints, only_goal};
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::Encoding;
use crate::interruption::Interruption;
use crate::problem::{AlgorithmName, Goal, Origin, ProblemStatement, Step, TrialId, TrialOutcome, TrialSuggestion};
use crate::rng::stream;

const NAME: &str = AlgorithmName::CmaEs.as_str();

/// Maximum number of redraws for a point outside the space. A guess.
const RESAMPLES: usize = 100;

/// Initial step size as a fraction of the range: measured, see docs/experiments/043.
const INITIAL_STEP: f64 = 1.0 / 6.0;

/// Designer for one problem with one metric and without categorical parameters.
#[derive(Debug, Clone)]
pub struct CmaEs {
    encoding: Encoding,
    ranges: Vec<Range>,
    goal: Goal,
    seed: u64,
    memory: Memory,
}

impl CmaEs {
    /// Creates a designer for `problem`.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if the problem has more than one metric, a constraint, a conditional parameter,
    /// or a categorical one with more than one level.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Result<Self, DesignerError> {
        let unsupported = |reason: String| DesignerError::Unsupported { algorithm: NAME, reason };
        let goal = only_goal(problem, NAME)?;
        if let Some(spec) = problem.search_space().parameters().iter().find(|spec| spec.condition().is_some()) {
            return Err(unsupported(format!("parameter {:?} is conditional", spec.name())));
        }
        let encoding = Encoding::new(problem.search_space());
        let mut ranges = Vec::with_capacity(encoding.dimensions());
        for feature in encoding.features() {
            let range = Range::new(&feature.kind);
            ranges.push(range.ok_or_else(|| unsupported(format!("parameter {:?} is categorical", feature.name)))?);
        }
        Ok(Self { encoding, ranges, goal, seed, memory: Memory::default() })
    }

    /// Completed trials by number.
    fn completed(&self, history: History<'_>) -> Result<Vec<Completed>, DesignerError> {
        let mut completed = Vec::with_capacity(history.completed.len());
        for trial in history.completed {
            let value = match &trial.outcome {
                TrialOutcome::Infeasible => f64::NEG_INFINITY,
                TrialOutcome::Measured { values, .. } => match values[..] {
                    [value] if value.is_finite() => self.goal.to_maximized(value),
                    [_] => f64::NEG_INFINITY,
                    _ => {
                        let mismatch = format!("it has {} values for one metric", values.len());
                        return Err(DesignerError::foreign(trial.id)(mismatch));
                    }
                },
            };
            let point = self.encoding.encode(&trial.parameters).map_err(DesignerError::foreign(trial.id))?;
            completed.push(Completed { id: trial.id, point, value });
        }
        completed.sort_by_key(|trial| trial.id);
        Ok(completed)
    }
}

impl Designer for CmaEs {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            categories: false,
            conditions: false,
            several_metrics: false,
            constraints: false,
            ..Capabilities::any_problem(true)
        }
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let points = NumberedPoints::new(&self.encoding);
        let mut used = points.used_by(history)?;
        let search = SearchRange { encoding: &self.encoding, ranges: &self.ranges, seed: self.seed };
        // A space of a single point has nothing to learn.
        let state = match self.ranges.len() {
            0 => None,
            _ => Some(State::replay(&search, &self.completed(history)?, &self.memory)),
        };
        let origin = Origin::with_step(AlgorithmName::CmaEs, Step::Model);
        let trials = (0..request.count.get() as u64).map(|place| request.first_trial_id.offset(place));
        let suggested = trials
            .take_while(|_| !interruption.is_requested())
            .map_while(|trial| match &state {
                Some(state) => {
                    let proposals = search.proposals(&state.distribution, trial);
                    let proposals = proposals.map(|point| point.iter().copied().collect());
                    points.take_unused(&mut used, proposals, self.seed, trial)
                }
                None => points.take_unused(&mut used, [vec![]], self.seed, trial),
            })
            .map(|parameters| TrialSuggestion { parameters, origin })
            .collect();
        interruption.check()?;
        Ok(suggested)
    }
}

/// Search space and seed, for the replay and the proposals.
#[derive(Debug, Clone, Copy)]
struct SearchRange<'a> {
    encoding: &'a Encoding,
    /// One per feature, at least one.
    ranges: &'a [Range],
    seed: u64,
}

impl SearchRange<'_> {
    /// Endless sequence of proposals for `trial`, each of shape `[n]` and inside the ranges. The first proposal of the
    /// first trial is the mean.
    fn proposals(&self, distribution: &Distribution, trial: TrialId) -> impl Iterator<Item = DVector<f64>> {
        let mut rng = stream(self.seed, trial, "cma_es");
        let mean = (trial == TrialId::FIRST).then(|| distribution.mean.clone());
        let drawn = std::iter::repeat_with(move || self.proposal(distribution, &mut rng));
        mean.into_iter().chain(drawn)
    }

    fn proposal(&self, distribution: &Distribution, rng: &mut ChaCha8Rng) -> DVector<f64> {
        let n = self.ranges.len();
        let mut draw = || distribution.point(&DVector::from_fn(n, |_, _| StandardNormal.sample(rng)));
        let mut point = draw();
        for _ in 0..RESAMPLES {
            let inside = |(u, range): (&f64, &Range)| (range.low..=range.high).contains(u);
            if point.iter().zip(self.ranges).all(inside) {
                return point;
            }
            point = draw();
        }
        for (u, range) in point.iter_mut().zip(self.ranges) {
            *u = u.clamp(range.low, range.high);
        }
        point
    }
}
