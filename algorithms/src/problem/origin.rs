//! Where a suggestion came from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A search algorithm, by the name that records and messages give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AlgorithmName {
    /// [`GpBandit`](crate::designers::GpBandit).
    GaussianProcessBandit,
    /// [`TreeParzen`](crate::designers::TreeParzen).
    TreeStructuredParzenEstimator,
    /// [`CmaEs`](crate::designers::CmaEs).
    CmaEs,
    /// [`RandomSearch`](crate::designers::RandomSearch).
    RandomSearch,
    /// [`QuasiRandomSearch`](crate::designers::QuasiRandomSearch).
    QuasiRandomSearch,
    /// [`GridSearch`](crate::designers::GridSearch).
    GridSearch,
    /// The user's own points, proposed by [`InitialPoints`](crate::designers::InitialPoints).
    InitialTrials,
}

impl AlgorithmName {
    /// The name, the same as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GaussianProcessBandit => "GAUSSIAN_PROCESS_BANDIT",
            Self::TreeStructuredParzenEstimator => "TREE_STRUCTURED_PARZEN_ESTIMATOR",
            Self::CmaEs => "CMA_ES",
            Self::RandomSearch => "RANDOM_SEARCH",
            Self::QuasiRandomSearch => "QUASI_RANDOM_SEARCH",
            Self::GridSearch => "GRID_SEARCH",
            Self::InitialTrials => "INITIAL_TRIALS",
        }
    }
}

impl fmt::Display for AlgorithmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The step of an algorithm that learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Step {
    /// A point of a fixed plan, or one far from all others: the trials so far say too little for a model.
    Start,
    /// The best point of earlier studies, before there are trials of this one.
    EarlierStudies,
    /// What the model promises most near the best trials.
    TrustRegion,
    /// What the model promises most anywhere.
    WholeSpace,
    /// A draw from the model of an algorithm that has but one step.
    Model,
    /// Any point that was not used: the steps above had none.
    Unused,
}

impl Step {
    /// The name, the same as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "START",
            Self::EarlierStudies => "EARLIER_STUDIES",
            Self::TrustRegion => "TRUST_REGION",
            Self::WholeSpace => "WHOLE_SPACE",
            Self::Model => "MODEL",
            Self::Unused => "UNUSED",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What proposed a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The algorithm.
    pub algorithm: AlgorithmName,
    /// Its step; `None` for an algorithm that does not learn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
}

impl Origin {
    /// The origin of what `algorithm`, which does not learn, proposes.
    pub fn of(algorithm: AlgorithmName) -> Self {
        Self { algorithm, step: None }
    }

    /// The origin of what `step` of `algorithm` proposes.
    pub fn with_step(algorithm: AlgorithmName, step: Step) -> Self {
        Self { algorithm, step: Some(step) }
    }
}

/// `GAUSSIAN_PROCESS_BANDIT/TRUST_REGION`, `RANDOM_SEARCH`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.algorithm.fmt(f)?;
        self.step.map_or(Ok(()), |step| write!(f, "/{step}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_the_step_of_an_algorithm_that_has_steps() {
        let step = Origin::with_step(AlgorithmName::GaussianProcessBandit, Step::TrustRegion);
        assert_eq!(step.to_string(), "GAUSSIAN_PROCESS_BANDIT/TRUST_REGION");
        assert_eq!(Origin::of(AlgorithmName::QuasiRandomSearch).to_string(), "QUASI_RANDOM_SEARCH");
    }
}
