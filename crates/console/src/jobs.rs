//! The list of jobs.

use askama::Template;
use axum::extract::{Query, RawQuery, State};
use axum::http::request::Parts;
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;

use super::compare::jobs_of;
use super::errors::PageError;
use super::format::encoded;
use super::frame::{Frame, Section};
use super::router::{Console, Visit, rendered};
use super::summary::JobRow;
use tunesmith_access::Permission;
use tunesmith_domain::JobId;
use tunesmith_http::pages::PageCall;
use tunesmith_service::filters::JobFilter;

/// Number of jobs on a page.
const PAGE_SIZE: usize = 50;

/// The selection in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    filter: String,
    project: String,
    page: usize,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: Frame,
    selection: Selection,
    /// What is wrong with the filter.
    error: Option<String>,
    projects: Vec<String>,
    rows: Vec<JobRow>,
    total: usize,
    first: usize,
    /// The jobs that are ticked to be compared.
    ticked: Vec<String>,
}

impl JobsPage {
    fn address(&self, page: usize) -> String {
        let Selection { filter, project, .. } = &self.selection;
        let ticked: String = self.ticked.iter().map(|job| format!("&job={}", encoded(job))).collect();
        format!("/console/jobs?filter={}&project={}&page={page}{ticked}", encoded(filter), encoded(project))
    }

    fn last(&self) -> usize {
        self.first + self.rows.len()
    }

    /// The ticked jobs that are not on this page of the list.
    fn ticked_elsewhere(&self) -> impl Iterator<Item = &String> {
        self.ticked.iter().filter(|job| !self.rows.iter().any(|row| row.key() == **job))
    }

    fn is_filtered(&self) -> bool {
        !self.selection.filter.trim().is_empty() || !self.selection.project.is_empty()
    }
}

pub(crate) async fn page(
    State(console): State<Console>,
    Query(selection): Query<Selection>,
    RawQuery(query): RawQuery,
    parts: Parts,
) -> Response {
    let call = PageCall::of_all("console.jobs");
    let ticked = jobs_of(query.as_deref().unwrap_or_default());
    console.show(call, parts, async move |console, visit| jobs(console, visit, selection, ticked).await).await
}

async fn jobs(
    console: Console,
    visit: Visit,
    selection: Selection,
    ticked: Vec<String>,
) -> Result<Response, PageError> {
    let parsed = selection.filter.parse::<JobFilter>();
    let (filter, error) = match parsed {
        Ok(filter) => (Some(filter), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut projects = std::collections::BTreeSet::new();
    let mut found: Vec<(Timestamp, JobId)> = {
        let (visitor, wanted, projects) = (visit.visitor.clone(), selection.project.clone(), &mut projects);
        let filter = filter.as_ref();
        let pick = move |job: tunesmith_domain::Job| {
            if !visitor.may_on(Permission::JobsGet, &job) {
                return None;
            }
            let project = job.id.parts().0;
            if !projects.contains(project) {
                projects.insert(project.to_owned());
            }
            let is_wanted = wanted.is_empty() || project == wanted;
            let is_accepted = is_wanted && filter.is_some_and(|filter| filter.accepts(&job));
            is_accepted.then(|| (job.create_time, job.id.clone()))
        };
        console.jobs.pick(pick).await?
    };
    found.sort_by(|a, b| b.cmp(a));
    let first = selection.page.saturating_mul(PAGE_SIZE).min(found.len());
    let mut rows = Vec::new();
    for (_, id) in found.iter().skip(first).take(PAGE_SIZE) {
        match console.jobs.job(id).await.map_err(PageError::from) {
            Ok(job) => {
                let row = console.row(&job).await?;
                rows.push(JobRow { is_ticked: ticked.contains(&row.key()), ..row });
            }
            // It was deleted since.
            Err(PageError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let page = JobsPage {
        frame: Frame::new("Jobs", Section::Jobs, &visit.visitor, &visit.parts),
        selection,
        error,
        projects: projects.into_iter().collect(),
        rows,
        total: found.len(),
        first,
        ticked,
    };
    Ok(rendered(&page))
}
