use super::constraint_models::ConstraintModels;
use super::failures::Failures;
use super::fits::Fits;
use super::fitting::{Fitting, Output};
use super::initial_design;
use super::model::{Model, NOISY, anchors};
use super::outcomes::Outcomes;
use super::shared_candidates::RegionCandidates;
use crate::acquisition::{Acquisition, AcquisitionFunction, Constrained, Criterion, DEFAULT_BETA, TrustRegion};
use crate::encoding::Encoding;
use crate::gp::StackedPosterior;
use crate::problem::TrialId;
use crate::transfer::{COMPARED_TRIALS, SourceModel, SourceModels, TRUSTED_TRIALS};

/// Ratio of noise to signal variance above which the upper confidence bound with [`DEFAULT_BETA`] deviations replaces
/// expected improvement, which would repeat trials near the incumbent (measured, see docs/experiments/009).
const VERY_NOISY: f64 = 0.01;

impl Model {
    /// Fits the model of one objective, on top of `source_models` if the history follows them, for one of `parallel`
    /// concurrent trials. `None` if the covariance cannot be factorised with any jitter.
    pub(super) fn of_one_objective(
        encoding: &Encoding,
        outcomes: &Outcomes,
        fits: &Fits,
        source_models: Option<&SourceModels>,
        is_global: impl Fn(TrialId) -> bool,
        parallel: usize,
    ) -> Option<Self> {
        let explained = outcomes.without_unexplained(encoding, fits);
        let outcomes = explained.as_ref().unwrap_or(outcomes);
        let all = &outcomes.objectives[0];
        let evidence = all.evidence(encoding);
        let Failures { without, are_random, model: feasibility } =
            Failures::new(&Fitting::new(encoding, all, fits, &evidence), all);
        let observations = without.as_ref().unwrap_or(all);
        let evidence = if without.is_some() { observations.evidence(encoding) } else { evidence };
        let followed = if are_random { observations } else { all };
        let constraints = ConstraintModels::new(encoding, outcomes, fits);
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

        let fitting = Fitting::stacked(encoding, observations, fits, &evidence, source_models);
        let posterior = fitting.posterior(Output::Values, center.as_deref())?;
        let on_source_model = fitting.source_model().is_some();
        let posterior = match fitting.source_model() {
            Some(SourceModel { stack, line }) => StackedPosterior::over(stack.clone(), *line, posterior),
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
        let is_very_noisy = hyperparameters.noise_variance > VERY_NOISY * signal;
        let criterion = if constraints.is_empty() && is_very_noisy {
            Criterion::UpperConfidenceBound { beta: DEFAULT_BETA }
        } else {
            Criterion::ExpectedImprovement
        };
        let results_differ = eligible.iter().any(|&row| values[row] != values[eligible[0]]);
        // Without a source model that predicts the evidence, the study has its own initial design.
        let extra_trials = if source_models.is_some() { TRUSTED_TRIALS } else { 0 };
        let design_trials =
            if on_source_model { COMPARED_TRIALS } else { initial_design::trials(encoding) + extra_trials };
        let best = if none_feasible { violations.least(measured) } else { eligible };
        let anchors = anchors(encoding, best.iter().map(|&row| evidence.point(row)));
        let dimensions = anchors.first().map_or(encoding.dimensions(), |incumbent| active_count(encoding, incumbent));
        let acquisition: Box<dyn Acquisition> = if outcomes.constraints.is_empty() {
            Box::new(AcquisitionFunction::new(posterior, criterion, threshold, feasibility))
        } else {
            let mut bounded = constraints.fitted(center.as_deref())?;
            bounded.extend(feasibility);
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
            trust_region: results_differ
                .then(|| TrustRegion::replay(dimensions, parallel, followed.results(design_trials, is_global))),
            is_log_improvement: criterion == Criterion::ExpectedImprovement,
            on_source_model,
            candidates: RegionCandidates::default(),
        })
    }
}

fn active_count(encoding: &Encoding, point: &[f64]) -> usize {
    encoding.active(point).into_iter().filter(|active| *active).count()
}
