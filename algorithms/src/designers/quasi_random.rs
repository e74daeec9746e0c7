//! Quasi-random search: evenly spread points of a scrambled Sobol sequence.
//!
//! The number of the trial is the position in the sequence (see [`sobol_point`]). In a finite space, a trial whose
//! point is already used gets a random unused one.

use super::{NumberedPoints, UsedPoints};
use crate::designer::{Capabilities, Designer, DesignerError, History, PointDesigner, SuggestRequest};
use crate::encoding::{Encoding, EncodingError};
use crate::problem::{AlgorithmName, Origin, ParameterValues, ProblemStatement, TrialSuggestion};
use crate::sampling::{RandomPoints, sobol_point};

/// A designer that suggests the points of a scrambled Sobol sequence.
#[derive(Debug, Clone)]
pub struct QuasiRandomSearch {
    encoding: Encoding,
    seed: u64,
}

impl QuasiRandomSearch {
    /// Returns a quasi-random search of `problem`'s space.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Self {
        Self { encoding: Encoding::new(problem.search_space()), seed }
    }
}

impl Designer for QuasiRandomSearch {
    fn capabilities(&self) -> Capabilities {
        Capabilities::any_problem(false)
    }

    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut used = NumberedPoints::new(&self.encoding).used_by(history)?;
        Ok(self.suggest_unused(&mut used, request))
    }

    fn by_points(&self) -> Option<&dyn PointDesigner> {
        Some(self)
    }
}

impl PointDesigner for QuasiRandomSearch {
    fn is_finite(&self) -> bool {
        NumberedPoints::new(&self.encoding).is_finite()
    }

    fn number(&self, parameters: &ParameterValues) -> Result<Option<u128>, EncodingError> {
        NumberedPoints::new(&self.encoding).number(parameters)
    }

    fn suggest_unused(&self, used: &mut UsedPoints, request: SuggestRequest) -> Vec<TrialSuggestion> {
        let points = NumberedPoints::new(&self.encoding);
        let trials = (0..request.count.get() as u64).map(|place| request.first_trial_id.offset(place));
        trials
            .map_while(|trial| {
                let even = std::iter::once_with(|| sobol_point(&self.encoding, self.seed, trial));
                let random = RandomPoints::new(&self.encoding, self.seed, trial, "quasi_random");
                points.take_unused(used, even.chain(random), self.seed, trial)
            })
            .map(|parameters| TrialSuggestion { parameters, origin: Origin::of(AlgorithmName::QuasiRandomSearch) })
            .collect()
    }
}
