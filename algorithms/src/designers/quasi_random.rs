//! Quasi-random search: evenly spread points of a scrambled Sobol sequence.
//!
//! The trial number is the position in the sequence (see [`sobol_point`]). In a finite space, a trial whose point is
//! already used gets a random unused one.

use super::point_search::PointSearch;
use crate::encoding::Encoding;
use crate::problem::{AlgorithmName, ProblemStatement, TrialId};
use crate::sampling::{RandomPoints, sobol_point};

/// Designer that suggests the points of a scrambled Sobol sequence.
#[derive(Debug, Clone)]
pub struct QuasiRandomSearch {
    encoding: Encoding,
    seed: u64,
}

impl QuasiRandomSearch {
    /// Creates a quasi-random search of `problem`'s space.
    pub fn new(problem: &ProblemStatement, seed: u64) -> Self {
        Self { encoding: Encoding::new(problem.search_space()), seed }
    }
}

impl PointSearch for QuasiRandomSearch {
    const ALGORITHM: AlgorithmName = AlgorithmName::QuasiRandomSearch;
    const PRIORS: bool = false;

    fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn proposals(&self, trial: TrialId) -> impl Iterator<Item = Vec<f64>> {
        let even = std::iter::once_with(move || sobol_point(&self.encoding, self.seed, trial));
        even.chain(RandomPoints::new(&self.encoding, self.seed, trial, "quasi_random"))
    }
}
