//! Analysis of a job in its JSON form.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tunesmith_algorithms::insight::{MetricInsight, TrialCounts};
use tunesmith_algorithms::problem::{AlgorithmName, Origin};
use tunesmith_api::ai_platform::job::ParameterAtBound;
use tunesmith_views::SourceStudy;

/// Analysis of a job. JSON field names are stable; fields may be added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    /// Serialized as `job` or `study`.
    #[serde(flatten)]
    pub(super) subject: Subject,
    /// State in AI Platform's terms.
    pub(super) state: String,
    /// Configured algorithm.
    pub(super) algorithm: &'static str,
    /// Current choice of `AUTOMATIC`, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) choice: Option<Choice>,
    /// Trial counts by origin, most frequent first; excludes trials with client-chosen parameters.
    pub(super) origins: Vec<OriginCount>,
    /// Influence of each source study on the search, the nearest last; absent without source studies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) source_studies: Vec<SourceStudy>,
    /// Trial counts by parameter with a value that callers fixed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fixed_parameters: BTreeMap<String, usize>,
    /// Seed as text: not every JSON parser keeps 64 bits.
    pub(super) seed: String,
    /// Early stopping rule; null without one.
    pub(super) early_stopping: Option<&'static str>,
    pub(super) trials: TrialCounts,
    /// Parameters of the best trial at a bound of their range.
    pub(super) best_at_bounds: Vec<ParameterAtBound>,
    pub(super) metrics: Vec<MetricInsight>,
}

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

/// An algorithm and the reason for selecting it.
#[derive(Debug, Serialize)]
pub(super) struct Choice {
    pub(super) algorithm: AlgorithmName,
    pub(super) reason: &'static str,
}

/// Number of trials suggested by one step of an algorithm.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct OriginCount {
    #[serde(flatten)]
    pub(super) origin: Origin,
    pub(super) trials: usize,
}
