//! Liveness, readiness, metrics, and the OpenAPI document.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
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

/// Readiness: the store responds and accepts writes, tokens are readable, and changes can be recorded.
async fn ready(State(api): State<Arc<Api>>) -> Result<StatusCode, ApiError> {
    let faults = api.jobs.store_faults().await;
    match faults.into_iter().chain(api.control.check_ready().err()).next() {
        None => Ok(StatusCode::OK),
        Some(fault) => Err(ApiError::new(Code::Unavailable, fault)),
    }
}
