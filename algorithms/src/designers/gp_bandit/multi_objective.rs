//! Model of a history with two or three objectives.
//!
//! Each objective has its own Gaussian process, fitted to its [standardised](crate::output_warp::standardized) values.
//! Expected hypervolume improvement uses these values too, so that the units of the objectives do not matter. The front
//! consists of the finished feasible trials. For a noisy objective, posterior means replace the values.
//!
//! The search covers the whole space, without a trust region (measured, see docs/experiments/010 and 025).

use super::constraint_models::ConstraintModels;
use super::evidence::Evidence;
use super::failures::Failures;
use super::fits::Fits;
use super::fitting::{Fitting, Output};
use super::model::{Model, NOISY, anchors};
use super::observations::Observations;
use super::outcomes::Outcomes;
use super::outputs::Outputs;
use super::shared_candidates::RegionCandidates;
use crate::acquisition::hypervolume::{HypervolumeImprovement, ObjectiveModel, infer_reference_point};
use crate::acquisition::{Acquisition, Constrained};
use crate::encoding::Encoding;
use crate::problem::pareto::distinct_front;

impl Model {
    /// Fits the model of two or three objectives; `None` if a covariance cannot be factorised with any jitter.
    pub(super) fn of_several_objectives(
        encoding: &Encoding,
        outputs: &Outputs,
        outcomes: &Outcomes,
        fits: &Fits,
    ) -> Option<Self> {
        let evidence_of = |objectives: &[Observations]| -> Vec<Evidence> {
            objectives.iter().map(|objective| objective.evidence(encoding)).collect()
        };
        let all = &outcomes.objectives;
        let evidence = evidence_of(all);
        let failures = Failures::new(&Fitting::new(encoding, &all[0], fits, &evidence[0]), &all[0]);
        let without: Option<Vec<Observations>> =
            failures.without.is_some().then(|| all.iter().map(Observations::without_failures).collect());
        let objectives = without.as_ref().unwrap_or(all);
        let evidence = if without.is_some() { evidence_of(objectives) } else { evidence };
        let constraints = ConstraintModels::new(encoding, outcomes, fits);
        let violations = constraints.violations(evidence[0].measured);
        let measured = evidence[0].eligible();
        let eligible = violations.feasible(&measured);
        let none_feasible = eligible.is_empty();
        let best = if none_feasible { violations.least(measured) } else { eligible };

        // The model is exact near this point if there are too many observations for an exact model.
        let sum = |row: usize| evidence.iter().map(|evidence| evidence.data.values[row]).sum::<f64>();
        let center = best.iter().copied().max_by(|&a, &b| sum(a).total_cmp(&sum(b)).then(b.cmp(&a)));
        let center = center.map(|row| evidence[0].point(row));
        let mut models = Vec::with_capacity(evidence.len());
        let mut results = vec![Vec::with_capacity(evidence.len()); best.len()];
        let mut log_lengthscales = vec![0.0; encoding.dimensions()];
        for ((evidence, observations), (_, metric)) in evidence.iter().zip(objectives).zip(&outputs.metrics) {
            let fitting = Fitting::new(encoding, observations, fits, evidence);
            let posterior = fitting.posterior(Output::Values, center.as_deref())?;
            let hyperparameters = posterior.hyperparameters();
            let variances = hyperparameters.kernel.variances(&evidence.data.points);
            let signal = variances.iter().sum::<f64>() / variances.len().max(1) as f64;
            let noisy = hyperparameters.noise_variance > NOISY * signal;
            let means = noisy.then(|| posterior.predict(&evidence.data.points).means);
            for (result, &row) in results.iter_mut().zip(&best) {
                result.push(means.as_ref().map_or(evidence.data.values[row], |means| means[(0, row)]));
            }
            for (sum, lengthscale) in log_lengthscales.iter_mut().zip(hyperparameters.lengthscales()) {
                *sum += lengthscale.ln() / outcomes.objectives.len() as f64;
            }
            models.push(ObjectiveModel { name: metric.name.clone(), posterior });
        }
        let mut bounded = constraints.fitted(center.as_deref())?;
        bounded.extend(failures.model);

        let point = |place: usize| evidence[0].point(best[place]);
        let (anchors, front, objective) = if none_feasible {
            (anchors(encoding, (0..best.len()).map(point)), 1.min(best.len()), None)
        } else {
            let front = distinct_front(&results);
            let values: Vec<Vec<f64>> = front.iter().map(|&place| results[place].clone()).collect();
            let reference = infer_reference_point(&values, &results);
            let others = (0..best.len()).filter(|place| !front.contains(place)).map(point);
            let mut points: Vec<Vec<f64>> = front.iter().map(|&place| point(place)).collect();
            points.extend(anchors(encoding, others).into_iter().filter(|_| encoding.is_conditional()));
            let improvement = HypervolumeImprovement::new(models, values, reference)?;
            (points, front.len(), Some(Box::new(improvement) as Box<dyn Acquisition>))
        };
        let acquisition = match objective {
            Some(objective) if bounded.is_empty() => objective,
            objective => Box::new(Constrained::new(objective, bounded)),
        };
        let lengthscales = log_lengthscales.into_iter().map(f64::exp).collect();
        Some(Self {
            acquisition,
            anchors,
            front,
            lengthscales,
            trust_region: None,
            is_log_improvement: true,
            on_source_model: false,
            candidates: RegionCandidates::default(),
        })
    }
}
