//! `predictionInput` and `predictionOutput` of AI Platform's `Job` resource.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ai_platform::{Int64, is_default};
use tunesmith_domain::{BatchPrediction, PredictionCounts};

/// Batch prediction. Exactly one of `modelName`, `versionName` and `uri` is required.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PredictionInput {
    /// Model, whose default version predicts: `projects/PROJECT/models/MODEL`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model_name: String,
    /// Version: `projects/PROJECT/models/MODEL/versions/VERSION`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version_name: String,
    /// Folder with the files of a model: `/FOLDER`, `gs://BUCKET/FOLDER` or `s3://BUCKET/FOLDER`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uri: String,
    /// Format of the input files; required. `TF_RECORD` and `TF_RECORD_GZIP` are not supported.
    #[serde(skip_serializing_if = "is_default")]
    pub data_format: DataFormat,
    /// Format of the output files: `JSON`, the default, or `CSV`.
    #[serde(skip_serializing_if = "is_default")]
    pub output_data_format: DataFormat,
    /// Files, folders, and patterns with `*`, `?` and `**`; required.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_paths: Vec<String>,
    /// Folder for the output files, which has none of another job; required.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output_path: String,
    /// Region. No effect.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Instances per call of the model: 1 to 10000; default 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<Int64>,
    /// Maximum number of workers; default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_worker_count: Option<Int64>,
    /// Runtime version for the model of `uri`; a version has one of its own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime_version: String,
    /// Signature of a TensorFlow model. No effect.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature_name: String,
}

/// Format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DataFormat {
    /// None given.
    #[default]
    DataFormatUnspecified,
    /// A value in JSON on each line.
    Json,
    /// As `JSON`; any other line is an instance that is a string. Only for input.
    Text,
    /// Not supported.
    TfRecord,
    /// Not supported.
    TfRecordGzip,
    /// Values separated by commas. Only for output.
    Csv,
}

/// Progress and result of a batch prediction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PredictionOutput {
    /// Folder with the output files.
    pub output_path: String,
    /// Instances with a prediction, in the finished shards.
    pub prediction_count: Int64,
    /// Instances without one.
    pub error_count: Int64,
    /// Hours of workers, with the time in which they load the model.
    pub node_hours: f64,
}

impl PredictionOutput {
    /// Progress of `prediction`.
    pub(crate) fn of(prediction: &BatchPrediction) -> Self {
        let PredictionCounts { predictions, errors, worker_time_ms } = prediction.counts;
        let count = |count: u64| Int64(i64::try_from(count).unwrap_or(i64::MAX));
        Self {
            output_path: prediction.input["outputPath"].as_str().unwrap_or_default().to_owned(),
            prediction_count: count(predictions),
            error_count: count(errors),
            node_hours: worker_time_ms as f64 / 3_600_000.0,
        }
    }
}
