//! Random search: points drawn independently, uniformly on each parameter's scale.
//!
//! Source: Bergstra and Bengio, Random Search for Hyper-Parameter Optimization, JMLR 13, 2012. We depart from it in a
//! finite space, where no point comes twice: draws are without replacement, and end when every point was used.

use super::UsedPoints;
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::Encoding;
use crate::problem::{AlgorithmName, Origin, ProblemStatement, TrialSuggestion};
use crate::sampling::RandomPoints;

/// Draws each parameter at random.
///
/// A suggestion depends on the history only in a finite space, and there only on which points were used.
#[derive(Debug, Clone)]
pub struct RandomSearch {
    encoding: Encoding,
    seed: u64,
}

impl RandomSearch {
    /// Random search of `problem`'s space.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Self {
        Self { encoding: Encoding::new(problem.search_space()), seed }
    }
}

impl Designer for RandomSearch {
    fn capabilities(&self) -> Capabilities {
        Capabilities::any_problem(false)
    }

    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut used = UsedPoints::new(&self.encoding, history)?;
        let trials = (0..request.count.get() as u64).map(|place| request.first_trial_id.offset(place));
        Ok(trials
            .map_while(|trial| {
                let proposals = RandomPoints::new(&self.encoding, self.seed, trial, "random");
                used.take_unused(proposals, self.seed, trial)
            })
            .map(|parameters| TrialSuggestion { parameters, origin: Origin::of(AlgorithmName::RandomSearch) })
            .collect())
    }
}
