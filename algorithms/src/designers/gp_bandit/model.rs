//! The fitted model of one history: acquisition function, incumbent and trust region.

use std::collections::HashSet;

use super::TRIALS_ON_TRUST;
use super::fits::{Fingerprint, Fits, Schedule};
use super::observations::{Evidence, Observations, categorical};
use super::options::GpBanditOptions;
use crate::acquisition::{AcquisitionFunction, TrustRegion};
use crate::encoding::Encoding;
use crate::gp::{
    Hyperparameters, KernelTerms, Posterior, StackedPosterior, TrainingSet, fit_with_terms, negative_log_posterior,
    refit, representative_subset,
};
use crate::prior::{Beliefs, FADING};
use crate::problem::TrialId;
use crate::transfer::{FEWEST_TO_JUDGE, Ground, Grounds};

/// Hyperparameters are fitted to at most this many observations: chosen for time.
const FIT_SIZE: usize = 384;
/// The posterior is exact up to this many observations, local beyond: chosen for time.
const EXACT_SIZE: usize = 640;
/// Ratio of noise to signal variance above which the incumbent is chosen by posterior mean.
const NOISY: f64 = 1e-3;
/// Failures from which on feasibility has a model of its own.
const FAILURES_FOR_MODEL: usize = 5;
/// How many of the best points are perturbed for candidates.
const ANCHORS: usize = 5;
/// In a conditional space, of how many other branches the best point is perturbed as well (a guess).
const BRANCHES: usize = 8;

/// Everything that is computed once per request.
pub(super) struct Model {
    pub(super) acquisition: AcquisitionFunction,
    /// The best points, the incumbent first, then in a conditional space the best of other branches; may be empty.
    pub(super) anchors: Vec<Vec<f64>>,
    pub(super) lengthscales: Vec<f64>,
    /// `None` if it is not wanted, there is no incumbent to be near to, or nothing tells points apart.
    pub(super) trust_region: Option<TrustRegion>,
    /// Whether it is built upon earlier studies.
    pub(super) on_ground: bool,
}

/// What is known beside the history.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'a> {
    pub(super) beliefs: Option<&'a Beliefs>,
    pub(super) grounds: Option<&'a Grounds>,
}

impl Model {
    /// Fits the model; `None` if the covariance cannot be factorised, whatever the jitter.
    pub(super) fn new(
        encoding: &Encoding,
        observations: &Observations,
        options: &GpBanditOptions,
        fits: &Fits,
        known: Known<'_>,
        is_global: impl Fn(TrialId) -> bool,
    ) -> Option<Self> {
        let evidence = observations.evidence(encoding, options.warp);
        let mut eligible = evidence.eligible();
        let values = &evidence.data.values;
        let best_first = |rows: &mut Vec<usize>, key: &dyn Fn(usize) -> f64| {
            rows.sort_by(|&a, &b| key(b).total_cmp(&key(a)).then(a.cmp(&b)));
        };
        best_first(&mut eligible, &|row| values[row]);
        let center = eligible.first().map(|&row| evidence.point(row));
        let ground = known.grounds.and_then(|grounds| evidence.ground(grounds));
        let mut fitting = Fitting { encoding, observations, options, fits, known, evidence: &evidence, ground };
        if evidence.measured >= FEWEST_TO_JUDGE && fitting.ground.is_some() {
            let nothing = Known { grounds: None, ..known };
            let alone = Fitting { known: nothing, ground: None, ..fitting.clone() };
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
            let means = posterior.predict(&data.points).means;
            best_first(&mut eligible, &|row| means[(0, row)]);
            threshold = means[(0, eligible[0])];
        }
        let told_apart = eligible.iter().any(|&row| values[row] != values[eligible[0]]);
        // The star is that of a study of its own.
        let judges = if known.grounds.is_some() { TRIALS_ON_TRUST } else { 0 };
        let start_trials = if on_ground { FEWEST_TO_JUDGE } else { options.start.trials(encoding) + judges };
        let anchors = anchors(encoding, eligible.iter().map(|&row| evidence.point(row)));
        let dimensions = anchors.first().map_or(encoding.dimensions(), |incumbent| active_count(encoding, incumbent));
        let acquisition = AcquisitionFunction::new(posterior, options.acquisition, threshold, feasibility);
        Some(Self {
            acquisition: match known.beliefs {
                Some(beliefs) => {
                    let weight = FADING / (observations.completed() + observations.pending.len()).max(1) as f64;
                    acquisition.with_beliefs(beliefs.clone(), encoding.clone(), weight)
                }
                None => acquisition,
            },
            on_ground,
            anchors,
            lengthscales: hyperparameters.lengthscales(),
            trust_region: (options.trust_region && told_apart)
                .then(|| TrustRegion::replay(dimensions, observations.results(start_trials, is_global))),
        })
    }
}

/// The first few of `points`, which come best first, and in a conditional space the first with each other set of active
/// features.
fn anchors(encoding: &Encoding, mut points: impl Iterator<Item = Vec<f64>>) -> Vec<Vec<f64>> {
    let mut anchors: Vec<Vec<f64>> = points.by_ref().take(ANCHORS).collect();
    if encoding.is_conditional() {
        let mut branches: HashSet<Vec<bool>> = anchors.iter().map(|point| encoding.active(point)).collect();
        anchors.extend(points.filter(|point| branches.insert(encoding.active(point))).take(BRANCHES));
    }
    anchors
}

/// How many features are active at `point`.
fn active_count(encoding: &Encoding, point: &[f64]) -> usize {
    encoding.active(point).into_iter().filter(|active| *active).count()
}

/// What a model is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// The objective.
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

#[derive(Clone)]
struct Fitting<'a> {
    encoding: &'a Encoding,
    observations: &'a Observations,
    options: &'a GpBanditOptions,
    fits: &'a Fits,
    known: Known<'a>,
    /// All of it.
    evidence: &'a Evidence,
    /// What the model of all of it is built upon.
    ground: Option<Ground>,
}

impl Fitting<'_> {
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
    fn posterior(&self, output: Output, center: Option<&[f64]>) -> Option<Posterior> {
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
        self.observations.fingerprint(count, &format!("{purpose} {output:?} {}", self.known.grounds.is_some()))
    }

    /// What is fitted after the first `count` trials.
    fn training_set(&self, output: Output, count: usize) -> Option<TrainingSet> {
        let reduced = |data: TrainingSet| data.select(&representative_subset(&data, FIT_SIZE, None));
        if count == self.observations.completed() {
            return Some(output.above(self.ground.as_ref(), reduced(output.training_set(self.evidence)?)));
        }
        let evidence = self.observations.evidence_of_first(count, self.encoding, self.options.warp);
        let ground = self.known.grounds.and_then(|grounds| evidence.ground(grounds));
        Some(output.above(ground.as_ref(), reduced(output.training_set(&evidence)?)))
    }
}
