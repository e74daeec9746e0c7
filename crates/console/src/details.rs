//! The configuration of a job, and the output of its program.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::Response;

use super::errors::PageError;
use super::frame::{Frame, Section};
use super::logs::LogPart;
use super::router::{Console, Visit, rendered};
use super::subject::{Head, Tab, job_call};

#[derive(Template)]
#[template(path = "configuration.html")]
struct ConfigurationPage {
    frame: Frame,
    head: Head,
    text: String,
}

#[derive(Template)]
#[template(path = "output.html")]
struct OutputPage {
    frame: Frame,
    head: Head,
    logs: Vec<LogPart>,
}

pub(crate) async fn configuration(
    State(console): State<Console>,
    Path((project, job)): Path<(String, String)>,
    parts: Parts,
) -> Response {
    let call = job_call("console.configuration", &project, &job);
    console
        .show(call, parts, async move |console, visit| show_configuration(console, visit, &project, &job).await)
        .await
}

async fn show_configuration(console: Console, visit: Visit, project: &str, job: &str) -> Result<Response, PageError> {
    let subject = console.subject(project, job).await?;
    let document = serde_json::json!({ "jobId": job, "trainingInput": &subject.job.training_input });
    let page = ConfigurationPage {
        frame: Frame::new(format!("Configuration of {job}"), Section::Jobs, &visit.visitor, &visit.parts),
        head: subject.head(&visit.visitor, Tab::Configuration),
        text: serde_json::to_string_pretty(&document).unwrap_or_default(),
    };
    Ok(rendered(&page))
}

pub(crate) async fn output(
    State(console): State<Console>,
    Path((project, job)): Path<(String, String)>,
    parts: Parts,
) -> Response {
    let call = job_call("console.output", &project, &job);
    console.show(call, parts, async move |console, visit| show_output(console, visit, &project, &job).await).await
}

async fn show_output(console: Console, visit: Visit, project: &str, job: &str) -> Result<Response, PageError> {
    let subject = console.subject(project, job).await?;
    let page = OutputPage {
        frame: Frame::new(format!("Output of {job}"), Section::Jobs, &visit.visitor, &visit.parts),
        head: subject.head(&visit.visitor, Tab::Output),
        logs: console.logs(&subject.job.id, None).await?,
    };
    Ok(rendered(&page))
}
