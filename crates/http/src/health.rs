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

async fn ready(State(health): State<Health>) -> Result<StatusCode, ApiError> {
    let reason = reasons(&health.jobs, &health.dispatch).await.into_iter().next();
    reason.map_or(Ok(StatusCode::OK), |reason| Err(ApiError::new(Code::Unavailable, reason)))
}

/// Why the server is not ready; empty if it is. It is while the store responds and takes changes, tokens can be read, and
/// changes can be recorded.
pub(super) async fn reasons(jobs: &Jobs, dispatch: &Dispatch) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(fault) = jobs.store_condition().borrow().fault() {
        reasons.push(format!("the store takes no changes: {fault}"));
    }
    reasons.extend(dispatch.authorization.check_ready().err());
    match tokio::time::timeout(STORE_LIMIT, jobs.check_store()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the store does not answer");
            reasons.push("the store does not answer; see the server's log".to_owned());
        }
        Err(_) => reasons.push("the store does not answer in time".to_owned()),
    }
    reasons
}
