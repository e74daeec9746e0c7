//! Jobs and studies as trackers display them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tunesmith_domain::{Job, JobState, Study, StudyId, StudyState};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectKind {
    Job,
    Study,
}

impl SubjectKind {
    /// Word in keys and names: `job` or `study`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Study => "study",
        }
    }
}

/// End of a job or study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Failed,
    Cancelled,
}

/// A job, or a study that belongs to no job.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    pub kind: SubjectKind,
    /// Full ID, with its project.
    pub id: String,
    /// Last part of the ID.
    pub name: String,
    pub created: Timestamp,
    /// State name, such as `RUNNING`.
    pub state: String,
    /// `None` until the end.
    pub outcome: Option<Outcome>,
    /// Whether it is being cancelled, or was.
    pub is_cancelled: bool,
    /// Reason for the state; empty without one.
    pub reason: String,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
    pub max_trials: Option<u64>,
    /// Study with the trials; `None` for a job without hyperparameters.
    pub study: Option<StudyId>,
}

impl Subject {
    pub fn of_job(job: &Job) -> Self {
        Self {
            kind: SubjectKind::Job,
            id: job.id.to_string(),
            name: job.id.parts().1.to_owned(),
            created: job.create_time,
            state: job.state.to_string(),
            outcome: job_outcome(job.state),
            is_cancelled: matches!(job.state, JobState::Cancelling | JobState::Cancelled),
            reason: job.error_message.clone(),
            start: job.start_time,
            end: job.end_time,
            labels: job.labels.clone(),
            max_trials: job.plan.as_ref().ok().filter(|_| job.study.is_some()).map(|plan| plan.max_trials),
            study: job.study.clone(),
        }
    }

    pub fn of_study(study: &Study) -> Self {
        Self {
            kind: SubjectKind::Study,
            id: study.id.to_string(),
            name: study.id.parts().2.to_owned(),
            created: study.create_time,
            state: study.state.to_string(),
            outcome: match study.state {
                StudyState::Active => None,
                StudyState::Inactive => Some(Outcome::Failed),
                StudyState::Completed => Some(Outcome::Succeeded),
            },
            is_cancelled: false,
            reason: study.state_reason.clone(),
            start: Some(study.create_time),
            end: None,
            labels: BTreeMap::new(),
            max_trials: study.max_trials,
            study: Some(study.id.clone()),
        }
    }

    /// Key that no other job or study has, not even a later one with the same name.
    pub(crate) fn key(&self) -> String {
        let text = format!("{}\n{}\n{}", self.kind.as_str(), self.id, self.created);
        hex::encode(&Sha256::digest(text)[..16])
    }
}

/// End of a job in `state`; `None` before.
pub fn job_outcome(state: JobState) -> Option<Outcome> {
    match state {
        JobState::Succeeded => Some(Outcome::Succeeded),
        JobState::Failed => Some(Outcome::Failed),
        JobState::Cancelled => Some(Outcome::Cancelled),
        JobState::Queued | JobState::Preparing | JobState::Running | JobState::Cancelling => None,
    }
}
