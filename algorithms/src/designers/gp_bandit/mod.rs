//! Bayesian optimisation by a Gaussian process and expected improvement, in a trust region.
//!
//! One suggestion for one metric: encode the history; merge replicates and [warp](crate::output_warp) the values; fit the
//! [model](crate::gp); draw the results of pending trials; maximise log expected improvement around the incumbent
//! ([`crate::acquisition`]). The first trials are a centre and a star around it, or in large spaces steps away from it
//! ([`start`]). Spaces with a categorical or a
//! conditional parameter search the trust region for trials with an odd number and the whole space for those with an
//! even number. In conditional spaces every third trial is for a branch that looks worse ([`branches`]).
//!
//! Conditional spaces have one model of all branches (see [`crate::encoding`] for what it sees of inactive parameters).
//! The trust region is that of the parameters active at the incumbent; others are free in it.
//!
//! Under much noise the upper confidence bound takes the place of expected improvement.
//!
//! Failed trials count at a pessimistic value; after five of them their region has a model of its own. Values of
//! trials stopped early are noisy and never the incumbent. NaN and infinities are failures.
//!
//! # Several metrics
//! Up to three: a model each, expected [hypervolume](crate::acquisition::hypervolume) improvement in the whole space, the
//! best candidates sought around all of the front (see [`several`]). With four or more each trial has an objective of its
//! own, a random scalarisation ([`outcomes`]), and then all is as for one metric but for the trust region. The order of
//! metrics does not matter, nor do their units.
//!
//! # Constraints
//! A model each, of the slack to the threshold; the log probability that all hold is added to the acquisition function
//! ([`Constrained`](crate::acquisition::Constrained)) and stands alone while no trial satisfies them all. Only trials
//! that satisfy them are the incumbent, on the front, or a success of the trust region; the others still teach the models.
//! With the criteria that are no expected improvement, the log probability is a penalty in units of standardised values.
//!
//! # What is known beforehand
//! What users believe of the optimum ([`crate::prior`]) is [added](crate::acquisition::Believed) to the log acquisition
//! with the weight `10 / n` after `n` trials, a share of the candidates is drawn from it, and every other point of the
//! start is around its mode. Earlier studies ([`crate::transfer`]) take the place of the start: the first trial is at their best point, and
//! the model is one of what they leave unexplained. They are for problems with one metric; constraints are learned anew.
//!
//! That is the default: [`GpBanditOptions`] put other parts in place of these.
//!
//! Sources stand with the parts. The composition follows Golovin et al. 2017 (Google Vizier) and Eriksson et al. 2019
//! (TuRBO); what differs, and by which measurement, is said where it differs. There is no state between requests but
//! memory of [fits] that would be computed again identically.

mod branches;
#[cfg(test)]
mod conditional_tests;
mod evidence;
mod finite;
mod fits;
#[cfg(test)]
mod invariance_tests;
#[cfg(test)]
mod memory_tests;
mod model;
mod observations;
mod options;
#[cfg(test)]
mod options_tests;
mod outcomes;
mod outputs;
mod several;
#[cfg(test)]
mod several_tests;
mod start;
#[cfg(test)]
mod tests;
mod violations;

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::RngExt;

use self::finite::FinitePoints;
use self::fits::Fits;
use self::model::{Model, SharedCandidates};
use self::observations::Pending;
pub use self::options::{GpBanditOptions, Start};
use self::outcomes::Outcomes;
use self::outputs::Outputs;
use self::start::Known;
use crate::acquisition::hypervolume::HypervolumeImprovement;
use crate::acquisition::{Acquisition, Axis, Believed, Region, Search, TrustRegion};
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::{Encoding, FeatureKind, Key};
use crate::numerics::latin_hypercube::stratified_normals;
use crate::prior::{Beliefs, FADING};
use crate::problem::{AlgorithmName, Origin, ProblemStatement, Step, TrialId, TrialSuggestion};
use crate::rng::stream;
use crate::transfer::{EarlierStudy, FEWEST_TO_JUDGE, Grounds, TRIALS_ON_TRUST};

const ALGORITHM: AlgorithmName = AlgorithmName::GaussianProcessBandit;
const NAME: &str = ALGORITHM.as_str();
/// Once the trust region has become too small, every so many trials the whole space is searched as well: every third, to
/// save time. With every trial the classic functions are perhaps better (after 100 evaluations -0.19 +- 0.14 decades, 108
/// pairs of runs).
const LOOKS_BEYOND_EVERY: u64 = 3;
/// Its best point is then taken if the log of its expected improvement is above that of the box by more than this, ln 10.
/// On classic test functions (2 and 6 parameters, 100 evaluations) that is 0.4 decades better (standard error 0.24), for
/// the box alone never leaves a good local optimum; on bbob in 2 and 5 dimensions there is no difference. With a factor
/// of 2 instead of 10 there is less gain there and a loss here. All measured with a search of the whole space in every
/// trial after the collapse. The largest upper confidence bound with 3 deviations, taken in any case, is worse on bbob in 2
/// dimensions (+0.21 +- 0.12 decades after 100 evaluations, 48 pairs of runs) and no better on the classic functions.
const WORTH_LEAVING: f64 = std::f64::consts::LN_10;
/// Fewer measured trials than this say nothing about scale.
const FEWEST_MEASURED: usize = 2;

/// The designer for one problem.
#[derive(Debug, Clone)]
pub struct GpBandit {
    encoding: Encoding,
    outputs: Outputs,
    seed: u64,
    finite: Option<FinitePoints>,
    /// Whether every other trial leaves the trust region.
    alternates: bool,
    options: GpBanditOptions,
    fits: Fits,
    beliefs: Option<Beliefs>,
    grounds: Option<Grounds>,
}

impl GpBandit {
    /// A designer for `problem`.
    ///
    /// # Errors
    /// None today; other designers may find that they cannot search a problem.
    pub fn new(problem: ProblemStatement, seed: u64) -> Result<Self, DesignerError> {
        Self::with_options(problem, seed, GpBanditOptions::default())
    }

    /// A designer for `problem` with other parts than the usual ones.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if an option has a value it cannot have.
    pub fn with_options(problem: ProblemStatement, seed: u64, options: GpBanditOptions) -> Result<Self, DesignerError> {
        if let Some(reason) = options.fault() {
            return Err(DesignerError::Unsupported { algorithm: NAME, reason });
        }
        let encoding = Encoding::new(problem.search_space());
        let is_category = |kind: &FeatureKind| matches!(kind, FeatureKind::Categorical { .. });
        Ok(Self {
            outputs: Outputs::new(&problem),
            seed,
            finite: FinitePoints::new(&encoding),
            alternates: encoding.is_conditional()
                || encoding.features().iter().any(|feature| is_category(&feature.kind)),
            beliefs: Beliefs::new(problem.search_space(), &encoding),
            grounds: None,
            encoding,
            options,
            fits: Fits::default(),
        })
    }

    /// A designer for `problem` that has learned from `studies`, the oldest first, as [`crate::transfer`] describes.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if there are studies and the problem has several metrics.
    pub fn after(problem: ProblemStatement, seed: u64, studies: &[EarlierStudy]) -> Result<Self, DesignerError> {
        if !studies.is_empty() && problem.metrics().len() > 1 {
            let reason = format!("it learns from earlier studies of one metric, not of {}", problem.metrics().len());
            return Err(DesignerError::Unsupported { algorithm: NAME, reason });
        }
        let designer = Self::new(problem.clone(), seed)?;
        let grounds = Grounds::new(&problem, &designer.encoding, studies, designer.options.kernel_terms());
        Ok(Self { grounds, ..designer })
    }

    /// Whether earlier studies teach it something.
    pub(super) fn has_learned(&self) -> bool {
        self.grounds.is_some()
    }

    /// Whether `trial` searches the whole space even when there is a trust region.
    fn is_global(&self, trial: TrialId) -> bool {
        (self.alternates && trial.0.is_multiple_of(2)) || branches::is_turn(&self.encoding, trial)
    }

    /// The next point and the step it comes from; `None` if the space is exhausted.
    fn next_point(&self, state: &mut State, trial: TrialId) -> Result<Option<(Vec<f64>, Step)>, DesignerError> {
        if self.finite.as_ref().is_some_and(|finite| finite.exhausted(&state.used)) {
            return Ok(None);
        }
        let measured = state.outcomes.objectives[0].measured();
        let known = measured + state.pending.len();
        // Earlier studies that turn out to mislead have cost a few trials: the start then comes after them.
        let judges = if self.grounds.is_some() { TRIALS_ON_TRUST } else { 0 };
        let start = measured < FEWEST_MEASURED || known < self.start_trials() + judges;
        let alone = start || !state.outcomes.are_informative();
        let by_model = match &self.grounds {
            // Before the first trial nothing but the earlier studies speaks.
            Some(grounds) if known == 0 => {
                self.best_of_earlier(grounds, state).map(|point| (point, Step::EarlierStudies))
            }
            // Every other of the first trials is one of the start: spread points judge the earlier studies better than
            // those that they propose, and are not lost if these mislead.
            Some(_) if known < FEWEST_TO_JUDGE && known % 2 == 1 => None,
            Some(_) if alone && measured > 0 => self.model_point(state, trial, true),
            _ if alone => None,
            _ => self.model_point(state, trial, false),
        };
        let spread = if alone { Step::Start } else { Step::Unused };
        let proposed = by_model.or_else(|| self.spread_out(state, trial).map(|point| (point, spread)));
        if proposed.is_some() {
            return Ok(proposed);
        }
        let walked = self.finite.as_ref().and_then(|finite| finite.any_unused(&state.used, self.seed, trial));
        match walked.map(|ordinals| self.encoding.encode(&self.encoding.point_at(&ordinals))) {
            Some(Ok(point)) => Ok(Some((point, Step::Unused))),
            _ => Err(DesignerError::Numerical { algorithm: NAME, reason: "no unused point was found".into() }),
        }
    }

    /// How many trials the start of a study without earlier ones takes.
    fn start_trials(&self) -> usize {
        self.options.start.trials(&self.encoding, self.outputs.count())
    }

    /// The best unused feasible point near a trial of an earlier study.
    fn best_of_earlier(&self, grounds: &Grounds, state: &State) -> Option<Vec<f64>> {
        let feasible = grounds.best_points().into_iter().map(|mut point| {
            self.encoding.snap(&mut point);
            point
        });
        let unused = |point: &Vec<f64>| {
            self.encoding.key(&self.encoding.decode(point)).is_ok_and(|key| !state.used.contains(&key))
        };
        feasible.into_iter().find(unused)
    }

    fn spread_out(&self, state: &State, trial: TrialId) -> Option<Vec<f64>> {
        let pending = state.pending.iter().map(|pending| &pending.point);
        let points: Vec<Vec<f64>> = state.outcomes.objectives[0].points().chain(pending).cloned().collect();
        // A wrong belief does not have all of the start.
        let beliefs = self.beliefs.as_ref().filter(|_| !trial.0.is_multiple_of(2));
        let best = state.outcomes.objectives[0].best().filter(|_| self.outputs.count() == 1);
        let known = Known { beliefs, used: &state.used, points: &points, best };
        start::start_point(self.options.start, &self.encoding, &known, self.seed, trial)
    }

    /// The best point by the model; `None` if there is none, or `only_on_ground` and no earlier study to build it upon.
    fn model_point(&self, state: &mut State, trial: TrialId, only_on_ground: bool) -> Option<(Vec<f64>, Step)> {
        if state.model.is_none() || self.is_scalarized() {
            let known = state.outcomes.objectives[0].completed() + state.pending.len();
            let mut model = self.believing(self.model(&state.outcomes, trial, state.parallel)?, known);
            for pending in &state.pending {
                self.fantasize(&mut model, pending);
            }
            state.model = Some(model);
        }
        let model = state.model.as_mut().filter(|model| model.on_ground || !only_on_ground)?;
        let Model { acquisition, anchors, front, lengthscales, trust_region, seeks_improvement, shared, .. } = model;
        let mut anchors = anchors.clone();
        if *front > 1 {
            // Where on the front to look closer is left to chance.
            anchors[..*front].rotate_left(stream(self.seed, trial, "front").random_range(0..*front));
        }
        let whole = Region::whole(&self.encoding);
        let ordered: Vec<bool> = whole.axes.iter().map(|axis| !matches!(axis, Axis::Levels(_))).collect();
        let scales = TrustRegion::UNIT.sides(lengthscales, &ordered);
        let looks_beyond = *seeks_improvement
            && trust_region.is_some_and(|region| region.restarts > 0)
            && trial.0.is_multiple_of(LOOKS_BEYOND_EVERY);
        let local = match (trust_region, anchors.first()) {
            (Some(trust_region), Some(incumbent)) if !self.is_global(trial) => {
                Some(whole.around(incumbent, &self.sides(trust_region, lengthscales, &ordered, incumbent)))
            }
            _ => None,
        };
        let search = Search {
            encoding: &self.encoding,
            region: &whole,
            scales: &scales,
            anchors: &anchors,
            used: &state.used,
            seed: self.seed,
            trial,
        };
        if let Some(found) = self.point_of_other_branch(acquisition.as_ref(), &search) {
            return Some((found, Step::WholeSpace));
        }
        let best_of = |region: &Region, shared: &mut SharedCandidates| {
            self.best_of(acquisition.as_ref(), &Search { region, ..search }, shared)
        };
        // A box may hold no unused point; the whole space still does.
        let Some(inside) = local.and_then(|local| best_of(&local, &mut shared.local)) else {
            return best_of(&whole, &mut shared.global).map(|point| (point, Step::WholeSpace));
        };
        if !looks_beyond {
            return Some((inside, Step::TrustRegion));
        }
        let Some(anywhere) = best_of(&whole, &mut shared.global) else {
            return Some((inside, Step::TrustRegion));
        };
        let both = DMatrix::from_fn(2, inside.len(), |row, j| if row == 0 { inside[j] } else { anywhere[j] });
        let values = acquisition.values(&both);
        Some(if values[1] > values[0] + WORTH_LEAVING {
            (anywhere, Step::WholeSpace)
        } else {
            (inside, Step::TrustRegion)
        })
    }

    /// The best unused point of the region of `search`.
    fn best_of(
        &self,
        acquisition: &dyn Acquisition,
        search: &Search<'_>,
        shared: &mut SharedCandidates,
    ) -> Option<Vec<f64>> {
        let listed =
            self.finite.as_ref().and_then(|finite| finite.unused_inside(&self.encoding, search.used, search.region));
        match listed {
            Some(points) => search.best_of(acquisition, &points),
            None => shared.maximize(search, acquisition),
        }
    }

    /// The best unused point of the branch whose turn it is, by improvement over the best one there; only for one metric.
    fn point_of_other_branch(&self, acquisition: &dyn Acquisition, search: &Search<'_>) -> Option<Vec<f64>> {
        if self.outputs.metrics.len() > 1 {
            return None;
        }
        let best = branches::turn(&self.encoding, search.anchors, search.trial)?;
        let region = search.region.branch_of(&self.encoding, best);
        let mut anchors = vec![best.to_vec()];
        anchors.extend(search.anchors.iter().filter(|anchor| *anchor != best).cloned());
        let own = acquisition.of_improvement_over(best);
        let search = Search { region: &region, anchors: &anchors, ..*search };
        self.best_of(own.as_deref().unwrap_or(acquisition), &search, &mut SharedCandidates::default())
    }

    /// Whether each trial has an objective of its own, a scalarisation of those of the problem.
    fn is_scalarized(&self) -> bool {
        self.outputs.metrics.len() > HypervolumeImprovement::MOST_OBJECTIVES
    }

    /// The model for `trial`, one of `parallel` that run at once.
    fn model(&self, outcomes: &Outcomes, trial: TrialId, parallel: usize) -> Option<Model> {
        let Self { encoding, outputs, options, fits, grounds, .. } = self;
        if self.is_scalarized() {
            let scalarized = outcomes.scalarized(outputs, self.seed, trial);
            let options = GpBanditOptions { trust_region: false, ..*options };
            return Model::new(encoding, &scalarized, &options, fits, None, |_| true, 1);
        }
        match outputs.metrics.len() {
            1 => {
                Model::new(encoding, outcomes, options, fits, grounds.as_ref(), |trial| self.is_global(trial), parallel)
            }
            _ => Model::of_several(encoding, outputs, outcomes, options, fits),
        }
    }

    /// `model` with what is believed of the optimum, after `known` trials.
    fn believing(&self, model: Model, known: usize) -> Model {
        let Some(beliefs) = &self.beliefs else { return model };
        let weight = FADING / known.max(1) as f64;
        let believed = Believed::new(model.acquisition, beliefs.clone(), self.encoding.clone(), weight);
        Model { acquisition: Box::new(believed), ..model }
    }

    /// The sides of `trust_region` along the features active at `incumbent`; the others are not cut.
    fn sides(&self, trust_region: &TrustRegion, lengthscales: &[f64], ordered: &[bool], incumbent: &[f64]) -> Vec<f64> {
        let active = self.encoding.active(incumbent);
        let kept: Vec<usize> = (0..active.len()).filter(|&j| active[j]).collect();
        let (lengthscales, ordered): (Vec<f64>, Vec<bool>) =
            kept.iter().map(|&j| (lengthscales[j], ordered[j])).unzip();
        let mut sides = vec![f64::INFINITY; active.len()];
        for (j, side) in kept.into_iter().zip(trust_region.sides(&lengthscales, &ordered)) {
            sides[j] = side;
        }
        sides
    }

    /// The results of `pending` in all worlds, fixed by the seed and its number.
    fn fantasize(&self, model: &mut Model, pending: &Pending) {
        model.acquisition.add_pending(&pending.point, &|purpose, count| {
            stratified_normals(&mut stream(self.seed, pending.id, purpose), count)
        });
    }
}

/// What changes between the suggestions of one request.
struct State {
    outcomes: Outcomes,
    pending: Vec<Pending>,
    used: HashSet<Key>,
    model: Option<Model>,
    /// Trials that run at once when the request is answered.
    parallel: usize,
}

impl Designer for GpBandit {
    fn capabilities(&self) -> Capabilities {
        Capabilities { several_metrics: !self.has_learned(), priors: true, ..Capabilities::any_problem(true) }
    }

    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let outcomes = Outcomes::new(&self.encoding, &self.outputs, history)?;
        let observations = &outcomes.objectives[0];
        let (used, pending) = (observations.keys().cloned().collect(), observations.pending.clone());
        let parallel = pending.len() + request.count.get();
        let mut state = State { outcomes, pending, used, model: None, parallel };
        let mut suggestions = Vec::with_capacity(request.count.get());
        for offset in 0..request.count.get() {
            let id = request.first_trial_id.offset(offset as u64);
            let Some((point, step)) = self.next_point(&mut state, id)? else { break };
            let parameters = self.encoding.decode(&point);
            let key = self
                .encoding
                .key(&parameters)
                .map_err(|error| DesignerError::Numerical { algorithm: NAME, reason: error.to_string() })?;
            state.used.insert(key.clone());
            let pending = Pending { id, key, point };
            if let Some(model) = state.model.as_mut().filter(|_| offset + 1 < request.count.get()) {
                self.fantasize(model, &pending);
            }
            state.pending.push(pending);
            suggestions.push(TrialSuggestion { parameters, origin: Origin::with_step(ALGORITHM, step) });
        }
        Ok(suggestions)
    }
}
