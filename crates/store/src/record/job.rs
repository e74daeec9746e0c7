//! Records of jobs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::form::{As, Text, forms, is_default};
use super::plan::{decode_plan, encode_plan};
use super::{RecordError, from_json, to_json};
use tunesmith_domain::{BatchPrediction, Document, Job, JobFields, JobId, JobPlan, JobState, StudyId, UnreadablePlan};

/// The stored form of `job`.
pub(crate) fn encode_job(job: &Job) -> Vec<u8> {
    to_json::<_, JobRecord>(&**job)
}

/// Decodes the result of [`encode_job`].
pub(crate) fn decode_job(bytes: &[u8]) -> Result<Job, RecordError> {
    from_json::<_, JobRecord>(bytes).map(Job::restore)
}

forms! { JobRecord => JobFields }

#[derive(Serialize, Deserialize)]
#[serde(remote = "JobFields", deny_unknown_fields)]
struct JobRecord {
    #[serde(with = "As::<Text>")]
    id: JobId,
    #[serde(with = "StateRecord")]
    state: JobState,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<Text>>")]
    study: Option<StudyId>,
    training_input: Document,
    /// Only of batch predictions.
    #[serde(default, skip_serializing_if = "is_default")]
    prediction: Option<BatchPrediction>,
    #[serde(with = "plan")]
    plan: Result<JobPlan, UnreadablePlan>,
    fingerprint: String,
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "is_default")]
    policy: Document,
    create_time: Timestamp,
    /// Absent unless the job was retried or extended after its end.
    #[serde(default, skip_serializing_if = "is_default")]
    requeue_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    former_attempts: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    start_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    end_time: Option<Timestamp>,
    error_message: String,
    #[serde(default, skip_serializing_if = "is_default")]
    notices: Vec<String>,
    /// Only of built-in algorithms.
    #[serde(default, skip_serializing_if = "is_default")]
    python_version: Option<String>,
    revision: u64,
}

/// The document of a plan, which is kept if it cannot be read.
mod plan {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        plan: &Result<JobPlan, UnreadablePlan>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match plan {
            Ok(plan) => encode_plan(plan).serialize(serializer),
            Err(unreadable) => unreadable.document.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Result<JobPlan, UnreadablePlan>, D::Error> {
        Value::deserialize(deserializer).map(decode_plan)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "JobState", rename_all = "SCREAMING_SNAKE_CASE")]
enum StateRecord {
    Queued,
    Preparing,
    Running,
    Succeeded,
    Failed,
    Cancelling,
    Cancelled,
}
