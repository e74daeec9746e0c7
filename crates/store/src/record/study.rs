//! Records of studies, without [`Progress`], which changes with every trial.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tunesmith_algorithms::early_stopping::{AshaRule, DecayCurveRule, MedianRule};
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement};

use super::form::{As, Float, Form, Shared, Text, forms, is_default};
use super::metadata::MetadataRecord;
use super::{Progress, RecordError, from_json, to_json};
use tunesmith_domain::{
    Algorithm, CurveAxis, Document, FinalMeasurement, Metadata, StoppingRule, Study, StudyFields, StudyId, StudyState,
    StudyStopping, StudyTime, TrialId,
};

/// The stored form of `study`, and its progress.
pub(crate) fn encode_study(study: &Study) -> (Vec<u8>, Progress) {
    let progress = Progress { next_trial_id: study.next_trial_id, revision: study.revision };
    (to_json::<_, StudyRecord>(&**study), progress)
}

/// Decodes the result of [`encode_study`].
pub(crate) fn decode_study(bytes: &[u8], progress: Progress) -> Result<Study, RecordError> {
    let fields = from_json::<_, StudyRecord>(bytes)?;
    Ok(Study::restore(StudyFields { next_trial_id: progress.next_trial_id, revision: progress.revision, ..fields }))
}

forms! {
    StudyRecord => StudyFields,
    StudyStoppingRecord => StudyStopping,
    StudyTimeRecord => StudyTime,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StudyFields", deny_unknown_fields)]
struct StudyRecord {
    #[serde(with = "As::<Text>")]
    id: StudyId,
    /// In the form of `algorithms`, which the records of benchmark runs have as well. It does not change.
    #[serde(with = "As::<Shared>")]
    problem: Arc<ProblemStatement>,
    #[serde(default, skip_serializing_if = "is_default")]
    initial_points: Vec<ParameterValues>,
    #[serde(with = "AlgorithmRecord")]
    algorithm: Algorithm,
    seed: u64,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<StoppingRuleRecord>>")]
    stopping_rule: Option<StoppingRule>,
    #[serde(default, skip_serializing_if = "is_default", with = "CurveAxisRecord")]
    stopping_axis: CurveAxis,
    #[serde(default, skip_serializing_if = "is_default", with = "StudyStoppingRecord")]
    study_stopping: StudyStopping,
    #[serde(with = "FinalMeasurementRecord")]
    final_measurement: FinalMeasurement,
    /// Called `prior_studies` before studies could be related.
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Vec<Text>>", alias = "prior_studies")]
    continued_studies: Vec<StudyId>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Vec<Text>>")]
    related_studies: Vec<StudyId>,
    #[serde(default, skip_serializing_if = "is_default")]
    max_trials: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    trial_lease: Option<Duration>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Shared>")]
    config: Arc<Document>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<MetadataRecord>")]
    metadata: Arc<Metadata>,
    #[serde(with = "StateRecord")]
    state: StudyState,
    state_reason: String,
    create_time: Timestamp,
    /// In [`Progress`].
    #[serde(skip, default = "first_trial")]
    next_trial_id: TrialId,
    /// In [`Progress`].
    #[serde(skip)]
    revision: u64,
}

fn first_trial() -> TrialId {
    TrialId::FIRST
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Algorithm", rename_all = "SCREAMING_SNAKE_CASE")]
enum AlgorithmRecord {
    Automatic,
    GaussianProcessBandit,
    GridSearch { double_resolution: BTreeMap<String, u32> },
    RandomSearch,
    QuasiRandomSearch,
    Tpe,
    CmaEs,
}

/// A rule with its thresholds, which are checked when it is read.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
enum StoppingRuleRecord {
    Median { min_completed: usize, min_reports: Option<usize>, min_progress: f64 },
    DecayCurve { min_finished: usize, min_reports: Option<usize>, min_progress: f64, probability: f64 },
    Asha { eta: u32, first_rung: Option<i64> },
}

impl Form<StoppingRule> for StoppingRuleRecord {
    fn write<S: Serializer>(rule: &StoppingRule, serializer: S) -> Result<S::Ok, S::Error> {
        let record = match rule {
            StoppingRule::Median(rule) => Self::Median {
                min_completed: rule.min_completed(),
                min_reports: rule.min_reports(),
                min_progress: rule.min_progress(),
            },
            StoppingRule::DecayCurve(rule) => Self::DecayCurve {
                min_finished: rule.min_finished(),
                min_reports: rule.min_reports(),
                min_progress: rule.min_progress(),
                probability: rule.probability(),
            },
            StoppingRule::Asha(rule) => Self::Asha { eta: rule.eta(), first_rung: rule.first_rung() },
        };
        record.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StoppingRule, D::Error> {
        Ok(match Self::deserialize(deserializer)? {
            Self::Median { min_completed, min_reports, min_progress } => {
                StoppingRule::Median(MedianRule::new(min_completed, min_reports, min_progress).map_err(Error::custom)?)
            }
            Self::DecayCurve { min_finished, min_reports, min_progress, probability } => StoppingRule::DecayCurve(
                DecayCurveRule::new(min_finished, min_reports, min_progress, probability).map_err(Error::custom)?,
            ),
            Self::Asha { eta, first_rung } => {
                StoppingRule::Asha(AshaRule::new(eta, first_rung).map_err(Error::custom)?)
            }
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CurveAxis", rename_all = "SCREAMING_SNAKE_CASE")]
enum CurveAxisRecord {
    Step,
    ElapsedTime,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StudyStopping", deny_unknown_fields)]
struct StudyStoppingRecord {
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<StudyTimeRecord>>")]
    min_time: Option<StudyTime>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<StudyTimeRecord>>")]
    max_time: Option<StudyTime>,
    #[serde(default, skip_serializing_if = "is_default")]
    min_trials: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    max_trials_without_progress: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    max_time_without_progress: Option<Duration>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Option<Float>>")]
    min_expected_gain: Option<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StudyTime", rename_all = "snake_case", deny_unknown_fields)]
enum StudyTimeRecord {
    After(Duration),
    At(Timestamp),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FinalMeasurement", rename_all = "SCREAMING_SNAKE_CASE")]
enum FinalMeasurementRecord {
    Last,
    Best,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StudyState", rename_all = "SCREAMING_SNAKE_CASE")]
enum StateRecord {
    Active,
    Inactive,
    Completed,
}
