//! Records of jobs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plan::{decode_plan, encode_plan};
use super::{RecordError, from_json, to_json};
use tunesmith_domain::{Job, JobFields, JobState};

/// The newest version of the record. 1: as below.
const VERSION: u32 = 1;

/// The stored form of `job`.
pub(crate) fn encode_job(job: &Job) -> Vec<u8> {
    let JobFields {
        id,
        state,
        study,
        training_input,
        plan,
        fingerprint,
        labels,
        policy,
        create_time,
        requeue_time,
        former_attempts,
        start_time,
        end_time,
        error_message,
        notices,
        revision,
    } = &**job;
    to_json(&JobRecord {
        v: VERSION,
        id: id.to_string(),
        state: *state,
        study: study.as_ref().map(ToString::to_string),
        training_input: training_input.clone(),
        launch: plan.as_ref().map_or_else(|unreadable| unreadable.document.clone(), encode_plan),
        fingerprint: fingerprint.clone(),
        labels: labels.clone(),
        policy: policy.clone(),
        create_time: *create_time,
        requeue_time: *requeue_time,
        former_attempts: *former_attempts,
        start_time: *start_time,
        end_time: *end_time,
        error_message: error_message.clone(),
        notices: notices.clone(),
        revision: *revision,
    })
}

/// Decodes the result of [`encode_job`].
pub(crate) fn decode_job(bytes: &[u8]) -> Result<Job, RecordError> {
    let record: JobRecord = from_json(bytes, VERSION)?;
    Ok(Job::restore(JobFields {
        id: record.id.parse().map_err(RecordError::malformed)?,
        state: record.state,
        study: record.study.map(|study| study.parse()).transpose().map_err(RecordError::malformed)?,
        training_input: record.training_input,
        plan: decode_plan(record.launch),
        fingerprint: record.fingerprint,
        labels: record.labels,
        policy: record.policy,
        create_time: record.create_time,
        requeue_time: record.requeue_time,
        former_attempts: record.former_attempts,
        start_time: record.start_time,
        end_time: record.end_time,
        error_message: record.error_message,
        notices: record.notices,
        revision: record.revision,
    }))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobRecord {
    v: u32,
    id: String,
    #[serde(with = "StateRecord")]
    state: JobState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    study: Option<String>,
    training_input: serde_json::Value,
    /// The document of [`super::plan`].
    launch: serde_json::Value,
    fingerprint: String,
    labels: BTreeMap<String, String>,
    /// Absent if none was set, and in records of versions without policies.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    policy: serde_json::Value,
    create_time: Timestamp,
    /// Absent unless the job was retried or extended after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requeue_time: Option<Timestamp>,
    /// Absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    former_attempts: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end_time: Option<Timestamp>,
    error_message: String,
    /// Absent without any, and in records of versions that did not store them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
    revision: u64,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
