//! Console routes: each page with its name and use case.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::response::{Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use tunesmith_admission::AccessControl;
use tunesmith_admission::use_cases::{self, RequiredAccess, UseCase};

use super::console::{Console, LOGIN, LOGIN_CALLBACK, Services};
use super::errors::PageError;
use super::frame::ADMINISTRATION;
use super::model::NamedModel;
use super::subject::Named;
use super::visit::{PageCall, Visit};
use super::{
    access, assets, compare, details, events, explore, find, job, jobs, login, logs, model, models, new_job, overview,
    reference, report, server, single_sign_on, trial, trials, workers,
};

/// Routes of the console below `/console`, authorised by `control`.
pub fn router(services: Services, control: Arc<AccessControl>) -> Router {
    let administration = |name| UseCase::page(name, RequiredAccess::Of(ADMINISTRATION));
    Router::new()
        .merge(below("/console/projects/{project}/jobs/{job}"))
        .merge(below("/console/projects/{project}/locations/{location}/studies/{study}"))
        .route(
            "/console/projects/{project}/jobs/{job}/output",
            about("console.output", use_cases::LIST_JOB_LOGS, details::output),
        )
        .route(
            "/console/projects/{project}/jobs/{job}/logs/{log}",
            about("console.log", use_cases::GET_JOB_LOG, logs::save),
        )
        .route("/", get(async || Redirect::to("/console")))
        .route("/console", page("console.overview", overview::show))
        .route("/console/", get(async || Redirect::permanent("/console")))
        .route("/console/jobs", page("console.jobs", jobs::show))
        .route("/console/models", page("console.models", models::show))
        .route("/console/models/events", page("console.models.events", events::models))
        .route("/console/projects/{project}/models/{model}", of_model("console.model", model::show))
        .route("/console/projects/{project}/models/{model}/events", of_model("console.model.events", events::of_model))
        .route("/console/new", page("console.newJob", new_job::new_job))
        .route("/console/new-study", page("console.newStudy", new_job::new_study))
        .route("/console/keys", page("console.keys", reference::show))
        .route("/console/check", post(new_job::check))
        .route("/console/events", page("console.events", events::all))
        .route("/console/find", page("console.find", find::show))
        .route(LOGIN, get(login::form).post(login::sign_in))
        .route("/console/login/start", get(single_sign_on::start))
        .route(LOGIN_CALLBACK, get(single_sign_on::finish))
        .route("/console/logout", post(login::sign_out))
        .route("/console/compare", page("console.compare", compare::show))
        .route("/console/{*path}", page("console.unknown", unknown))
        .route("/console/workers", page("console.workers", workers::show))
        .route("/console/server", page_of(administration("console.server"), server::show))
        .route("/console/access", page_of(administration("console.access"), access::show))
        .with_state(Console::new(services, control))
        .route(assets::PATH, get(assets::asset))
}

/// Pages of a job or study below `address`.
fn below(address: &str) -> Router<Console> {
    use use_cases::{GET_STUDY, GET_TRIAL, LIST_TRIALS};
    let at = |page: &str| format!("{address}{page}");
    Router::new()
        .route(address, about("console.job", GET_STUDY, job::show))
        .route(&at("/trials"), about("console.trials", LIST_TRIALS, trials::show))
        .route(&at("/trials/{trial}"), about("console.trial", GET_TRIAL, trial::show))
        .route(&at("/explore"), about("console.explore", LIST_TRIALS, explore::explore))
        .route(&at("/trust"), about("console.trust", LIST_TRIALS, explore::trust))
        .route(&at("/configuration"), about("console.configuration", GET_STUDY, details::configuration))
        .route(&at("/report"), get(report::report))
        .route(&at("/events"), about("console.events", GET_STUDY, events::of_one))
}

/// Page outside projects, open to any token. Shows only what its visitor may see.
fn page<Q, F, S>(name: &'static str, show: S) -> MethodRouter<Console>
where
    Q: FromRequestParts<Console> + Send + 'static,
    F: Future<Output = Result<Response, PageError>> + Send + 'static,
    S: Fn(Console, Visit, Q) -> F + Clone + Send + Sync + 'static,
{
    page_of(UseCase::page(name, RequiredAccess::Token), show)
}

fn page_of<Q, F, S>(use_case: UseCase, show: S) -> MethodRouter<Console>
where
    Q: FromRequestParts<Console> + Send + 'static,
    F: Future<Output = Result<Response, PageError>> + Send + 'static,
    S: Fn(Console, Visit, Q) -> F + Clone + Send + Sync + 'static,
{
    get(async move |State(console): State<Console>, query: Q, parts: Parts| {
        console.show(PageCall::of_server(use_case), parts, move |console, visit| show(console, visit, query)).await
    })
}

/// Page that shows `of_study` of a job's study, or of a study without a job. `name` identifies it in logs.
fn about<Q, F, S>(name: &'static str, of_study: UseCase, show: S) -> MethodRouter<Console>
where
    Q: FromRequestParts<Console> + Send + 'static,
    F: Future<Output = Result<Response, PageError>> + Send + 'static,
    S: Fn(Console, Visit, Named, Q) -> F + Clone + Send + Sync + 'static,
{
    get(async move |State(console): State<Console>, Path(named): Path<Named>, query: Q, parts: Parts| {
        let call = named.call(of_study.shown_as(name));
        console.show(call, parts, move |console, visit| show(console, visit, named, query)).await
    })
}

/// Page about a model. `name` identifies it in logs.
fn of_model<Q, F, S>(name: &'static str, show: S) -> MethodRouter<Console>
where
    Q: FromRequestParts<Console> + Send + 'static,
    F: Future<Output = Result<Response, PageError>> + Send + 'static,
    S: Fn(Console, Visit, NamedModel, Q) -> F + Clone + Send + Sync + 'static,
{
    get(async move |State(console): State<Console>, Path(named): Path<NamedModel>, query: Q, parts: Parts| {
        console.show(named.call(name), parts, move |console, visit| show(console, visit, named, query)).await
    })
}

async fn unknown(_: Console, _: Visit, address: Uri) -> Result<Response, PageError> {
    Err(PageError::NoPage(address.path().to_owned()))
}
