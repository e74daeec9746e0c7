use super::evidence::Evidence;
use super::fits::{Fingerprint, Fits, Schedule};
use super::observations::Observations;
use crate::encoding::Encoding;
use crate::gp::{Hyperparameters, Posterior, TrainingSet, fit, negative_log_posterior, refit, representative_subset};
use crate::problem::ObservationNoise;
use crate::transfer::{COMPARED_TRIALS, SourceModel, SourceModels};

/// Maximum number of observations in a hyperparameter fit (chosen for time).
const FIT_SIZE: usize = 384;
/// Maximum number of observations of an exact posterior; beyond, it is local (chosen for time).
const EXACT_SIZE: usize = 640;
/// Number of failures from which feasibility has its own model.
const FAILURES_FOR_MODEL: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Values of an objective, or slacks of a constraint.
    Values,
    /// +1 for a measured trial, -1 for a failed one.
    Feasibility,
}

impl Output {
    /// Training set of this output; `None` if `evidence` contains too few failures for a feasibility model.
    fn training_set(self, evidence: &Evidence) -> Option<TrainingSet> {
        let n = evidence.data.values.len();
        match self {
            Self::Values => Some(evidence.data.clone()),
            Self::Feasibility if evidence.failures() < FAILURES_FOR_MODEL => None,
            Self::Feasibility => Some(TrainingSet {
                values: (0..n).map(|row| if row < evidence.measured { 1.0 } else { -1.0 }).collect(),
                noise_weights: vec![1.0; n],
                added_noise: vec![0.0; n],
                // Labels are inexact: failures have other causes too (measured, see docs/experiments/017).
                noise: ObservationNoise::High,
                ..evidence.data.clone()
            }),
        }
    }

    /// Replaces values in `data` by the residuals of `source_model`.
    fn residuals(self, source_model: Option<&SourceModel>, data: TrainingSet) -> TrainingSet {
        match (self, source_model) {
            (Self::Values, Some(source_model)) => {
                TrainingSet { values: source_model.residuals(&data.points, &data.values), ..data }
            }
            _ => data,
        }
    }
}

/// Fits the models of one output.
pub(super) struct Fitting<'a> {
    encoding: &'a Encoding,
    observations: &'a Observations,
    fits: &'a Fits,
    /// Evidence of all completed trials.
    evidence: &'a Evidence,
    source_models: Option<&'a SourceModels>,
    /// Source model below the model of all the evidence.
    source_model: Option<SourceModel>,
}

impl<'a> Fitting<'a> {
    pub(super) fn new(
        encoding: &'a Encoding,
        observations: &'a Observations,
        fits: &'a Fits,
        evidence: &'a Evidence,
    ) -> Self {
        Self { encoding, observations, fits, evidence, source_models: None, source_model: None }
    }

    /// Fits on top of `source_models`, or alone where that explains enough trials better.
    pub(super) fn stacked(
        encoding: &'a Encoding,
        observations: &'a Observations,
        fits: &'a Fits,
        evidence: &'a Evidence,
        source_models: Option<&'a SourceModels>,
    ) -> Self {
        let alone = || Self::new(encoding, observations, fits, evidence);
        let stacked = alone().on_source_models(source_models);
        if evidence.measured >= COMPARED_TRIALS && stacked.source_model.is_some() {
            let alone = alone();
            if alone.loss() < stacked.loss() {
                return alone;
            }
        }
        stacked
    }

    /// Fits on top of those of `source_models` that predict the evidence.
    fn on_source_models(self, source_models: Option<&'a SourceModels>) -> Self {
        let source_model = source_models.and_then(|source_models| self.evidence.source_model(source_models));
        Self { source_models, source_model, ..self }
    }

    pub(super) fn source_model(&self) -> Option<&SourceModel> {
        self.source_model.as_ref()
    }

    /// Negative log posterior density of the hyperparameters, minimised by the fit; infinite if it cannot be computed.
    pub(super) fn loss(&self) -> f64 {
        let loss = self
            .training_set(Output::Values, self.observations.completed())
            .and_then(|data| negative_log_posterior(&data, &self.hyperparameters(Output::Values).to_logs()));
        loss.map_or(f64::INFINITY, |(loss, _)| loss)
    }

    /// Model of `output`, conditioned on all the evidence, or on a subset for the neighbourhood of `center`. `None` if
    /// no model is needed or the covariance cannot be factorised.
    pub(super) fn posterior(&self, output: Output, center: Option<&[f64]>) -> Option<Posterior> {
        self.posterior_with_values(output, center).map(|(posterior, _)| posterior)
    }

    /// [`Self::posterior`] with its conditioning values.
    pub(super) fn posterior_with_values(
        &self,
        output: Output,
        center: Option<&[f64]>,
    ) -> Option<(Posterior, Vec<f64>)> {
        if self.fits.are_interrupted() {
            return None;
        }
        let data = output.training_set(self.evidence)?;
        let near = data.select(&representative_subset(&data, EXACT_SIZE, center));
        let near = output.residuals(self.source_model.as_ref(), near);
        let posterior = Posterior::new(self.hyperparameters(output), &near)
            .or_else(|| Posterior::new(Hyperparameters::default_for(&data.categorical), &near))?;
        Some((posterior, near.values))
    }

    pub(super) fn hyperparameters(&self, output: Output) -> Hyperparameters {
        if self.fits.are_interrupted() {
            return Hyperparameters::default_for(&self.encoding.categorical());
        }
        let Schedule { checkpoint, refit: last } = Schedule::after(self.observations.completed());
        if last <= checkpoint {
            return self.full_fit(output, checkpoint);
        }
        self.fits.remembered(self.fingerprint("refit", output, last), || {
            let Some(data) = self.training_set(output, last) else { return self.full_fit(output, last) };
            let informative = |data: &TrainingSet| data.values.iter().any(|value| *value != data.values[0]);
            // A fit to equal results is no useful start for a fit to different ones.
            match self.training_set(output, checkpoint) {
                Some(before) if informative(&before) => refit(&data, &self.full_fit(output, checkpoint)),
                _ => fit(&data),
            }
        })
    }

    fn full_fit(&self, output: Output, count: usize) -> Hyperparameters {
        self.fits.remembered(self.fingerprint("fit", output, count), || match self.training_set(output, count) {
            Some(data) => fit(&data),
            None => Hyperparameters::default_for(&self.encoding.categorical()),
        })
    }

    fn fingerprint(&self, purpose: &str, output: Output, count: usize) -> Fingerprint {
        self.observations.fingerprint(count, &format!("{purpose} {output:?} {}", self.source_models.is_some()))
    }

    /// Training set after the first `count` trials.
    fn training_set(&self, output: Output, count: usize) -> Option<TrainingSet> {
        let reduced = |data: TrainingSet| data.select(&representative_subset(&data, FIT_SIZE, None));
        if count == self.observations.completed() {
            return Some(output.residuals(self.source_model.as_ref(), reduced(output.training_set(self.evidence)?)));
        }
        let evidence = self.observations.evidence_of_first(count, self.encoding);
        let source_model = self.source_models.and_then(|source_models| evidence.source_model(source_models));
        Some(output.residuals(source_model.as_ref(), reduced(output.training_set(&evidence)?)))
    }
}
