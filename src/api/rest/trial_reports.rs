//! `GET /v1/{trial}` and `POST /v1/{trial}:addMeasurement` for the program of a running trial, which shows the token
//! that it was given: `authorization: Bearer $TUNESMITH_TOKEN`.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use tunesmith_algorithms::problem::{ParameterValue, TrialId};

use super::status::{ApiError, Code};
use crate::domain::{Measurement, MetricValue, Source, StudyId, Trial, TrialState};
use crate::service::{TrialKey, TrialReports};

/// The routes, answered from `reports`.
pub fn router(reports: TrialReports) -> Router {
    let path = "/v1/projects/{project}/locations/{location}/studies/{study}/trials/{trial}";
    // The last segment is `7` or `7:addMeasurement`; axum gives it whole.
    Router::new().route(path, get(get_trial).merge(post(trial_method))).with_state(reports)
}

type TrialPath = Path<(String, String, String, String)>;

async fn get_trial(
    State(reports): State<TrialReports>,
    Path((project, location, study, trial)): TrialPath,
    headers: HeaderMap,
) -> Result<Json<TrialResource>, ApiError> {
    let key = trial_key(&study, &trial)?;
    let trial = reports.trial(&key, token(&headers)?).await?;
    Ok(Json(TrialResource::new(&format!("projects/{project}/locations/{location}/studies/{study}"), &trial)))
}

async fn trial_method(
    State(reports): State<TrialReports>,
    Path((project, location, study, segment)): TrialPath,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<TrialResource>, ApiError> {
    let Some((trial, "addMeasurement")) = segment.split_once(':') else {
        return Err(ApiError::new(Code::NotFound, format!("there is no method {segment:?} of a trial here")));
    };
    let key = trial_key(&study, trial)?;
    let token = token(&headers)?;
    let request: AddMeasurementRequest = serde_json::from_slice(&body)
        .map_err(|error| ApiError::new(Code::InvalidArgument, format!("the body is not as expected: {error}")))?;
    let trial = reports.add(&key, token, request.measurement.into_measurement()?).await?;
    Ok(Json(TrialResource::new(&format!("projects/{project}/locations/{location}/studies/{study}"), &trial)))
}

fn trial_key(study: &str, trial: &str) -> Result<TrialKey, ApiError> {
    let study = study.parse::<StudyId>().map_err(|error| ApiError::invalid("name", error.to_string()))?;
    let trial = trial.parse().map_err(|_| ApiError::invalid("name", format!("{trial:?} is not a trial's number")))?;
    Ok(TrialKey { study, trial: TrialId(trial) })
}

fn token(headers: &HeaderMap) -> Result<&str, ApiError> {
    headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .ok_or_else(|| ApiError::new(Code::Unauthenticated, "send the header `authorization: Bearer $TUNESMITH_TOKEN`"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AddMeasurementRequest {
    measurement: WireMeasurement,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireMeasurement {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed_time: Option<String>,
    #[serde(default, deserialize_with = "int64")]
    step_count: String,
    #[serde(default)]
    metrics: Vec<WireMetric>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireMetric {
    metric: String,
    #[serde(with = "double")]
    value: f64,
}

impl WireMeasurement {
    fn into_measurement(self) -> Result<Measurement, ApiError> {
        let step = if self.step_count.is_empty() { Ok(0) } else { self.step_count.parse::<i64>() };
        let step = step.map_err(|_| {
            ApiError::invalid("measurement.stepCount", format!("{:?} is not an int64", self.step_count))
        })?;
        if self.metrics.is_empty() {
            return Err(ApiError::invalid("measurement.metrics", "at least one metric is needed"));
        }
        let elapsed_secs = self.elapsed_time.as_deref().map(parse_duration).transpose()?;
        Ok(Measurement {
            step,
            wall_time_secs: Timestamp::now().as_duration().as_secs_f64(),
            elapsed_secs,
            source: Source::Http,
            mark: 0,
            metrics: self
                .metrics
                .into_iter()
                .map(|metric| MetricValue { metric: metric.metric, value: metric.value })
                .collect(),
        })
    }

    fn new(measurement: &Measurement) -> Self {
        Self {
            elapsed_time: measurement.elapsed_secs.map(|secs| format!("{secs}s")),
            step_count: measurement.step.to_string(),
            metrics: measurement
                .metrics
                .iter()
                .map(|metric| WireMetric { metric: metric.metric.clone(), value: metric.value })
                .collect(),
        }
    }
}

/// The seconds of a duration such as `"3.5s"`.
fn parse_duration(text: &str) -> Result<f64, ApiError> {
    let seconds = text.strip_suffix('s').and_then(|number| number.parse::<f64>().ok());
    match seconds {
        Some(seconds) if SignedDuration::try_from_secs_f64(seconds).is_ok() && seconds >= 0.0 => Ok(seconds),
        _ => Err(ApiError::invalid("measurement.elapsedTime", format!("{text:?} is not a duration such as \"3.5s\""))),
    }
}

/// `google.cloud.ml.v1.Trial`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct TrialResource {
    name: String,
    state: &'static str,
    parameters: Vec<WireParameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_measurement: Option<WireMeasurement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<Timestamp>,
    client_id: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    trial_infeasible: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    infeasible_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireParameter {
    parameter: String,
    #[serde(flatten)]
    value: WireValue,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
enum WireValue {
    #[serde(rename = "floatValue")]
    Float(f64),
    #[serde(rename = "intValue")]
    Int(String),
    #[serde(rename = "stringValue")]
    String(String),
}

impl TrialResource {
    fn new(study_name: &str, trial: &Trial) -> Self {
        Self {
            name: format!("{study_name}/trials/{}", trial.id),
            state: match trial.state {
                TrialState::Requested => "REQUESTED",
                TrialState::Active => "ACTIVE",
                TrialState::Stopping => "STOPPING",
                TrialState::Succeeded | TrialState::Infeasible => "COMPLETED",
            },
            parameters: trial
                .parameters
                .iter()
                .map(|(name, value)| WireParameter {
                    parameter: name.clone(),
                    value: match value {
                        ParameterValue::Double(value) | ParameterValue::Discrete(value) => WireValue::Float(*value),
                        ParameterValue::Integer(value) => WireValue::Int(value.to_string()),
                        ParameterValue::Categorical(value) => WireValue::String(value.clone()),
                    },
                })
                .collect(),
            final_measurement: trial.final_measurement.as_ref().map(WireMeasurement::new),
            start_time: trial.start_time,
            end_time: trial.end_time,
            client_id: trial.client_id.clone(),
            trial_infeasible: trial.state == TrialState::Infeasible,
            infeasible_reason: trial.infeasible_reason.clone(),
        }
    }
}

/// proto3 JSON takes an int64 as a string or as a number.
fn int64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Int64 {
        Number(i64),
        Text(String),
    }
    Ok(match Int64::deserialize(deserializer)? {
        Int64::Number(number) => number.to_string(),
        Int64::Text(text) => text,
    })
}

/// proto3 JSON writes a double as a number, or as `"NaN"`, `"Infinity"`, `"-Infinity"`.
mod double {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            value if value.is_finite() => value.serialize(serializer),
            value if value.is_nan() => "NaN".serialize(serializer),
            value if *value > 0.0 => "Infinity".serialize(serializer),
            _ => "-Infinity".serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Double {
            Number(f64),
            Text(String),
        }
        match Double::deserialize(deserializer)? {
            Double::Number(number) => Ok(number),
            Double::Text(text) => text
                .parse()
                .map_err(|_| serde::de::Error::custom(format!("{text:?} is not a number, \"NaN\" or \"Infinity\""))),
        }
    }
}
