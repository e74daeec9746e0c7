//! Jobs: a single program run, with hyperparameters a study whose trials are program runs, or a batch prediction.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use jiff::Timestamp;

use super::{
    BatchPrediction, Document, JobId, JobPlan, PlanError, PredictionCounts, StudyId, TransitionError, UnreadablePlan,
};

/// Job state, as defined by AI Platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waiting to start, or to resume after an interruption.
    Queued,
    /// Installing the program.
    Preparing,
    /// Running its program or trials.
    Running,
    Succeeded,
    /// Ended with the error in the job's error message.
    Failed,
    Cancelling,
    /// Cancelled by a user or by a time limit.
    Cancelled,
}

impl JobState {
    /// All states, in the order a job passes through them.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Preparing,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelling,
        Self::Cancelled,
    ];

    /// Whether the job has ended. Only a retry or an extension leaves such a state.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// State name in upper case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Preparing => "PREPARING",
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Cancelling => "CANCELLING",
            Self::Cancelled => "CANCELLED",
        }
    }

    fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => !matches!(next, Self::Queued | Self::Succeeded),
            Self::Preparing => !matches!(next, Self::Preparing | Self::Succeeded),
            Self::Running => !matches!(next, Self::Running | Self::Preparing),
            // A time limit expiring during cancellation does not change the outcome.
            Self::Cancelling => matches!(next, Self::Cancelled),
            Self::Succeeded | Self::Failed | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = UnknownJobState;

    /// Parses the output of [`fmt::Display`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let state = Self::ALL.into_iter().find(|state| state.as_str() == text);
        state.ok_or_else(|| UnknownJobState { text: text.to_owned() })
    }
}

/// Error for text that is not a [`JobState`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a job state")]
pub struct UnknownJobState {
    pub text: String,
}

/// Data of a job. [`Job`] gives read access; only a [`JobChange`] modifies it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFields {
    pub id: JobId,
    pub state: JobState,
    /// Study of a job with hyperparameters.
    pub study: Option<StudyId>,
    /// Submitted `TrainingInput` as canonical JSON, including Tunesmith's extensions; null for a batch prediction.
    pub training_input: Document,
    /// Batch prediction, which has neither a training input nor a program.
    pub prediction: Option<BatchPrediction>,
    /// Settings of the job's runs; an error if the stored plan was unreadable for this version.
    pub plan: Result<JobPlan, UnreadablePlan>,
    /// Digest of the settings that a submission must share with this job to resume it.
    pub fingerprint: String,
    pub labels: BTreeMap<String, String>,
    /// Access policy in the form of the protocol that set it; null if unset.
    pub policy: Document,
    /// Time of submission.
    pub create_time: Timestamp,
    /// Time of the last requeue after an end; `None` if there was none.
    pub requeue_time: Option<Timestamp>,
    /// For a job without a study: attempts before its last retry.
    pub former_attempts: u64,
    /// First time in state `RUNNING` since submission or the last requeue.
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    /// Cause of failure or cancellation; empty otherwise.
    pub error_message: String,
    /// Distinct notices about the trials, for display.
    pub notices: Vec<String>,
    /// Python version of a built-in algorithm's trainer, once it is installed on this machine.
    pub python_version: Option<String>,
    /// Increases with every change.
    pub revision: u64,
}

impl JobFields {
    /// New job: queued, without a study, training input, fingerprint, labels or access policy.
    pub fn new(id: JobId, plan: JobPlan, create_time: Timestamp) -> Self {
        Self {
            id,
            state: JobState::Queued,
            study: None,
            training_input: Document::Null,
            prediction: None,
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
            python_version: None,
            revision: 0,
        }
    }
}

/// Maximum number of [`JobFields::notices`]; a guess.
const MAX_NOTICES: usize = 20;

/// Job in a state reached by legal transitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Job(JobFields);

impl Deref for Job {
    type Target = JobFields;

    fn deref(&self) -> &JobFields {
        &self.0
    }
}

/// Change of one job; stores apply it in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum JobChange {
    /// Moves the job to another state. No effect if it is already there.
    Become {
        state: JobState,
        /// Cause of `FAILED`, `CANCELLING` or `CANCELLED`, otherwise empty. An empty message keeps the previous one.
        error_message: String,
        at: Timestamp,
    },
    /// Reruns failed and lost trials or, in a job without a study, the program. An ended job is queued again. The
    /// caller ensures that the job is not running.
    Retry {
        /// For a job without a study: attempts so far.
        former_attempts: u64,
        at: Timestamp,
    },
    /// Changes the limits on total and concurrent trials. Raising the total queues an ended job again; lowering it is
    /// allowed only while the job is unfinished. The caller notifies the job's run, if there is one.
    Extend {
        /// New total; `None` keeps it.
        max_trials: Option<u64>,
        /// New concurrency limit, at least 1; `None` keeps it.
        max_parallel_trials: Option<u64>,
        /// Training input with the new limits.
        training_input: Document,
        /// Expected revision; `None` for any.
        revision: Option<u64>,
        at: Timestamp,
    },
    SetLabels {
        labels: BTreeMap<String, String>,
        /// Expected revision; `None` for any.
        revision: Option<u64>,
    },
    /// Adds a notice. No effect on a duplicate, or once the limit is reached.
    Note {
        /// Text for display.
        notice: String,
    },
    /// Records the Python version of a built-in algorithm's trainer. No effect if it is unchanged.
    SetPythonVersion { version: String },
    /// Records the progress of a batch prediction. No effect if it is unchanged, or on another job.
    CountPredictions { counts: PredictionCounts },
    SetPolicy {
        policy: Document,
        /// Expected revision.
        revision: u64,
    },
}

impl Job {
    /// Creates a job from new or stored fields.
    pub fn restore(fields: JobFields) -> Self {
        Self(fields)
    }

    /// Returns the plan.
    ///
    /// # Errors
    /// [`PlanError`] if the stored plan is unreadable for this version.
    pub fn plan(&self) -> Result<&JobPlan, PlanError> {
        self.0.plan.as_ref().map_err(|source| PlanError { job: self.id.clone(), source: source.clone() })
    }

    /// Applies `change`. Times never run backwards: a time before an earlier one of the job (the system clock was set
    /// back) is replaced by that one.
    ///
    /// # Errors
    /// [`TransitionError::WrongState`] if the state does not allow the change, [`TransitionError::Outdated`] if the
    /// revision is not the expected one. The job is then unchanged.
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
            JobChange::SetPythonVersion { version } => {
                if self.python_version.as_ref() == Some(&version) {
                    return Ok(());
                }
                self.0.python_version = Some(version);
            }
            JobChange::CountPredictions { counts } => match &mut self.0.prediction {
                Some(prediction) if prediction.counts != counts => prediction.counts = counts,
                _ => return Ok(()),
            },
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
            // The only program of such a job has not failed.
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

    /// Queues an ended job again and resets its waiting and running times.
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
