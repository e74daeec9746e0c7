//! The tree-structured Parzen estimator: the ratio of the density of good trials and that of the others.
//!
//! A suggestion has three steps: split the history into good trials and others (`groups`); build a mixture of product
//! kernels from each, `l` and `g` (`mixture`); draw [`CANDIDATES`] points from `l` and select the one with the largest
//! `ln l - ln g`, which orders points like expected improvement. The time is linear in the number of trials.
//!
//! Notation: `l` density of the good trials, `g` of the others, `n` trials, `d` dimensions.
//!
//! - The initial design is the centre of the space followed by quasi-random points, [`START_TRIALS`] trials in total.
//! - Pending trials belong to the bad group (a constant liar), so that workers spread. So do failed trials.
//! - Trials that were stopped early are ranked by their value, but never form the good group alone.
//! - The log density of the [prior](crate::prior) is added to `ln l - ln g` with the weight `10 / n`, as in the
//!   acquisition function of the Gaussian process, and a quarter of the candidates is drawn from the prior. The first
//!   trial is at its mode, and every second trial of the initial design is drawn from it, so that a wrong prior does
//!   not determine all of them.
//! - In a finite space, the best unused candidate is selected, or else a random unused point.
//!
//! Sources: Bergstra, Bardenet, Bengio & Kegl 2011, Algorithms for Hyper-Parameter Optimization, NIPS, section 4;
//! Falkner, Klein & Hutter 2018 (BOHB), ICML, for the multivariate mixture; Watanabe 2023, arXiv 2304.11127, for the
//! effect of its parts. Departures: weights by rank (`groups`), widths that follow the good trials (`widths`), and the
//! start at the centre; see docs/experiments/042.

mod groups;
mod kernel;
mod mixture;
#[cfg(test)]
mod tests;
mod widths;

use rand::RngExt;

use self::groups::Groups;
use self::mixture::Mixture;
use self::widths::{Group, kernels};
use super::{NumberedPoints, only_goal};
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::Encoding;
use crate::interruption::Interruption;
use crate::prior::{DECAY, PriorDensity};
use crate::problem::{AlgorithmName, Goal, Origin, ProblemStatement, Step, TrialId, TrialSuggestion};
use crate::rng::stream;
use crate::sampling::{RandomPoints, sobol_point};

const ALGORITHM: AlgorithmName = AlgorithmName::TreeStructuredParzenEstimator;
const NAME: &str = ALGORITHM.as_str();

/// Number of completed trials before the model is used (Optuna's default, confirmed in docs/experiments/042).
pub(super) const START_TRIALS: usize = 10;

/// Number of points drawn from `l` (the default of the sources, confirmed in docs/experiments/042).
const CANDIDATES: usize = 24;

/// Number of candidates drawn from the prior, if any. A guess: the share of the Gaussian process.
const PRIOR_CANDIDATES: usize = CANDIDATES / 4;

/// Designer for one problem with one metric.
#[derive(Debug, Clone)]
pub struct TreeParzen {
    encoding: Encoding,
    goal: Goal,
    seed: u64,
    prior: Option<PriorDensity>,
}

impl TreeParzen {
    /// Creates a designer for `problem`.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if the problem has more than one metric, or constraints.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Result<Self, DesignerError> {
        let goal = only_goal(problem, NAME)?;
        let encoding = Encoding::new(problem.search_space());
        Ok(Self { prior: PriorDensity::new(problem.search_space(), &encoding), encoding, goal, seed })
    }

    /// Points for `trial` before there is a model, by preference.
    fn start_points(&self, trial: TrialId) -> Vec<Vec<f64>> {
        let even = sobol_point(&self.encoding, self.seed, trial);
        if trial != TrialId::FIRST {
            let from_prior = self.prior.as_ref().filter(|_| !trial.0.is_multiple_of(2)).and_then(|prior| {
                RandomPoints::new(&self.encoding, self.seed, trial, "tpe/beliefs").with_prior(Some(prior)).next()
            });
            return from_prior.into_iter().chain([even]).collect();
        }
        // Levels have no middle; they come from the quasi-random point.
        let categorical = self.encoding.categorical().into_iter();
        let mut center: Vec<f64> =
            categorical.zip(&even).map(|(is_categorical, u)| if is_categorical { *u } else { 0.5 }).collect();
        for (j, u) in center.iter_mut().enumerate() {
            *u = self.prior.as_ref().and_then(|prior| prior.mode(j)).unwrap_or(*u);
        }
        self.encoding.snap(&mut center);
        vec![center, even]
    }

    /// Candidates for `trial`, best first.
    fn model_points(&self, groups: &Groups, trial: TrialId) -> Vec<Vec<f64>> {
        let mixture = |components, group| Mixture::new(components, kernels(&self.encoding, components, group));
        let mut good = mixture(&groups.good, Group::Good { plateau: groups.plateau });
        let mut bad = mixture(&groups.bad, Group::Bad);
        let mut rng = stream(self.seed, trial, "tpe");
        let mut scratch = vec![];
        let mut scored = Vec::with_capacity(CANDIDATES);
        let fading = DECAY / (groups.good.len() + groups.bad.len()).max(1) as f64;
        for place in 0..CANDIDATES {
            let (mut point, mut active) = good.draw(&self.encoding, &mut rng);
            if let Some(prior) = self.prior.as_ref().filter(|_| place < PRIOR_CANDIDATES) {
                for (j, u) in point.iter_mut().enumerate() {
                    *u = prior.quantile(j, rng.random()).unwrap_or(*u);
                }
                self.encoding.snap(&mut point);
                active = self.encoding.active(&point);
            }
            let mut score =
                good.log_density(&point, &active, &mut scratch) - bad.log_density(&point, &active, &mut scratch);
            if let Some(prior) = &self.prior {
                score += fading * prior.log_density(&self.encoding, &point);
            }
            scored.push((score, point));
        }
        // The sort is stable: of equal candidates the one drawn first wins.
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.into_iter().map(|(_, point)| point).collect()
    }
}

impl Designer for TreeParzen {
    fn capabilities(&self) -> Capabilities {
        Capabilities { several_metrics: false, constraints: false, priors: true, ..Capabilities::any_problem(true) }
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let points = NumberedPoints::new(&self.encoding);
        let mut used = points.used_by(history)?;
        let mut groups = Groups::new(&self.encoding, self.goal, history)?;
        let mut suggestions = Vec::with_capacity(request.count.get());
        for place in 0..request.count.get() as u64 {
            interruption.check()?;
            let trial = request.first_trial_id.offset(place);
            let (step, proposals) = if groups.completed < START_TRIALS {
                (Step::Start, self.start_points(trial))
            } else {
                (Step::Model, self.model_points(&groups, trial))
            };
            let (own, mut tried) = (proposals.len(), 0);
            let random = RandomPoints::new(&self.encoding, self.seed, trial, "tpe/unused");
            let proposals = proposals.into_iter().chain(random).inspect(|_| tried += 1);
            let Some(parameters) = points.take_unused(&mut used, proposals, self.seed, trial) else { break };
            let origin = Origin::with_step(ALGORITHM, if tried > own { Step::Unused } else { step });
            let point = self
                .encoding
                .encode(&parameters)
                .map_err(|error| DesignerError::Numerical { algorithm: NAME, reason: error.to_string() })?;
            groups.add_pending(&self.encoding, point);
            suggestions.push(TrialSuggestion { parameters, origin });
        }
        Ok(suggestions)
    }
}
