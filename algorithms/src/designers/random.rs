//! Random search: points drawn independently and uniformly on each parameter's scale.
//!
//! Source: Bergstra and Bengio, Random Search for Hyper-Parameter Optimization, JMLR 13, 2012. Departure: draws from a
//! finite space are without replacement and end when every point is used.
//!
//! A parameter with a [prior](crate::problem::ParameterPrior) is drawn from its prior, whose density is positive
//! everywhere.

use super::{NumberedPoints, UsedPoints};
use crate::designer::{Capabilities, Designer, DesignerError, History, PointDesigner, SuggestRequest};
use crate::encoding::{Encoding, EncodingError};
use crate::prior::PriorDensity;
use crate::problem::{AlgorithmName, Origin, ParameterValues, ProblemStatement, TrialSuggestion};
use crate::sampling::RandomPoints;

/// A designer that draws each parameter at random.
///
/// A suggestion depends on the history only in a finite space, and there only on the set of used points.
#[derive(Debug, Clone)]
pub struct RandomSearch {
    encoding: Encoding,
    prior: Option<PriorDensity>,
    seed: u64,
}

impl RandomSearch {
    /// Returns a random search of `problem`'s space.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Self {
        let encoding = Encoding::new(problem.search_space());
        Self { prior: PriorDensity::new(problem.search_space(), &encoding), encoding, seed }
    }
}

impl Designer for RandomSearch {
    fn capabilities(&self) -> Capabilities {
        Capabilities { priors: true, ..Capabilities::any_problem(false) }
    }

    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut used = NumberedPoints::new(&self.encoding).used_by(history)?;
        Ok(self.suggest_unused(&mut used, request))
    }

    fn by_points(&self) -> Option<&dyn PointDesigner> {
        Some(self)
    }
}

impl PointDesigner for RandomSearch {
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
                let proposals =
                    RandomPoints::new(&self.encoding, self.seed, trial, "random").with_prior(self.prior.as_ref());
                points.take_unused(used, proposals, self.seed, trial)
            })
            .map(|parameters| TrialSuggestion { parameters, origin: Origin::of(AlgorithmName::RandomSearch) })
            .collect()
    }
}
