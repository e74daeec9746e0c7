//! Fits of the Gaussian process models of one output.

use super::evidence::{Evidence, categorical};
use super::fits::{Fingerprint, Fits, Schedule};
use super::observations::Observations;
use super::options::GpBanditOptions;
use crate::encoding::Encoding;
use crate::gp::{
    Hyperparameters, KernelTerms, Posterior, TrainingSet, fit_with_terms, negative_log_posterior, refit,
    representative_subset,
};
use crate::problem::ObservationNoise;
use crate::transfer::{SourceModel, SourceModels};

/// Hyperparameters are fitted to at most this many observations (chosen for time).
const FIT_SIZE: usize = 384;
/// The posterior is exact up to this many observations and local beyond (chosen for time).
const EXACT_SIZE: usize = 640;
/// Number of failures from which feasibility has a model of its own.
const FAILURES_FOR_MODEL: usize = 5;

/// The output that a model predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// The values of an objective, or the slacks of a constraint.
    Values,
    /// +1 where a trial was measured, -1 where it failed.
    Feasibility,
}

impl Output {
    /// The training set of this output; `None` if `evidence` contains too few failures for a feasibility model.
    fn training_set(self, evidence: &Evidence) -> Option<TrainingSet> {
        let n = evidence.data.values.len();
        match self {
            Self::Values => Some(evidence.data.clone()),
            Self::Feasibility if evidence.failures() < FAILURES_FOR_MODEL => None,
            Self::Feasibility => Some(TrainingSet {
                values: (0..n).map(|row| if row < evidence.measured { 1.0 } else { -1.0 }).collect(),
                noise_weights: vec![1.0; n],
                added_noise: vec![0.0; n],
                // Labels are not exact: failures have other causes too (measured, see docs/experiments/017).
                noise: ObservationNoise::High,
                ..evidence.data.clone()
            }),
        }
    }

    /// `data` with its values replaced by the residuals of `source_model`, for models of values.
    fn residuals(self, source_model: Option<&SourceModel>, data: TrainingSet) -> TrainingSet {
        match (self, source_model) {
            (Self::Values, Some(source_model)) => {
                TrainingSet { values: source_model.residuals(&data.points, &data.values), ..data }
            }
            _ => data,
        }
    }
}

/// The fit of the models of one output.
pub(super) struct Fitting<'a> {
    encoding: &'a Encoding,
    observations: &'a Observations,
    options: &'a GpBanditOptions,
    fits: &'a Fits,
    /// The evidence of all completed trials.
    evidence: &'a Evidence,
    /// The source models, if they are used.
    source_models: Option<&'a SourceModels>,
    /// The source model below the model of all of the evidence.
    source_model: Option<SourceModel>,
}

impl<'a> Fitting<'a> {
    /// A fit without source models.
    pub(super) fn new(
        encoding: &'a Encoding,
        observations: &'a Observations,
        options: &'a GpBanditOptions,
        fits: &'a Fits,
        evidence: &'a Evidence,
    ) -> Self {
        Self { encoding, observations, options, fits, evidence, source_models: None, source_model: None }
    }

    /// The same fit on top of those of `source_models` that predict the evidence.
    pub(super) fn on_source_models(self, source_models: Option<&'a SourceModels>) -> Self {
        let source_model = source_models.and_then(|source_models| self.evidence.source_model(source_models));
        Self { source_models, source_model, ..self }
    }

    /// The source model below the model of all of the evidence.
    pub(super) fn source_model(&self) -> Option<&SourceModel> {
        self.source_model.as_ref()
    }

    /// The negative log posterior density of the hyperparameters, which the fit minimises; infinite if it cannot be
    /// computed.
    pub(super) fn loss(&self) -> f64 {
        let terms = self.options.kernel_terms();
        let loss = self
            .training_set(Output::Values, self.observations.completed())
            .and_then(|data| negative_log_posterior(&data, &self.hyperparameters(Output::Values).to_logs(terms)));
        loss.map_or(f64::INFINITY, |(loss, _)| loss)
    }

    /// The model of `output`, conditioned on all of the evidence, or on a subset for the neighbourhood of `center`. `None` if
    /// no model is needed or the covariance cannot be factorised.
    pub(super) fn posterior(&self, output: Output, center: Option<&[f64]>) -> Option<Posterior> {
        self.posterior_with_values(output, center).map(|(posterior, _)| posterior)
    }

    /// [`Self::posterior`] with the values that it is conditioned on.
    pub(super) fn posterior_with_values(
        &self,
        output: Output,
        center: Option<&[f64]>,
    ) -> Option<(Posterior, Vec<f64>)> {
        if self.fits.are_interrupted() {
            return None;
        }
        let data = output.training_set(self.evidence)?;
        let terms = self.options.kernel_terms();
        let near = data.select(&representative_subset(&data, EXACT_SIZE, center));
        let near = output.residuals(self.source_model.as_ref(), near);
        let posterior = Posterior::new(self.hyperparameters(output), &near)
            .or_else(|| Posterior::new(Hyperparameters::default_with_terms(&data.categorical, terms), &near))?;
        Some((posterior, near.values))
    }

    /// The hyperparameters according to the schedule of fits.
    fn hyperparameters(&self, output: Output) -> Hyperparameters {
        let terms = self.options.kernel_terms();
        if self.fits.are_interrupted() {
            return Hyperparameters::default_with_terms(&categorical(self.encoding), terms);
        }
        let Schedule { checkpoint, refit: last } = Schedule::after(self.observations.completed());
        if last <= checkpoint {
            return self.full_fit(output, checkpoint, terms);
        }
        self.fits.remembered(self.fingerprint("refit", output, last), || {
            let Some(data) = self.training_set(output, last) else { return self.full_fit(output, last, terms) };
            let informative = |data: &TrainingSet| data.values.iter().any(|value| *value != data.values[0]);
            // A fit to equal results is no useful start for a fit to different ones.
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
        self.observations.fingerprint(count, &format!("{purpose} {output:?} {}", self.source_models.is_some()))
    }

    /// The training set after the first `count` trials.
    fn training_set(&self, output: Output, count: usize) -> Option<TrainingSet> {
        let reduced = |data: TrainingSet| data.select(&representative_subset(&data, FIT_SIZE, None));
        if count == self.observations.completed() {
            return Some(output.residuals(self.source_model.as_ref(), reduced(output.training_set(self.evidence)?)));
        }
        let evidence = self.observations.evidence_of_first(count, self.encoding, self.options.warp);
        let source_model = self.source_models.and_then(|source_models| evidence.source_model(source_models));
        Some(output.residuals(source_model.as_ref(), reduced(output.training_set(&evidence)?)))
    }
}
