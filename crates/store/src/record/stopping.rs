//! The stopping rules of a study inside its record: that of its trials, and those that end the study.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::early_stopping::{AshaRule, DecayCurveRule, MedianRule};

use super::RecordError;
use super::float::Float;
use tunesmith_domain::{StoppingRule, StoppingRuleKind, StudyStopping, StudyTime};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct StoppingRuleField(#[serde(with = "StoppingRuleRecord")] StoppingRuleKind);

#[derive(Serialize, Deserialize)]
#[serde(remote = "StoppingRuleKind", rename_all = "SCREAMING_SNAKE_CASE")]
enum StoppingRuleRecord {
    Median,
    DecayCurve,
    Asha,
}

/// The thresholds of a rule, if they are not the default ones.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ThresholdsRecord {
    Median { min_completed: usize, min_reports: Option<usize>, min_progress: Float },
    DecayCurve { min_finished: usize, min_reports: Option<usize>, min_progress: Float, probability: Float },
    Asha { eta: u32, first_rung: Option<i64> },
}

/// The stored form of `rule`: its kind, and its thresholds if they are not the default ones.
pub(super) fn encode_rule(rule: StoppingRule) -> (StoppingRuleField, Option<ThresholdsRecord>) {
    let thresholds = match rule {
        StoppingRule::Median(rule) => ThresholdsRecord::Median {
            min_completed: rule.min_completed(),
            min_reports: rule.min_reports(),
            min_progress: Float(rule.min_progress()),
        },
        StoppingRule::DecayCurve(rule) => ThresholdsRecord::DecayCurve {
            min_finished: rule.min_finished(),
            min_reports: rule.min_reports(),
            min_progress: Float(rule.min_progress()),
            probability: Float(rule.probability()),
        },
        StoppingRule::Asha(rule) => ThresholdsRecord::Asha { eta: rule.eta(), first_rung: rule.first_rung() },
    };
    let kind = rule.kind();
    (StoppingRuleField(kind), (rule != StoppingRule::from(kind)).then_some(thresholds))
}

/// Decodes the result of [`encode_rule`].
pub(super) fn decode_rule(
    rule: Option<StoppingRuleField>,
    thresholds: Option<ThresholdsRecord>,
) -> Result<Option<StoppingRule>, RecordError> {
    let Some(StoppingRuleField(kind)) = rule else { return Ok(None) };
    let rule = match thresholds {
        None => StoppingRule::from(kind),
        Some(ThresholdsRecord::Median { min_completed, min_reports, min_progress }) => StoppingRule::Median(
            MedianRule::new(min_completed, min_reports, min_progress.0).map_err(RecordError::malformed)?,
        ),
        Some(ThresholdsRecord::DecayCurve { min_finished, min_reports, min_progress, probability }) => {
            StoppingRule::DecayCurve(
                DecayCurveRule::new(min_finished, min_reports, min_progress.0, probability.0)
                    .map_err(RecordError::malformed)?,
            )
        }
        Some(ThresholdsRecord::Asha { eta, first_rung }) => {
            StoppingRule::Asha(AshaRule::new(eta, first_rung).map_err(RecordError::malformed)?)
        }
    };
    Ok(Some(rule))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StudyStoppingRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_time: Option<StudyTimeRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_time: Option<StudyTimeRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_trials: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_trials_without_progress: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_time_without_progress: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_expected_gain: Option<Float>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum StudyTimeRecord {
    After(Duration),
    At(Timestamp),
}

impl From<StudyTime> for StudyTimeRecord {
    fn from(time: StudyTime) -> Self {
        match time {
            StudyTime::After(duration) => Self::After(duration),
            StudyTime::At(time) => Self::At(time),
        }
    }
}

impl From<StudyTimeRecord> for StudyTime {
    fn from(record: StudyTimeRecord) -> Self {
        match record {
            StudyTimeRecord::After(duration) => Self::After(duration),
            StudyTimeRecord::At(time) => Self::At(time),
        }
    }
}

impl From<&StudyStopping> for StudyStoppingRecord {
    fn from(rules: &StudyStopping) -> Self {
        Self {
            min_time: rules.min_time.map(Into::into),
            max_time: rules.max_time.map(Into::into),
            min_trials: rules.min_trials,
            max_trials_without_progress: rules.max_trials_without_progress,
            max_time_without_progress: rules.max_time_without_progress,
            min_expected_gain: rules.min_expected_gain.map(Float),
        }
    }
}

impl From<StudyStoppingRecord> for StudyStopping {
    fn from(record: StudyStoppingRecord) -> Self {
        Self {
            min_time: record.min_time.map(Into::into),
            max_time: record.max_time.map(Into::into),
            min_trials: record.min_trials,
            max_trials_without_progress: record.max_trials_without_progress,
            max_time_without_progress: record.max_time_without_progress,
            min_expected_gain: record.min_expected_gain.map(|gain| gain.0),
        }
    }
}
