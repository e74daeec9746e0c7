//! Wildly bad results that the point does not explain.
//!
//! A model that must interpolate accidents has short length scales everywhere. So unexplained results enter neither the
//! model nor the trust region (measured, see docs/experiments/021). Every suggestion repeats the decision.

use super::fits::Fits;
use super::fitting::{Fitting, Output};
use super::outcomes::Outcomes;
use crate::encoding::Encoding;
use crate::problem::TrialId;
use crate::suspicion::{far_below, unexplained};

impl Outcomes {
    /// The outcomes of one objective without the trials whose bad results are unexplained; `None` if there are none.
    pub(super) fn without_unexplained(&self, encoding: &Encoding, fits: &Fits) -> Option<Self> {
        let all = &self.objectives[0];
        let (ids, _, values) = all.measured_trials();
        let far: Vec<TrialId> = far_below(&values).into_iter().map(|index| ids[index]).collect();
        if far.is_empty() {
            return None;
        }
        let evidence = all.evidence(encoding);
        let is_far = |row: &usize| evidence.trials[*row].iter().all(|trial| far.contains(trial));
        let (far_rows, others): (Vec<usize>, Vec<usize>) = (0..evidence.measured).partition(is_far);
        let rest = all.without(&far);
        let rest_evidence = rest.evidence(encoding);
        let model = Fitting::new(encoding, &rest, fits, &rest_evidence).hyperparameters(Output::Values);
        let rows = unexplained(&evidence.data, &far_rows, &others, &model);
        let trials: Vec<TrialId> = rows.into_iter().flat_map(|row| evidence.trials[row].clone()).collect();
        (!trials.is_empty()).then(|| self.without(&trials))
    }

    /// The same outcomes without `trials`.
    pub(super) fn without(&self, trials: &[TrialId]) -> Self {
        Self {
            objectives: self.objectives.iter().map(|observations| observations.without(trials)).collect(),
            constraints: self.constraints.iter().map(|observations| observations.without(trials)).collect(),
            constraint_weights: self.constraint_weights.clone(),
        }
    }
}
