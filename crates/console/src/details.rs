//! The configuration of a job or a study, and the output of the program of a job.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::json;

use super::artifacts::ArtifactList;
use super::errors::PageError;
use super::frame::{Frame, Section};
use super::logs::LogPart;
use super::router::{Console, Visit, rendered};
use super::subject::{Head, Named, Subject, Tab};
use tunesmith_access::Permission;
use tunesmith_domain::Document;

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
    /// The files below the job-dir; `None` without one, and for a job with trials.
    artifacts: Option<ArtifactList>,
}

pub(crate) async fn configuration(State(console): State<Console>, Path(named): Path<Named>, parts: Parts) -> Response {
    let call = named.call("console.configuration", Permission::StudiesGet);
    console.show(call, parts, async move |console, visit| show_configuration(console, visit, &named).await).await
}

async fn show_configuration(console: Console, visit: Visit, named: &Named) -> Result<Response, PageError> {
    let subject = console.subject(named).await?;
    let document = match &subject {
        Subject::Job { job, .. } => json!({ "jobId": subject.name(), "trainingInput": &job.training_input }),
        Subject::Study(study) => Document::clone(&study.config),
    };
    let title = format!("Configuration of {}", subject.name());
    let page = ConfigurationPage {
        frame: Frame::new(title, Section::Jobs, &visit.visitor, &visit.parts),
        head: subject.head(&visit.visitor, Tab::Configuration),
        text: serde_json::to_string_pretty(&document).unwrap_or_default(),
    };
    Ok(rendered(&page))
}

pub(crate) async fn output(State(console): State<Console>, Path(named): Path<Named>, parts: Parts) -> Response {
    let call = named.call("console.output", Permission::JobsGet);
    console.show(call, parts, async move |console, visit| show_output(console, visit, &named).await).await
}

async fn show_output(console: Console, visit: Visit, named: &Named) -> Result<Response, PageError> {
    let subject = console.subject(named).await?;
    let page = OutputPage {
        frame: Frame::new(format!("Output of {}", subject.name()), Section::Jobs, &visit.visitor, &visit.parts),
        head: subject.head(&visit.visitor, Tab::Output),
        artifacts: match subject.job() {
            Some(job) if job.study.is_none() => console.artifacts(&job.id, None).await?,
            _ => None,
        },
        logs: match subject.job() {
            Some(job) => console.logs(&job.id, None).await?,
            None => Vec::new(),
        },
    };
    Ok(rendered(&page))
}
