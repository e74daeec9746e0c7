//! Quasi-random search: points spread more evenly than random ones, by a scrambled Sobol sequence.
//!
//! The place in the sequence is the number of the trial (see [`sobol_point`]). In a finite space a place may fall on
//! a used point; then the trial gets a random unused one.

use super::UsedPoints;
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::Encoding;
use crate::problem::{AlgorithmName, Origin, ProblemStatement, TrialSuggestion};
use crate::sampling::{RandomPoints, sobol_point};

/// Walks along a scrambled Sobol sequence.
#[derive(Debug, Clone)]
pub struct QuasiRandomSearch {
    encoding: Encoding,
    seed: u64,
}

impl QuasiRandomSearch {
    /// Quasi-random search of `problem`'s space.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Self {
        Self { encoding: Encoding::new(problem.search_space()), seed }
    }
}

impl Designer for QuasiRandomSearch {
    fn capabilities(&self) -> Capabilities {
        Capabilities::any_problem(false)
    }

    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut used = UsedPoints::new(&self.encoding, history)?;
        let trials = (0..request.count.get() as u64).map(|place| request.first_trial_id.offset(place));
        Ok(trials
            .map_while(|trial| {
                let even = std::iter::once_with(|| sobol_point(&self.encoding, self.seed, trial));
                let random = RandomPoints::new(&self.encoding, self.seed, trial, "quasi_random");
                used.take_unused(even.chain(random), self.seed, trial)
            })
            .map(|parameters| TrialSuggestion { parameters, origin: Origin::of(AlgorithmName::QuasiRandomSearch) })
            .collect())
    }
}
