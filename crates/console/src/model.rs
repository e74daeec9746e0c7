//! Page of a model: its versions, their workers and requests, and a form that predicts.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use serde::Deserialize;

use super::console::{Console, rendered};
use super::errors::PageError;
use super::format::{Badge, Span, Time};
use super::frame::{Frame, Section};
use super::models::{address, framework};
use super::traffic::Traffic;
use super::visit::{PageCall, Visit, Visitor};
use tunesmith_access::Permission;
use tunesmith_admission::use_cases;
use tunesmith_prediction::{MAX_REQUEST_BYTES, Model, ModelSource, Version, VersionState};

/// Bytes of the output of workers on the page.
const OUTPUT_BYTES: u64 = 16 << 10;

/// Names in the URL of a page about a model.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NamedModel {
    pub(crate) project: String,
    pub(crate) model: String,
}

impl NamedModel {
    pub(crate) fn call(&self, name: &'static str) -> PageCall {
        let (project, job) = (self.project.clone(), Some(self.model.clone()));
        PageCall { use_case: use_cases::GET_MODEL.shown_as(name), project, job }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selected {
    /// Version with details; the default version if absent.
    version: Option<String>,
}

#[derive(Template)]
#[template(path = "model.html")]
struct ModelPage {
    frame: Frame,
    name: String,
    project: String,
    description: String,
    labels: Vec<(String, String)>,
    create_time: Time,
    address: String,
    /// URL of the model in the API.
    method: String,
    default: Option<String>,
    traffic: Traffic,
    versions: Vec<VersionRow>,
    /// Names of the versions that answer predictions, as JSON.
    ready: String,
    details: Option<Details>,
    may_delete: bool,
    may_set_default: bool,
    may_delete_versions: bool,
    may_predict: bool,
}

struct VersionRow {
    name: String,
    badge: Badge,
    is_default: bool,
    is_selected: bool,
    framework: String,
    origin: Origin,
    traffic: Traffic,
    create_time: Time,
    /// Whether it can become the default.
    is_ready: bool,
    /// Whether it can be deleted: settled, and not the default of other versions.
    is_deletable: bool,
}

/// Where the files of a version came from.
struct Origin {
    /// Text and URL of the job or trial.
    program: Option<(String, String)>,
    uri: String,
}

/// Facts of one version.
struct Details {
    name: String,
    description: String,
    badge: Badge,
    labels: Vec<(String, String)>,
    /// First line of the reason why it failed, and the traceback or output of pip.
    error: Option<(String, String)>,
    /// Why its last worker ended.
    failure: Option<String>,
    /// Time since the creation began, and the URL of its operation, while it runs.
    creating: Option<(Span, String)>,
    may_cancel: bool,
    origin: Origin,
    framework: String,
    runtime: String,
    python: String,
    packages: Vec<String>,
    versions: Vec<(String, String)>,
    warnings: Vec<String>,
    notices: Vec<(String, String)>,
    last_use: Option<Time>,
    output: String,
}

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    named: NamedModel,
    Query(Selected { version: wanted }): Query<Selected>,
) -> Result<Response, PageError> {
    let model = console.models.model(&named.project, &named.model).await?;
    let name = wanted.as_deref().or(model.default_version.as_deref());
    let selected = match name {
        Some(name) => model.version(name),
        None => model.versions.last(),
    };
    if let (None, Some(missing)) = (selected, &wanted) {
        let text = format!("version {}/versions/{missing} does not exist", model.resource_name());
        return Err(PageError::NotFound(text));
    }
    let details = match selected {
        Some(version) => Some(console.details(&visit.visitor, &model, version).await?),
        None => None,
    };
    let may = |permission| visit.visitor.may_on_model(permission, &model);
    let limit = console.models.max_nodes();
    let row = |version: &Version| VersionRow {
        name: version.name.clone(),
        badge: version.state.into(),
        is_default: is_default(&model, version),
        is_selected: selected.is_some_and(|selected| selected.name == version.name),
        framework: framework(version),
        origin: Origin::of(&model, version),
        traffic: Traffic::of(version, &console.models.status(version), limit),
        create_time: Time(version.create_time),
        is_ready: version.state == VersionState::Ready,
        is_deletable: matches!(version.state, VersionState::Ready | VersionState::Failed)
            && (!is_default(&model, version) || model.versions.len() == 1),
    };
    let ready = model.versions.iter().filter(|version| version.state == VersionState::Ready);
    let ready: Vec<&str> = ready.map(|version| version.name.as_str()).collect();
    let page = ModelPage {
        frame: visit.frame(&model.name, Section::Models),
        name: model.name.clone(),
        project: model.project.clone(),
        description: model.description.clone(),
        labels: model.labels.clone().into_iter().collect(),
        create_time: Time(model.create_time),
        address: address(&model),
        method: format!("/v1/{}", model.resource_name()),
        default: model.default_version.clone(),
        traffic: console.traffic_of(&model),
        // The newest first.
        versions: model.versions.iter().rev().map(row).collect(),
        ready: serde_json::json!(ready).to_string(),
        details,
        may_delete: model.versions.is_empty() && may(Permission::ModelsDelete),
        may_set_default: may(Permission::ModelsUpdate),
        may_delete_versions: may(Permission::VersionsDelete),
        may_predict: may(Permission::ModelsPredict) && may(Permission::VersionsPredict),
    };
    Ok(rendered(&page))
}

impl ModelPage {
    /// Maximum size of a request in bytes.
    const MAX_BYTES: usize = MAX_REQUEST_BYTES;

    fn has_actions(&self) -> bool {
        self.may_set_default || self.may_delete_versions
    }
}

fn is_default(model: &Model, version: &Version) -> bool {
    model.default_version.as_ref() == Some(&version.name)
}

impl Origin {
    fn of(model: &Model, version: &Version) -> Self {
        let program = version.spec.source.as_ref().map(|ModelSource { job, trial }| {
            let address = format!("/console/projects/{}/jobs/{job}", model.project);
            match trial {
                Some(trial) => (format!("trial {trial} of {job}"), format!("{address}/trials/{trial}")),
                None => (job.clone(), address),
            }
        });
        Self { program, uri: version.spec.deployment_uri.clone() }
    }
}

impl Console {
    async fn details(&self, visitor: &Visitor, model: &Model, version: &Version) -> Result<Details, PageError> {
        let (spec, status) = (&version.spec, self.models.status(version));
        let report = version.report.clone().unwrap_or_default();
        let output = if visitor.may_on_model(Permission::VersionsGet, model) {
            self.models.log(&model.project, version, OUTPUT_BYTES).await?
        } else {
            String::new()
        };
        let lines = |text: &str| {
            let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
            (first.to_owned(), rest.trim_matches('\n').to_owned())
        };
        let operation = || format!("/v1/projects/{}/operations/{}", model.project, version.operation);
        let interpreter = spec.python.as_ref().map_or_else(|| "python3".to_owned(), |path| path.display().to_string());
        let since = Span::between(version.create_time, self.clock.now()).whole();
        Ok(Details {
            name: version.name.clone(),
            description: spec.description.clone(),
            badge: version.state.into(),
            labels: spec.labels.clone().into_iter().collect(),
            error: (!version.error_message.is_empty()).then(|| lines(&version.error_message)),
            failure: status.failure,
            creating: (version.state == VersionState::Creating).then(|| (since, operation())),
            may_cancel: visitor.may(Permission::OperationsCancel, &model.project),
            origin: Origin::of(model, version),
            framework: framework(version),
            runtime: spec.runtime_version.clone(),
            python: match report.python.as_str() {
                "" => interpreter,
                python => format!("{python}, {interpreter}"),
            },
            packages: spec.package_uris.iter().chain(&spec.requirements).cloned().collect(),
            versions: report.versions.into_iter().collect(),
            warnings: report.warnings,
            notices: spec.notices.iter().map(|it| (it.field.clone(), it.description.clone())).collect(),
            last_use: version.last_use_time.max(status.last_use).map(Time),
            output,
        })
    }
}
