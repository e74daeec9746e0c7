//! Influence of each source study on the search, by the model of its next suggestion.

use nalgebra::DMatrix;

use super::GpBandit;
use super::failures::Failures;
use super::fitting::{Fitting, Output};
use super::outcomes::Outcomes;
use super::suspicions::Suspicions;
use crate::designer::{DesignerError, History};
use crate::gp::StackedPosterior;
use crate::interruption::Interruption;
use crate::problem::TrialId;
use crate::sampling::sobol_point;
use crate::transfer::{SourceInfluence, SourceModel, SourceModels};

/// Number of points that represent the search space.
const POINTS: u64 = 256;

impl GpBandit {
    /// Influence of each study of `source_models` that is usable, after the trials of `history`.
    pub(super) fn influences_of(
        &self,
        source_models: &SourceModels,
        history: History<'_>,
        interruption: &Interruption,
    ) -> Result<Vec<SourceInfluence>, DesignerError> {
        let encoding = &self.encoding;
        let fits = self.fits.until(interruption);
        let mut outcomes = Outcomes::new(encoding, &self.outputs, history)?;
        Suspicions::set_aside(encoding, &mut outcomes);
        let outcomes = outcomes.without_unexplained(encoding, &fits).unwrap_or(outcomes);
        let all = &outcomes.objectives[0];
        let evidence = all.evidence(encoding);
        let failures = Failures::new(&Fitting::new(encoding, all, &fits, &evidence), all);
        let observations = failures.without.as_ref().unwrap_or(all);
        let evidence = observations.evidence(encoding);
        let fitting = Fitting::stacked(encoding, observations, &fits, &evidence, Some(source_models));
        let model = fitting.source_model().and_then(|SourceModel { stack, line }| {
            if evidence.measured == 0 {
                return Some(StackedPosterior::clone(stack));
            }
            let own = fitting.posterior(Output::Values, None)?;
            Some(StackedPosterior::over(stack.clone(), *line, own))
        });
        interruption.check()?;
        let points: Vec<Vec<f64>> = (1..=POINTS).map(|place| sobol_point(encoding, 0, TrialId(place))).collect();
        let space = DMatrix::from_fn(points.len(), encoding.dimensions(), |row, j| points[row][j]);
        let measured = evidence.data.points.rows(0, evidence.measured).clone_owned();
        let values = &evidence.data.values[..evidence.measured];
        Ok(source_models.influences(&measured, values, model.as_ref(), &space))
    }
}
