//! The fitted model of one history: acquisition function, incumbent and trust region.

use std::collections::HashSet;

use super::observations::{Evidence, Observations};
use super::options::GpBanditOptions;
use crate::acquisition::{AcquisitionFunction, TrustRegion};
use crate::encoding::Encoding;
use crate::gp::{Hyperparameters, KernelTerms, Posterior, TrainingSet, fit_with_terms, representative_subset};
use crate::problem::TrialId;

/// Hyperparameters are fitted to at most this many observations.
const FIT_SIZE: usize = 512;
/// The posterior is exact up to this many observations, local beyond.
const EXACT_SIZE: usize = 1000;
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
}

impl Model {
    /// Fits the model; `None` if the covariance cannot be factorised, whatever the jitter.
    pub(super) fn new(
        encoding: &Encoding,
        observations: &Observations,
        options: &GpBanditOptions,
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
        let terms = options.kernel_terms();
        let posterior = condition(&evidence.data, terms, center.as_deref())?;

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
        let feasibility = feasibility_model(&evidence, terms);
        let start_trials = options.start.trials(encoding);
        let anchors = anchors(encoding, eligible.iter().map(|&row| evidence.point(row)));
        let dimensions = anchors.first().map_or(encoding.dimensions(), |incumbent| active_count(encoding, incumbent));
        Some(Self {
            acquisition: AcquisitionFunction::new(posterior, options.acquisition, threshold, feasibility),
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

/// Fits hyperparameters (to a subset if there are many observations) and conditions on all, or on those that matter
/// near `center`.
fn condition(data: &TrainingSet, terms: KernelTerms, center: Option<&[f64]>) -> Option<Posterior> {
    let hyperparameters = fit_with_terms(&data.select(&representative_subset(data, FIT_SIZE, None)), terms);
    let near = data.select(&representative_subset(data, EXACT_SIZE, center));
    Posterior::new(hyperparameters, &near)
        .or_else(|| Posterior::new(Hyperparameters::default_with_terms(&data.categorical, terms), &near))
}

/// +1 where a trial was measured, -1 where it failed.
fn feasibility_model(evidence: &Evidence, terms: KernelTerms) -> Option<Posterior> {
    if evidence.failures() < FAILURES_FOR_MODEL {
        return None;
    }
    let n = evidence.data.values.len();
    let labels = TrainingSet {
        values: (0..n).map(|row| if row < evidence.measured { 1.0 } else { -1.0 }).collect(),
        noise_weights: vec![1.0; n],
        ..evidence.data.clone()
    };
    condition(&labels, terms, None)
}
