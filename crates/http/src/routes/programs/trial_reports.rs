//! `GET /v1/{trial}` and `POST /v1/{trial}:addMeasurement` for the program of a running trial, which authenticates with
//! the token in its environment: `authorization: Bearer $TUNESMITH_TOKEN`.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::{Extension, Json};
use jiff::Timestamp;
use tunesmith_algorithms::problem::TrialId;

use crate::openapi::Operation;
use crate::openapi::examples;
use crate::request::body::Report;
use crate::request::names::Names;
use crate::response::error::ApiError;
use crate::routes::state::Programs;
use crate::routes::table::Routes;
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::optimizer::{AddMeasurementRequest, TrialMessage};
use tunesmith_domain::StudyId;
use tunesmith_jobs::TrialKey;

pub(crate) fn routes(routes: Routes<Programs>) -> Routes<Programs> {
    routes
        .add(
            Operation::get(
                "/v1/projects/{project}/locations/jobs/studies/{study}/trials/{trial}",
                use_cases::GET_OWN_TRIAL,
            )
            .or_not_found(),
            get_trial,
        )
        .add(
            Operation::post(
                "/v1/projects/{project}/locations/jobs/studies/{study}/trials/{trial}:addMeasurement",
                use_cases::REPORT_MEASUREMENT,
            )
            .example(examples::MEASUREMENT)
            .or_not_found()
            .or_conflict(),
            add_measurement,
        )
}

/// Trial authenticated by its program's token. With a wrong token, only the request head is read.
pub(crate) struct ReportingTrial {
    key: TrialKey,
    token: String,
}

impl FromRequestParts<Programs> for ReportingTrial {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, programs: &Programs) -> Result<Self, ApiError> {
        let token = token(parts);
        let Names(names) = Names::from_request_parts(parts, programs).await?;
        let key = trial_key(&names)?;
        programs.reports.authorize(&key, &token).await?;
        Ok(Self { key, token })
    }
}

async fn get_trial(
    State(programs): State<Programs>,
    Names(names): Names<3>,
    Extension(admission): Extension<Admission>,
) -> Result<Json<TrialMessage>, ApiError> {
    let key = trial_key(&names)?;
    let trial = programs.reports.trial(&key, admission.token()).await?;
    Ok(Json(TrialMessage::of_job(&key.study, &trial)))
}

async fn add_measurement(
    State(programs): State<Programs>,
    ReportingTrial { key, token }: ReportingTrial,
    Report(request): Report<AddMeasurementRequest>,
) -> Result<Json<TrialMessage>, ApiError> {
    let mut measurement = request.into_measurement()?;
    measurement.wall_time_secs = Timestamp::now().as_duration().as_secs_f64();
    let trial = programs.reports.add(&key, &token, measurement).await?;
    Ok(Json(TrialMessage::of_job(&key.study, &trial)))
}

fn trial_key([project, study, trial]: &[String; 3]) -> Result<TrialKey, ApiError> {
    let study = StudyId::new(project, StudyId::JOBS_LOCATION, study);
    let study = study.map_err(|error| ApiError::invalid("name", error.to_string()))?;
    let trial = trial.parse().map_err(|_| ApiError::invalid("name", format!("{trial:?} is not a trial's number")))?;
    Ok(TrialKey { study, trial: TrialId(trial) })
}

/// Token of an authenticated request from a trial program.
pub(crate) fn token(parts: &Parts) -> String {
    parts.extensions.get::<Admission>().map(|admission| admission.token().to_owned()).unwrap_or_default()
}
