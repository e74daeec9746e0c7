//! The events of a running job.

use std::path::PathBuf;

use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use crate::resource_pool::Waiting;
use tunesmith_domain::{JobState, LossCause, Trial};
use tunesmith_packages::Step;

/// Work of a job that may take long, before or between trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// The packages of the program are installed.
    Installing(Step),
    /// The parameters of the next trial are computed.
    Suggesting,
}

impl From<Step> for Activity {
    fn from(step: Step) -> Self {
        Self::Installing(step)
    }
}

/// An event of a running job. It is emitted after the change was stored.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    /// The job moved to another state.
    StateChanged {
        /// The new state.
        state: JobState,
        /// The reason, if the job failed or was cancelled; otherwise empty.
        error_message: String,
    },
    /// The job was resumed with existing trials.
    Resumed {
        /// Number of trials in a final state.
        completed: u64,
        /// Number of other trials.
        unfinished: u64,
    },
    /// The job does something that may take long, or has ended it.
    Busy {
        /// What it does; `None` if it has ended.
        activity: Option<Activity>,
    },
    /// The program is installed.
    Prepared {
        /// The log of the installation.
        log: PathBuf,
    },
    /// The program of a trial is running.
    TrialStarted {
        /// The trial.
        id: TrialId,
        /// Its parameters.
        parameters: ParameterValues,
        /// Number of the attempt, from 1.
        attempt: u64,
        /// Whether an earlier process started it.
        adopted: bool,
    },
    /// The engine accepted the program of a trial, and has not started it. Emitted again when the reason changes.
    TrialWaiting {
        /// The trial.
        id: TrialId,
        /// The engine's reason.
        reason: String,
    },
    /// A trial reported its metric.
    TrialMeasured {
        /// The trial.
        id: TrialId,
        /// Training step of its newest measurement.
        step: i64,
        /// Value of the metric.
        value: f64,
    },
    /// A trial is being stopped early.
    TrialStopping {
        /// The trial.
        id: TrialId,
        /// The reason.
        reason: String,
    },
    /// The executor lost a trial, which is run again.
    TrialLost {
        /// The trial.
        id: TrialId,
        /// Whether its place failed, or was taken for other work.
        cause: LossCause,
        /// The reason given by the executor.
        reason: String,
    },
    /// A trial reached a final state.
    TrialEnded {
        /// The trial.
        trial: Box<Trial>,
    },
    /// Trials wait for resources or a limit, or wait for another reason than before.
    Waiting {
        /// The reason.
        waiting: Waiting,
    },
    /// A problem that does not stop the job.
    Warning {
        /// The text.
        message: String,
    },
}
