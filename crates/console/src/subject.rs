//! What the pages of one job, or of one study without a job, have in common: its name, its state and the tabs.

use jiff::Timestamp;
use serde::Deserialize;

use super::actions::{JobActions, NewTrial, StudyActions};
use super::errors::PageError;
use super::format::Badge;
use super::router::Console;
use tunesmith_access::Permission;
use tunesmith_domain::{Job, JobId, Study, StudyId};
use tunesmith_http::pages::{PageCall, Visitor};

/// A tab of a job or a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Summary,
    Trials,
    Configuration,
    Output,
    Explore,
    Trust,
}

/// The names in the address of a page of a job, or of a study without a job.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Named {
    project: String,
    location: Option<String>,
    job: Option<String>,
    study: Option<String>,
    /// The number of a trial, as it was written.
    trial: Option<String>,
}

/// A job with its study, or a study that belongs to no job.
pub(crate) enum Subject {
    Job { job: Box<Job>, study: Option<Study> },
    Study(Study),
}

/// The head of the pages of a job or a study.
pub(crate) struct Head {
    pub(crate) project: String,
    /// The location of a study without a job.
    pub(crate) location: Option<String>,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) badge: Badge,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) has_trials: bool,
    pub(crate) tab: Tab,
    pub(crate) job_actions: JobActions,
    pub(crate) study_actions: StudyActions,
}

impl Named {
    /// A request for the page `name`, which requires `permission` for a study, and the reading of its job for a job.
    pub(crate) fn call(&self, name: &'static str, permission: Permission) -> PageCall {
        match &self.job {
            Some(job) => PageCall::of_job(name, Permission::JobsGet, &self.project, job),
            None => PageCall::of_project(name, permission, &self.project),
        }
    }

    /// The name of the job or the study.
    pub(crate) fn name(&self) -> &str {
        self.job.as_deref().or(self.study.as_deref()).unwrap_or_default()
    }

    /// The number of the trial in the address.
    pub(crate) fn trial_number(&self) -> Result<u64, PageError> {
        let text = self.trial.as_deref().unwrap_or_default();
        text.parse().map_err(|_| PageError::Invalid(format!("{text:?} is not the number of a trial")))
    }
}

impl Subject {
    /// The name without its project.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Job { job, .. } => job.id.parts().1,
            Self::Study(study) => study.id.parts().2,
        }
    }

    /// The job, if there is one.
    pub(crate) fn job(&self) -> Option<&Job> {
        match self {
            Self::Job { job, .. } => Some(job),
            Self::Study(_) => None,
        }
    }

    /// The study, if there is one.
    pub(crate) fn study(&self) -> Option<&Study> {
        match self {
            Self::Job { study, .. } => study.as_ref(),
            Self::Study(study) => Some(study),
        }
    }

    /// The maximum number of trials; `None` if there is none, or it is not known.
    pub(crate) fn max_trials(&self) -> Option<u64> {
        match self {
            Self::Job { job, .. } => job.plan.as_ref().ok().map(|plan| plan.max_trials),
            Self::Study(study) => study.max_trials,
        }
    }

    /// When it was created.
    pub(crate) fn create_time(&self) -> Timestamp {
        match self {
            Self::Job { job, .. } => job.create_time,
            Self::Study(study) => study.create_time,
        }
    }

    /// The study with the trials.
    ///
    /// # Errors
    /// [`PageError::NotFound`] for a job that runs its program once.
    pub(crate) fn trials(&self) -> Result<&Study, PageError> {
        let absent = || PageError::NotFound(format!("job {} has no trials: it runs its program once", self.name()));
        self.study().ok_or_else(absent)
    }

    /// The address of the page.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Job { job, .. } => job_address(job),
            Self::Study(study) => study_address(study),
        }
    }

    /// The head of the page `tab` for `visitor`.
    pub(crate) fn head(&self, visitor: &Visitor, tab: Tab) -> Head {
        let mut head = self.head_without_actions(tab);
        match self {
            Self::Job { job, study } => {
                let actions = JobActions::of(job, visitor);
                head.job_actions = match study.as_ref().filter(|_| tab == Tab::Trials) {
                    Some(study) => actions.with_trials(job, study),
                    None => actions,
                };
            }
            Self::Study(study) => head.study_actions = StudyActions::of(study, visitor, tab == Tab::Trials),
        }
        head
    }

    /// The head of the page `tab`, on which nothing can be done.
    pub(crate) fn head_without_actions(&self, tab: Tab) -> Head {
        let (project, location, badge) = match self {
            Self::Job { job, .. } => (job.id.parts().0, None, job.state.into()),
            Self::Study(study) => {
                let (project, location, _) = study.id.parts();
                (project, Some(location.to_owned()), study.state.into())
            }
        };
        let labels = self.job().into_iter().flat_map(|job| &job.labels);
        Head {
            project: project.to_owned(),
            location,
            name: self.name().to_owned(),
            address: self.address(),
            badge,
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            has_trials: self.study().is_some(),
            tab,
            job_actions: JobActions::default(),
            study_actions: StudyActions::default(),
        }
    }
}

impl Head {
    /// The trial that the visitor may add.
    pub(crate) fn new_trial(&self) -> Option<&NewTrial> {
        self.job_actions.new_trial.as_ref().or(self.study_actions.new_trial.as_ref())
    }

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

/// The address of the page of a job.
pub(crate) fn job_address(job: &Job) -> String {
    let (project, id) = job.id.parts();
    format!("/console/projects/{project}/jobs/{id}")
}

/// The address of the page of a study that belongs to no job.
pub(crate) fn study_address(study: &Study) -> String {
    let (project, location, name) = study.id.parts();
    format!("/console/projects/{project}/locations/{location}/studies/{name}")
}

impl Console {
    /// The job or the study of a page.
    ///
    /// # Errors
    /// [`PageError::NotFound`], also for the study of a job, whose pages are those of the job.
    pub(crate) async fn subject(&self, named: &Named) -> Result<Subject, PageError> {
        let invalid = |error: tunesmith_domain::IdError| PageError::Invalid(error.to_string());
        let Some(location) = &named.location else {
            let job = self.jobs.job(&JobId::new(&named.project, named.name()).map_err(invalid)?).await?;
            return self.subject_of_job(job).await;
        };
        let id = StudyId::new(&named.project, location, named.name()).map_err(invalid)?;
        if id.is_of_job() {
            let text = format!("the study {} belongs to the job of that name, which has its pages", named.name());
            return Err(PageError::NotFound(text));
        }
        Ok(Subject::Study(self.studies.study(&id).await?))
    }

    /// `job` with its study.
    pub(crate) async fn subject_of_job(&self, job: Job) -> Result<Subject, PageError> {
        let study = self.study_of(&job).await?;
        Ok(Subject::Job { job: Box::new(job), study })
    }
}
