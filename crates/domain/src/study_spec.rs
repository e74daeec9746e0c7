//! Specification of a new study, common to all protocols.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tunesmith_algorithms::early_stopping::StoppingRule;
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement};

use super::{
    Algorithm, CurveAxis, FinalMeasurement, Metadata, SourceStudies, Study, StudyFields, StudyId, StudyStopping,
};

/// Problem and search settings of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct StudySpec {
    pub problem: ProblemStatement,
    /// Points to try first, in order.
    pub initial_points: Vec<ParameterValues>,
    pub algorithm: Algorithm,
    /// Early stopping rule; `None` to run all trials to their end.
    pub stopping_rule: Option<StoppingRule>,
    /// Axis along which curves are compared.
    pub stopping_axis: CurveAxis,
    /// Rules that end the study.
    pub study_stopping: StudyStopping,
    /// Rule that selects a trial's result.
    pub final_measurement: FinalMeasurement,
    /// Maximum number of trials; `None` if unlimited, or if a job enforces the limit.
    pub max_trials: Option<u64>,
    /// Time without reports after which a client loses its trial; `None` for no limit.
    pub trial_lease: Option<Duration>,
}

/// Properties of a new study beyond its specification.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStudy {
    pub id: StudyId,
    /// Seed of all random streams.
    pub seed: u64,
    /// Studies whose trials inform the search.
    pub sources: SourceStudies,
    /// Configuration in the form of the receiving API; null for the study of a job.
    pub config: Value,
    /// Values attached by its client.
    pub metadata: Metadata,
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
            continued_studies: new.sources.continued,
            related_studies: new.sources.related,
            max_trials: self.max_trials,
            trial_lease: self.trial_lease,
            config: new.config.into(),
            metadata: new.metadata.into(),
            ..StudyFields::new(new.id, self.problem, new.create_time)
        })
    }
}
