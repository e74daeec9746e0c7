//! Actions available to a visitor on a job, study or trial in its state. Each is an API request.

use super::explore::address_of;
use super::format::encoded;
use super::trial_form::TrialForm;
use super::visit::Visitor;
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::optimizer::etag_of_note;
use tunesmith_domain::{Job, JobState, Study, StudyState, Trial, TrialState};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JobActions {
    /// URL of the job in the API.
    pub(crate) method: String,
    pub(crate) cancel: bool,
    pub(crate) retry: bool,
    pub(crate) delete: bool,
    pub(crate) label: bool,
    /// Address of the page for a new job with the same configuration, if the visitor may submit one.
    pub(crate) new_job: Option<String>,
    /// Maximum total and parallel trials, if they can be changed.
    pub(crate) trials: Option<(u64, u64)>,
    pub(crate) new_trial: Option<NewTrial>,
    pub(crate) new_model: Option<NewModel>,
}

/// Form for a model with the files of a program of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewModel {
    /// URL of the models in the API.
    pub(crate) method: String,
    /// Start of the URLs of their pages.
    pub(crate) pages: String,
    /// ID of the job.
    pub(crate) job: String,
    /// Proposed name.
    pub(crate) name: String,
    /// Selectable trials, as in requests and for people; none for a job without hyperparameters.
    pub(crate) trials: Vec<(String, String)>,
}

impl NewModel {
    /// Form for `job`, if its program has a folder and the visitor may create models.
    pub(crate) fn of(job: &Job, trials: Vec<(String, String)>, visitor: &Visitor) -> Option<Self> {
        let (project, id) = job.id.parts();
        let has_folder = job.plan.as_ref().is_ok_and(|plan| plan.job_dir.is_some());
        let may = |permission| visitor.may(permission, project);
        (has_folder && may(Permission::ModelsCreate) && may(Permission::VersionsCreate)).then(|| Self {
            method: format!("/v1/projects/{project}/models"),
            pages: format!("/console/projects/{project}/models/"),
            job: id.to_owned(),
            name: id.to_owned(),
            trials,
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewTrial {
    /// URL of the API method.
    pub(crate) method: String,
    pub(crate) form: TrialForm,
    /// Explains how the trial proceeds.
    pub(crate) note: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StudyActions {
    /// URL of the study in the API.
    pub(crate) method: String,
    pub(crate) delete: bool,
    /// Maximum number of trials, if it can be raised.
    pub(crate) extend: Option<u64>,
    pub(crate) new_trial: Option<NewTrial>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrialActions {
    /// URL of the trial in the API, without and with its attempt.
    pub(crate) method: String,
    pub(crate) method_of_attempt: String,
    /// Confirmation before stopping the trial; `None` if it cannot be stopped.
    pub(crate) stop: Option<String>,
    /// Etag of the note, if the visitor may change it.
    pub(crate) note: Option<String>,
    /// Whether the trial can end without a result.
    pub(crate) give_up: bool,
    pub(crate) delete: bool,
}

impl JobActions {
    pub(crate) fn of(job: &Job, visitor: &Visitor) -> Self {
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
            new_job: visitor
                .may(Permission::JobsCreate, project)
                .then_some(job)
                // The form is that of a training.
                .filter(|job| job.prediction.is_none())
                .map(|_| format!("/console/new?from={}", encoded(&format!("{project}/{id}")))),
            trials: counts
                .filter(|_| may_update && !is_cancelling)
                .map(|plan| (plan.max_trials, plan.max_parallel_trials)),
            new_trial: None,
            new_model: None,
        }
    }

    /// Adds actions on the trials of `study`, which belongs to `job`.
    #[must_use]
    pub(crate) fn with_trials(self, job: &Job, study: &Study) -> Self {
        let may_change = self.trials.is_some() && !job.state.is_final() && study.state == StudyState::Active;
        let is_left = self.trials.is_some_and(|(all, _)| study.next_trial_id.0 <= all);
        let new_trial = (may_change && is_left).then(|| NewTrial {
            method: format!("{}/trials", self.method),
            form: TrialForm::without_result(study),
            note: "The job runs it next, as one of its trials.",
        });
        Self { new_trial, ..self }
    }

    pub(crate) fn any(&self) -> bool {
        self.cancel || self.retry || self.delete || self.label || self.new_job.is_some() || self.new_model.is_some()
    }
}

impl StudyActions {
    /// Actions on `study`, including those on its trials if `with_trials`.
    pub(crate) fn of(study: &Study, visitor: &Visitor, with_trials: bool) -> Self {
        let (project, ..) = study.id.parts();
        let may = |permission| visitor.may(permission, project);
        let accepts_trials = study.state == StudyState::Active && may(Permission::TrialsCreate);
        Self {
            method: address_of(study),
            delete: may(Permission::StudiesDelete),
            extend: study.max_trials.filter(|_| may(Permission::StudiesCreate)),
            new_trial: (accepts_trials && with_trials).then(|| NewTrial {
                method: format!("{}/trials", address_of(study)),
                form: TrialForm::of(study),
                note: "Without a result, the trial goes to the next client that asks for one.",
            }),
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.delete || self.extend.is_some() || self.new_trial.is_some()
    }
}

impl TrialActions {
    pub(crate) fn of_job(job: &Job, trial: &Trial, visitor: &Visitor) -> Self {
        let (project, id) = job.id.parts();
        let may_stop = visitor.may_on(Permission::JobsUpdate, job) && trial.state == TrialState::Active;
        let question = || {
            let id = trial.id;
            format!("Stop trial {id}? Its program ends, and its last measurement becomes its result. The job goes on.")
        };
        Self {
            method: format!("/v1/projects/{project}/jobs/{id}/trials/{}", trial.id),
            stop: may_stop.then(question),
            note: visitor.may_on(Permission::JobsUpdate, job).then(|| etag_of_note(trial.note_version())),
            ..Self::default()
        }
    }

    /// Actions on a trial of a study without a job.
    pub(crate) fn of(study: &Study, trial: &Trial, visitor: &Visitor) -> Self {
        let (project, ..) = study.id.parts();
        let method = format!("{}/trials/{}", address_of(study), trial.id);
        let may_update = visitor.may(Permission::TrialsUpdate, project);
        Self {
            method_of_attempt: match trial.attempt {
                0 => method.clone(),
                attempt => format!("{method}~{attempt}"),
            },
            method,
            stop: (may_update && trial.state == TrialState::Active).then(|| {
                let id = trial.id;
                format!("Ask the client of trial {id} to stop? Its last measurement becomes its result.")
            }),
            note: may_update.then(|| etag_of_note(trial.note_version())),
            give_up: may_update && matches!(trial.state, TrialState::Active | TrialState::Stopping),
            delete: visitor.may(Permission::TrialsDelete, project),
        }
    }
}
