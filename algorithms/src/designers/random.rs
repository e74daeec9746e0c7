//! Random search: points drawn independently and uniformly on each parameter's scale.
//!
//! Source: Bergstra and Bengio, Random Search for Hyper-Parameter Optimization, JMLR 13, 2012. Departure: draws from a
//! finite space are without replacement and end when every point is used.
//!
//! A parameter with a [prior](crate::problem::ParameterPrior) is drawn from its prior, whose density is positive
//! everywhere.

use super::point_search::PointSearch;
use crate::encoding::Encoding;
use crate::prior::PriorDensity;
use crate::problem::{AlgorithmName, ProblemStatement, TrialId};
use crate::sampling::RandomPoints;

/// Designer that draws each parameter at random.
///
/// A suggestion depends on the history only in a finite space, and there only on the set of used points.
#[derive(Debug, Clone)]
pub struct RandomSearch {
    encoding: Encoding,
    prior: Option<PriorDensity>,
    seed: u64,
}

impl RandomSearch {
    /// Creates a random search of `problem`'s space.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Self {
        let encoding = Encoding::new(problem.search_space());
        Self { prior: PriorDensity::new(problem.search_space(), &encoding), encoding, seed }
    }
}

impl PointSearch for RandomSearch {
    const ALGORITHM: AlgorithmName = AlgorithmName::RandomSearch;
    const PRIORS: bool = true;

    fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn proposals(&self, trial: TrialId) -> impl Iterator<Item = Vec<f64>> {
        RandomPoints::new(&self.encoding, self.seed, trial, "random").with_prior(self.prior.as_ref())
    }
}
