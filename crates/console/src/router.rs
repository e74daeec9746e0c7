//! The routes of the console.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Redirect, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use tokio::sync::watch;

use super::errors::{self, PageError};
use super::events::Streams;
use super::server::{self, ServerFacts};
use super::{
    access, assets, compare, details, events, explore, job, jobs, login, new_job, overview, report, trial, trials,
    workers,
};
use tunesmith_http::pages::{PageCall, Pages, Refusal, Visitor};
use tunesmith_service::clock::Clock;
use tunesmith_service::jobs::Jobs;
use tunesmith_service::studies::Studies;

/// What the pages show.
pub struct Services {
    /// Jobs.
    pub jobs: Arc<Jobs>,
    /// Studies and their trials.
    pub studies: Arc<Studies>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// How this server was started; `None` in a process that serves no others.
    pub server: Option<ServerFacts>,
    /// Whether browsers reach the server over HTTPS only, so that cookies are never sent without it.
    pub is_secure: bool,
    /// Becomes true when the server ends, and open streams with it.
    pub ended: watch::Receiver<bool>,
}

/// The state of the handlers.
#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) studies: Arc<Studies>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pages: Pages,
    server: Option<Arc<ServerFacts>>,
    pub(crate) is_secure: bool,
    pub(crate) streams: Streams,
}

/// A visitor and the request for a page.
pub(crate) struct Visit {
    pub(crate) visitor: Visitor,
    pub(crate) parts: Parts,
}

impl Console {
    /// How this server was started.
    ///
    /// # Errors
    /// [`PageError::NotFound`] in a process that serves no others.
    pub(crate) fn server(&self) -> Result<Arc<ServerFacts>, PageError> {
        self.server.clone().ok_or_else(|| PageError::NotFound("`tunesmith serve` has this page".to_owned()))
    }

    /// Answers the request `parts` with the page that `render` returns, if `call` is allowed.
    pub(crate) async fn show<F>(self, call: PageCall, parts: Parts, render: impl FnOnce(Self, Visit) -> F) -> Response
    where
        F: Future<Output = Result<Response, PageError>> + Send + 'static,
    {
        let (pages, headers) = (self.pages.clone(), parts.headers.clone());
        let visited = parts.clone();
        let answer =
            pages.answer(call, &parts, move |visitor| shown(render(self, Visit { visitor, parts: visited }), headers));
        answer.await.unwrap_or_else(|refusal| refused(refusal, &parts))
    }

    /// Answers the request `parts` with what `render` returns for its `body`, which has at most `max_bytes`, if `call` is allowed.
    pub(crate) async fn show_with_body<F>(
        self,
        call: PageCall,
        parts: Parts,
        body: Body,
        max_bytes: usize,
        render: impl FnOnce(Bytes) -> F,
    ) -> Response
    where
        F: Future<Output = Result<Response, PageError>> + Send + 'static,
    {
        let headers = parts.headers.clone();
        let render = move |_, body| shown(render(body), headers);
        let answer = self.pages.answer_with_body(call, &parts, body, max_bytes, render).await;
        answer.unwrap_or_else(|refusal| refused(refusal, &parts))
    }
}

async fn shown(page: impl Future<Output = Result<Response, PageError>>, headers: HeaderMap) -> Response {
    page.await.unwrap_or_else(|error| error.respond(&headers))
}

fn refused(refusal: Refusal, parts: &Parts) -> Response {
    match refusal.status {
        StatusCode::UNAUTHORIZED => login::required(parts),
        _ => errors::refused(refusal, parts),
    }
}

/// The routes of the console, below `/console`. Requests are admitted by `pages`.
pub fn router(services: Services, pages: Pages) -> Router {
    let Services { jobs, studies, clock, server, is_secure, ended } = services;
    let streams = Streams::new(ended);
    let below = |address: &str| {
        let at = |page: &str| format!("{address}{page}");
        Router::new()
            .route(address, get(job::page))
            .route(&at("/trials"), get(trials::page))
            .route(&at("/trials/{trial}"), get(trial::page))
            .route(&at("/explore"), get(explore::explore))
            .route(&at("/trust"), get(explore::trust))
            .route(&at("/configuration"), get(details::configuration))
            .route(&at("/report"), get(report::report))
            .route(&at("/events"), get(events::of_one))
    };
    Router::new()
        .merge(below("/console/projects/{project}/jobs/{job}"))
        .merge(below("/console/projects/{project}/locations/{location}/studies/{study}"))
        .route("/console/projects/{project}/jobs/{job}/output", get(details::output))
        .route("/", get(async || Redirect::to("/console")))
        .route("/console", get(overview::page))
        .route("/console/", get(async || Redirect::permanent("/console")))
        .route("/console/jobs", get(jobs::page))
        .route("/console/new", get(new_job::page))
        .route("/console/new-study", get(new_job::study_page))
        .route("/console/check", post(new_job::check))
        .route("/console/events", get(events::all))
        .route(login::PATH, get(login::form).post(login::sign_in))
        .route("/console/logout", post(login::sign_out))
        .route("/console/compare", get(compare::page))
        .route("/console/{*path}", get(unknown))
        .route("/console/workers", get(workers::page))
        .route("/console/server", get(server::page))
        .route("/console/access", get(access::page))
        .with_state(Console { jobs, studies, clock, server: server.map(Arc::new), pages, is_secure, streams })
        .route(assets::PATH, get(assets::asset))
}

/// Answers a request for a page that does not exist.
async fn unknown(State(console): State<Console>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let call = PageCall::of_all("console.unknown");
    console.show(call, parts, async move |_, _| Err(PageError::NotFound(format!("there is no page {path}")))).await
}

/// A page that was rendered.
pub(crate) fn rendered(page: &impl askama::Template) -> Response {
    super::frame::Frame::respond(false, StatusCode::OK, page)
}
