//! The whole service as one router: routes, and what holds for all of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use super::gate::{self, Access, Gate};
use super::names::no_method;
use super::{envelope, method_override};
use tunesmith_service::TrialReports;
use tunesmith_service::clock::Clock;
use tunesmith_service::jobs::Jobs;
use tunesmith_service::optimizer::Optimizer;
use tunesmith_service::packages::Packages;

/// Most bytes of a request's body.
const BODY_LIMIT: usize = 4 << 20;

/// What answers.
pub struct Service {
    /// Studies whose users run their trials.
    pub optimizer: Arc<Optimizer>,
    /// Jobs.
    pub jobs: Arc<Jobs>,
    /// Packages for the jobs.
    pub packages: Packages,
    /// Reports of the jobs' trials.
    pub reports: TrialReports,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// From where relative paths of jobs are taken.
    pub working_directory: PathBuf,
    /// Who may ask, and where it is recorded; `None` for the owner of the data folder, who may do everything.
    pub access: Option<Access>,
    /// How long a request may take.
    pub request_timeout: Duration,
}

/// The service's routes.
pub fn router(service: Service) -> Router {
    let Service { optimizer, jobs, packages, reports, clock, working_directory, access, request_timeout } = service;
    let gate = Arc::new(Gate { access, jobs: Arc::clone(&jobs), clock: Arc::clone(&clock) });
    let routes = Router::new()
        .merge(super::health::router(Arc::clone(&jobs)))
        .merge(super::openapi::router())
        .merge(super::projects::router())
        .merge(super::optimizer::router(optimizer, clock))
        .merge(super::trial_reports::router(reports))
        .merge(super::job_logs::router(Arc::clone(&jobs)))
        .merge(super::packages::router(packages.clone()))
        .merge(super::jobs::router(jobs, packages, working_directory))
        .fallback(async |request: Request| no_method(&format!("{} {}", request.method(), request.uri().path())))
        .layer(DefaultBodyLimit::max(BODY_LIMIT));
    // Around the routes, since the method is chosen before the route is. The last layer is the first to see a request.
    Router::new()
        .fallback_service(routes)
        .layer(from_fn_with_state(gate, gate::pass))
        .layer(from_fn(override_method))
        .layer(from_fn_with_state(request_timeout, envelope::answer))
}

async fn override_method(request: Request, next: Next) -> Response {
    match method_override::resolve(request, BODY_LIMIT).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}
