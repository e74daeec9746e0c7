//! The origin of a trial inside its record: the algorithm that proposed it, and its step.

use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::{AlgorithmName, Origin, Step};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OriginRecord {
    #[serde(with = "AlgorithmNameRecord")]
    algorithm: AlgorithmName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<StepField>,
}

impl From<Origin> for OriginRecord {
    fn from(origin: Origin) -> Self {
        Self { algorithm: origin.algorithm, step: origin.step.map(StepField) }
    }
}

impl From<OriginRecord> for Origin {
    fn from(record: OriginRecord) -> Self {
        Self { algorithm: record.algorithm, step: record.step.map(|step| step.0) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct StepField(#[serde(with = "StepRecord")] Step);

#[derive(Serialize, Deserialize)]
#[serde(remote = "AlgorithmName", rename_all = "SCREAMING_SNAKE_CASE")]
enum AlgorithmNameRecord {
    GaussianProcessBandit,
    TreeStructuredParzenEstimator,
    CmaEs,
    RandomSearch,
    QuasiRandomSearch,
    GridSearch,
    InitialTrials,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Step", rename_all = "SCREAMING_SNAKE_CASE")]
enum StepRecord {
    Start,
    #[serde(rename = "EARLIER_STUDIES")]
    SourceStudies,
    TrustRegion,
    WholeSpace,
    Model,
    Unused,
}
