//! Studies: a problem, its search settings, and the search progress.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::designers::Algorithm;
use tunesmith_algorithms::early_stopping::StoppingRule;
use tunesmith_algorithms::problem::{ConstraintSpec, ParameterValues, ProblemStatement, TrialId};

use super::{
    Document, Measurement, Metadata, NewTrial, SourceStudies, StudyId, StudyStopping, TransitionError, Trial,
    TrialChange, ranking,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StudyState {
    /// Accepts requests for suggestions.
    Active,
    /// Stopped by an internal error.
    Inactive,
    /// Ended: the search space is exhausted, the maximum number of trials reached, or a stopping rule applied.
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

/// Axis along which curves of trials are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CurveAxis {
    /// Training step.
    #[default]
    Step,
    /// Elapsed time.
    ElapsedTime,
}

/// Rule that selects a trial's result from its measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinalMeasurement {
    /// The highest step; the latest of equal steps.
    #[default]
    Last,
    /// The best value of the first metric.
    Best,
}

/// Data of a study, excluding its trials. [`Study`] gives read access; only a [`StudyChange`] and changes of its trials
/// modify it. Every request clones the study, so immutable parts are shared.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyFields {
    pub id: StudyId,
    /// Search space and metrics.
    pub problem: Arc<ProblemStatement>,
    /// Initial points supplied by the user, suggested first and in this order.
    pub initial_points: Vec<ParameterValues>,
    pub algorithm: Algorithm,
    /// Seed of all random streams.
    pub seed: u64,
    /// Early stopping rule; `None` to run all trials to their end.
    pub stopping_rule: Option<StoppingRule>,
    pub stopping_axis: CurveAxis,
    /// Rules that end the study.
    pub study_stopping: StudyStopping,
    pub final_measurement: FinalMeasurement,
    /// Source studies of the same program and metrics, oldest first; see [`SourceStudies::continued`].
    pub continued_studies: Vec<StudyId>,
    /// Other source studies, oldest first; see [`SourceStudies::related`].
    pub related_studies: Vec<StudyId>,
    /// Maximum number of trials; `None` if unlimited, or if the job runner enforces the limit.
    pub max_trials: Option<u64>,
    /// Default lease duration of a trial; `None` if ownership does not expire.
    pub trial_lease: Option<Duration>,
    /// User's configuration, in the canonical form of its protocol; null for the study of a job.
    pub config: Arc<Document>,
    /// Values attached by clients.
    pub metadata: Arc<Metadata>,
    pub state: StudyState,
    /// Reason the study is inactive or completed; empty while it is active.
    pub state_reason: String,
    pub create_time: Timestamp,
    pub next_trial_id: TrialId,
    /// Increases with every change of the study or any of its trials.
    pub revision: u64,
}

impl StudyFields {
    /// Defaults of a new study: active, random search with seed 0, no trials, limits, stopping rules or source studies.
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
            continued_studies: Vec::new(),
            related_studies: Vec::new(),
            max_trials: None,
            trial_lease: None,
            config: Arc::default(),
            metadata: Arc::default(),
            state: StudyState::Active,
            state_reason: String::new(),
            create_time,
            next_trial_id: TrialId::FIRST,
            revision: 0,
        }
    }
}

/// Study in a state reached by legal transitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Study(StudyFields);

impl Deref for Study {
    type Target = StudyFields;

    fn deref(&self) -> &StudyFields {
        &self.0
    }
}

/// Change of one study; stores apply it in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum StudyChange {
    /// Ends the study after its search. No effect on a completed study.
    Complete {
        /// Text for display.
        reason: String,
    },
    /// Ends the study because of an internal error.
    Deactivate { reason: String },
    /// Reactivates an ended study. No effect on an active one.
    Reopen,
    /// Raises the maximum number of trials and reactivates an ended study.
    Extend {
        max_trials: u64,
        /// Configuration with the new maximum, in the form of [`StudyFields::config`].
        config: Arc<Document>,
    },
    /// Adds values, which replace those with the same key. Allowed in every state.
    AddMetadata(Metadata),
}

impl Study {
    /// Creates a study from new or stored fields.
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

    /// Creates the trial `new`, numbered [`StudyFields::next_trial_id`], and assigns it a revision.
    ///
    /// # Errors
    /// Those of [`Self::check_accepts_trials`] and [`Trial::new`]; the study is then unchanged.
    pub fn add_trial(&mut self, new: NewTrial) -> Result<Trial, TransitionError> {
        self.check_accepts_trials()?;
        let trial = Trial::new(NewTrial { id: self.next_trial_id, ..new })?;
        self.0.next_trial_id = self.0.next_trial_id.offset(1);
        Ok(trial.with_revision(self.next_revision()))
    }

    /// Applies `change` to `trial` as [`Trial::apply`] does. Returns the changed trial and the measurements to append.
    /// The trial gets a new revision if the change has an effect.
    ///
    /// # Errors
    /// Those of [`Trial::apply`]; the study is then unchanged.
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

    /// Constraints that the result of `trial` violates, in order; empty without a result.
    pub fn violated<'a>(&'a self, trial: &'a Trial) -> impl Iterator<Item = &'a ConstraintSpec> {
        ranking::violated(&self.problem, trial)
    }

    /// Whether `trial` has a result that satisfies every constraint.
    pub fn is_feasible(&self, trial: &Trial) -> bool {
        ranking::is_feasible(&self.problem, trial)
    }

    /// Studies whose trials inform this search.
    pub fn sources(&self) -> SourceStudies {
        SourceStudies { continued: self.continued_studies.clone(), related: self.related_studies.clone() }
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

    fn add_metadata(&mut self, metadata: Metadata) -> Result<(), TransitionError> {
        let mut merged = Metadata::clone(&self.metadata);
        merged.merge(metadata, || format!("study {}", self.id))?;
        self.0.metadata = merged.into();
        self.next_revision();
        Ok(())
    }

    /// Applies `change`.
    ///
    /// # Errors
    /// [`TransitionError::WrongState`] if the state does not allow it; for an extension also
    /// [`TransitionError::NotRaised`] and [`TransitionError::NoTrials`], for metadata
    /// [`TransitionError::TooMuchMetadata`]. The study is then unchanged.
    pub fn apply(&mut self, change: StudyChange) -> Result<(), TransitionError> {
        let (state, reason, verb) = match change {
            StudyChange::Complete { reason } => (StudyState::Completed, reason, "complete"),
            StudyChange::Deactivate { reason } => (StudyState::Inactive, reason, "deactivate"),
            StudyChange::Reopen => {
                self.reopen();
                return Ok(());
            }
            StudyChange::Extend { max_trials, config } => return self.extend(max_trials, config),
            StudyChange::AddMetadata(metadata) => return self.add_metadata(metadata),
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
