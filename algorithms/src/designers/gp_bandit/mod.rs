//! Bayesian optimisation by a Gaussian process and expected improvement, in a trust region.
//!
//! One suggestion: encode the history; merge replicates and [warp](crate::output_warp) the values; fit the
//! [model](crate::gp); draw the results of pending trials; maximise log expected improvement around the incumbent
//! ([`crate::acquisition`]). The first trials are a centre and a star around it. Spaces with a categorical or a
//! conditional parameter search the trust region for trials with an odd number and the whole space for those with an
//! even number.
//!
//! Conditional spaces have one model of all branches (see [`crate::encoding`] for what it sees of inactive parameters).
//! The trust region is that of the parameters active at the incumbent; others are free in it.
//!
//! Failed trials count at a pessimistic value; after five of them their region has a model of its own. Values of
//! trials stopped early are noisy and never the incumbent. NaN and infinities are failures.
//!
//! What users believe of the optimum ([`crate::prior`]) is added to the log acquisition with the weight `10 / n` after
//! `n` trials, a share of the candidates is drawn from it, and the start is around its mode. Earlier studies
//! ([`crate::transfer`]) take the place of the start: the first trial is at their best point, and the model is one of
//! what they leave unexplained.
//!
//! That is the default: [`GpBanditOptions`] put other parts in place of these.
//!
//! Sources stand with the parts. The composition follows Golovin et al. 2017 (Google Vizier) and Eriksson et al. 2019
//! (TuRBO); what differs, and by which measurement, is said where it differs. There is no state between requests but
//! memory of [fits](self::fits) that would be computed again identically.

#[cfg(test)]
mod conditional_tests;
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
mod start;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use self::finite::FinitePoints;
use self::fits::Fits;
use self::model::{Known, Model};
use self::observations::{Observations, Pending};
pub use self::options::{GpBanditOptions, Start};
use crate::acquisition::{Axis, FANTASY_SAMPLES, Region, Search, TrustRegion};
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::{Encoding, FeatureKind, Key};
use crate::numerics::latin_hypercube::stratified_normals;
use crate::prior::Beliefs;
use crate::problem::{Goal, ProblemStatement, TrialId, TrialSuggestion};
use crate::rng::stream;
use crate::transfer::{EarlierStudy, FEWEST_TO_JUDGE, Grounds};

const NAME: &str = "GAUSSIAN_PROCESS_BANDIT";
/// How many of the first trials earlier studies propose before they are judged.
const TRIALS_ON_TRUST: usize = FEWEST_TO_JUDGE.div_ceil(2);
/// Fewer measured trials than this say nothing about scale.
const FEWEST_MEASURED: usize = 2;

/// The designer for one problem with one metric.
#[derive(Debug, Clone)]
pub struct GpBandit {
    encoding: Encoding,
    goal: Goal,
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
    /// [`DesignerError::Unsupported`] if the problem has more than one metric.
    pub fn new(problem: ProblemStatement, seed: u64) -> Result<Self, DesignerError> {
        Self::with_options(problem, seed, GpBanditOptions::default())
    }

    /// A designer for `problem` with other parts than the usual ones.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if the problem has more than one metric, or an option a value it cannot have.
    pub fn with_options(problem: ProblemStatement, seed: u64, options: GpBanditOptions) -> Result<Self, DesignerError> {
        if let Some(reason) = options.fault() {
            return Err(DesignerError::Unsupported { algorithm: NAME, reason });
        }
        let [metric] = problem.metrics() else {
            let reason = format!("it optimises one metric, not {}", problem.metrics().len());
            return Err(DesignerError::Unsupported { algorithm: NAME, reason });
        };
        let encoding = Encoding::new(problem.search_space());
        let is_category = |kind: &FeatureKind| matches!(kind, FeatureKind::Categorical { .. });
        Ok(Self {
            goal: metric.goal,
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
    /// As [`Self::new`].
    pub fn after(problem: ProblemStatement, seed: u64, studies: &[EarlierStudy]) -> Result<Self, DesignerError> {
        let designer = Self::new(problem.clone(), seed)?;
        let grounds = Grounds::new(&problem, &designer.encoding, studies, designer.options.kernel_terms());
        Ok(Self { grounds, ..designer })
    }

    /// Whether `trial` searches the whole space even when there is a trust region.
    fn is_global(&self, trial: TrialId) -> bool {
        self.alternates && trial.0.is_multiple_of(2)
    }

    /// The next point; `None` if the space is exhausted.
    fn next_point(&self, state: &mut State, trial: TrialId) -> Result<Option<Vec<f64>>, DesignerError> {
        if self.finite.as_ref().is_some_and(|finite| finite.exhausted(&state.used)) {
            return Ok(None);
        }
        let measured = state.observations.measured();
        let known = measured + state.observations.pending.len();
        // Earlier studies that turn out to mislead have cost a few trials: the start then comes after them.
        let judges = if self.grounds.is_some() { TRIALS_ON_TRUST } else { 0 };
        let start = measured < FEWEST_MEASURED || known < self.options.start.trials(&self.encoding) + judges;
        let alone = start || !state.observations.are_informative();
        let proposed = match &self.grounds {
            // Before the first trial nothing but the earlier studies speaks.
            Some(grounds) if known == 0 => self.best_of_earlier(grounds, state),
            // Every other of the first trials is one of the start: spread points judge the earlier studies better than
            // those that they propose, and are not lost if these mislead.
            Some(_) if known < FEWEST_TO_JUDGE && known % 2 == 1 => None,
            Some(_) if alone && measured > 0 => self.model_point(state, trial, true),
            _ if alone => None,
            _ => self.model_point(state, trial, false),
        };
        let proposed = proposed.or_else(|| self.spread_out(state, trial));
        if proposed.is_some() {
            return Ok(proposed);
        }
        let walked = self.finite.as_ref().and_then(|finite| finite.any_unused(&state.used, self.seed, trial));
        match walked.map(|ordinals| self.encoding.encode(&self.encoding.point_at(&ordinals))) {
            Some(Ok(point)) => Ok(Some(point)),
            _ => Err(DesignerError::Numerical { algorithm: NAME, reason: "no unused point was found".into() }),
        }
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
        let points: Vec<Vec<f64>> = state.observations.points().cloned().collect();
        let start = (self.options.start, self.beliefs.as_ref());
        start::start_point(start, &self.encoding, &state.used, &points, self.seed, trial)
    }

    /// The best point by the model; `None` if there is none, or `only_on_ground` and no earlier study to build it upon.
    fn model_point(&self, state: &mut State, trial: TrialId, only_on_ground: bool) -> Option<Vec<f64>> {
        if state.model.is_none() {
            let is_global = |trial| self.is_global(trial);
            let known = Known { beliefs: self.beliefs.as_ref(), grounds: self.grounds.as_ref() };
            let mut model =
                Model::new(&self.encoding, &state.observations, &self.options, &self.fits, known, is_global)?;
            for pending in &state.observations.pending {
                self.fantasize(&mut model, pending);
            }
            state.model = Some(model);
        }
        let model = state.model.as_ref().filter(|model| model.on_ground || !only_on_ground)?;
        let whole = Region::whole(&self.encoding);
        let ordered: Vec<bool> = whole.axes.iter().map(|axis| !matches!(axis, Axis::Levels(_))).collect();
        let unit_box = TrustRegion { length: 1.0 };
        let scales = unit_box.sides(&model.lengthscales, &ordered);
        let region = match (&model.trust_region, model.anchors.first()) {
            (Some(trust_region), Some(incumbent)) if !self.is_global(trial) => {
                whole.around(incumbent, &self.sides(trust_region, &model.lengthscales, &ordered, incumbent))
            }
            _ => whole.clone(),
        };
        // A box may hold no unused point; the whole space still does.
        [&region, &whole].into_iter().find_map(|region| {
            let search = Search {
                encoding: &self.encoding,
                region,
                scales: &scales,
                anchors: &model.anchors,
                used: &state.used,
                seed: self.seed,
                trial,
            };
            match self.finite.as_ref().and_then(|finite| finite.unused_inside(&self.encoding, &state.used, region)) {
                Some(points) => search.best_of(&model.acquisition, &points),
                None => search.maximize(&model.acquisition),
            }
        })
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
        let normals = stratified_normals(&mut stream(self.seed, pending.id, "fantasy"), FANTASY_SAMPLES);
        model.acquisition.add_pending(&pending.point, &normals);
    }
}

/// What changes between the suggestions of one request.
struct State {
    observations: Observations,
    used: HashSet<Key>,
    model: Option<Model>,
}

impl Designer for GpBandit {
    fn capabilities(&self) -> Capabilities {
        Capabilities { learns: true, doubles: true, categories: true, conditions: true }
    }

    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let observations = Observations::new(&self.encoding, self.goal, history)?;
        let used = observations.keys().cloned().collect();
        let mut state = State { observations, used, model: None };
        let mut suggestions = Vec::with_capacity(request.count.get());
        for offset in 0..request.count.get() {
            let id = request.first_trial_id.offset(offset as u64);
            let Some(point) = self.next_point(&mut state, id)? else { break };
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
            state.observations.pending.push(pending);
            suggestions.push(TrialSuggestion { parameters });
        }
        Ok(suggestions)
    }
}
