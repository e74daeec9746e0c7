//! Events of a running job.

use std::path::PathBuf;

use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use tunesmith_domain::{JobState, LossCause, Trial, Waiting};
use tunesmith_packages::Step;

/// A potentially long operation before or between trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    Installing(Step),
    Suggesting,
}

impl From<Step> for Activity {
    fn from(step: Step) -> Self {
        Self::Installing(step)
    }
}

/// An event of a running job, emitted after the change is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    StateChanged {
        state: JobState,
        /// Reason for a failure or cancellation; otherwise empty.
        error_message: String,
    },
    Resumed {
        /// Trials in a final state.
        completed: u64,
        /// Trials in other states.
        unfinished: u64,
    },
    /// Start or end (`None`) of a long operation.
    ActivityChanged {
        activity: Option<Activity>,
    },
    Prepared {
        /// Log of the installation.
        log: PathBuf,
    },
    TrialStarted {
        id: TrialId,
        parameters: ParameterValues,
        /// 1-based attempt number.
        attempt: u64,
        /// Whether an earlier process started the program.
        adopted: bool,
    },
    /// The engine accepted a program without starting it; emitted again when the reason changes.
    TrialWaiting {
        id: TrialId,
        reason: String,
    },
    TrialMeasured {
        id: TrialId,
        step: i64,
        value: f64,
    },
    /// Early stop of a trial begins.
    TrialStopping {
        id: TrialId,
        reason: String,
    },
    /// A trial that was stopped early goes on: the rule would no longer stop it.
    TrialContinued {
        id: TrialId,
    },
    /// The executor lost a trial, which runs again.
    TrialLost {
        id: TrialId,
        /// Failure or preemption of its slot.
        cause: LossCause,
        reason: String,
    },
    TrialEnded {
        trial: Box<Trial>,
    },
    /// Trials wait for resources or a limit; emitted again when the reason changes.
    Waiting {
        waiting: Waiting,
    },
    /// A non-fatal problem.
    Warning {
        message: String,
    },
}
