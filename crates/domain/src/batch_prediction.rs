//! Batch prediction of a job, instead of a training.

use serde::{Deserialize, Serialize};

use super::Document;

/// Batch prediction: its input, and its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchPrediction {
    /// Submitted `PredictionInput` as canonical JSON.
    pub input: Document,
    /// Input as resolved at submission, in the form of the service that predicts.
    pub plan: Document,
    /// Effects of the input that differ from AI Platform's: field and description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<(String, String)>,
    #[serde(default)]
    pub counts: PredictionCounts,
}

/// Progress of a batch prediction: that of its finished shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionCounts {
    /// Instances with a prediction.
    pub predictions: u64,
    /// Instances without one.
    pub errors: u64,
    /// Total time of the workers.
    pub worker_time_ms: u64,
}
