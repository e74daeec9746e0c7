//! `POST jobs/{job}/runs/{run}:sync` for the agent beside a program, which authenticates with the token of its attempt.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::{Json, Router};

use super::agent_relay::Sender;
use super::body::Report;
use super::examples;
use super::names::{PathNames, job_id};
use super::openapi::{Bytes, Operation};
use super::routes::{Dispatch, Routes};
use super::status::{ApiError, Code};
use super::trial_reports::token_of_trial;
use tunesmith_api::agent::{SyncAnswer, SyncRequest, run_id};
use tunesmith_service::{AgentError, AgentReports, AuthorizedRun};

/// Factor for the time limit of a download.
const DOWNLOAD_TIME_FACTOR: u32 = 10;

/// The routes.
pub(super) fn routes() -> Routes<AgentReports> {
    Routes::new().add(
        Operation::post(
            "/v1/projects/{project}/jobs/{job}/runs/{run}:sync",
            "tunesmith.jobs.runs.sync",
            "Receives logs, measurements and the end of one run of a job's program from the agent beside it, and answers with \
             what the agent is to do. The run is `trial-3.attempt-1`, or `attempt-1` in a job without hyperparameters. \
             Repeating a report has no further effect.",
        )
        .example(examples::SYNC)
        .or_not_found()
        // The audit log records what principals decide. An agent reports every second.
        .only_reads()
        .of_trial_program(),
        sync,
    )
    .add(
        Operation::get(
            "/v1/projects/{project}/jobs/{job}/runs/{run}/packages/{sha256}/{file_name}",
            "tunesmith.jobs.runs.packages.get",
            "Returns a Python package of a job to the agent that installs it for one run of the job's program.",
        )
        .or_not_found()
        .of_trial_program()
        .time_limit_factor(DOWNLOAD_TIME_FACTOR),
        package,
    )
}

/// The router of `reports`.
pub(super) fn router(reports: AgentReports, dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state(reports, dispatch)
}

/// A run whose agent has shown its token. Of a request with another token, only the head is read.
pub(super) struct AgentRun {
    run: AuthorizedRun,
    token: String,
    /// The names in the path that follow that of the run.
    more: Vec<String>,
}

impl FromRequestParts<AgentReports> for AgentRun {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, reports: &AgentReports) -> Result<Self, ApiError> {
        let token = token_of_trial(&parts.headers)?.to_owned();
        let PathNames(mut names) = parts.extensions.remove().unwrap_or_default();
        let more = names.split_off(names.len().min(3));
        let [project, job, run] = <[String; 3]>::try_from(names).unwrap_or_default();
        let id = run_id(job_id(&project, &job)?, &run);
        let id = id.ok_or_else(|| {
            ApiError::invalid("name", format!("{run:?} has not the form trial-3.attempt-1 or attempt-1"))
        })?;
        let run = reports.authorize(&id, &token).await?;
        Ok(Self { run, token, more })
    }
}

impl AgentRun {
    fn sender(&self) -> Sender<'_> {
        Sender { run: &self.run, token: &self.token }
    }
}

async fn sync(
    State(reports): State<AgentReports>,
    run: AgentRun,
    Report(request): Report<SyncRequest>,
) -> Result<Json<SyncAnswer>, ApiError> {
    // A report that has to be passed on is needed again.
    let copy = reports.relay().map(|relay| (relay, request.clone()));
    match (reports.receive(&run.run, request.into_report()?).await, copy) {
        (Err(error @ AgentError::OtherServer { .. }), Some((relay, request))) => {
            Ok(Json(run.sender().sync(&*relay, request, error).await?))
        }
        (received, _) => Ok(Json(received?.into())),
    }
}

async fn package(State(reports): State<AgentReports>, run: AgentRun) -> Result<Bytes, ApiError> {
    let [sha256, file_name] = <[String; 2]>::try_from(run.more.clone()).unwrap_or_default();
    let file = match (reports.package(&run.run, &sha256, &file_name).await, reports.relay()) {
        (Err(error @ AgentError::OtherServer { .. }), Some(relay)) => {
            run.sender().package(&*relay, &sha256, &file_name, error).await?
        }
        (opened, _) => opened?,
    };
    let length = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    Ok(Bytes { file, length })
}

impl From<AgentError> for ApiError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::WrongToken { .. } => Self::new(Code::Unauthenticated, error.to_string()),
            AgentError::Superseded { .. } => Self::new(Code::FailedPrecondition, error.to_string()),
            AgentError::OtherServer { .. } => Self::new(Code::Unavailable, error.to_string()),
            AgentError::NoReplica { .. } => Self::invalid("task", error.to_string()),
            AgentError::NoTask { .. } => Self::invalid("logs", error.to_string()),
            AgentError::NoPackage { .. } => Self::new(Code::NotFound, error.to_string()),
            AgentError::Files { .. } => {
                tracing::error!(error = &error as &dyn std::error::Error, "the report of an agent cannot be stored");
                Self::new(Code::Unavailable, "the report cannot be stored; see the server's log")
            }
            AgentError::Store(error) => error.into(),
        }
    }
}
