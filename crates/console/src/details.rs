//! Configuration of a job or study, and program output of a job.

use askama::Template;
use axum::response::Response;
use serde_json::json;

use super::artifacts::ArtifactList;
use super::console::{Console, rendered};
use super::errors::PageError;
use super::frame::{Frame, Section};
use super::logs::LogPart;
use super::subject::{Head, Named, Subject, Tab};
use super::visit::Visit;
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
    /// `None` without a job-dir, and for a job with trials.
    artifacts: Option<ArtifactList>,
}

pub(crate) async fn configuration(console: Console, visit: Visit, named: Named, (): ()) -> Result<Response, PageError> {
    let subject = console.subject(&named).await?;
    let document = match &subject {
        Subject::Job { job, .. } => match &job.prediction {
            None => json!({ "jobId": subject.name(), "trainingInput": &job.training_input }),
            Some(prediction) => json!({
                "jobId": subject.name(),
                "predictionInput": &prediction.input,
                "predictionOutput": {
                    "predictionCount": prediction.counts.predictions,
                    "errorCount": prediction.counts.errors,
                },
            }),
        },
        Subject::Study(study) => Document::clone(&study.config),
    };
    let title = format!("Configuration of {}", subject.name());
    let page = ConfigurationPage {
        frame: visit.frame(title, Section::Jobs),
        head: subject.head(&visit.visitor, Tab::Configuration),
        text: serde_json::to_string_pretty(&document).unwrap_or_default(),
    };
    Ok(rendered(&page))
}

pub(crate) async fn output(console: Console, visit: Visit, named: Named, (): ()) -> Result<Response, PageError> {
    let subject = console.subject(&named).await?;
    let page = OutputPage {
        frame: visit.frame(format!("Output of {}", subject.name()), Section::Jobs),
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
