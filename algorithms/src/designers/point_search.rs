//! Algorithms that draw points for each trial regardless of results and suggest the first unused one.

use super::{NumberedPoints, UsedPoints};
use crate::designer::{Capabilities, Designer, DesignerError, History, PointDesigner, SuggestRequest};
use crate::encoding::{Encoding, EncodingError};
use crate::interruption::Interruption;
use crate::problem::{AlgorithmName, Origin, ParameterValues, TrialId, TrialSuggestion};

/// Algorithm whose suggestions depend on the history only in a finite space, and there only on the set of used points.
pub(super) trait PointSearch: Send + Sync {
    const ALGORITHM: AlgorithmName;

    const PRIORS: bool;

    fn encoding(&self) -> &Encoding;

    fn seed(&self) -> u64;

    /// Points for `trial`, the preferred one first.
    fn proposals(&self, trial: TrialId) -> impl Iterator<Item = Vec<f64>>;
}

impl<T: PointSearch> Designer for T {
    fn capabilities(&self) -> Capabilities {
        Capabilities { priors: T::PRIORS, ..Capabilities::any_problem(false) }
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        _: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut used = NumberedPoints::new(self.encoding()).used_by(history)?;
        Ok(self.suggest_unused(&mut used, request))
    }

    fn by_points(&self) -> Option<&dyn PointDesigner> {
        Some(self)
    }
}

impl<T: PointSearch> PointDesigner for T {
    fn is_finite(&self) -> bool {
        NumberedPoints::new(self.encoding()).is_finite()
    }

    fn number(&self, parameters: &ParameterValues) -> Result<Option<u128>, EncodingError> {
        NumberedPoints::new(self.encoding()).number(parameters)
    }

    fn suggest_unused(&self, used: &mut UsedPoints, request: SuggestRequest) -> Vec<TrialSuggestion> {
        let points = NumberedPoints::new(self.encoding());
        let trials = (0..request.count.get() as u64).map(|place| request.first_trial_id.offset(place));
        trials
            .map_while(|trial| points.take_unused(used, self.proposals(trial), self.seed(), trial))
            .map(|parameters| TrialSuggestion { parameters, origin: Origin::of(T::ALGORITHM) })
            .collect()
    }
}
