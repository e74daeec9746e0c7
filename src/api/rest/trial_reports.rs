//! `GET /v1/{trial}` and `POST /v1/{trial}:addMeasurement` for the program of a running trial, which shows the token
//! that it was given: `authorization: Bearer $TUNESMITH_TOKEN`.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::Deserialize;
use tunesmith_algorithms::problem::TrialId;

use super::body;
use super::status::{ApiError, Code};
use crate::api::ai_platform::optimizer::{MeasurementMessage, ParameterNames, TrialMessage};
use crate::domain::StudyId;
use crate::service::{TrialKey, TrialReports};

/// The routes, answered from `reports`.
pub fn router(reports: TrialReports) -> Router {
    let path = "/v1/projects/{project}/locations/jobs/studies/{study}/trials/{trial}";
    // The last segment is `7` or `7:addMeasurement`; axum gives it whole.
    Router::new().route(path, get(get_trial).merge(post(trial_method))).with_state(reports)
}

type TrialPath = Path<(String, String, String)>;

async fn get_trial(
    State(reports): State<TrialReports>,
    Path((project, study, trial)): TrialPath,
    headers: HeaderMap,
) -> Result<Json<TrialMessage>, ApiError> {
    let key = trial_key(&project, &study, &trial)?;
    let trial = reports.trial(&key, token(&headers)?).await?;
    Ok(Json(TrialMessage::new(&key.study, &ParameterNames::default(), &trial, &[])))
}

async fn trial_method(
    State(reports): State<TrialReports>,
    Path((project, study, segment)): TrialPath,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<TrialMessage>, ApiError> {
    let Some((trial, "addMeasurement")) = segment.split_once(':') else {
        return Err(ApiError::new(Code::NotFound, format!("there is no method {segment:?} of a trial here")));
    };
    let key = trial_key(&project, &study, trial)?;
    let token = token(&headers)?;
    let request: AddMeasurementRequest = body::read(&body)?;
    let mut measurement = request.measurement.into_measurement("measurement")?;
    measurement.wall_time_secs = Timestamp::now().as_duration().as_secs_f64();
    let trial = reports.add(&key, token, measurement).await?;
    Ok(Json(TrialMessage::new(&key.study, &ParameterNames::default(), &trial, &[])))
}

fn trial_key(project: &str, study: &str, trial: &str) -> Result<TrialKey, ApiError> {
    let study = StudyId::new(project, StudyId::JOBS_LOCATION, study);
    let study = study.map_err(|error| ApiError::invalid("name", error.to_string()))?;
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
#[serde(deny_unknown_fields)]
struct AddMeasurementRequest {
    measurement: MeasurementMessage,
}
