//! One study: a problem, how it is searched, and how far it is.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use std::collections::BTreeMap;
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement, TrialId};

use super::{Document, StudyId, TransitionError};

/// Where a study stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StudyState {
    /// Suggests trials.
    Active,
    /// Stopped by an internal error.
    Inactive,
    /// The search space is exhausted or the maximal number of trials reached.
    Completed,
}

impl fmt::Display for StudyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "ACTIVE",
            Self::Inactive => "INACTIVE",
            Self::Completed => "COMPLETED",
        })
    }
}

/// How points are chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Algorithm {
    /// The one that serves the problem best, chosen by rule at each suggestion.
    Automatic,
    /// Bayesian optimisation by a Gaussian process and expected improvement.
    GaussianProcessBandit,
    /// Every point of a grid once.
    GridSearch {
        /// How many points a parameter of kind double is divided into, by name; at least 1 each.
        double_resolution: BTreeMap<String, u32>,
    },
    /// Independent draws, uniform on each parameter's scale.
    RandomSearch,
}

impl Algorithm {
    /// Its name in AI Platform's words; [`Algorithm::Automatic`] is ours.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Automatic => "AUTOMATIC",
            Self::GaussianProcessBandit => "GAUSSIAN_PROCESS_BANDIT",
            Self::GridSearch { .. } => "GRID_SEARCH",
            Self::RandomSearch => "RANDOM_SEARCH",
        }
    }
}

/// When a running trial is stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppingRule {
    /// Its best value is strictly worse than the median of the running averages of the completed trials.
    Median,
    /// Its curve, carried on to the end, will hardly be better than the best so far.
    DecayCurve,
    /// It is not in the best third of the trials that came as far: asynchronous successive halving.
    Asha,
}

/// Along what the curves of trials are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CurveAxis {
    /// The training step of each report.
    #[default]
    Step,
    /// The time since the trial's start, as each report tells.
    ElapsedTime,
}

/// Which report becomes a trial's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinalMeasurement {
    /// The one with the highest step; the latest of those.
    #[default]
    Last,
    /// The best by the goal.
    Best,
}

/// Everything known of a study but its trials. Readable through [`Study`]; changed only by a [`StudyChange`].
#[derive(Debug, Clone, PartialEq)]
pub struct StudyFields {
    /// Its name.
    pub id: StudyId,
    /// What is searched.
    pub problem: ProblemStatement,
    /// Points to be tried first, in order, before the algorithm is asked.
    pub initial_points: Vec<ParameterValues>,
    /// How.
    pub algorithm: Algorithm,
    /// Key of all randomness.
    pub seed: u64,
    /// Whether and how running trials are stopped early.
    pub stopping_rule: Option<StoppingRule>,
    /// Along what the rule compares curves.
    pub stopping_axis: CurveAxis,
    /// Which report becomes a trial's result.
    pub final_measurement: FinalMeasurement,
    /// Earlier studies whose trials are knowledge for this one.
    pub prior_studies: Vec<StudyId>,
    /// How many trials there may be in all; `None` if that is counted elsewhere.
    pub max_trials: Option<u64>,
    /// How long the owner of a trial may be silent, unless it says otherwise; `None`: for ever.
    pub trial_lease: Option<Duration>,
    /// The configuration as the user sent it, in the canonical form of the protocol it was sent by; null for the
    /// study of a job.
    pub config: Document,
    /// Where it stands.
    pub state: StudyState,
    /// Why it is inactive or complete; empty while it is active.
    pub state_reason: String,
    /// When it was created.
    pub create_time: Timestamp,
    /// The number that the next trial must bear; kept by the store.
    pub next_trial_id: TrialId,
    /// Rises with every change of the study or of any of its trials; kept by the store.
    pub revision: u64,
}

/// A study in a state that its history allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Study(StudyFields);

impl Deref for Study {
    type Target = StudyFields;

    fn deref(&self) -> &StudyFields {
        &self.0
    }
}

/// A change of one study, applied by a store within one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum StudyChange {
    /// No further trials: the space is exhausted or the number reached. Without effect on a completed study.
    Complete {
        /// Which of the two, for people.
        reason: String,
    },
    /// No further trials because of an internal error.
    Deactivate {
        /// The error.
        reason: String,
    },
}

impl Study {
    /// A study as it is created or was stored.
    pub fn restore(fields: StudyFields) -> Self {
        Self(fields)
    }

    /// Counts the trial that a store is adding: the next number and a new revision, which is returned.
    pub fn record_trial(&mut self) -> u64 {
        self.0.next_trial_id = self.0.next_trial_id.offset(1);
        self.next_revision()
    }

    /// A new revision, for a trial that a store is changing.
    pub fn next_revision(&mut self) -> u64 {
        self.0.revision += 1;
        self.0.revision
    }

    /// Applies `change`.
    ///
    /// # Errors
    /// [`TransitionError::WrongState`] if the state does not allow it; the study is then unchanged.
    pub fn apply(&mut self, change: StudyChange) -> Result<(), TransitionError> {
        let (state, reason, verb) = match change {
            StudyChange::Complete { reason } => (StudyState::Completed, reason, "complete"),
            StudyChange::Deactivate { reason } => (StudyState::Inactive, reason, "deactivate"),
        };
        if self.state == state {
            return Ok(());
        }
        if self.state != StudyState::Active {
            return Err(TransitionError::WrongState {
                resource: format!("study {}", self.id),
                state: self.state.to_string(),
                change: verb,
            });
        }
        self.0.state = state;
        self.0.state_reason = reason;
        self.next_revision();
        Ok(())
    }
}
