//! Records of trials.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tunesmith_algorithms::early_stopping::FinalPrediction;
use tunesmith_algorithms::problem::{Origin, ParameterValues};

use super::form::{As, Float, SharedText, Text, forms, is_default};
use super::metadata::MetadataRecord;
use super::{RecordError, from_json, to_json};
use tunesmith_domain::{
    AttemptLocation, Lease, Measurement, Metadata, MetricFolders, MetricValue, RecordedRequest, ReplicaNode, ReportKey,
    Trial, TrialFields, TrialId, TrialNote, TrialState,
};

/// The stored form of `trial`.
pub(crate) fn encode_trial(trial: &Trial) -> Vec<u8> {
    to_json::<_, TrialRecord>(&**trial)
}

/// Decodes the result of [`encode_trial`].
pub(crate) fn decode_trial(bytes: &[u8]) -> Result<Trial, RecordError> {
    from_json::<_, TrialRecord>(bytes).map(Trial::restore)
}

forms! {
    TrialRecord => TrialFields,
    FinalPredictionRecord => FinalPrediction,
    LeaseRecord => Lease,
    LocationRecord => AttemptLocation,
    NoteRecord => TrialNote,
    NodeRecord => ReplicaNode,
    MeasurementRecord => Measurement,
    MetricRecord => MetricValue,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TrialFields", deny_unknown_fields)]
struct TrialRecord {
    id: TrialId,
    parameters: ParameterValues,
    #[serde(default, skip_serializing_if = "is_default")]
    origin: Option<Origin>,
    #[serde(with = "StateRecord")]
    state: TrialState,
    client_id: String,
    attempt: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    lost_attempts: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    preempted_attempts: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    lost_time: Duration,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Vec<LocationRecord>>")]
    places: Vec<AttemptLocation>,
    #[serde(default, skip_serializing_if = "is_default")]
    delivered: u64,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<LeaseRecord>>")]
    lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "is_default")]
    expired_leases: u64,
    create_time: Timestamp,
    #[serde(default, skip_serializing_if = "is_default")]
    start_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    attempt_start_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    end_time: Option<Timestamp>,
    measurement_count: u64,
    #[serde(default, skip_serializing_if = "is_default", with = "folders")]
    metric_folders: MetricFolders,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<MeasurementRecord>>")]
    final_measurement: Option<Measurement>,
    #[serde(default, skip_serializing_if = "is_default")]
    infeasible_reason: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    stopped_early: bool,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<FinalPredictionRecord>>")]
    predicted_final: Option<FinalPrediction>,
    #[serde(default, skip_serializing_if = "is_default")]
    fallback_reason: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    fixed_parameters: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Vec<Text>>")]
    request_keys: Vec<RecordedRequest>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<MetadataRecord>")]
    metadata: Metadata,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<NoteRecord>>")]
    last_note: Option<TrialNote>,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FinalPrediction", deny_unknown_fields)]
struct FinalPredictionRecord {
    value: f64,
    deviation: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Lease", deny_unknown_fields)]
struct LeaseRecord {
    duration: Duration,
    deadline: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TrialState", rename_all = "SCREAMING_SNAKE_CASE")]
enum StateRecord {
    Requested,
    Active,
    Stopping,
    Succeeded,
    Infeasible,
    Deleted,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AttemptLocation", deny_unknown_fields)]
struct LocationRecord {
    attempt: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    executor: Option<String>,
    #[serde(with = "As::<Vec<NodeRecord>>")]
    nodes: Vec<ReplicaNode>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReplicaNode", deny_unknown_fields)]
struct NodeRecord {
    /// Absent for all replicas of the attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    task: Option<String>,
    node: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TrialNote", deny_unknown_fields)]
struct NoteRecord {
    text: String,
    #[serde(default, skip_serializing_if = "is_default")]
    author: Option<String>,
    time: Timestamp,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Measurement", deny_unknown_fields)]
struct MeasurementRecord {
    step: i64,
    #[serde(with = "As::<Float>")]
    wall_time_secs: f64,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<Float>>")]
    elapsed_secs: Option<f64>,
    #[serde(with = "KeyRecord")]
    key: ReportKey,
    #[serde(with = "As::<Vec<MetricRecord>>")]
    metrics: Vec<MetricValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MetricValue", deny_unknown_fields)]
struct MetricRecord {
    metric: String,
    #[serde(with = "As::<Float>")]
    value: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReportKey", rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
enum KeyRecord {
    MetricFile {
        attempt: u64,
    },
    EventFile {
        #[serde(with = "As::<SharedText>")]
        folder: Arc<str>,
    },
    StandardOutput {
        attempt: u64,
        offset: u64,
    },
    Http,
}

/// The folders of each metric.
mod folders {
    use super::*;

    pub(super) fn serialize<S: Serializer>(folders: &MetricFolders, serializer: S) -> Result<S::Ok, S::Error> {
        let texts = |folders: &[Arc<str>]| folders.iter().map(|folder| folder.to_string()).collect::<Vec<_>>();
        serializer.collect_map(folders.iter().map(|(metric, folders)| (metric, texts(folders))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MetricFolders, D::Error> {
        let folders = BTreeMap::<String, Vec<String>>::deserialize(deserializer)?;
        let pairs = folders
            .into_iter()
            .flat_map(|(metric, folders)| folders.into_iter().map(move |folder| (metric.clone(), Arc::from(folder))));
        Ok(MetricFolders::new(pairs))
    }
}
