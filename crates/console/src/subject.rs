//! What the pages of one job have in common: its name, its state and the tabs.

use super::errors::PageError;
use super::format::Badge;
use super::router::Console;
use super::summary::job_address;
use tunesmith_access::Permission;
use tunesmith_domain::{Job, JobId, Study};
use tunesmith_http::pages::PageCall;

/// A tab of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Summary,
    Trials,
    Explore,
    Trust,
}

/// A job with its study.
pub(crate) struct Subject {
    pub(crate) job: Job,
    pub(crate) study: Option<Study>,
}

/// The head of the pages of a job.
pub(crate) struct Head {
    pub(crate) project: String,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) badge: Badge,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) has_trials: bool,
    pub(crate) tab: Tab,
}

impl Head {
    pub(crate) fn is(&self, tab: &str) -> bool {
        tab == match self.tab {
            Tab::Summary => "summary",
            Tab::Trials => "trials",
            Tab::Explore => "explore",
            Tab::Trust => "trust",
        }
    }
}

impl Subject {
    /// The head of the page `tab`.
    pub(crate) fn head(&self, tab: Tab) -> Head {
        let (project, name) = self.job.id.parts();
        Head {
            project: project.to_owned(),
            name: name.to_owned(),
            address: job_address(&self.job),
            badge: self.job.state.into(),
            labels: self.job.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            has_trials: self.study.is_some(),
            tab,
        }
    }
}

/// A request for a page of a job.
pub(crate) fn job_call(name: &'static str, project: &str, job: &str) -> PageCall {
    PageCall::of_job(name, Permission::JobsGet, project, job)
}

impl Console {
    /// The job of a page.
    pub(crate) async fn subject(&self, project: &str, job: &str) -> Result<Subject, PageError> {
        let id = JobId::new(project, job).map_err(|error| PageError::Invalid(error.to_string()))?;
        let job = self.jobs.job(&id).await?;
        let study = self.study_of(&job).await?;
        Ok(Subject { job, study })
    }
}
