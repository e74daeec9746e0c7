//! The specification of a new study, common to all protocols.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tunesmith_algorithms::early_stopping::StoppingRule;
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement};

use super::{Algorithm, CurveAxis, FinalMeasurement, Study, StudyFields, StudyId, StudyStopping};

/// The problem of a study and the settings of its search.
#[derive(Debug, Clone, PartialEq)]
pub struct StudySpec {
    /// The search space and the metrics.
    pub problem: ProblemStatement,
    /// Points that are tried first, in order.
    pub initial_points: Vec<ParameterValues>,
    /// The search algorithm.
    pub algorithm: Algorithm,
    /// The rule of early stopping; `None` to run all trials to their end.
    pub stopping_rule: Option<StoppingRule>,
    /// The axis along which the rule compares curves.
    pub stopping_axis: CurveAxis,
    /// The rules that end the study.
    pub study_stopping: StudyStopping,
    /// Selects the measurement that becomes the result of a trial.
    pub final_measurement: FinalMeasurement,
    /// Maximum number of trials; `None` for any number, or if a job counts them.
    pub max_trials: Option<u64>,
    /// Time after which a trial is taken from a client that does not report; `None` for no limit.
    pub trial_lease: Option<Duration>,
}

/// The properties of a new study that are not part of its specification.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStudy {
    pub id: StudyId,
    /// The seed of all random choices.
    pub seed: u64,
    /// The source studies, oldest first.
    pub prior_studies: Vec<StudyId>,
    /// The configuration in the form of the API that received it; null for the study of a job.
    pub config: Value,
    /// The time of its creation.
    pub create_time: Timestamp,
}

impl StudySpec {
    /// Creates an active study without trials.
    pub fn into_study(self, new: NewStudy) -> Study {
        Study::restore(StudyFields {
            initial_points: self.initial_points,
            algorithm: self.algorithm,
            seed: new.seed,
            stopping_rule: self.stopping_rule,
            stopping_axis: self.stopping_axis,
            study_stopping: self.study_stopping,
            final_measurement: self.final_measurement,
            prior_studies: new.prior_studies,
            max_trials: self.max_trials,
            trial_lease: self.trial_lease,
            config: new.config.into(),
            ..StudyFields::new(new.id, self.problem, new.create_time)
        })
    }
}
