//! Router of the whole server: routes and middleware.

mod activity;
mod connection;
mod identity;
mod limits;
mod listener;
mod unread;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use tunesmith_admission::{AccessControl, PolicyResource, ServiceAccess};
use tunesmith_domain::Refusal;
use tunesmith_jobs::Jobs;
use tunesmith_jobs::packages::Packages;
use tunesmith_jobs::{AgentReports, TrialReports};
use tunesmith_prediction::Models;
use tunesmith_studies::Studies;
use tunesmith_studies::clock::Clock;

use crate::request::method_override;
use crate::request::names::no_method;
use crate::request::web_pages::AllowedHosts;
use crate::response::error::ApiError;
use crate::response::{form, log};
pub use crate::routes::state::SharedMachines;
use crate::routes::state::{Api, Programs};
use crate::routes::table::unknown;
use crate::routes::{health, ml, programs};

pub(crate) use connection::Peer;
pub use identity::{NewCertificate, ServerIdentity, TlsError};
pub use limits::ConnectionLimits;
pub use listener::{Connections, serve};

/// Maximum size of a request body in bytes.
const BODY_LIMIT: usize = 4 << 20;

/// Time limit of a request to [`reports_router`].
const REPORT_TIME_LIMIT: Duration = Duration::from_secs(60);

pub struct Service {
    /// Studies with client-run trials.
    pub studies: Arc<Studies>,
    pub jobs: Arc<Jobs>,
    pub models: Models,
    pub packages: Packages,
    pub machines: SharedMachines,
    pub reports: TrialReports,
    pub agents: AgentReports,
    pub clock: Arc<dyn Clock>,
    /// Base folder for relative paths in jobs.
    pub working_directory: PathBuf,
    pub access: ServiceAccess,
    pub request_timeout: Duration,
    /// Host names of the server; `None` if requests come from this process, not from a network.
    pub hosts: Option<AllowedHosts>,
}

pub fn router(service: Service) -> Router {
    router_with_pages(service, |_, _| Router::new())
}

/// Builds the router of the whole server, including the routes of `pages`. Its arguments authorise requests, and serve the
/// methods of the API for requests of this process: the extension [`Client`](tunesmith_admission::Client) names the caller.
pub fn router_with_pages(service: Service, pages: impl FnOnce(Arc<AccessControl>, Router) -> Router) -> Router {
    let Service { studies, jobs, models, packages, machines, reports, agents, clock, .. } = service;
    let (working_directory, access) = (service.working_directory, service.access);
    let of_policies = (Arc::clone(&jobs), models.clone());
    let policy_of = move |resource| -> futures::future::BoxFuture<'static, _> {
        let (jobs, models) = of_policies.clone();
        Box::pin(async move {
            match resource {
                PolicyResource::Job(id) => jobs.job(&id).await.ok().map(|job| job.policy.clone()),
                PolicyResource::Model { project, name } => {
                    models.model(&project, &name).await.ok().map(|model| model.policy)
                }
            }
        })
    };
    let of_workers = models.clone();
    let now = Arc::clone(&clock);
    let control = AccessControl::new(access, Box::new(policy_of), move || now.now(), service.request_timeout);
    let control = Arc::new(control);
    let api =
        Api { studies, jobs, models, packages, machines, working_directory, clock, control: Arc::clone(&control) };
    let api = Arc::new(api);
    let methods = ml::routes().with_state(&api, &control);
    let routes = Router::new()
        .merge(health::routes().with_state(&api, &control))
        .merge(methods.clone())
        .merge(programs::routes().with_state(&Programs { reports, agents }, &control))
        .merge(programs::workers::routes().with_state(&of_workers, &control))
        .merge(pages(Arc::clone(&control), methods.layer(DefaultBodyLimit::max(BODY_LIMIT))));
    layered(routes, control, service.hosts)
}

/// Builds the router for reports from job programs and their agents, on a server with the names `hosts`.
pub fn reports_router(reports: TrialReports, agents: AgentReports, hosts: AllowedHosts) -> Router {
    let policy_of = |_| -> futures::future::BoxFuture<'static, _> { Box::pin(async { None }) };
    let now = jiff::Timestamp::now;
    let control = Arc::new(AccessControl::new(ServiceAccess::Open, Box::new(policy_of), now, REPORT_TIME_LIMIT));
    let routes = programs::routes().with_state(&Programs { reports, agents }, &control);
    layered(routes, control, Some(hosts))
}

fn layered(routes: Router, control: Arc<AccessControl>, hosts: Option<AllowedHosts>) -> Router {
    let time_limit = control.time_limit();
    let routes = routes
        .fallback(async move |request: Request| {
            let (parts, _) = request.into_parts();
            let refusal = no_method(&format!("{} {}", parts.method, parts.uri.path()));
            unknown(&control, &parts, refusal.into_response()).await
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT));
    // The method override precedes routing. One layer, since each clones the service below it for every request.
    let hosts = hosts.map(Arc::new);
    Router::new()
        .fallback_service(routes)
        .layer(from_fn(move |request: Request, next: Next| around_routes(hosts.clone(), time_limit, request, next)))
}

/// Middleware around every route. `time_limit` applies to reading a method override; routes have their own.
async fn around_routes(
    hosts: Option<Arc<AllowedHosts>>,
    time_limit: Duration,
    request: Request,
    next: Next,
) -> Response {
    log::respond(request, async |request| {
        if let Err(error) = hosts.map_or(Ok(()), |hosts| hosts.check(&request)) {
            return error.into_response();
        }
        match tokio::time::timeout(time_limit, method_override::resolve(request)).await {
            Ok(Ok(request)) => form::respond(request, async |request| next.run(request).await).await,
            Ok(Err(error)) => error.into_response(),
            Err(_) => ApiError::from(Refusal::timed_out(time_limit, false)).into_response(),
        }
    })
    .await
}
