//! `POST jobs/{job}/runs/{run}:sync` for the agent of a program, which authenticates with the token of its attempt.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;

use crate::openapi::examples;
use crate::openapi::{Bytes, Operation};
use crate::request::body::Report;
use crate::request::names::{PathNames, job_id};
use crate::response::error::{ApiError, Code};
use crate::routes::programs::agent_relay::Sender;
use crate::routes::programs::trial_reports::token;
use crate::routes::state::Programs;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::agent::{SyncRequest, SyncResponse, run_id};
use tunesmith_jobs::{AgentError, AuthorizedRun};

pub(crate) fn routes(routes: Routes<Programs>) -> Routes<Programs> {
    routes
        .add(
            Operation::post("/v1/projects/{project}/jobs/{job}/runs/{run}:sync", use_cases::SYNC_RUN)
                .example(examples::SYNC)
                .or_not_found(),
            sync,
        )
        .add(
            Operation::get(
                "/v1/projects/{project}/jobs/{job}/runs/{run}/packages/{sha256}/{file_name}",
                use_cases::GET_RUN_PACKAGE,
            )
            .or_not_found(),
            package,
        )
}

/// Run authenticated by its agent's token. With a wrong token, only the request head is read.
pub(crate) struct AgentRun {
    run: AuthorizedRun,
    token: String,
    /// Names in the path after the run.
    more: Vec<String>,
}

impl FromRequestParts<Programs> for AgentRun {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, programs: &Programs) -> Result<Self, ApiError> {
        let token = token(parts);
        let PathNames(mut names) = parts.extensions.remove().unwrap_or_default();
        let more = names.split_off(names.len().min(3));
        let [project, job, run] = <[String; 3]>::try_from(names).unwrap_or_default();
        let id = run_id(job_id(&project, &job)?, &run);
        let id = id.ok_or_else(|| {
            ApiError::invalid("name", format!("{run:?} has not the form trial-3.attempt-1 or attempt-1"))
        })?;
        let run = programs.agents.authorize(&id, &token).await?;
        Ok(Self { run, token, more })
    }
}

impl AgentRun {
    fn sender(&self) -> Sender<'_> {
        Sender { run: &self.run, token: &self.token }
    }
}

async fn sync(
    State(Programs { agents: reports, .. }): State<Programs>,
    run: AgentRun,
    Report(request): Report<SyncRequest>,
) -> Result<Json<SyncResponse>, ApiError> {
    // Needed again if the report has to be relayed.
    let copy = reports.relay().map(|relay| (relay, request.clone()));
    match (reports.receive(&run.run, request.into_report(run.run.id().attempt)?).await, copy) {
        (Err(error @ AgentError::OtherServer { .. }), Some((relay, request))) => {
            Ok(Json(run.sender().sync(&*relay, request, error).await?))
        }
        (received, _) => Ok(Json(received?.into())),
    }
}

async fn package(State(Programs { agents: reports, .. }): State<Programs>, run: AgentRun) -> Result<Bytes, ApiError> {
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
            AgentError::WrongToken(_) => Self::new(Code::Unauthenticated, error.to_string()),
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
