//! The analysis of a job, in the form in which it is printed as JSON.

use std::fmt;

use serde::Serialize;
use tunesmith_algorithms::insight::{MetricInsight, TrialCounts};
use tunesmith_algorithms::problem::{AlgorithmName, Origin};
use tunesmith_api::ai_platform::job::ParameterAtBound;

/// The analysis of a job. The names of its JSON fields are stable; fields may be added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    /// The field `job` or `study`.
    #[serde(flatten)]
    pub(super) subject: Subject,
    /// State of the job or study, as in AI Platform.
    pub(super) state: String,
    /// The algorithm in the configuration.
    pub(super) algorithm: &'static str,
    /// The algorithm that `AUTOMATIC` selects now; only if the configuration has `AUTOMATIC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) choice: Option<Choice>,
    /// The origins of the trials, the most frequent first. Trials of versions that did not record it are left out.
    pub(super) origins: Vec<OriginCount>,
    /// Seed of all random choices, as text: not every JSON parser keeps 64 bits.
    pub(super) seed: String,
    /// The rule of early stopping; null without one.
    pub(super) early_stopping: Option<&'static str>,
    pub(super) trials: TrialCounts,
    /// The parameters of the best trial that are at an end of their range.
    pub(super) best_at_bounds: Vec<ParameterAtBound>,
    pub(super) metrics: Vec<MetricInsight>,
}

/// The job or study that was analysed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Subject {
    Job(String),
    Study(String),
}

impl Subject {
    /// Returns `job` or `study`, and the name.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Job(name) => ("job", name),
            Self::Study(name) => ("study", name),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, name) = self.parts();
        write!(f, "{what} {name}")
    }
}

/// An algorithm, and the reason why it was selected.
#[derive(Debug, Serialize)]
pub(super) struct Choice {
    pub(super) algorithm: AlgorithmName,
    pub(super) reason: &'static str,
}

/// The number of trials that one step of an algorithm suggested.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct OriginCount {
    #[serde(flatten)]
    pub(super) origin: Origin,
    pub(super) trials: usize,
}
