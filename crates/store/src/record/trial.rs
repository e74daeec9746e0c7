//! Records of trials.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::ParameterValue;

use super::float::Float;
use super::measurement::MeasurementRecord;
use super::origin::OriginRecord;
use super::place::PlaceRecord;
use super::{RecordError, from_json, to_json};
use tunesmith_domain::{Lease, MetricFolders, Trial, TrialFields, TrialId, TrialState};

/// The newest version of the record. 1: as below.
const VERSION: u32 = 1;

/// The stored form of `trial`.
pub(crate) fn encode_trial(trial: &Trial) -> Vec<u8> {
    let TrialFields {
        id,
        parameters,
        origin,
        state,
        client_id,
        attempt,
        lost_attempts,
        preempted_attempts,
        lost_time,
        places,
        delivered,
        lease,
        expired_leases,
        create_time,
        start_time,
        attempt_start_time,
        end_time,
        measurement_count,
        metric_folders,
        final_measurement,
        infeasible_reason,
        stopped_early,
        fallback_reason,
        request_keys,
        revision,
    } = &**trial;
    to_json(&TrialRecord {
        v: VERSION,
        id: id.0,
        parameters: parameters.iter().map(|(name, value)| (name.clone(), ValueRecord::from(value))).collect(),
        origin: origin.map(OriginRecord::from),
        state: *state,
        client_id: client_id.clone(),
        attempt: *attempt,
        lost_attempts: *lost_attempts,
        preempted_attempts: *preempted_attempts,
        lost_millis: u64::try_from(lost_time.as_millis()).unwrap_or(u64::MAX),
        places: places.iter().map(PlaceRecord::from).collect(),
        delivered: *delivered,
        lease: lease.map(LeaseRecord::from),
        expired_leases: *expired_leases,
        create_time: *create_time,
        start_time: *start_time,
        attempt_start_time: attempt_start_time.filter(|time| Some(*time) != *start_time),
        end_time: *end_time,
        measurement_count: *measurement_count,
        metric_folders: metric_folders
            .iter()
            .map(|(metric, folders)| (metric.to_owned(), folders.iter().map(|folder| folder.to_string()).collect()))
            .collect(),
        final_measurement: final_measurement.as_ref().map(MeasurementRecord::from),
        infeasible_reason: infeasible_reason.clone(),
        stopped_early: *stopped_early,
        fallback_reason: fallback_reason.clone(),
        request_keys: request_keys.iter().map(ToString::to_string).collect(),
        revision: *revision,
    })
}

/// Decodes the result of [`encode_trial`].
pub(crate) fn decode_trial(bytes: &[u8]) -> Result<Trial, RecordError> {
    let record: TrialRecord = from_json(bytes, VERSION)?;
    Ok(Trial::restore(TrialFields {
        id: TrialId(record.id),
        parameters: record.parameters.into_iter().map(|(name, value)| (name, value.into())).collect(),
        origin: record.origin.map(Into::into),
        state: record.state,
        client_id: record.client_id,
        attempt: record.attempt,
        lost_attempts: record.lost_attempts,
        preempted_attempts: record.preempted_attempts,
        lost_time: Duration::from_millis(record.lost_millis),
        places: record.places.into_iter().map(Into::into).collect(),
        delivered: record.delivered,
        lease: record.lease.map(Into::into),
        expired_leases: record.expired_leases,
        create_time: record.create_time,
        start_time: record.start_time,
        attempt_start_time: record.attempt_start_time.or(record.start_time),
        end_time: record.end_time,
        measurement_count: record.measurement_count,
        metric_folders: MetricFolders::new(
            record
                .metric_folders
                .into_iter()
                .flat_map(|(metric, folders)| folders.into_iter().map(move |folder| (metric.clone(), folder.into()))),
        ),
        final_measurement: record.final_measurement.map(Into::into),
        infeasible_reason: record.infeasible_reason,
        stopped_early: record.stopped_early,
        fallback_reason: record.fallback_reason,
        request_keys: record.request_keys.iter().filter_map(|text| text.parse().ok()).collect(),
        revision: record.revision,
    }))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialRecord {
    v: u32,
    id: u64,
    parameters: BTreeMap<String, ValueRecord>,
    /// Absent in records of versions that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<OriginRecord>,
    #[serde(with = "StateRecord")]
    state: TrialState,
    client_id: String,
    attempt: u64,
    lost_attempts: u64,
    /// Absent if it is zero, and in records of versions that did not count preemptions.
    #[serde(default, skip_serializing_if = "is_zero")]
    preempted_attempts: u64,
    /// Absent if it is zero, and in records of versions that did not measure it.
    #[serde(default, skip_serializing_if = "is_zero")]
    lost_millis: u64,
    /// Absent without any, and in records of versions that did not store them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<PlaceRecord>,
    /// Absent if it is zero, and in records of versions without agents.
    #[serde(default, skip_serializing_if = "is_zero")]
    delivered: u64,
    /// Absent without a lease, and in records of versions without leases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseRecord>,
    #[serde(default, skip_serializing_if = "is_zero")]
    expired_leases: u64,
    create_time: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_time: Option<Timestamp>,
    /// Absent if it is the start of the first attempt, and in records of versions that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt_start_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end_time: Option<Timestamp>,
    measurement_count: u64,
    /// Absent without any, and in records of versions that did not store them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metric_folders: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    final_measurement: Option<MeasurementRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    infeasible_reason: Option<String>,
    stopped_early: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fallback_reason: Option<String>,
    /// Absent without any, and in records of versions that did not store them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    request_keys: Vec<String>,
    revision: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseRecord {
    duration: Duration,
    deadline: Timestamp,
}

impl From<Lease> for LeaseRecord {
    fn from(Lease { duration, deadline }: Lease) -> Self {
        Self { duration, deadline }
    }
}

impl From<LeaseRecord> for Lease {
    fn from(LeaseRecord { duration, deadline }: LeaseRecord) -> Self {
        Self { duration, deadline }
    }
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
#[serde(rename_all = "snake_case")]
pub(super) enum ValueRecord {
    Double(Float),
    Integer(i64),
    Discrete(Float),
    Categorical(String),
}

impl From<&ParameterValue> for ValueRecord {
    fn from(value: &ParameterValue) -> Self {
        match value {
            ParameterValue::Double(value) => Self::Double(Float(*value)),
            ParameterValue::Integer(value) => Self::Integer(*value),
            ParameterValue::Discrete(value) => Self::Discrete(Float(*value)),
            ParameterValue::Categorical(value) => Self::Categorical(value.clone()),
        }
    }
}

impl From<ValueRecord> for ParameterValue {
    fn from(record: ValueRecord) -> Self {
        match record {
            ValueRecord::Double(value) => Self::Double(value.0),
            ValueRecord::Integer(value) => Self::Integer(value),
            ValueRecord::Discrete(value) => Self::Discrete(value.0),
            ValueRecord::Categorical(value) => Self::Categorical(value),
        }
    }
}
