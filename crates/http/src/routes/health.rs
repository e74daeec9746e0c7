//! Liveness, readiness, metrics, and the OpenAPI document.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tunesmith_admission::use_cases;
use tunesmith_telemetry::telemetry;

use super::document::served;
use super::state::Api;
use super::table::{Dialect, Routes};
use crate::openapi::{Operation, Text};
use crate::response::error::{ApiError, Code};

pub(crate) fn routes() -> Routes<Arc<Api>> {
    Routes::new(Dialect::Server)
        .add(Operation::get("/openapi.json", use_cases::OPENAPI), async || Json(served().clone()))
        .add(Operation::get("/healthz", use_cases::LIVENESS), async || StatusCode::OK)
        .add(Operation::get("/readyz", use_cases::READINESS).or(StatusCode::SERVICE_UNAVAILABLE), ready)
        .add(Operation::get("/metrics", use_cases::METRICS), async || Text {
            content_type: tunesmith_telemetry::CONTENT_TYPE,
            text: telemetry().text(),
        })
}

/// Readiness of a server.
#[derive(Debug, Serialize, JsonSchema)]
struct Readiness {
    /// Always true: a server that is not ready responds with an error, whose message has all causes.
    ready: bool,
}

/// Checks that the store responds and accepts writes, that tokens are readable, and that changes can be recorded.
async fn ready(State(api): State<Arc<Api>>) -> Result<Json<Readiness>, ApiError> {
    let mut faults = api.jobs.store_faults().await;
    faults.extend(api.control.check_ready().err());
    match faults.is_empty() {
        true => Ok(Json(Readiness { ready: true })),
        false => Err(ApiError::new(Code::Unavailable, faults.join("; "))),
    }
}
