//! Liveness, readiness and metrics of the server.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;

use super::openapi::{Operation, Text};
use super::routes::{Dispatch, Routes};
use super::status::{ApiError, Code};
use tunesmith_service::jobs::Jobs;
use tunesmith_telemetry::telemetry;

/// Time limit for the store to respond in a readiness check.
const STORE_LIMIT: Duration = Duration::from_secs(2);

/// What readiness depends on.
#[derive(Clone)]
pub(super) struct Health {
    jobs: Arc<Jobs>,
    dispatch: Arc<Dispatch>,
}

/// `/healthz`, `/readyz` and `/metrics`.
pub(super) fn routes() -> Routes<Health> {
    let get = |path, id, summary| Operation::get(path, id, summary).open();
    Routes::new()
        .add(get("/healthz", "healthz", "Checks whether the server is alive."), async || StatusCode::OK)
        .add(get("/readyz", "readyz", "Checks whether the server is ready.").or(StatusCode::SERVICE_UNAVAILABLE), ready)
        .add(get("/metrics", "metrics", "Gets the metrics in OpenMetrics text format."), async || Text {
            content_type: tunesmith_telemetry::CONTENT_TYPE,
            text: telemetry().text(),
        })
}

/// The router of `jobs`.
pub(super) fn router(jobs: Arc<Jobs>, dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state(Health { jobs, dispatch: Arc::clone(dispatch) }, dispatch)
}

/// The server is ready while the store responds and takes changes, tokens can be read, and changes can be recorded.
async fn ready(State(health): State<Health>) -> Result<StatusCode, ApiError> {
    let unavailable = |text: &str| Err(ApiError::new(Code::Unavailable, text));
    if let Some(fault) = health.jobs.store_condition().borrow().fault() {
        return unavailable(&format!("the store takes no changes: {fault}"));
    }
    if let Err(text) = health.dispatch.authorization.check_ready() {
        return unavailable(&text);
    }
    match tokio::time::timeout(STORE_LIMIT, health.jobs.check_store()).await {
        Ok(Ok(())) => Ok(StatusCode::OK),
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the store does not answer");
            unavailable("the store does not answer; see the server's log")
        }
        Err(_) => unavailable("the store does not answer in time"),
    }
}
