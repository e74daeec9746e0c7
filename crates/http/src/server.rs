//! The router of the whole server: routes and layers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};

use super::authorization::{Access, Authorization, Owner, policies};
use super::job_trials::JobTrials;
use super::large_requests::lanes;
use super::names::no_method;
use super::pages::Pages;
use super::routes::{Dispatch, unknown};
use super::state::JobsState;
use super::status::ApiError;
use super::web_pages::AllowedHosts;
use super::{method_override, request_log, response_form};
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_service::clock::Clock;
use tunesmith_service::jobs::Jobs;
use tunesmith_service::packages::Packages;
use tunesmith_service::studies::Studies;
use tunesmith_service::{AgentReports, TrialReports};

/// Maximum size of a request's body in bytes.
const BODY_LIMIT: usize = 4 << 20;

/// Time limit of a report to [`reports_router`].
const REPORT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// The services behind the routes.
pub struct Service {
    /// Studies whose trials are run by clients.
    pub studies: Arc<Studies>,
    /// Jobs.
    pub jobs: Arc<Jobs>,
    /// Packages of the jobs.
    pub packages: Packages,
    /// What the names of machines in jobs mean.
    pub machines: Arc<MachineMap>,
    /// Reports of the jobs' trials.
    pub reports: TrialReports,
    /// Reports of the agents of the jobs' programs.
    pub agents: AgentReports,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The folder against which relative paths of jobs are resolved.
    pub working_directory: PathBuf,
    /// Who may do what.
    pub access: ServiceAccess,
    /// Time limit of a request.
    pub request_timeout: Duration,
    /// The names of the server; `None`: requests come from this process, not from a network.
    pub hosts: Option<AllowedHosts>,
}

/// Who may use a service.
pub enum ServiceAccess {
    /// Callers that these rules allow.
    Checked(Box<Access>),
    /// The owner of the data folder, whose changes are recorded.
    Owner(Owner),
    /// This process, which only reads.
    Open,
}

/// The router of the whole server.
pub fn router(service: Service) -> Router {
    router_with_pages(service, |_| Router::new())
}

/// The router of the whole server with the routes that `pages` returns, which admit their requests by its argument.
pub fn router_with_pages(service: Service, pages: impl FnOnce(Pages) -> Router) -> Router {
    let Service {
        studies,
        jobs,
        packages,
        machines,
        reports,
        agents,
        clock,
        working_directory,
        access,
        request_timeout,
        hosts,
    } = service;
    let authorization = match access {
        ServiceAccess::Checked(access) => Authorization::new(*access, policies(Arc::clone(&jobs)), Arc::clone(&clock)),
        ServiceAccess::Owner(owner) => Authorization::of_owner(owner, Arc::clone(&clock)),
        ServiceAccess::Open => Authorization::open(),
    };
    let dispatch = Arc::new(Dispatch { authorization, time_limit: request_timeout, lanes: Arc::new(lanes()) });
    let routes = Router::new()
        .merge(super::health::router(Arc::clone(&jobs), &dispatch))
        .merge(super::openapi_document::router(&dispatch))
        .merge(super::projects::router(&dispatch))
        .merge(super::job_trials::router(
            JobTrials { jobs: Arc::clone(&jobs), studies: Arc::clone(&studies) },
            &dispatch,
        ))
        .merge(super::studies_api::router(studies, clock, &dispatch))
        .merge(super::trial_reports::router(reports, &dispatch))
        .merge(super::agents::router(agents, &dispatch))
        .merge(super::job_artifacts::router(Arc::clone(&jobs), &dispatch))
        .merge(super::job_logs::router(Arc::clone(&jobs), &dispatch))
        .merge(super::packages::router(packages.clone(), &dispatch))
        .merge(super::jobs::router(JobsState { jobs, packages, machines, working_directory }, &dispatch))
        .merge(pages(Pages::new(Arc::clone(&dispatch))));
    layered(routes, dispatch, hosts)
}

/// The router of reports from the programs of jobs and their agents, for a server with the names `hosts`.
pub fn reports_router(reports: TrialReports, agents: AgentReports, hosts: AllowedHosts) -> Router {
    let authorization = Authorization::open();
    let dispatch = Arc::new(Dispatch { authorization, time_limit: REPORT_TIME_LIMIT, lanes: Arc::new(lanes()) });
    let routes = super::trial_reports::router(reports, &dispatch).merge(super::agents::router(agents, &dispatch));
    layered(routes, dispatch, Some(hosts))
}

fn layered(routes: Router, dispatch: Arc<Dispatch>, hosts: Option<AllowedHosts>) -> Router {
    let time_limit = dispatch.time_limit;
    let routes = routes
        .fallback(async move |request: Request| {
            let (parts, _) = request.into_parts();
            let refusal = no_method(&format!("{} {}", parts.method, parts.uri.path()));
            unknown(&dispatch, &parts, refusal.into_response()).await
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT));
    // The HTTP method is replaced before a request is routed. One layer, since each clones the service below it for every
    // request.
    let hosts = hosts.map(Arc::new);
    Router::new()
        .fallback_service(routes)
        .layer(from_fn(move |request: Request, next: Next| around_routes(hosts.clone(), time_limit, request, next)))
}

/// Middleware around every route. The method that a request overrides is read within `time_limit`; routes have limits of their
/// own.
async fn around_routes(
    hosts: Option<Arc<AllowedHosts>>,
    time_limit: Duration,
    request: Request,
    next: Next,
) -> Response {
    request_log::answer(request, async |request| {
        if let Err(error) = hosts.map_or(Ok(()), |hosts| hosts.check(&request)) {
            return error.into_response();
        }
        match tokio::time::timeout(time_limit, method_override::resolve(request)).await {
            Ok(Ok(request)) => response_form::answer(request, async |request| next.run(request).await).await,
            Ok(Err(error)) => error.into_response(),
            Err(_) => ApiError::timed_out(time_limit, false).into_response(),
        }
    })
    .await
}
