//! What the pages of one job have in common: its name, its state and the tabs.

use super::errors::PageError;
use super::format::Badge;
use super::router::Console;
use super::summary::job_address;
use tunesmith_access::Permission;
use tunesmith_domain::{Job, JobId, JobState, Study};
use tunesmith_http::pages::{PageCall, Visitor};

/// A tab of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Summary,
    Trials,
    Configuration,
    Output,
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
    pub(crate) actions: Actions,
}

/// What the visitor may do with a job in its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    /// The address of the job in the API.
    pub(crate) method: String,
    pub(crate) cancel: bool,
    pub(crate) retry: bool,
    pub(crate) delete: bool,
    /// Whether the labels can be changed.
    pub(crate) label: bool,
    /// The numbers of trials in all and at once, if they can be changed.
    pub(crate) trials: Option<(u64, u64)>,
}

impl Actions {
    fn of(job: &Job, visitor: &Visitor) -> Self {
        let may_update = visitor.may_on(Permission::JobsUpdate, job);
        let (project, id) = job.id.parts();
        let is_cancelling = job.state == JobState::Cancelling;
        let counts = job.plan.as_ref().ok().filter(|_| job.study.is_some());
        Self {
            method: format!("/v1/projects/{project}/jobs/{id}"),
            cancel: !job.state.is_final() && !is_cancelling && visitor.may_on(Permission::JobsCancel, job),
            retry: may_update && matches!(job.state, JobState::Failed | JobState::Cancelled),
            delete: may_update && job.state.is_final(),
            label: may_update,
            trials: counts
                .filter(|_| may_update && !is_cancelling)
                .map(|plan| (plan.max_trials, plan.max_parallel_trials)),
        }
    }

    /// Whether the visitor may do anything.
    pub(crate) fn any(&self) -> bool {
        self.cancel || self.retry || self.delete || self.label
    }
}

impl Head {
    /// The labels as `key=value`, one in each line.
    pub(crate) fn label_lines(&self) -> String {
        self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn is(&self, tab: &str) -> bool {
        tab == match self.tab {
            Tab::Summary => "summary",
            Tab::Trials => "trials",
            Tab::Configuration => "configuration",
            Tab::Output => "output",
            Tab::Explore => "explore",
            Tab::Trust => "trust",
        }
    }
}

impl Subject {
    /// The head of the page `tab` for `visitor`.
    pub(crate) fn head(&self, visitor: &Visitor, tab: Tab) -> Head {
        Head { actions: Actions::of(&self.job, visitor), ..self.head_without_actions(tab) }
    }

    /// The head of the page `tab`, on which nothing can be done.
    pub(crate) fn head_without_actions(&self, tab: Tab) -> Head {
        let (project, name) = self.job.id.parts();
        Head {
            project: project.to_owned(),
            name: name.to_owned(),
            address: job_address(&self.job),
            badge: self.job.state.into(),
            labels: self.job.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            has_trials: self.study.is_some(),
            tab,
            actions: Actions::default(),
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
