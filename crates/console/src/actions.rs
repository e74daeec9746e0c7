//! What a visitor may do with a job, a study or a trial in its state. Each action is a request of the API.

use super::explore::address_of;
use super::trial_form::TrialForm;
use tunesmith_access::Permission;
use tunesmith_domain::{Job, JobState, Study, StudyState, Trial, TrialState};
use tunesmith_http::pages::Visitor;

/// What the visitor may do with a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobActions {
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

/// What the visitor may do with a study that belongs to no job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StudyActions {
    /// The address of the study in the API.
    pub(crate) method: String,
    pub(crate) delete: bool,
    /// The maximum number of trials, if it can be raised.
    pub(crate) extend: Option<u64>,
    /// The form of a new trial, on the page of the trials.
    pub(crate) new_trial: Option<TrialForm>,
}

/// What the visitor may do with a trial of a study that belongs to no job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrialActions {
    /// The address of the trial in the API, without and with its attempt.
    pub(crate) method: String,
    pub(crate) method_of_attempt: String,
    pub(crate) stop: bool,
    /// Whether it can be ended without a result.
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

impl StudyActions {
    /// The actions on `study`, with those of its trials if `with_trials`.
    pub(crate) fn of(study: &Study, visitor: &Visitor, with_trials: bool) -> Self {
        let (project, ..) = study.id.parts();
        let may = |permission| visitor.may(permission, project);
        let accepts_trials = study.state == StudyState::Active && may(Permission::TrialsCreate);
        Self {
            method: address_of(study),
            delete: may(Permission::StudiesDelete),
            extend: study.max_trials.filter(|_| may(Permission::StudiesCreate)),
            new_trial: (accepts_trials && with_trials).then(|| TrialForm::of(study)),
        }
    }

    /// Whether the visitor may do anything.
    pub(crate) fn any(&self) -> bool {
        self.delete || self.extend.is_some() || self.new_trial.is_some()
    }
}

impl TrialActions {
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
            stop: may_update && trial.state == TrialState::Active,
            give_up: may_update && matches!(trial.state, TrialState::Active | TrialState::Stopping),
            delete: visitor.may(Permission::TrialsDelete, project),
        }
    }
}
