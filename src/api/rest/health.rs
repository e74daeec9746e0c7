//! Whether the service lives, whether it can serve, and what it counts.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::status::{ApiError, Code};
use crate::service::jobs::Jobs;
use crate::telemetry::{self, telemetry};

/// How long the store may take to answer a service that is ready.
const STORE_LIMIT: Duration = Duration::from_secs(2);

/// `/healthz`, `/readyz` and `/metrics`.
pub(super) fn router(jobs: Arc<Jobs>) -> Router {
    Router::new()
        .route("/healthz", get(async || StatusCode::OK))
        .route("/readyz", get(ready))
        .route("/metrics", get(async || ([(CONTENT_TYPE, telemetry::CONTENT_TYPE)], telemetry().text())))
        .with_state(jobs)
}

/// Ready as long as the store answers.
async fn ready(State(jobs): State<Arc<Jobs>>) -> Response {
    let unavailable = |text: &str| ApiError::new(Code::Unavailable, text).into_response();
    match tokio::time::timeout(STORE_LIMIT, jobs.answers()).await {
        Ok(Ok(())) => StatusCode::OK.into_response(),
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the store does not answer");
            unavailable("the store does not answer; the server's log says more")
        }
        Err(_) => unavailable("the store does not answer in time"),
    }
}
