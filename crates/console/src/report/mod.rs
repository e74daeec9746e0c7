//! A report: the summary, the plots and the trials of one job or study as one page that needs no server.
//!
//! The page contains its styles, its scripts and its data, and loads nothing. Its policy allows exactly the two scripts that
//! it contains, by their digests.

mod data;
mod script;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use self::data::{Contents, Row};
use super::errors::PageError;
use super::explore::{Figure, figures, figures_of_model};
use super::format::Time;
use super::job::Summary;
use super::login;
use super::plotly;
use super::router::Console;
use super::subject::{Head, Named, Subject, Tab};
use tunesmith_access::Permission;
use tunesmith_http::pages::PageCall;

/// The number of reports that are written at once: each takes some 20 MB of memory, and a model of the search.
static WRITERS: Semaphore = Semaphore::const_new(1);

/// The time limit of a report as a multiple of that of other pages: a model is fitted for each metric.
const TIME_LIMIT_FACTOR: u32 = 4;

/// The policy of the response. The page brings its own, and does not run in the origin of the server.
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
    /// The digests of both scripts, as in a policy.
    digests: [String; 2],
    /// The views of the study, as JSON in which no character has a meaning in HTML.
    data: String,
    metrics: Vec<String>,
    /// The metrics with plots.
    plotted: Vec<String>,
    parameters: Vec<String>,
    explore: Vec<Figure>,
    trust: Vec<Figure>,
    /// What was left out.
    omissions: Vec<String>,
    rows: Vec<Row>,
    total: usize,
}

/// Answers with the report of a job or a study, or with the reason why there is none as plain text.
pub(crate) async fn report(State(console): State<Console>, Path(named): Path<Named>, parts: Parts) -> Response {
    let call = named.call("console.report", Permission::TrialsList);
    let call = PageCall { time_limit_factor: TIME_LIMIT_FACTOR, ..call };
    let pages = console.pages.clone();
    let answer = pages.answer(call, &parts, |_| async move {
        match written(console, &named).await {
            Ok(html) => saved(named.name(), html),
            Err(error) => refused(error),
        }
    });
    answer.await.unwrap_or_else(|refusal| match refusal.status {
        StatusCode::UNAUTHORIZED => login::required(&parts),
        status => (status, refusal.message).into_response(),
    })
}

fn refused(error: PageError) -> Response {
    let (status, message) = error.parts();
    (status, message).into_response()
}

/// The response that a browser saves as a file.
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

/// The page of a job or a study.
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
    // Browsers read line ends so, and compare the digest of what they have read.
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
        // The importance is among the plots of Explore.
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
