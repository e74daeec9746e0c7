//! Studies: a problem, its search settings, and the progress of the search.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::designers::Algorithm;
use tunesmith_algorithms::early_stopping::StoppingRule;
use tunesmith_algorithms::problem::{ConstraintSpec, ParameterValues, ProblemStatement, TrialId};

use super::{Document, Measurement, NewTrial, StudyId, StudyStopping, TransitionError, Trial, TrialChange, ranking};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StudyState {
    /// Trials can be suggested.
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

/// The axis along which trial curves are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CurveAxis {
    /// The training step of each measurement.
    #[default]
    Step,
    /// The elapsed time of each measurement.
    ElapsedTime,
}

/// The measurement that becomes a trial's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinalMeasurement {
    /// The measurement with the highest step; the latest of those.
    #[default]
    Last,
    /// The best measurement by the goal.
    Best,
}

/// The data of a study without its trials. [`Study`] gives read access; only a [`StudyChange`] and changes of its trials
/// change it. A study is cloned for every request; what never changes is shared.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyFields {
    pub id: StudyId,
    /// The search space and the metrics.
    pub problem: Arc<ProblemStatement>,
    /// User-supplied trials, which are suggested first, in this order.
    pub initial_points: Vec<ParameterValues>,
    /// The search algorithm.
    pub algorithm: Algorithm,
    /// Seed of all random streams.
    pub seed: u64,
    /// The early stopping rule; `None` to never stop early.
    pub stopping_rule: Option<StoppingRule>,
    /// The axis along which the rule compares curves.
    pub stopping_axis: CurveAxis,
    /// The rules that end the study.
    pub study_stopping: StudyStopping,
    /// The measurement that becomes a trial's result.
    pub final_measurement: FinalMeasurement,
    /// Source studies, whose trials inform the search of this one.
    pub prior_studies: Vec<StudyId>,
    /// Maximal number of trials; `None` if the job runner limits it.
    pub max_trials: Option<u64>,
    /// Default duration of a trial's lease; `None` if ownership does not expire.
    pub trial_lease: Option<Duration>,
    /// The configuration as the user sent it, in the canonical form of the protocol it was sent by; null for the
    /// study of a job.
    pub config: Arc<Document>,
    pub state: StudyState,
    /// Why the study is inactive or complete; empty while it is active.
    pub state_reason: String,
    /// When the study was created.
    pub create_time: Timestamp,
    pub next_trial_id: TrialId,
    /// Increases with every change of the study or of any of its trials.
    pub revision: u64,
}

impl StudyFields {
    /// A new study: active, without trials, limits, stopping rules or prior knowledge, with random search and the seed 0.
    pub fn new(id: StudyId, problem: ProblemStatement, create_time: Timestamp) -> Self {
        Self {
            id,
            problem: problem.into(),
            initial_points: Vec::new(),
            algorithm: Algorithm::RandomSearch,
            seed: 0,
            stopping_rule: None,
            stopping_axis: CurveAxis::Step,
            study_stopping: StudyStopping::default(),
            final_measurement: FinalMeasurement::default(),
            prior_studies: Vec::new(),
            max_trials: None,
            trial_lease: None,
            config: Arc::default(),
            state: StudyState::Active,
            state_reason: String::new(),
            create_time,
            next_trial_id: TrialId::FIRST,
            revision: 0,
        }
    }
}

/// A study in a state that its transitions allow.
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
    /// Ends the study: its search space is exhausted or its maximal number of trials reached. No effect on a completed
    /// study.
    Complete {
        /// The reason, for people.
        reason: String,
    },
    /// Ends the study because of an internal error.
    Deactivate { reason: String },
    /// Lets an ended study accept trials again. No effect on an active study.
    Reopen,
    /// Raises the maximal number of trials, and lets an ended study accept trials again.
    Extend {
        /// The new maximal number of trials.
        max_trials: u64,
        /// The configuration with that number, in the form of [`StudyFields::config`].
        config: Arc<Document>,
    },
}

impl Study {
    /// A new study, or one with stored fields.
    pub fn restore(fields: StudyFields) -> Self {
        Self(fields)
    }

    /// Checks that trials can be added.
    ///
    /// # Errors
    /// [`TransitionError::WrongState`] if the study is not active.
    pub fn check_accepts_trials(&self) -> Result<(), TransitionError> {
        if self.state == StudyState::Active {
            return Ok(());
        }
        Err(self.wrong_state("add a trial to"))
    }

    /// Creates the trial `new`, with a revision, and counts it. Its number is [`StudyFields::next_trial_id`].
    ///
    /// # Errors
    /// As [`Self::check_accepts_trials`] and [`Trial::new`]; the study is then unchanged.
    pub fn add_trial(&mut self, new: NewTrial) -> Result<Trial, TransitionError> {
        self.check_accepts_trials()?;
        let trial = Trial::new(NewTrial { id: self.next_trial_id, ..new })?;
        self.0.next_trial_id = self.0.next_trial_id.offset(1);
        Ok(trial.with_revision(self.next_revision()))
    }

    /// Applies `change` to `trial` of this study, and returns the changed trial with the measurements to append, as
    /// [`Trial::apply`] does. The trial gets a new revision if the change has an effect.
    ///
    /// # Errors
    /// As [`Trial::apply`]; the study is then unchanged.
    pub fn change_trial(
        &mut self,
        trial: &Trial,
        change: TrialChange,
    ) -> Result<(Trial, Vec<Measurement>), TransitionError> {
        let mut changed = trial.clone();
        let measurements = changed.apply(change)?;
        if changed != *trial {
            changed = changed.with_revision(self.next_revision());
        }
        Ok((changed, measurements))
    }

    /// The constraints that the result of `trial` violates, in the order of the problem; none without a result.
    pub fn violated<'a>(&'a self, trial: &'a Trial) -> impl Iterator<Item = &'a ConstraintSpec> {
        ranking::violated(&self.problem, trial)
    }

    /// Whether `trial` has a result that satisfies every constraint.
    pub fn is_feasible(&self, trial: &Trial) -> bool {
        ranking::is_feasible(&self.problem, trial)
    }

    /// The source studies of this study, oldest first, and the study itself.
    pub fn with_sources(&self) -> impl Iterator<Item = &StudyId> {
        self.prior_studies.iter().chain([&self.id])
    }

    fn next_revision(&mut self) -> u64 {
        self.0.revision += 1;
        self.0.revision
    }

    fn wrong_state(&self, change: &'static str) -> TransitionError {
        TransitionError::WrongState { resource: format!("study {}", self.id), state: self.state.to_string(), change }
    }

    fn reopen(&mut self) {
        if self.state != StudyState::Active {
            self.0.state = StudyState::Active;
            self.0.state_reason.clear();
            self.next_revision();
        }
    }

    fn extend(&mut self, max_trials: u64, config: Arc<Document>) -> Result<(), TransitionError> {
        let resource = format!("study {}", self.id);
        let Some(current) = self.max_trials else { return Err(TransitionError::NoTrials { resource }) };
        if max_trials <= current {
            return Err(TransitionError::NotRaised { resource, current, requested: max_trials });
        }
        self.0.max_trials = Some(max_trials);
        self.0.config = config;
        self.next_revision();
        self.reopen();
        Ok(())
    }

    /// Applies `change`.
    ///
    /// # Errors
    /// [`TransitionError::WrongState`] if the state does not allow it, [`TransitionError::NotRaised`] and
    /// [`TransitionError::NoTrials`] for an extension; the study is then unchanged.
    pub fn apply(&mut self, change: StudyChange) -> Result<(), TransitionError> {
        let (state, reason, verb) = match change {
            StudyChange::Complete { reason } => (StudyState::Completed, reason, "complete"),
            StudyChange::Deactivate { reason } => (StudyState::Inactive, reason, "deactivate"),
            StudyChange::Reopen => {
                self.reopen();
                return Ok(());
            }
            StudyChange::Extend { max_trials, config } => return self.extend(max_trials, config),
        };
        if self.state == state {
            return Ok(());
        }
        if self.state != StudyState::Active {
            return Err(self.wrong_state(verb));
        }
        self.0.state = state;
        self.0.state_reason = reason;
        self.next_revision();
        Ok(())
    }
}
