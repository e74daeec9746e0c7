use std::collections::BTreeMap;

use super::{Automatic, CmaEs, GpBandit, GridSearch, QuasiRandomSearch, RandomSearch, Repeating, TreeParzen};
use crate::designer::{Designer, DesignerError};
use crate::problem::ProblemStatement;
use crate::transfer::SourceStudy;

/// Search algorithm of a study.
#[derive(Debug, Clone, PartialEq)]
pub enum Algorithm {
    /// Selects the algorithm that suits the problem, by fixed rules, at each suggestion.
    Automatic,
    /// Bayesian optimisation with a Gaussian process and expected improvement.
    GaussianProcessBandit,
    /// Each grid point once.
    GridSearch {
        /// Number of grid points of each double, by name; at least 1 each.
        double_resolution: BTreeMap<String, u32>,
    },
    /// Independent uniform draws on each parameter's scale.
    RandomSearch,
    /// Scrambled Sobol sequence.
    QuasiRandomSearch,
    /// Tree-structured Parzen estimator.
    Tpe,
    /// Covariance matrix adaptation, for ordered and unconditional parameters.
    CmaEs,
}

impl Algorithm {
    /// Name in AI Platform. [`Algorithm::Automatic`] and the algorithms below [`Algorithm::RandomSearch`] are
    /// Tunesmith's own.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Automatic => "AUTOMATIC",
            Self::GaussianProcessBandit => "GAUSSIAN_PROCESS_BANDIT",
            Self::GridSearch { .. } => "GRID_SEARCH",
            Self::RandomSearch => "RANDOM_SEARCH",
            Self::QuasiRandomSearch => "QUASI_RANDOM_SEARCH",
            Self::Tpe => "TPE",
            Self::CmaEs => "CMA_ES",
        }
    }

    /// Whether it learns from trials of source studies with other search spaces.
    pub fn uses_source_studies(&self) -> bool {
        matches!(self, Self::Automatic | Self::GaussianProcessBandit)
    }

    /// Whether suggestions depend on results.
    pub fn learns(&self) -> bool {
        match self {
            Self::Automatic | Self::GaussianProcessBandit | Self::Tpe | Self::CmaEs => true,
            Self::GridSearch { .. } | Self::RandomSearch | Self::QuasiRandomSearch => false,
        }
    }

    /// Creates the designer for `problem`. `sources` are trials of source studies with other search spaces, oldest
    /// first; only [`Self::Automatic`] and [`Self::GaussianProcessBandit`] use them. If the problem has
    /// [repeats](crate::problem::Repeats), the designer repeats the best points after the search.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if the algorithm cannot search the space, or cannot use `sources` for this
    /// problem.
    pub fn designer(
        &self,
        problem: &ProblemStatement,
        seed: u64,
        sources: &[SourceStudy],
    ) -> Result<Box<dyn Designer>, DesignerError> {
        Repeating::wrap(problem, |searched| self.searching(searched, seed, sources))
    }

    fn searching(
        &self,
        problem: &ProblemStatement,
        seed: u64,
        sources: &[SourceStudy],
    ) -> Result<Box<dyn Designer>, DesignerError> {
        Ok(match self {
            Self::Automatic => Box::new(Automatic::with_source_studies(problem.clone(), seed, sources)?),
            Self::GaussianProcessBandit => Box::new(GpBandit::with_source_studies(problem.clone(), seed, sources)?),
            Self::GridSearch { double_resolution } => Box::new(GridSearch::new(problem, double_resolution)?),
            Self::RandomSearch => Box::new(RandomSearch::new(problem, seed)),
            Self::QuasiRandomSearch => Box::new(QuasiRandomSearch::new(problem, seed)),
            Self::Tpe => Box::new(TreeParzen::new(problem, seed)?),
            Self::CmaEs => Box::new(CmaEs::new(problem, seed)?),
        })
    }
}
