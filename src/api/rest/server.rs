//! The whole service as one router: routes, and what holds for all of them.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use super::method_override;
use super::names::no_method;
use super::status::{ApiError, Code};
use crate::clock::Clock;
use crate::service::TrialReports;
use crate::service::jobs::Jobs;
use crate::service::optimizer::Optimizer;

/// Most bytes of a request's body.
const BODY_LIMIT: usize = 4 << 20;

/// What answers.
pub struct Service {
    /// Studies whose users run their trials.
    pub optimizer: Arc<Optimizer>,
    /// Jobs.
    pub jobs: Arc<Jobs>,
    /// Reports of the jobs' trials.
    pub reports: TrialReports,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// From where relative paths of jobs are taken.
    pub working_directory: PathBuf,
}

/// The service's routes.
pub fn router(service: Service) -> Router {
    let Service { optimizer, jobs, reports, clock, working_directory } = service;
    let routes = Router::new()
        .merge(super::openapi::router())
        .merge(super::projects::router())
        .merge(super::optimizer::router(optimizer, clock))
        .merge(super::trial_reports::router(reports))
        .merge(super::jobs::router(jobs, working_directory))
        .fallback(async |request: Request| no_method(&format!("{} {}", request.method(), request.uri().path())))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(axum::middleware::from_fn(answer_panics));
    // Around the routes, since the method is chosen before the route is.
    Router::new().fallback_service(routes).layer(axum::middleware::from_fn(override_method))
}

async fn override_method(request: Request, next: Next) -> Response {
    match method_override::resolve(request, BODY_LIMIT).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// A panic is a fault of the service, told as such, and harms no other request.
async fn answer_panics(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let answer = std::panic::AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        tracing::error!(path, "a request led to a panic");
        ApiError::new(Code::Internal, "the service failed; its log says more").into_response()
    })
}
