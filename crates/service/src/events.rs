//! What happens to a job, as told to whoever watches it.

use std::path::PathBuf;

use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use tunesmith_domain::{JobState, Trial};

/// One thing that happened to a job. Told after it is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    /// The job moved to another state.
    StateChanged {
        /// The new state.
        state: JobState,
        /// Why, if it failed or was cancelled; else empty.
        error_message: String,
    },
    /// A former process had begun the job; it goes on from what is stored.
    Resumed {
        /// Trials that have their results.
        completed: u64,
        /// Trials that were given out and have none.
        unfinished: u64,
    },
    /// The program is installed and can be run.
    Prepared {
        /// The log of the installation.
        log: PathBuf,
    },
    /// A trial's program was started.
    TrialStarted {
        /// The trial.
        id: TrialId,
        /// Its point.
        parameters: ParameterValues,
        /// Which attempt at it, from 1.
        attempt: u64,
        /// It was running already, started by a former process.
        adopted: bool,
    },
    /// A trial reported its metric.
    TrialMeasured {
        /// The trial.
        id: TrialId,
        /// Training step of its newest report.
        step: i64,
        /// The metric.
        value: f64,
    },
    /// A trial is being stopped early.
    TrialStopping {
        /// The trial.
        id: TrialId,
        /// Why.
        reason: String,
    },
    /// The place that a trial ran in was lost; it is run again.
    TrialLost {
        /// The trial.
        id: TrialId,
        /// What is known of the loss.
        reason: String,
    },
    /// A trial has its result.
    TrialEnded {
        /// The trial.
        trial: Box<Trial>,
    },
    /// Something the user should know, once.
    Warning {
        /// The text.
        message: String,
    },
}
