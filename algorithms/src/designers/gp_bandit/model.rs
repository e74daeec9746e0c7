//! The fitted model of one history: acquisition function, incumbent and trust region.

use std::collections::HashSet;

use super::evidence::{Evidence, categorical};
use super::fits::{Fingerprint, Fits, Schedule};
use super::observations::Observations;
use super::options::GpBanditOptions;
use super::outcomes::Outcomes;
use super::violations::Violations;
use crate::acquisition::{
    Acquisition, AcquisitionFunction, BoundedOutcome, Candidates, Constrained, Criterion, DEFAULT_BETA, Search,
    TrustRegion,
};
use crate::encoding::Encoding;
use crate::gp::{
    Hyperparameters, KernelTerms, Posterior, StackedPosterior, TrainingSet, fit_with_terms, negative_log_posterior,
    refit, representative_subset,
};
use crate::problem::TrialId;
use crate::transfer::{FEWEST_TO_JUDGE, Ground, Grounds, TRIALS_ON_TRUST};

/// Hyperparameters are fitted to at most this many observations: chosen for time.
const FIT_SIZE: usize = 384;
/// The posterior is exact up to this many observations, local beyond: chosen for time.
const EXACT_SIZE: usize = 640;
/// Ratio of noise to signal variance above which the incumbent is chosen by posterior mean.
pub(super) const NOISY: f64 = 1e-3;
/// Ratio of noise to signal variance above which expected improvement gives way to the upper confidence bound with
/// [`DEFAULT_BETA`] deviations. Under noise, improvement is expected only where the model knows enough already, so that
/// trials pile up at the incumbent. Mean log10 gap after 100 trials: functions with noise (3 classic ones, bbob with a
/// tenth and three tenths of the interquartile range) -0.10 +- 0.05, 120 runs, better in 72 and worse in 44; bbob and
/// mixint without noise, where such a ratio is the model's idea of a rugged function, -0.06 +- 0.04, 192 runs, better in 73
/// and worse in 46; together -0.075 +- 0.030. After 50 trials there is no difference.
const VERY_NOISY: f64 = 0.01;
/// Failures from which on feasibility has a model of its own.
const FAILURES_FOR_MODEL: usize = 5;
/// How many of the best points are perturbed for candidates.
const ANCHORS: usize = 5;
/// In a conditional space, of how many other branches the best point is perturbed as well (a guess).
const BRANCHES: usize = 8;

/// Searches of a batch that start from the same candidates (a guess: the points of one batch of the usual size).
const SEARCHES_PER_CANDIDATES: usize = 8;

/// Everything that is computed once per request.
pub(super) struct Model {
    pub(super) acquisition: Box<dyn Acquisition>,
    /// The best points, the incumbent first, then in a conditional space the best of other branches; may be empty. With
    /// several objectives the first few are the front.
    pub(super) anchors: Vec<Vec<f64>>,
    /// How many of the anchors are equally good, so that any may be the first.
    pub(super) front: usize,
    pub(super) lengthscales: Vec<f64>,
    /// `None` if it is not wanted, there is no incumbent to be near to, or nothing tells points apart.
    pub(super) trust_region: Option<TrustRegion>,
    /// Whether the acquisition function is the log of an improvement.
    pub(super) seeks_improvement: bool,
    /// Whether it is built upon earlier studies.
    pub(super) on_ground: bool,
    /// What the suggestions of one request share.
    pub(super) shared: Shared,
}

/// The candidates of the trust region and of the whole space, for a few suggestions each.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) local: SharedCandidates,
    pub(super) global: SharedCandidates,
}

/// Candidates, with how many searches have used them.
#[derive(Debug, Default)]
pub(super) struct SharedCandidates(Option<(Candidates, usize)>);

impl SharedCandidates {
    /// What `search` finds from these candidates, or from new ones where these have served often enough.
    pub(super) fn maximize(&mut self, search: &Search<'_>, acquisition: &dyn Acquisition) -> Option<Vec<f64>> {
        let (mut candidates, uses) = match self.0.take() {
            Some((candidates, uses)) if uses < SEARCHES_PER_CANDIDATES && search.accepts(&candidates) => {
                (candidates, uses)
            }
            _ => (search.candidates(acquisition), 0),
        };
        let found = search.maximize_among(acquisition, &mut candidates);
        self.0 = Some((candidates, uses + 1));
        found
    }
}

impl Model {
    /// Fits the model of one objective, upon `grounds` where the history follows them, for one of `parallel` trials that
    /// run at once; `None` if the covariance cannot be factorised, whatever the jitter.
    pub(super) fn new(
        encoding: &Encoding,
        outcomes: &Outcomes,
        options: &GpBanditOptions,
        fits: &Fits,
        grounds: Option<&Grounds>,
        is_global: impl Fn(TrialId) -> bool,
        parallel: usize,
    ) -> Option<Self> {
        let observations = &outcomes.objectives[0];
        let evidence = observations.evidence(encoding, options.warp);
        let constraints = Constraints::new(encoding, outcomes, options, fits);
        let violations = constraints.violations(evidence.measured);
        let measured = evidence.eligible();
        let mut eligible = violations.feasible(&measured);
        let values = &evidence.data.values;
        let best_first = |rows: &mut Vec<usize>, key: &dyn Fn(usize) -> f64| {
            rows.sort_by(|&a, &b| key(b).total_cmp(&key(a)).then(a.cmp(&b)));
        };
        best_first(&mut eligible, &|row| values[row]);
        let none_feasible = eligible.is_empty() && !measured.is_empty();
        let center = eligible.first().map(|&row| evidence.point(row));
        let ground = grounds.and_then(|grounds| evidence.ground(grounds));
        let mut fitting = Fitting { grounds, ground, ..Fitting::new(encoding, observations, options, fits, &evidence) };
        if evidence.measured >= FEWEST_TO_JUDGE && fitting.ground.is_some() {
            let alone = Fitting::new(encoding, observations, options, fits, &evidence);
            if alone.loss() < fitting.loss() {
                fitting = alone;
            }
        }
        let posterior = fitting.posterior(Output::Values, center.as_deref())?;
        let feasibility = fitting.posterior(Output::Feasibility, None);
        let on_ground = fitting.ground.is_some();
        let posterior = match fitting.ground {
            Some(Ground { stack, line }) => StackedPosterior::over(stack, line, posterior),
            None => posterior.into(),
        };

        let data = &evidence.data;
        let hyperparameters = posterior.hyperparameters().clone();
        let variances = hyperparameters.kernel.variances(&data.points);
        let signal = variances.iter().sum::<f64>() / variances.len().max(1) as f64;
        let mut threshold = eligible.first().map_or(0.0, |&row| values[row]);
        if hyperparameters.noise_variance > NOISY * signal && !eligible.is_empty() {
            let means = posterior.means(&data.points);
            best_first(&mut eligible, &|row| means[row]);
            threshold = means[eligible[0]];
        }
        let criterion = match options.acquisition {
            Criterion::ExpectedImprovement
                if constraints.are_none() && hyperparameters.noise_variance > VERY_NOISY * signal =>
            {
                Criterion::UpperConfidenceBound { beta: DEFAULT_BETA }
            }
            criterion => criterion,
        };
        let told_apart = eligible.iter().any(|&row| values[row] != values[eligible[0]]);
        // The star is that of a study of its own.
        let judges = if grounds.is_some() { TRIALS_ON_TRUST } else { 0 };
        let start_trials = if on_ground {
            FEWEST_TO_JUDGE
        } else {
            options.start.trials(encoding, outcomes.objectives.len() + outcomes.constraints.len()) + judges
        };
        let best = if none_feasible { violations.least(measured) } else { eligible };
        let anchors = anchors(encoding, best.iter().map(|&row| evidence.point(row)));
        let dimensions = anchors.first().map_or(encoding.dimensions(), |incumbent| active_count(encoding, incumbent));
        let acquisition: Box<dyn Acquisition> = if outcomes.constraints.is_empty() {
            Box::new(AcquisitionFunction::new(posterior, criterion, threshold, feasibility))
        } else {
            let mut bounded = constraints.outcomes(center.as_deref())?;
            bounded.extend(feasibility.map(|posterior| BoundedOutcome { posterior, threshold: 0.0 }));
            let objective = (!none_feasible).then(|| {
                let function = AcquisitionFunction::new(posterior, criterion, threshold, None);
                Box::new(function) as Box<dyn Acquisition>
            });
            Box::new(Constrained::new(objective, bounded))
        };
        Some(Self {
            acquisition,
            front: 1.min(anchors.len()),
            anchors,
            lengthscales: hyperparameters.lengthscales(),
            trust_region: (options.trust_region && told_apart)
                .then(|| TrustRegion::replay(dimensions, parallel, observations.results(start_trials, is_global))),
            seeks_improvement: criterion == Criterion::ExpectedImprovement,
            on_ground,
            shared: Shared::default(),
        })
    }
}

/// The first few of `points`, which come best first, and in a conditional space the first with each other set of active
/// features.
pub(super) fn anchors(encoding: &Encoding, mut points: impl Iterator<Item = Vec<f64>>) -> Vec<Vec<f64>> {
    let mut anchors: Vec<Vec<f64>> = points.by_ref().take(ANCHORS).collect();
    if encoding.is_conditional() {
        let mut branches: HashSet<Vec<bool>> = anchors.iter().map(|point| encoding.active(point)).collect();
        anchors.extend(points.filter(|point| branches.insert(encoding.active(point))).take(BRANCHES));
    }
    anchors
}

/// The constraints of one history.
pub(super) struct Constraints<'a> {
    encoding: &'a Encoding,
    observations: &'a [Observations],
    options: &'a GpBanditOptions,
    fits: &'a Fits,
    evidence: Vec<Evidence>,
}

impl<'a> Constraints<'a> {
    pub(super) fn new(
        encoding: &'a Encoding,
        outcomes: &'a Outcomes,
        options: &'a GpBanditOptions,
        fits: &'a Fits,
    ) -> Self {
        let observations = &outcomes.constraints;
        let evidence = observations.iter().map(|slacks| slacks.evidence(encoding, options.warp)).collect();
        Self { encoding, observations, options, fits, evidence }
    }

    /// Whether the problem has none.
    fn are_none(&self) -> bool {
        self.evidence.is_empty()
    }

    /// Of the first `measured` rows.
    pub(super) fn violations(&self, measured: usize) -> Violations {
        Violations::new(measured, &self.evidence)
    }

    /// A model of each; `None` if one cannot be made.
    pub(super) fn outcomes(&self, center: Option<&[f64]>) -> Option<Vec<BoundedOutcome>> {
        let one = |(evidence, observations): (&Evidence, &Observations)| {
            let Self { encoding, options, fits, .. } = *self;
            let fitting = Fitting::new(encoding, observations, options, fits, evidence);
            let posterior = fitting.posterior(Output::Values, center)?;
            Some(BoundedOutcome { posterior, threshold: evidence.threshold })
        };
        self.evidence.iter().zip(self.observations).map(one).collect()
    }
}

/// How many features are active at `point`.
fn active_count(encoding: &Encoding, point: &[f64]) -> usize {
    encoding.active(point).into_iter().filter(|active| *active).count()
}

/// What a model is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// The values: of an objective, or slacks of a constraint.
    Values,
    /// +1 where a trial was measured, -1 where it failed.
    Feasibility,
}

impl Output {
    /// What such a model is fitted to; `None` if `evidence` says too little about it.
    fn training_set(self, evidence: &Evidence) -> Option<TrainingSet> {
        let n = evidence.data.values.len();
        match self {
            Self::Values => Some(evidence.data.clone()),
            Self::Feasibility if evidence.failures() < FAILURES_FOR_MODEL => None,
            Self::Feasibility => Some(TrainingSet {
                values: (0..n).map(|row| if row < evidence.measured { 1.0 } else { -1.0 }).collect(),
                noise_weights: vec![1.0; n],
                ..evidence.data.clone()
            }),
        }
    }
}

impl Output {
    /// What `ground` leaves over of `data`.
    fn above(self, ground: Option<&Ground>, data: TrainingSet) -> TrainingSet {
        match (self, ground) {
            (Self::Values, Some(ground)) => {
                TrainingSet { values: ground.residuals(&data.points, &data.values), ..data }
            }
            _ => data,
        }
    }
}

pub(super) struct Fitting<'a> {
    pub(super) encoding: &'a Encoding,
    pub(super) observations: &'a Observations,
    pub(super) options: &'a GpBanditOptions,
    pub(super) fits: &'a Fits,
    /// All of it.
    pub(super) evidence: &'a Evidence,
    /// The earlier studies, if they count.
    grounds: Option<&'a Grounds>,
    /// What the model of all of the evidence is built upon.
    ground: Option<Ground>,
}

impl<'a> Fitting<'a> {
    /// Without earlier studies.
    pub(super) fn new(
        encoding: &'a Encoding,
        observations: &'a Observations,
        options: &'a GpBanditOptions,
        fits: &'a Fits,
        evidence: &'a Evidence,
    ) -> Self {
        Self { encoding, observations, options, fits, evidence, grounds: None, ground: None }
    }

    /// How badly the model explains the values: the negative log of the density that the fit maximises.
    fn loss(&self) -> f64 {
        let terms = self.options.kernel_terms();
        let loss = self
            .training_set(Output::Values, self.observations.completed())
            .and_then(|data| negative_log_posterior(&data, &self.hyperparameters(Output::Values).to_logs(terms)));
        loss.map_or(f64::INFINITY, |(loss, _)| loss)
    }

    /// The model of `output`, conditioned on all of the evidence, or on what matters near `center`; `None` if there is
    /// no need for one or the covariance cannot be factorised.
    pub(super) fn posterior(&self, output: Output, center: Option<&[f64]>) -> Option<Posterior> {
        let data = output.training_set(self.evidence)?;
        let terms = self.options.kernel_terms();
        let near = data.select(&representative_subset(&data, EXACT_SIZE, center));
        let near = output.above(self.ground.as_ref(), near);
        Posterior::new(self.hyperparameters(output), &near)
            .or_else(|| Posterior::new(Hyperparameters::default_with_terms(&data.categorical, terms), &near))
    }

    /// Those that the schedule asks for.
    fn hyperparameters(&self, output: Output) -> Hyperparameters {
        let terms = self.options.kernel_terms();
        let Schedule { checkpoint, refit: last } = Schedule::after(self.observations.completed());
        if last <= checkpoint {
            return self.full_fit(output, checkpoint, terms);
        }
        self.fits.remembered(self.fingerprint("refit", output, last), || {
            let Some(data) = self.training_set(output, last) else { return self.full_fit(output, last, terms) };
            let informative = |data: &TrainingSet| data.values.iter().any(|value| *value != data.values[0]);
            // A fit to results that tell nothing apart is no start for one to results that do.
            match self.training_set(output, checkpoint) {
                Some(before) if informative(&before) => refit(&data, terms, &self.full_fit(output, checkpoint, terms)),
                _ => fit_with_terms(&data, terms),
            }
        })
    }

    fn full_fit(&self, output: Output, count: usize, terms: KernelTerms) -> Hyperparameters {
        self.fits.remembered(self.fingerprint("fit", output, count), || match self.training_set(output, count) {
            Some(data) => fit_with_terms(&data, terms),
            None => Hyperparameters::default_with_terms(&categorical(self.encoding), terms),
        })
    }

    fn fingerprint(&self, purpose: &str, output: Output, count: usize) -> Fingerprint {
        self.observations.fingerprint(count, &format!("{purpose} {output:?} {}", self.grounds.is_some()))
    }

    /// What is fitted after the first `count` trials.
    fn training_set(&self, output: Output, count: usize) -> Option<TrainingSet> {
        let reduced = |data: TrainingSet| data.select(&representative_subset(&data, FIT_SIZE, None));
        if count == self.observations.completed() {
            return Some(output.above(self.ground.as_ref(), reduced(output.training_set(self.evidence)?)));
        }
        let evidence = self.observations.evidence_of_first(count, self.encoding, self.options.warp);
        let ground = self.grounds.and_then(|grounds| evidence.ground(grounds));
        Some(output.above(ground.as_ref(), reduced(output.training_set(&evidence)?)))
    }
}
