//! Bayesian optimisation with a Gaussian process and expected improvement, in a trust region.
//!
//! Steps of a suggestion for one metric: encode the history; merge replicates and [warp](crate::output_warp) the
//! values; fit the [model](crate::gp); draw the outcomes of pending trials; maximise log expected improvement around
//! the incumbent ([`crate::acquisition`]). The first trials are an axis-aligned [initial design](initial_design). In
//! spaces with a categorical or a conditional parameter, from trial 25 on, odd trials search the trust region and even
//! trials the whole space. In conditional spaces every third trial explores another branch ([`branches`]).
//!
//! Conditional spaces have one model of all branches (see [`crate::encoding`] for the encoding of inactive parameters).
//! The trust region restricts only the parameters that are active at the incumbent.
//!
//! Under much noise the upper confidence bound replaces expected improvement. The user's statement about the
//! [noise](crate::problem::ObservationNoise) selects the prior of the noise variance. With high noise, the model may
//! propose points of measured trials again; their trials count as one observation with less noise.
//!
//! Failed trials count with a pessimistic value; from five failures on, feasibility has its own model, and failures it
//! cannot explain are ignored ([`failures`]). Values of trials stopped early are noisy and never the incumbent. NaN and
//! infinite values count as failures.
//!
//! With one metric, results that are too good to be true are set aside until a neighbour confirms them ([`suspicions`]), and
//! wildly bad ones that their points do not explain are ignored ([`unexplained`]).
//!
//! # Several metrics
//! Two or three metrics have a model each. Expected [hypervolume](crate::acquisition::hypervolume) improvement is
//! maximised in the whole space, with candidates around the whole Pareto front. With four or more metrics, each trial
//! has a random scalarisation as its objective ([`outcomes`]) and proceeds as with one metric, without a trust region.
//! Neither the order of metrics nor their units matter.
//!
//! # Constraints
//! Each constraint has a model of its slack. The log probability that all constraints hold is added to the acquisition
//! function ([`Constrained`](crate::acquisition::Constrained)) and is maximised alone while no trial satisfies all of
//! them. Only feasible trials can be the incumbent, on the front, or a success of the trust region; the others still
//! train the models. The log probability of a constraint counts several times while fewer of the trials satisfy it than
//! [`min_safe_fraction`](crate::problem::ConstraintSpec::min_safe_fraction). With criteria other than expected
//! improvement, the log probability is a penalty in units of standardised values.
//!
//! # Prior knowledge
//! The log of the user's [prior density](crate::prior) of the optimum is [added](crate::acquisition::PriorWeighted) to
//! the log acquisition with the weight `10 / n` after `n` trials. A share of the candidates is drawn from it, and every
//! other point of the initial design is around its mode. [Source studies](crate::transfer) replace the initial design:
//! the first trial is at their best point, and the model is fitted to their residuals. They require a single metric;
//! constraints are learned without them.
//!
//! # Cost
//! Time and memory of a suggestion are bounded in the number of trials, except for linear steps: hyperparameters are
//! fitted to at most 384 trials, the model contains at most 640, and it is conditioned on at most 128 pending ones
//! ([`fantasies`]).
//!
//! The submodules cite their sources. The composition follows Golovin et al. 2017 (Google Vizier) and Eriksson et al.
//! 2019 (TuRBO); departures are documented where they occur. Between requests the designer keeps only a cache of
//! [fits], reproducible to the bit.

mod branches;
mod constraint_models;
mod evidence;
mod failures;
mod fantasies;
mod finite;
mod fits;
mod fitting;
mod initial_design;
mod level_rows;
mod model;
mod model_search;
mod multi_objective;
mod observations;
mod outcomes;
mod outputs;
mod shared_candidates;
mod single_objective;
mod source_influences;
mod suspicions;
#[cfg(test)]
mod tests;
mod unexplained;
mod violations;

use std::collections::HashSet;

use self::finite::FinitePoints;
use self::fits::Fits;
use self::initial_design::DesignContext;
use self::model::Model;
use self::model_search::ModelSearch;
use self::observations::Pending;
use self::outcomes::Outcomes;
use self::outputs::Outputs;
use self::suspicions::Suspicions;
use crate::acquisition::PriorWeighted;
use crate::acquisition::hypervolume::HypervolumeImprovement;
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::{Encoding, EncodingError, Key};
use crate::interruption::Interruption;
use crate::numerics::latin_hypercube::stratified_normals;
use crate::prior::{DECAY, PriorDensity};
use crate::problem::{AlgorithmName, Origin, ProblemStatement, SearchSpace, Step, TrialId, TrialSuggestion};
use crate::rng::stream;
use crate::sampling::RandomPoints;
use crate::transfer::{ALTERNATING_TRIALS, SourceInfluence, SourceModels, SourceStudy, TRUSTED_TRIALS};

const ALGORITHM: AlgorithmName = AlgorithmName::GaussianProcessBandit;
const NAME: &str = ALGORITHM.as_str();
/// Number of measured trials below which the scale of the values is unknown.
const FEWEST_MEASURED: usize = 2;
/// Number of first trials that search the trust region only, also in spaces with categories: before, the model proposes
/// corners of the whole space (measured, see docs/experiments/106).
const LOCAL_TRIALS: u64 = 24;

/// Designer for one problem.
#[derive(Debug, Clone)]
pub struct GpBandit {
    encoding: Encoding,
    outputs: Outputs,
    seed: u64,
    finite: Option<FinitePoints>,
    /// Whether every other trial searches the whole space, after the first ones.
    alternates: bool,
    fits: Fits,
    prior: Option<PriorDensity>,
    source_models: Option<SourceModels>,
}

impl GpBandit {
    /// Number of trials in `space` before the model decides, without source studies.
    pub fn initial_trials(space: &SearchSpace) -> usize {
        initial_design::trials(&Encoding::new(space))
    }

    /// Creates a designer for `problem`.
    ///
    /// # Errors
    /// None today; other designers reject problems that they cannot search.
    pub fn new(problem: ProblemStatement, seed: u64) -> Result<Self, DesignerError> {
        let encoding = Encoding::new(problem.search_space());
        Ok(Self {
            outputs: Outputs::new(&problem),
            seed,
            finite: FinitePoints::new(&encoding),
            alternates: encoding.is_conditional() || encoding.categorical().contains(&true),
            prior: PriorDensity::new(problem.search_space(), &encoding),
            source_models: None,
            encoding,
            fits: Fits::default(),
        })
    }

    /// Creates a designer for `problem` that learns from the trials of `studies`, oldest first, as described in
    /// [`crate::transfer`].
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if there are studies and the problem has several metrics.
    pub fn with_source_studies(
        problem: ProblemStatement,
        seed: u64,
        studies: &[SourceStudy],
    ) -> Result<Self, DesignerError> {
        if !studies.is_empty() && problem.metrics().len() > 1 {
            let reason =
                format!("source studies require a single metric, but the problem has {}", problem.metrics().len());
            return Err(DesignerError::Unsupported { algorithm: NAME, reason });
        }
        let designer = Self::new(problem.clone(), seed)?;
        let source_models = SourceModels::new(&problem, &designer.encoding, studies);
        Ok(Self { source_models, ..designer })
    }

    pub(super) fn has_source_models(&self) -> bool {
        self.source_models.is_some()
    }

    /// Whether `trial` searches the whole space despite the trust region.
    fn is_global(&self, trial: TrialId) -> bool {
        (self.alternates && trial.0 > LOCAL_TRIALS && trial.0.is_multiple_of(2))
            || branches::explores_branch(&self.encoding, trial)
    }

    /// Next point with its origin; `None` if the space is exhausted.
    fn next_point(&self, state: &mut State, trial: TrialId) -> Result<Option<(Vec<f64>, Step)>, DesignerError> {
        if self.finite.as_ref().is_some_and(|finite| finite.exhausted(&state.closed)) {
            return Ok(None);
        }
        let trials = state.outcomes.objectives[0].points().chain(state.pending.iter().map(|pending| &pending.point));
        if let Some(point) = state.suspicions.confirming_point(&self.encoding, trials) {
            return Ok(Some((point, Step::Confirmation)));
        }
        let measured = state.outcomes.objectives[0].measured();
        let known = measured + state.pending.len();
        // Misleading source models cost a few trials; the initial design then follows them.
        let extra_trials = if self.source_models.is_some() { TRUSTED_TRIALS } else { 0 };
        let start = measured < FEWEST_MEASURED || known < self.design_trials() + extra_trials;
        let alone = start || !state.outcomes.are_informative();
        let by_model = match &self.source_models {
            // Before the first trial, the source studies alone determine the point.
            Some(source_models) if known == 0 => {
                self.best_of_source_studies(source_models, state).map(|point| (point, Step::SourceStudies))
            }
            // Every other of the first trials belongs to the initial design: its points test the source models better
            // than their own proposals do, and are useful even if the source models mislead.
            Some(_) if known < ALTERNATING_TRIALS && known % 2 == 1 => None,
            Some(_) if alone && measured > 0 => self.model_point(state, trial, true),
            _ if alone => None,
            _ => self.model_point(state, trial, false),
        };
        let spread = if alone { Step::Start } else { Step::Unused };
        let proposed = by_model.or_else(|| self.spread_out(state, trial).map(|point| (point, spread)));
        if proposed.is_some() {
            return Ok(proposed);
        }
        let Some(finite) = &self.finite else {
            // One number may cover nearly all of a scale, as for a reverse logarithm over too many decades.
            let random = RandomPoints::new(&self.encoding, self.seed, trial, "repeat").next();
            return Ok(random.map(|point| (point, Step::Unused)));
        };
        let Some(ordinals) = finite.any_unused(&state.closed, self.seed, trial) else { return Ok(None) };
        let fault = |error: EncodingError| DesignerError::Numerical { algorithm: NAME, reason: error.to_string() };
        let point = self.encoding.encode(&self.encoding.point_at(&ordinals)).map_err(fault)?;
        Ok(Some((point, Step::Unused)))
    }

    /// Number of trials of the initial design without source models.
    fn design_trials(&self) -> usize {
        initial_design::trials(&self.encoding)
    }

    /// Best unused feasible point near a trial of a source study.
    fn best_of_source_studies(&self, source_models: &SourceModels, state: &State) -> Option<Vec<f64>> {
        let feasible = source_models.best_points().into_iter().map(|mut point| {
            self.encoding.snap(&mut point);
            point
        });
        let unused = |point: &Vec<f64>| {
            self.encoding.key(&self.encoding.decode(point)).is_ok_and(|key| !state.used.contains(&key))
        };
        feasible.into_iter().find(unused)
    }

    /// Next point of the initial design, or a point far from all others.
    fn spread_out(&self, state: &State, trial: TrialId) -> Option<Vec<f64>> {
        let pending = state.pending.iter().map(|pending| &pending.point);
        let points: Vec<&[f64]> = state.outcomes.objectives[0].points().chain(pending).map(Vec::as_slice).collect();
        // Half of the initial design ignores the prior, which may be wrong.
        let prior = self.prior.as_ref().filter(|_| !trial.0.is_multiple_of(2));
        let (measured, failed) = state.outcomes.objectives[0].measured_and_failed_points();
        let flat = !state.outcomes.are_informative();
        let metrics = self.outputs.metrics.len();
        let context = DesignContext {
            prior,
            used: &state.used,
            points: &points,
            failed: &failed,
            measured: &measured,
            flat,
            metrics,
        };
        initial_design::design_point(&self.encoding, &context, self.seed, trial)
    }

    /// Best point by the model; `None` without a model, or if it is not stacked on a source model and
    /// `only_on_source_model` is set.
    fn model_point(&self, state: &mut State, trial: TrialId, only_on_source_model: bool) -> Option<(Vec<f64>, Step)> {
        if state.model.is_none() || self.is_scalarized() {
            let known = state.outcomes.objectives[0].completed() + state.pending.len();
            let mut model = self.with_prior(self.model(&state.outcomes, &state.fits, trial, state.parallel)?, known);
            let incumbent = model.anchors.first().map(Vec::as_slice);
            let fantasised = fantasies::fantasised(&self.encoding, &state.pending, incumbent, state.missing);
            for &index in &fantasised {
                self.fantasize(&mut model, &state.pending[index]);
            }
            state.fantasies = fantasised.len();
            state.model = Some(model);
        }
        let model = state.model.as_mut().filter(|model| model.on_source_model || !only_on_source_model)?;
        let search = ModelSearch {
            encoding: &self.encoding,
            finite: self.finite.as_ref(),
            prior: self.prior.as_ref(),
            used: &state.closed,
            seed: self.seed,
            trial,
            is_global: self.is_global(trial),
            explores_branches: self.outputs.metrics.len() == 1,
        };
        search.propose(model)
    }

    /// Whether each trial has its own scalarisation of the metrics as its objective.
    fn is_scalarized(&self) -> bool {
        self.outputs.metrics.len() > HypervolumeImprovement::MOST_OBJECTIVES
    }

    /// Model for `trial`, one of `parallel` concurrent trials.
    fn model(&self, outcomes: &Outcomes, fits: &Fits, trial: TrialId, parallel: usize) -> Option<Model> {
        let Self { encoding, outputs, source_models, .. } = self;
        if self.is_scalarized() {
            let scalarized = outcomes.scalarized(outputs, self.seed, trial);
            let model = Model::of_one_objective(encoding, &scalarized, fits, None, |_| true, 1)?;
            return Some(Model { trust_region: None, ..model });
        }
        match outputs.metrics.len() {
            1 => Model::of_one_objective(
                encoding,
                outcomes,
                fits,
                source_models.as_ref(),
                |trial| self.is_global(trial),
                parallel,
            ),
            _ => Model::of_several_objectives(encoding, outputs, outcomes, fits),
        }
    }

    /// Weights the acquisition function of `model` by the prior, after `known` trials.
    fn with_prior(&self, model: Model, known: usize) -> Model {
        let Some(prior) = &self.prior else { return model };
        let weight = DECAY / known.max(1) as f64;
        let weighted = PriorWeighted::new(model.acquisition, prior.clone(), self.encoding.clone(), weight);
        Model { acquisition: Box::new(weighted), ..model }
    }

    /// Draws the outcomes of `pending`, a function of the seed and the trial number.
    fn fantasize(&self, model: &mut Model, pending: &Pending) {
        model.acquisition.add_pending(&pending.point, &|purpose, count| {
            stratified_normals(&mut stream(self.seed, pending.id, purpose), count)
        });
    }
}

/// State that changes between the suggestions of one request.
struct State {
    /// All but the suspicious trials.
    outcomes: Outcomes,
    suspicions: Suspicions,
    pending: Vec<Pending>,
    used: HashSet<Key>,
    /// Points not to try again.
    closed: HashSet<Key>,
    model: Option<Model>,
    /// Number of pending trials that the model is conditioned on.
    fantasies: usize,
    /// Number of suggestions of this request still to compute.
    missing: usize,
    /// Number of concurrent trials after this request.
    parallel: usize,
    /// Fits, which end with the request.
    fits: Fits,
}

impl Designer for GpBandit {
    fn capabilities(&self) -> Capabilities {
        Capabilities { several_metrics: !self.has_source_models(), priors: true, ..Capabilities::any_problem(true) }
    }

    fn source_influences(
        &self,
        history: History<'_>,
        interruption: &Interruption,
    ) -> Result<Vec<SourceInfluence>, DesignerError> {
        let Some(source_models) = &self.source_models else { return Ok(Vec::new()) };
        self.influences_of(source_models, history, interruption)
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut outcomes = Outcomes::new(&self.encoding, &self.outputs, history)?;
        let observations = &outcomes.objectives[0];
        let (used, pending) = (observations.keys().cloned().collect(), observations.pending.clone());
        let closed = observations.closed_keys().cloned().collect();
        let parallel = pending.len() + request.count.get();
        let missing = request.count.get();
        let fits = self.fits.until(interruption);
        let suspicions = match outcomes.objectives.len() {
            1 => Suspicions::set_aside(&self.encoding, &mut outcomes),
            _ => Suspicions::default(),
        };
        let mut state =
            State { outcomes, suspicions, pending, used, closed, model: None, fantasies: 0, missing, parallel, fits };
        let mut suggestions = Vec::with_capacity(request.count.get());
        for offset in 0..request.count.get() {
            let id = request.first_trial_id.offset(offset as u64);
            state.missing = request.count.get() - offset;
            let next = self.next_point(&mut state, id);
            // After an interruption, the point may stem from the lack of a model.
            interruption.check()?;
            let Some((point, step)) = next? else { break };
            let parameters = self.encoding.decode(&point);
            let key = self
                .encoding
                .key(&parameters)
                .map_err(|error| DesignerError::Numerical { algorithm: NAME, reason: error.to_string() })?;
            state.used.insert(key.clone());
            state.closed.insert(key.clone());
            let pending = Pending { id, key, point };
            if state.fantasies >= fantasies::MOST {
                // The model of the next suggestion is conditioned on fewer of them.
                state.model = None;
            }
            if let Some(model) = state.model.as_mut().filter(|_| offset + 1 < request.count.get()) {
                self.fantasize(model, &pending);
                state.fantasies += 1;
            }
            state.pending.push(pending);
            suggestions.push(TrialSuggestion { parameters, origin: Origin::with_step(ALGORITHM, step) });
        }
        Ok(suggestions)
    }
}
