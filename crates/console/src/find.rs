//! Jobs, studies and models by name, for the list of commands.

use axum::Json;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::console::Console;
use super::errors::PageError;
use super::models;
use super::subject::{job_address, study_address};
use super::visit::Visit;
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::job;
use tunesmith_api::ai_platform::optimizer::display_name;
use tunesmith_domain::StudyState;

/// Maximum number of entries in a response.
const MOST: usize = 12;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// Part of the name, in any case.
    name: String,
}

#[derive(Debug, PartialEq, Serialize)]
struct NamedPage {
    kind: &'static str,
    project: String,
    name: String,
    state: String,
    address: String,
}

/// Responds with the newest visible jobs, studies and models whose names contain the wanted text.
pub(crate) async fn show(
    console: Console,
    visit: Visit,
    Query(Wanted { name }): Query<Wanted>,
) -> Result<Response, PageError> {
    let wanted = name.to_lowercase();
    let visitor = &visit.visitor;
    let jobs = console.jobs.pick(|job| {
        let (project, id) = job.id.parts();
        let name = job::display_name(&job);
        let is_named = [name, id].iter().any(|name| name.to_lowercase().contains(&wanted));
        let is_found = is_named && visitor.may_on(Permission::JobsGet, &job);
        is_found.then(|| {
            let page = NamedPage {
                kind: "job",
                project: project.to_owned(),
                name: name.to_owned(),
                state: job.state.as_str().to_lowercase(),
                address: job_address(&job),
            };
            (job.create_time, page)
        })
    });
    let mut found: Vec<(Timestamp, NamedPage)> = jobs.await?;
    let studies = console.studies.pick(None, |study| {
        let (project, name) = (study.id.parts().0, display_name(&study));
        let is_found = name.to_lowercase().contains(&wanted) && visitor.may(Permission::StudiesGet, project);
        is_found.then(|| {
            let page = NamedPage {
                kind: "study",
                project: project.to_owned(),
                name: name.to_owned(),
                state: state_word(study.state).to_owned(),
                address: study_address(&study),
            };
            (study.create_time, page)
        })
    });
    found.extend(studies.await?);
    let models = console.visible_models(visitor).await?;
    found.extend(models.into_iter().filter(|model| model.name.to_lowercase().contains(&wanted)).map(|model| {
        let versions = model.versions.len();
        let page = NamedPage {
            kind: "model",
            project: model.project.clone(),
            name: model.name.clone(),
            state: format!("{versions} {}", if versions == 1 { "version" } else { "versions" }),
            address: models::address(&model),
        };
        (model.create_time, page)
    }));
    found.sort_by_key(|(created, _)| std::cmp::Reverse(*created));
    found.truncate(MOST);
    let found: Vec<NamedPage> = found.into_iter().map(|(_, page)| page).collect();
    Ok(Json(serde_json::json!({ "found": found })).into_response())
}

fn state_word(state: StudyState) -> &'static str {
    match state {
        StudyState::Active => "active",
        StudyState::Inactive => "inactive",
        StudyState::Completed => "completed",
    }
}
