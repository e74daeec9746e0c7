//! `observationNoise`: prior knowledge about the noise of results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::ObservationNoise as Noise;

use super::Algorithm;
use super::violations::Violations;

/// Noise: variation between trials with the same parameters, in Vertex AI's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ObservationNoise {
    /// (Tunesmith) Unknown: the search estimates it. No parameters are tried twice.
    #[default]
    Auto,
    /// Almost none: results are reproducible. No parameters are tried twice.
    Low,
    /// High: the search relies less on single results, and may retry the same parameters.
    High,
}

impl ObservationNoise {
    pub(super) fn to_domain(self) -> Noise {
        match self {
            Self::Auto => Noise::Auto,
            Self::Low => Noise::Low,
            Self::High => Noise::High,
        }
    }

    pub(super) fn of_domain(noise: Noise) -> Self {
        match noise {
            Noise::Auto => Self::Auto,
            Noise::Low => Self::Low,
            Noise::High => Self::High,
        }
    }

    /// Warns if `algorithm` ignores it.
    pub(super) fn check(self, algorithm: Algorithm, violations: &mut Violations) {
        let uses_it = matches!(algorithm, Algorithm::AlgorithmUnspecified | Algorithm::GaussianProcessBandit);
        if self != Self::Auto && !uses_it {
            violations.warning(
                "tunesmith.observationNoise",
                "has no effect: the algorithm has no model of the noise",
                "only without algorithm or with GAUSSIAN_PROCESS_BANDIT",
            );
        }
    }
}
