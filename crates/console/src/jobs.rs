use std::collections::BTreeSet;

use askama::Template;
use axum::extract::{Query, RawQuery};
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;

use super::compare::names_of;
use super::console::{Console, rendered};
use super::errors::PageError;
use super::format::encoded;
use super::frame::{Frame, Section};
use super::subject::Subject;
use super::summary::ListRow;
use super::visit::{Visit, Visitor};
use tunesmith_access::Permission;
use tunesmith_domain::{Job, JobId, Study, StudyId};
use tunesmith_jobs::JobFilter;
use tunesmith_studies::StudyFilter;

const PAGE_SIZE: usize = 50;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    #[serde(alias = "")]
    All,
    Jobs,
    Studies,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    filter: String,
    project: String,
    kind: Kind,
    page: usize,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: Frame,
    selection: Selection,
    /// Error in the filter.
    error: Option<String>,
    projects: Vec<String>,
    rows: Vec<ListRow>,
    total: usize,
    first: usize,
    /// Names ticked for comparison.
    ticked: Vec<String>,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Jobs => "jobs",
            Self::Studies => "studies",
        }
    }
}

impl JobsPage {
    /// Common restrictions beside the filter, as JSON: label and restriction.
    const CHIPS: &str = r#"[["Running","state:RUNNING"],["Queued","state:QUEUED"],["Succeeded","state:SUCCEEDED"],["Failed","state:FAILED"],["Active studies","state:ACTIVE"]]"#;

    fn address(&self, page: usize) -> String {
        let Selection { filter, project, kind, .. } = &self.selection;
        let ticked: String = self.ticked.iter().map(|name| format!("&job={}", encoded(name))).collect();
        let kind = kind.as_str();
        format!("/console/jobs?filter={}&project={}&kind={kind}&page={page}{ticked}", encoded(filter), encoded(project))
    }

    fn last(&self) -> usize {
        self.first + self.rows.len()
    }

    /// Ticked names on other pages of the list.
    fn ticked_elsewhere(&self) -> impl Iterator<Item = &String> {
        self.ticked.iter().filter(|name| !self.rows.iter().any(|row| row.key() == **name))
    }

    fn is_filtered(&self) -> bool {
        let Selection { filter, project, kind, .. } = &self.selection;
        !filter.trim().is_empty() || !project.is_empty() || *kind != Kind::All
    }

    /// Selectable kinds: value, label, and whether it is selected.
    fn kinds(&self) -> [(&'static str, &'static str, bool); 3] {
        [(Kind::All, "Jobs and studies"), (Kind::Jobs, "Jobs"), (Kind::Studies, "Studies")]
            .map(|(kind, name)| (kind.as_str(), name, kind == self.selection.kind))
    }
}

struct Filters {
    jobs: Option<JobFilter>,
    studies: Option<StudyFilter>,
}

impl Filters {
    /// Parses `text` into filters for `kind`. A filter with job-only fields selects no studies, and vice versa.
    ///
    /// # Errors
    /// The error in `text`, if it selects neither.
    fn parse(text: &str, kind: Kind) -> Result<Self, String> {
        let (jobs, studies) = (text.parse::<JobFilter>(), text.parse::<StudyFilter>());
        let error = match (kind, &jobs, &studies) {
            (Kind::Jobs, Err(error), _) | (Kind::Studies, _, Err(error)) => Some(error.to_string()),
            (Kind::All, Err(of_jobs), Err(of_studies)) => Some(match (of_jobs.to_string(), of_studies.to_string()) {
                (of_jobs, of_studies) if of_jobs == of_studies => of_jobs,
                (of_jobs, of_studies) => {
                    format!("as a filter of jobs: {of_jobs}; as a filter of studies: {of_studies}")
                }
            }),
            _ => None,
        };
        match error {
            Some(error) => Err(error),
            None => Ok(Self {
                jobs: jobs.ok().filter(|_| kind != Kind::Studies),
                studies: studies.ok().filter(|_| kind != Kind::Jobs),
            }),
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    Job(JobId),
    Study(StudyId),
}

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    (Query(selection), RawQuery(query)): (Query<Selection>, RawQuery),
) -> Result<Response, PageError> {
    let ticked = names_of(query.as_deref().unwrap_or_default());
    let (filters, error) = match Filters::parse(&selection.filter, selection.kind) {
        Ok(filters) => (filters, None),
        Err(error) => (Filters { jobs: None, studies: None }, Some(error)),
    };
    let mut projects = BTreeSet::new();
    let mut found = console.found(&visit.visitor, &filters, &selection.project, &mut projects).await?;
    found.sort_by(|a, b| b.cmp(a));
    let first = selection.page.saturating_mul(PAGE_SIZE).min(found.len());
    let mut rows = Vec::new();
    for (_, found) in found.iter().skip(first).take(PAGE_SIZE) {
        match console.row_of(found).await {
            Ok(row) => rows.push(ListRow { is_ticked: ticked.contains(&row.key()), ..row }),
            // Deleted in the meantime.
            Err(PageError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let page = JobsPage {
        frame: visit.frame("Jobs and studies", Section::Jobs),
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

impl Console {
    /// Visible jobs and studies in `project` that match `filters`, with creation times. An empty `project` means all.
    /// Adds the projects of everything visible to `projects`.
    async fn found(
        &self,
        visitor: &Visitor,
        filters: &Filters,
        project: &str,
        projects: &mut BTreeSet<String>,
    ) -> Result<Vec<(Timestamp, Found)>, PageError> {
        let mut is_wanted = |of: &str| {
            if !projects.contains(of) {
                projects.insert(of.to_owned());
            }
            project.is_empty() || of == project
        };
        let jobs = self.jobs.pick(|job: Job| {
            let is_found = visitor.may_on(Permission::JobsGet, &job)
                && is_wanted(job.id.parts().0)
                && filters.jobs.as_ref().is_some_and(|filter| filter.accepts(&job));
            is_found.then(|| (job.create_time, Found::Job(job.id.clone())))
        });
        let mut found = jobs.await?;
        let studies = self.studies.pick(None, |study: Study| {
            let of = study.id.parts().0;
            let is_found = visitor.may(Permission::StudiesGet, of)
                && is_wanted(of)
                && filters.studies.as_ref().is_some_and(|filter| filter.accepts(&study));
            is_found.then(|| (study.create_time, Found::Study(study.id.clone())))
        });
        found.extend(studies.await?);
        Ok(found)
    }

    pub(crate) async fn row_of(&self, found: &Found) -> Result<ListRow, PageError> {
        let subject = match found {
            Found::Job(id) => self.subject_of_job(self.jobs.job(id).await?).await?,
            Found::Study(id) => Subject::Study(self.studies.study(id).await?),
        };
        self.row(&subject).await
    }
}

#[cfg(test)]
mod tests {
    use super::{Filters, Kind};

    #[test]
    fn filter_selects_what_has_its_fields() {
        let selected = |text: &str| {
            let filters = Filters::parse(text, Kind::All).unwrap();
            (filters.jobs.is_some(), filters.studies.is_some())
        };
        assert_eq!(selected(""), (true, true));
        assert_eq!(selected("createTime > 2026-01-01"), (true, true));
        assert_eq!(selected("jobId:cnn* AND state:RUNNING"), (true, false));
        assert_eq!(selected("studyId:cnn* AND trials > 10"), (false, true));
        assert_eq!(selected("state = COMPLETED"), (false, true));
        let error = Filters::parse("none:x", Kind::All).err().unwrap();
        assert!(error.starts_with("as a filter of jobs: column 1: found the field none; allowed: jobId"), "{error}");
        assert!(
            error.contains("; as a filter of studies: column 1: found the field none; allowed: studyId"),
            "{error}"
        );
        assert_eq!(Filters::parse("state(", Kind::All).err(), Filters::parse("state(", Kind::Jobs).err());
        assert!(Filters::parse("jobId:a", Kind::Studies).is_err());
        assert!(Filters::parse("jobId:a", Kind::Jobs).is_ok_and(|filters| filters.studies.is_none()));
    }
}
