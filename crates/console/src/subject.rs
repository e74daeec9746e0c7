//! Subject of a page, a job or a study without one: name, state and tabs.

use jiff::Timestamp;
use serde::Deserialize;

use super::actions::{JobActions, NewTrial, StudyActions};
use super::console::Console;
use super::errors::PageError;
use super::format::Badge;
use super::visit::{PageCall, Visitor};
use tunesmith_admission::use_cases::{self, UseCase};
use tunesmith_api::ai_platform::job;
use tunesmith_api::ai_platform::optimizer::display_name;
use tunesmith_domain::{Job, JobId, Study, StudyId};
use tunesmith_jobs::job_logs::LogName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Summary,
    Trials,
    Configuration,
    Output,
    Explore,
    Trust,
}

/// Names in the URL of a page about a job, or a study without one.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Named {
    project: String,
    location: Option<String>,
    job: Option<String>,
    study: Option<String>,
    /// Trial number, as written.
    trial: Option<String>,
    /// Name of a log.
    log: Option<String>,
}

/// Job with its study, or study without a job.
pub(crate) enum Subject {
    Job { job: Box<Job>, study: Option<Study> },
    Study(Study),
}

pub(crate) struct Head {
    pub(crate) project: String,
    pub(crate) location: Option<String>,
    pub(crate) name: String,
    /// Name in URLs, if it is another one.
    pub(crate) id: Option<String>,
    pub(crate) address: String,
    pub(crate) badge: Badge,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) has_trials: bool,
    pub(crate) tab: Tab,
    pub(crate) job_actions: JobActions,
    pub(crate) study_actions: StudyActions,
}

impl Named {
    /// Page request that shows `of_study` of a study, and requires permission to read a job.
    pub(crate) fn call(&self, of_study: UseCase) -> PageCall {
        let (project, job) = (self.project.clone(), self.job.clone());
        let of_job = || use_cases::GET_JOB.shown_as(of_study.name()).slower(of_study.time_limit_factor());
        PageCall { use_case: if job.is_some() { of_job() } else { of_study }, project, job }
    }

    pub(crate) fn name(&self) -> &str {
        self.job.as_deref().or(self.study.as_deref()).unwrap_or_default()
    }

    /// Name of a log in the URL.
    pub(crate) fn log(&self) -> Result<LogName, PageError> {
        let text = self.log.as_deref().unwrap_or_default();
        text.parse().map_err(|rule| PageError::Invalid(format!("{text:?} is not the name of a log: {rule}")))
    }

    /// Trial number in the URL.
    pub(crate) fn trial_number(&self) -> Result<u64, PageError> {
        let text = self.trial.as_deref().unwrap_or_default();
        text.parse().map_err(|_| PageError::Invalid(format!("{text:?} is not the number of a trial")))
    }
}

impl Subject {
    /// Name for display, without the project.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Job { job, .. } => job::display_name(job),
            Self::Study(study) => display_name(study),
        }
    }

    /// Name in URLs, without project and location.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Job { job, .. } => job.id.parts().1,
            Self::Study(study) => study.id.parts().2,
        }
    }

    pub(crate) fn job(&self) -> Option<&Job> {
        match self {
            Self::Job { job, .. } => Some(job),
            Self::Study(_) => None,
        }
    }

    pub(crate) fn study(&self) -> Option<&Study> {
        match self {
            Self::Job { study, .. } => study.as_ref(),
            Self::Study(study) => Some(study),
        }
    }

    /// Maximum number of trials; `None` if unlimited or unknown.
    pub(crate) fn max_trials(&self) -> Option<u64> {
        match self {
            Self::Job { job, .. } => job.plan.as_ref().ok().map(|plan| plan.max_trials),
            Self::Study(study) => study.max_trials,
        }
    }

    pub(crate) fn create_time(&self) -> Timestamp {
        match self {
            Self::Job { job, .. } => job.create_time,
            Self::Study(study) => study.create_time,
        }
    }

    /// Study with the trials.
    ///
    /// # Errors
    /// [`PageError::NotFound`] for a job that runs its program once.
    pub(crate) fn trials(&self) -> Result<&Study, PageError> {
        let absent = || PageError::NotFound(format!("job {} has no trials: it runs its program once", self.name()));
        self.study().ok_or_else(absent)
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Job { job, .. } => job_address(job),
            Self::Study(study) => study_address(study),
        }
    }

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

    /// Header of the page `tab`, without actions.
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
            id: Some(self.id().to_owned()).filter(|id| id != self.name()),
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
    /// Form for a trial that the visitor may add.
    pub(crate) fn new_trial(&self) -> Option<&NewTrial> {
        self.job_actions.new_trial.as_ref().or(self.study_actions.new_trial.as_ref())
    }

    /// Labels as `key=value`, one per line.
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

pub(crate) fn job_address(job: &Job) -> String {
    let (project, id) = job.id.parts();
    format!("/console/projects/{project}/jobs/{id}")
}

/// URL of the page of a study without a job.
pub(crate) fn study_address(study: &Study) -> String {
    let (project, location, name) = study.id.parts();
    format!("/console/projects/{project}/locations/{location}/studies/{name}")
}

impl Console {
    /// Finds the job or study of a page.
    ///
    /// # Errors
    /// [`PageError::NotFound`], also for the study of a job, which has the job's pages.
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

    pub(crate) async fn subject_of_job(&self, job: Job) -> Result<Subject, PageError> {
        let study = self.study_of(&job).await?;
        Ok(Subject::Job { job: Box::new(job), study })
    }
}
