//! Pages to submit a job and to create a study: a configuration editor with inline errors.

use askama::Template;
use axum::Json;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::console::{Console, rendered};
use super::errors::PageError;
use super::frame::{Frame, Section};
use super::job_form::{self, Change, Form};
use super::study_form;
use super::visit::{PageCall, Visit};
use tunesmith_access::Permission;
use tunesmith_config::Diagnostic;
use tunesmith_domain::{Job, JobId};
use tunesmith_jobs::JobsError;
use tunesmith_store::StoreError;

/// Maximum size of a configuration in bytes. A guess: far more than a person edits in a page.
const MAX_TEXT: usize = 1 << 20;

/// Number of names that are tried for a job like another one.
const MOST_NAMES: u32 = 50;

/// Default project, as on the command line.
const DEFAULT_PROJECT: &str = "local";

const EXAMPLE: &str = "\
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 20
    maxParallelTrials: 2
    params:
    - {parameterName: learning_rate, type: DOUBLE, minValue: 1e-5, maxValue: 1, scaleType: UNIT_LOG_SCALE}
    - {parameterName: layers, type: INTEGER, minValue: 1, maxValue: 8}
  masterConfig:
    # Receives --learning_rate=0.01 --layers=3, and prints lines such as loss=0.5 step=3
    containerCommand: [python3, /path/to/train.py]
  tunesmith:
    metricFromStdout: true
";

const EXAMPLE_OF_STUDY: &str = "\
metrics:
- {metric: loss, goal: MINIMIZE}
parameters:
- {parameter: learning_rate, type: DOUBLE, doubleValueSpec: {minValue: 1e-5, maxValue: 1}, scaleType: UNIT_LOG_SCALE}
- {parameter: layers, type: INTEGER, integerValueSpec: {minValue: 1, maxValue: 8}}
tunesmith:
  maxTrials: 100
";

const DEFAULT_LOCATION: &str = "local";

#[derive(Template)]
#[template(path = "new_job.html")]
struct NewJobPage {
    frame: Frame,
    project: String,
    /// Location of a new study; `None` for a new job.
    location: Option<&'static str>,
    /// Name of the job whose configuration it is, if any.
    source: Option<String>,
    /// Proposed name; empty for none.
    name: String,
    text: String,
}

/// Job to begin with, as `PROJECT/NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Start {
    from: Option<String>,
}

pub(crate) async fn new_job(console: Console, visit: Visit, Query(start): Query<Start>) -> Result<Response, PageError> {
    require(&visit, Permission::JobsCreate, "submit a job")?;
    if let Some(from) = start.from {
        return new_job_from(&console, &visit, &from).await;
    }
    // Newest project in which the visitor may create jobs.
    let visitor = visit.visitor.clone();
    let known = console.jobs.pick(move |job| {
        let project = job.id.parts().0;
        visitor.may(Permission::JobsCreate, project).then(|| (job.create_time, project.to_owned()))
    });
    let newest = known.await?.into_iter().max();
    let page = NewJobPage {
        frame: visit.frame("New job", Section::Jobs),
        project: newest.map_or_else(|| DEFAULT_PROJECT.to_owned(), |(_, project)| project),
        location: None,
        source: None,
        name: String::new(),
        text: EXAMPLE.to_owned(),
    };
    Ok(rendered(&page))
}

/// Page with the configuration of the job `from`, which the visitor may read.
async fn new_job_from(console: &Console, visit: &Visit, from: &str) -> Result<Response, PageError> {
    let (project, name) = from.split_once('/').unwrap_or((from, ""));
    let id = JobId::new(project, name).map_err(|error| PageError::Invalid(format!("from={from}: {error}")))?;
    let job = console.jobs.job(&id).await?;
    if !visit.visitor.may_on(Permission::JobsGet, &job) {
        return Err(PageError::Denied(format!("permission {} is needed on the job {name}", Permission::JobsGet)));
    }
    let text = yaml_serde::to_string(&json!({ "trainingInput": template(&job) }));
    let page = NewJobPage {
        frame: visit.frame(format!("New job from {name}"), Section::Jobs),
        project: project.to_owned(),
        location: None,
        source: Some(name.to_owned()),
        name: next_name(console, project, name).await?,
        text: text.map_err(|error| PageError::Failed(error.to_string()))?,
    };
    Ok(rendered(&page))
}

/// Training input for another job like `job`. What the API of Vertex AI alone may set becomes what a configuration can state.
fn template(job: &Job) -> Value {
    let mut input = job.training_input.clone();
    let Some(additions) = input.get_mut("tunesmith").and_then(Value::as_object_mut) else { return input };
    if additions.remove("vertex").is_some()
        && let Ok(plan) = &job.plan
        && !plan.variables.is_empty()
    {
        let variables = plan.variables.iter().map(|it| (it.name.clone(), Value::from(it.value.as_str())));
        additions.insert("environment".to_owned(), Value::Object(variables.collect()));
    }
    input
}

/// First unused name after `name` by a number at its end: `sweep_2` after `sweep`. Empty if the next ones are used.
async fn next_name(console: &Console, project: &str, name: &str) -> Result<String, PageError> {
    let numbered = name.rsplit_once('_').and_then(|(stem, number)| Some((stem, number.parse::<u32>().ok()?)));
    let (stem, number) = numbered.unwrap_or((name, 1));
    for number in (1..=MOST_NAMES).map(|more| number.saturating_add(more)) {
        let next = format!("{stem}_{number}");
        let Ok(id) = JobId::new(project, &next) else { break };
        match console.jobs.job(&id).await {
            Err(JobsError::Store(StoreError::NotFound { .. })) => return Ok(next),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
    Ok(String::new())
}

pub(crate) async fn new_study(console: Console, visit: Visit, (): ()) -> Result<Response, PageError> {
    require(&visit, Permission::StudiesCreate, "create a study")?;
    let visitor = visit.visitor.clone();
    let known = console.studies.pick(None, move |study| {
        let project = study.id.parts().0;
        visitor.may(Permission::StudiesCreate, project).then(|| (study.create_time, project.to_owned()))
    });
    let newest = known.await?.into_iter().max();
    let page = NewJobPage {
        frame: visit.frame("New study", Section::Jobs),
        project: newest.map_or_else(|| DEFAULT_PROJECT.to_owned(), |(_, project)| project),
        location: Some(DEFAULT_LOCATION),
        source: None,
        name: String::new(),
        text: EXAMPLE_OF_STUDY.to_owned(),
    };
    Ok(rendered(&page))
}

/// Refuses `what` to a visitor without `permission` in any project.
fn require(visit: &Visit, permission: Permission, what: &str) -> Result<(), PageError> {
    if visit.visitor.may_somewhere(permission) {
        return Ok(());
    }
    Err(PageError::Denied(format!("permission {permission} is needed in a project to {what}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    text: String,
    #[serde(default, rename = "isStudy")]
    is_study: bool,
    /// Change of the form, applied first.
    #[serde(default)]
    change: Option<Change>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Remark {
    #[serde(rename = "isError")]
    is_error: bool,
    line: usize,
    column: usize,
    /// Path of the value; empty for the whole configuration.
    field: String,
    text: String,
}

/// Validates a configuration, after applying an optional change of the form. Responds with errors, the form and, if
/// valid, the body of the submit request.
pub(crate) async fn check(State(console): State<Console>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let call = PageCall::of_all("console.check");
    let check = async move |_, visit: Visit| {
        let draft: Draft =
            serde_json::from_slice(&visit.body).map_err(|error| PageError::Invalid(error.to_string()))?;
        let Draft { mut text, is_study, change } = draft;
        let changed = if is_study { study_form::changed } else { job_form::changed };
        let refusal = match change.map(|change| changed(&text, &change)) {
            Some(Ok(changed)) => {
                text = changed;
                None
            }
            Some(Err(error)) => Some(error.to_string()),
            None => None,
        };
        let mut answer = if is_study { checked_study(&text) } else { checked(&text) };
        let form = if is_study { study_form::form_of(&text) } else { Form::of(&text) };
        answer["form"] = json!(form.limited());
        answer["text"] = json!(text);
        answer["refusal"] = json!(refusal);
        Ok(Json(answer).into_response())
    };
    console.show_with_body(call, parts, (body, MAX_TEXT), check).await
}

fn checked(text: &str) -> Value {
    match tunesmith_config::parse("configuration", text) {
        Ok(config) => {
            let mut request = json!({ "trainingInput": config.training_input, "labels": config.labels });
            if let Some(id) = &config.job_id {
                request["jobId"] = json!(id.parts().1);
            }
            let warnings: Vec<Diagnostic> = config.warnings.into_iter().filter(|warning| !is_stated(warning)).collect();
            json!({ "remarks": remarks(&warnings), "request": request })
        }
        Err(errors) => json!({ "remarks": remarks(errors.diagnostics()) }),
    }
}

/// Whether the page states the same: a command without an image is run on the machine of the server.
fn is_stated(warning: &Diagnostic) -> bool {
    !warning.is_error() && warning.field.ends_with("masterConfig.containerCommand")
}

fn checked_study(text: &str) -> Value {
    match tunesmith_config::parse_study("configuration", text) {
        Ok(study) => json!({ "remarks": remarks(&study.warnings), "request": study.request }),
        Err(errors) => json!({ "remarks": remarks(errors.diagnostics()) }),
    }
}

fn remarks(diagnostics: &[Diagnostic]) -> Vec<Remark> {
    let text = |diagnostic: &Diagnostic| {
        let Diagnostic { field, message, allowed, help, .. } = diagnostic;
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        let allowed = if allowed.is_empty() { String::new() } else { format!("; allowed: {allowed}") };
        let help = help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{field}{message}{allowed}{help}")
    };
    let remark = |diagnostic: &Diagnostic| Remark {
        is_error: diagnostic.is_error(),
        line: diagnostic.line,
        column: diagnostic.column,
        field: diagnostic.field.clone(),
        text: text(diagnostic),
    };
    diagnostics.iter().map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_is_valid_and_errors_have_their_place() {
        let answer = checked(EXAMPLE);
        assert_eq!(answer["remarks"], json!([]), "the example has no warning");
        assert_eq!(answer["request"]["trainingInput"]["hyperparameters"]["maxTrials"], 20);
        let answer = checked(&EXAMPLE.replace("maxTrials: 20", "maxTrials: -1"));
        assert!(answer.get("request").is_none());
        let remark = &answer["remarks"][0];
        assert_eq!((&remark["line"], &remark["isError"]), (&json!(5), &json!(true)), "{answer}");
        assert!(remark["text"].as_str().unwrap().starts_with("trainingInput.hyperparameters.maxTrials: "), "{answer}");
        assert_eq!(checked("a: [")["remarks"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn example_of_a_study_is_valid_and_errors_have_their_place() {
        let answer = checked_study(EXAMPLE_OF_STUDY);
        assert_eq!(
            (&answer["remarks"], &answer["request"]["studyConfig"]["tunesmith"]["maxTrials"]),
            (&json!([]), &json!(100))
        );
        let answer = checked_study(&EXAMPLE_OF_STUDY.replace("maxTrials: 100", "maxTrials: 0"));
        assert!(answer.get("request").is_none());
        let remark = &answer["remarks"][0];
        assert_eq!((&remark["line"], &remark["field"]), (&json!(7), &json!("tunesmith.maxTrials")), "{answer}");
    }
}
