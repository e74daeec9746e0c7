//! `GET /v1/{trial}` and `POST /v1/{trial}:addMeasurement` for the program of a running trial, which authenticates with
//! the token in its environment: `authorization: Bearer $TUNESMITH_TOKEN`.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::{Json, Router};
use jiff::Timestamp;
use tunesmith_algorithms::problem::TrialId;

use super::body::Report;
use super::examples;
use super::names::Names;
use super::openapi::Operation;
use super::routes::{Dispatch, Routes};
use super::status::{ApiError, Code};
use tunesmith_api::ai_platform::optimizer::{AddMeasurementRequest, TrialMessage};
use tunesmith_domain::StudyId;
use tunesmith_service::{TrialKey, TrialReports};

/// The routes.
pub(super) fn routes() -> Routes<TrialReports> {
    Routes::new()
        .add(
            Operation::get(
                "/v1/projects/{project}/locations/jobs/studies/{study}/trials/{trial}",
                "tunesmith.jobs.trials.get",
                "Gets a trial of a job, for its program.",
            )
            .or_not_found()
            .of_trial_program(),
            get_trial,
        )
        .add(
            Operation::post(
                "/v1/projects/{project}/locations/jobs/studies/{study}/trials/{trial}:addMeasurement",
                "tunesmith.jobs.trials.addMeasurement",
                "Adds a measurement to a trial of a job, for its program.",
            )
            .example(examples::MEASUREMENT)
            .or_not_found()
            .or_conflict()
            .of_trial_program(),
            add_measurement,
        )
}

/// The router of `reports`.
pub(super) fn router(reports: TrialReports, dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state(reports, dispatch)
}

/// A trial whose program has shown its token. Of a request with another token, only the head is read.
pub(super) struct ReportingTrial {
    key: TrialKey,
    token: String,
}

impl FromRequestParts<TrialReports> for ReportingTrial {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, reports: &TrialReports) -> Result<Self, ApiError> {
        let token = token_of_trial(&parts.headers)?.to_owned();
        let Names(names) = Names::from_request_parts(parts, reports).await?;
        let key = trial_key(&names)?;
        reports.authorize(&key, &token).await?;
        Ok(Self { key, token })
    }
}

async fn get_trial(
    State(reports): State<TrialReports>,
    Names(names): Names<3>,
    headers: HeaderMap,
) -> Result<Json<TrialMessage>, ApiError> {
    let key = trial_key(&names)?;
    let trial = reports.trial(&key, token_of_trial(&headers)?).await?;
    Ok(Json(TrialMessage::of_job(&key.study, &trial)))
}

async fn add_measurement(
    State(reports): State<TrialReports>,
    ReportingTrial { key, token }: ReportingTrial,
    Report(request): Report<AddMeasurementRequest>,
) -> Result<Json<TrialMessage>, ApiError> {
    let measurement = request.measurement.ok_or_else(|| ApiError::invalid("measurement", "is required"))?;
    let mut measurement = measurement.into_measurement("measurement")?;
    measurement.wall_time_secs = Timestamp::now().as_duration().as_secs_f64();
    let trial = reports.add(&key, &token, measurement).await?;
    Ok(Json(TrialMessage::of_job(&key.study, &trial)))
}

fn trial_key([project, study, trial]: &[String; 3]) -> Result<TrialKey, ApiError> {
    let study = StudyId::new(project, StudyId::JOBS_LOCATION, study);
    let study = study.map_err(|error| ApiError::invalid("name", error.to_string()))?;
    let trial = trial.parse().map_err(|_| ApiError::invalid("name", format!("{trial:?} is not a trial's number")))?;
    Ok(TrialKey { study, trial: TrialId(trial) })
}

/// The token in the header of a request from the program of a trial.
pub(super) fn token_of_trial(headers: &HeaderMap) -> Result<&str, ApiError> {
    headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .ok_or_else(|| ApiError::new(Code::Unauthenticated, "send the header `authorization: Bearer $TUNESMITH_TOKEN`"))
}
