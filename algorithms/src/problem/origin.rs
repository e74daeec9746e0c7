//! Origin of a suggestion: algorithm and step.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Search algorithm, named as in records and messages.
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
    /// User-supplied trials, proposed by [`InitialPoints`](crate::designers::InitialPoints).
    InitialTrials,
    /// Trials that repeat leaders, proposed by [`Repeating`](crate::designers::Repeating).
    Repeats,
}

impl AlgorithmName {
    /// Name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GaussianProcessBandit => "GAUSSIAN_PROCESS_BANDIT",
            Self::TreeStructuredParzenEstimator => "TREE_STRUCTURED_PARZEN_ESTIMATOR",
            Self::CmaEs => "CMA_ES",
            Self::RandomSearch => "RANDOM_SEARCH",
            Self::QuasiRandomSearch => "QUASI_RANDOM_SEARCH",
            Self::GridSearch => "GRID_SEARCH",
            Self::InitialTrials => "INITIAL_TRIALS",
            Self::Repeats => "REPEATS",
        }
    }
}

impl fmt::Display for AlgorithmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Step of a learning algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Step {
    /// A point of the initial design, or one far from all others: there are too few trials for a model.
    Start,
    /// Best point of the source studies, before this study has trials.
    #[serde(rename = "EARLIER_STUDIES")]
    SourceStudies,
    /// Neighbour of a trial whose result is too good to be true, to confirm it.
    Confirmation,
    /// Maximum of the acquisition function near the best trials.
    TrustRegion,
    /// Maximum of the acquisition function over the whole space.
    WholeSpace,
    /// Draw from the model of an algorithm with a single step.
    Model,
    /// Arbitrary unused point, for lack of one from the steps above.
    Unused,
}

impl Step {
    /// Name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "START",
            Self::SourceStudies => "EARLIER_STUDIES",
            Self::Confirmation => "CONFIRMATION",
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

/// Algorithm and step that proposed a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Proposing algorithm.
    pub algorithm: AlgorithmName,
    /// Step; `None` for an algorithm that does not learn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
}

impl Origin {
    /// Suggestion of `algorithm`, which does not learn.
    pub fn of(algorithm: AlgorithmName) -> Self {
        Self { algorithm, step: None }
    }

    /// Suggestion of `step` of `algorithm`.
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
    fn origin_displays_the_algorithm_and_its_step() {
        let step = Origin::with_step(AlgorithmName::GaussianProcessBandit, Step::TrustRegion);
        assert_eq!(step.to_string(), "GAUSSIAN_PROCESS_BANDIT/TRUST_REGION");
        assert_eq!(Origin::of(AlgorithmName::QuasiRandomSearch).to_string(), "QUASI_RANDOM_SEARCH");
    }
}
