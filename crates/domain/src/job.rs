//! Training jobs: one run of the user's program or, with hyperparameters, a study whose trials are such runs.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use jiff::Timestamp;

use super::{Document, JobId, JobPlan, PlanError, StudyId, TransitionError, UnreadablePlan};

/// The state of a job, as in AI Platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waits to be started, or to be resumed after an interruption.
    Queued,
    /// Installs its program.
    Preparing,
    /// Runs its trials.
    Running,
    /// Ended with success.
    Succeeded,
    /// Ended with an error; the error message contains the reason.
    Failed,
    /// Being cancelled.
    Cancelling,
    /// Cancelled by a user or by a time limit.
    Cancelled,
}

impl JobState {
    /// All states, in the order in which a job passes through them.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Preparing,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelling,
        Self::Cancelled,
    ];

    /// Whether only a retry or an extension leaves this state.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// Whether `next` may follow this state.
    fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => !matches!(next, Self::Queued | Self::Succeeded),
            Self::Preparing => !matches!(next, Self::Preparing | Self::Succeeded),
            Self::Running => !matches!(next, Self::Running | Self::Preparing),
            // A time limit that expires while a job is cancelling does not change the outcome.
            Self::Cancelling => matches!(next, Self::Cancelled),
            Self::Succeeded | Self::Failed | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "QUEUED",
            Self::Preparing => "PREPARING",
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Cancelling => "CANCELLING",
            Self::Cancelled => "CANCELLED",
        })
    }
}

impl FromStr for JobState {
    type Err = UnknownJobState;

    /// Parses a state as [`fmt::Display`] writes it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let state = Self::ALL.into_iter().find(|state| state.to_string() == text);
        state.ok_or_else(|| UnknownJobState { text: text.to_owned() })
    }
}

/// A text that is not a [`JobState`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a job state")]
pub struct UnknownJobState {
    pub text: String,
}

/// The data of a job. [`Job`] gives read access; only a [`JobChange`] changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFields {
    pub id: JobId,
    pub state: JobState,
    /// The study of a job that tunes hyperparameters.
    pub study: Option<StudyId>,
    /// The submitted `TrainingInput` as canonical JSON, with Tunesmith's additions.
    pub training_input: Document,
    /// How the job is run; an error if a store read a plan that this version cannot interpret.
    pub plan: Result<JobPlan, UnreadablePlan>,
    /// Digest of what must be equal for a submission to resume this job.
    pub fingerprint: String,
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
    /// The access policy, in the form of the protocol it was set by; null if none was set.
    pub policy: Document,
    /// When the job was submitted.
    pub create_time: Timestamp,
    /// When the job was queued again after its end; `None` if it never was.
    pub requeue_time: Option<Timestamp>,
    /// Number of attempts at the program of a job without a study that precede its last retry.
    pub former_attempts: u64,
    /// When the job was first `RUNNING` since it was submitted or queued again.
    pub start_time: Option<Timestamp>,
    /// When the job ended.
    pub end_time: Option<Timestamp>,
    /// Why the job failed or was cancelled; empty otherwise.
    pub error_message: String,
    /// Findings of the run about its trials, for people, each once.
    pub notices: Vec<String>,
    /// Increases with every change.
    pub revision: u64,
}

impl JobFields {
    /// A new job: queued, without a study, training input, fingerprint, labels or access policy.
    pub fn new(id: JobId, plan: JobPlan, create_time: Timestamp) -> Self {
        Self {
            id,
            state: JobState::Queued,
            study: None,
            training_input: Document::Null,
            plan: Ok(plan),
            fingerprint: String::new(),
            labels: BTreeMap::new(),
            policy: Document::Null,
            create_time,
            requeue_time: None,
            former_attempts: 0,
            start_time: None,
            end_time: None,
            error_message: String::new(),
            notices: Vec::new(),
            revision: 0,
        }
    }
}

/// Maximum number of [`JobFields::notices`]. A guess.
const MAX_NOTICES: usize = 20;

/// A job in a state that its transitions allow.
#[derive(Debug, Clone, PartialEq)]
pub struct Job(JobFields);

impl Deref for Job {
    type Target = JobFields;

    fn deref(&self) -> &JobFields {
        &self.0
    }
}

/// A change of one job, applied by a store within one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum JobChange {
    /// Moves the job to another state. No effect if the job is in that state.
    Become {
        /// The next state.
        state: JobState,
        /// The reason for `FAILED`, `CANCELLING` and `CANCELLED`, otherwise empty. An empty message keeps the former one.
        error_message: String,
        /// The current time.
        at: Timestamp,
    },
    /// Runs the failed and lost trials of the job again, or the program of a job without a study. A job in a final state is
    /// queued again. The caller ensures that the job is not being run.
    Retry {
        /// Number of attempts at the program of a job without a study so far.
        former_attempts: u64,
        /// The current time.
        at: Timestamp,
    },
    /// Changes the numbers of trials in all and at once. A higher number of trials queues a job in a final state again; an
    /// unfinished job may get a lower one. The caller informs the run of the job, if there is one.
    Extend {
        /// The new number of trials; `None` keeps it.
        max_trials: Option<u64>,
        /// The new number of trials at once, at least 1; `None` keeps it.
        max_parallel_trials: Option<u64>,
        /// The training input with these numbers.
        training_input: Document,
        /// The revision that the job must have; `None` for any.
        revision: Option<u64>,
        /// The current time.
        at: Timestamp,
    },
    /// Replaces the labels.
    SetLabels {
        labels: BTreeMap<String, String>,
        /// The revision that the job must have; `None` for any.
        revision: Option<u64>,
    },
    /// Adds a finding of the run. No effect if the job has it, or has as many as a job may have.
    Note {
        /// The finding, for people.
        notice: String,
    },
    /// Replaces the access policy.
    SetPolicy {
        policy: Document,
        /// The revision that the job must have.
        revision: u64,
    },
}

impl Job {
    /// A new job, or one with stored fields.
    pub fn restore(fields: JobFields) -> Self {
        Self(fields)
    }

    /// The plan of the job.
    ///
    /// # Errors
    /// [`PlanError`] if this version cannot interpret the stored plan.
    pub fn plan(&self) -> Result<&JobPlan, PlanError> {
        self.0.plan.as_ref().map_err(|source| PlanError { job: self.id.clone(), source: source.clone() })
    }

    /// Applies `change`. A time before an earlier one of the job, which a changed system clock gives, counts as that
    /// earlier one.
    ///
    /// # Errors
    /// [`TransitionError::WrongState`] if the state does not allow it, [`TransitionError::Outdated`] if the job
    /// has another revision than the change requires; the job is then unchanged.
    pub fn apply(&mut self, change: JobChange) -> Result<(), TransitionError> {
        match change {
            JobChange::Become { state, error_message, at } => return self.become_state(state, error_message, at),
            JobChange::Retry { former_attempts, at } => self.retry(former_attempts, at)?,
            JobChange::Extend { max_trials, max_parallel_trials, training_input, revision, at } => {
                self.check_revision(revision)?;
                self.extend(max_trials, max_parallel_trials, training_input, at)?;
            }
            JobChange::SetLabels { labels, revision } => {
                self.check_revision(revision)?;
                self.0.labels = labels;
            }
            JobChange::Note { notice } => {
                if self.notices.len() >= MAX_NOTICES || self.notices.contains(&notice) {
                    return Ok(());
                }
                self.0.notices.push(notice);
            }
            JobChange::SetPolicy { policy, revision } => {
                if revision != self.revision {
                    return Err(TransitionError::Outdated { resource: format!("job {}", self.id) });
                }
                self.0.policy = policy;
            }
        }
        self.0.revision += 1;
        Ok(())
    }

    fn retry(&mut self, former_attempts: u64, at: Timestamp) -> Result<(), TransitionError> {
        let is_refused = match self.state {
            JobState::Cancelling => true,
            JobState::Failed | JobState::Cancelled => false,
            // The single program of such a job has not failed.
            _ => self.study.is_none(),
        };
        if is_refused {
            return Err(self.wrong_state("retry"));
        }
        self.0.former_attempts = former_attempts;
        self.queue_again(at);
        Ok(())
    }

    fn extend(
        &mut self,
        max_trials: Option<u64>,
        max_parallel_trials: Option<u64>,
        training_input: Document,
        at: Timestamp,
    ) -> Result<(), TransitionError> {
        if self.state == JobState::Cancelling {
            return Err(self.wrong_state("extend"));
        }
        let resource = format!("job {}", self.id);
        let is_final = self.state.is_final();
        let has_trials = self.study.is_some();
        let Ok(plan) = &mut self.0.plan else { return Err(self.wrong_state("extend")) };
        if !has_trials {
            return Err(TransitionError::NoTrials { resource });
        }
        if let Some(requested) = max_trials.filter(|requested| is_final && *requested <= plan.max_trials) {
            return Err(TransitionError::NotRaised { resource, current: plan.max_trials, requested });
        }
        plan.max_trials = max_trials.unwrap_or(plan.max_trials);
        plan.max_parallel_trials = max_parallel_trials.unwrap_or(plan.max_parallel_trials);
        self.0.training_input = training_input;
        if max_trials.is_some() {
            self.queue_again(at);
        }
        Ok(())
    }

    /// Queues a job that has ended. Its waiting and running times start anew.
    fn queue_again(&mut self, at: Timestamp) {
        if !self.state.is_final() {
            return;
        }
        self.0.state = JobState::Queued;
        self.0.requeue_time = Some(at);
        self.0.start_time = None;
        self.0.end_time = None;
        self.0.error_message.clear();
    }

    fn check_revision(&self, required: Option<u64>) -> Result<(), TransitionError> {
        match required {
            Some(revision) if revision != self.revision => {
                Err(TransitionError::Outdated { resource: format!("job {}", self.id) })
            }
            _ => Ok(()),
        }
    }

    fn wrong_state(&self, change: &'static str) -> TransitionError {
        TransitionError::WrongState { resource: format!("job {}", self.id), state: self.state.to_string(), change }
    }

    fn become_state(&mut self, state: JobState, error_message: String, at: Timestamp) -> Result<(), TransitionError> {
        if self.state == state {
            return Ok(());
        }
        if !self.state.may_become(state) {
            return Err(self.wrong_state(match state {
                JobState::Queued => "queue",
                JobState::Preparing => "prepare",
                JobState::Running => "run",
                JobState::Succeeded => "succeed",
                JobState::Failed => "fail",
                JobState::Cancelling | JobState::Cancelled => "cancel",
            }));
        }
        let at = at.max(self.start_time.unwrap_or(self.create_time));
        self.0.state = state;
        if state == JobState::Running {
            self.0.start_time.get_or_insert(at);
        }
        if state.is_final() {
            self.0.end_time = Some(at);
        }
        if !error_message.is_empty() {
            self.0.error_message = error_message;
        }
        self.0.revision += 1;
        Ok(())
    }
}
