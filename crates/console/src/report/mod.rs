//! Report: summary, plots and trials of one job or study as one self-contained page.
//!
//! The page embeds its styles, scripts and data, and loads nothing. Its policy allows only its two scripts, by digest.

mod data;
mod script;

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use self::data::{Contents, Row};
use super::console::{Console, login_required};
use super::errors::{self, PageError};
use super::explore::{Figure, figures, figures_of_model};
use super::format::Time;
use super::job::Summary;
use super::plotly;
use super::subject::{Head, Named, Subject, Tab};
use super::visit::respond;
use tunesmith_admission::use_cases;

/// Limits concurrent reports: each uses some 20 MB of memory and a model of the search.
static WRITERS: Semaphore = Semaphore::const_new(1);

/// Multiple of the default time limit, for fitting a model per metric.
const TIME_LIMIT_FACTOR: u32 = 4;

/// Policy of the response. The page has its own, and does not run in the server's origin.
const POLICY: &str = "default-src 'none'; sandbox";

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage {
    head: Head,
    summary: Summary,
    written: Time,
    version: &'static str,
    style: String,
    library: String,
    script: &'static str,
    /// Script digests, as in a policy.
    digests: [String; 2],
    /// Views of the study, as HTML-safe JSON.
    data: String,
    metrics: Vec<String>,
    plotted: Vec<String>,
    parameters: Vec<String>,
    explore: Vec<Figure>,
    trust: Vec<Figure>,
    omissions: Vec<String>,
    rows: Vec<Row>,
    total: usize,
}

/// Responds with the report of a job or study, or with an error as plain text.
pub(crate) async fn report(State(console): State<Console>, Path(named): Path<Named>, parts: Parts) -> Response {
    let call = named.call(use_cases::LIST_TRIALS.shown_as("console.report").slower(TIME_LIMIT_FACTOR));
    let control = Arc::clone(&console.control);
    let report = async move |_| match written(console, &named).await {
        Ok(html) => saved(named.name(), html),
        Err(error) => refused(error),
    };
    let response = respond(&control, call, &parts, (Body::empty(), 0), report).await;
    response.unwrap_or_else(|refusal| match errors::status(&refusal) {
        StatusCode::UNAUTHORIZED => login_required(&parts),
        status => (status, refusal.message).into_response(),
    })
}

fn refused(error: PageError) -> Response {
    let (status, message) = error.parts();
    (status, message).into_response()
}

/// Response that browsers save as a file.
fn saved(job: &str, html: String) -> Response {
    let name: String = job.chars().filter(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter)).collect();
    let mut response = html.into_response();
    let headers = response.headers_mut();
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}.html\"")) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    let fixed = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn written(console: Console, named: &Named) -> Result<String, PageError> {
    let subject = console.subject(named).await?;
    let study = subject.trials()?;
    let _permit = WRITERS.acquire().await.map_err(|error| PageError::Failed(error.to_string()))?;
    let summary = Summary::of(&console, &subject, None).await?;
    let now = console.clock.now();
    let contents = data::contents(&console.studies, study, named.name(), now).await?;
    let page = tokio::task::spawn_blocking(move || page(&subject, summary, contents, Time(now))).await;
    page.unwrap_or_else(|error| Err(failed(&error)))
}

fn page(subject: &Subject, summary: Summary, contents: Contents, written: Time) -> Result<String, PageError> {
    let library = plotly::text().map_err(|error| failed(&error))?;
    // Browsers normalize line ends before they compute the digest.
    let library = library.replace("\r\n", "\n").replace('\r', "\n");
    let script = script::bundle();
    let Contents { data, metrics, plotted, parameters, sliced, paired, omissions, rows, total } = contents;
    let page = ReportPage {
        head: subject.head_without_actions(Tab::Summary),
        summary,
        written,
        version: env!("CARGO_PKG_VERSION"),
        style: [script::STYLE, script::STYLE_OF_PLOTS].concat(),
        digests: [&library, script].map(script::digest),
        library,
        script,
        data: script::island(&data),
        explore: figures(&plotted, &sliced, &paired),
        // Importance is among the plots of Explore.
        trust: figures_of_model().into_iter().filter(|figure| figure.view != "importance").collect(),
        metrics,
        plotted,
        parameters,
        omissions,
        rows,
        total,
    };
    page.render().map_err(|error| failed(&error))
}

fn failed(error: &(dyn std::error::Error + 'static)) -> PageError {
    tracing::error!(error, "a report cannot be written");
    PageError::Failed("the report cannot be written; see the server's log".to_owned())
}
