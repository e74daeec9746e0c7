use super::evidence::Evidence;
use super::fits::Fits;
use super::fitting::{Fitting, Output};
use super::observations::Observations;
use super::outcomes::Outcomes;
use super::violations::Violations;
use crate::acquisition::BoundedOutcome;
use crate::encoding::Encoding;

/// Constraints of one history, with the training data of their models.
pub(super) struct ConstraintModels<'a> {
    encoding: &'a Encoding,
    observations: &'a [Observations],
    weights: &'a [f64],
    fits: &'a Fits,
    evidence: Vec<Evidence>,
}

impl<'a> ConstraintModels<'a> {
    pub(super) fn new(encoding: &'a Encoding, outcomes: &'a Outcomes, fits: &'a Fits) -> Self {
        let observations = &outcomes.constraints;
        let evidence = observations.iter().map(|slacks| slacks.evidence(encoding)).collect();
        Self { encoding, observations, weights: &outcomes.constraint_weights, fits, evidence }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.evidence.is_empty()
    }

    /// Violations of the first `measured` rows.
    pub(super) fn violations(&self, measured: usize) -> Violations {
        Violations::new(measured, &self.evidence)
    }

    /// One fitted model per constraint; `None` if a covariance cannot be factorised.
    pub(super) fn fitted(&self, center: Option<&[f64]>) -> Option<Vec<BoundedOutcome>> {
        let one = |((evidence, observations), &weight): ((&Evidence, &Observations), &f64)| {
            let Self { encoding, fits, .. } = *self;
            let fitting = Fitting::new(encoding, observations, fits, evidence);
            let posterior = fitting.posterior(Output::Values, center)?;
            Some(BoundedOutcome { posterior, threshold: evidence.threshold, weight })
        };
        self.evidence.iter().zip(self.observations).zip(self.weights).map(one).collect()
    }
}
