//! `studyStoppingConfig` in jobs and studies, as published by Vertex AI.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::violations::Violations;
use super::{Double, ProtoDuration};
use tunesmith_domain::{StudyStopping, StudyTime};

/// Conditions that end the supply of trials, checked before each suggestion. Running trials continue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyStoppingConfig {
    /// (Tunesmith) Earliest end of the study by the rules below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_runtime_constraint: Option<StudyTimeConstraint>,
    /// (Tunesmith) Latest end of the study.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_runtime_constraint: Option<StudyTimeConstraint>,
    /// (Tunesmith) Ended trials required before any rule except `maxNumTrials` ends the study. At least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_num_trials: Option<u32>,
    /// (Tunesmith) Maximum number of trials, at least 1; with `maxTrials`, the smaller one applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_num_trials: Option<u32>,
    /// (Tunesmith) Ends the study after this many consecutive ended trials without an improvement, at least 1. Only
    /// with one metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_num_trials_no_progress: Option<u32>,
    /// (Tunesmith) Ends the study after this time without an improvement. Only with one metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_no_progress: Option<ProtoDuration>,
    /// (Tunesmith, not in Vertex AI) Ends the study when the expected improvement of the metric by the best further
    /// trial falls below this value, in units of the metric, above 0. Only with one metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_expected_gain: Option<Double>,
}

/// Time limit of a study: exactly one of the fields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StudyTimeConstraint {
    /// (Tunesmith) Time since the creation of the study.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<ProtoDuration>,
    /// (Tunesmith) Point in time, such as `2030-01-31T12:00:00Z`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
}

const FIELD: &str = "tunesmith.studyStoppingConfig";

/// Checks `config` for a study with `metrics` metrics and `constraints` constraints.
pub(super) fn check_study_stopping(
    config: &StudyStoppingConfig,
    metrics: usize,
    constraints: usize,
    violations: &mut Violations,
) {
    let times = [
        ("minimumRuntimeConstraint", &config.minimum_runtime_constraint),
        ("maximumRuntimeConstraint", &config.maximum_runtime_constraint),
    ];
    for (name, constraint) in times {
        let Some(constraint) = constraint else { continue };
        if constraint.max_duration.is_some() == constraint.end_time.is_some() {
            let message = if constraint.end_time.is_some() { "has two times" } else { "has no time" };
            violations.error(format_args!("{FIELD}.{name}"), message, "one of maxDuration and endTime");
        }
    }
    let counts = [
        ("minNumTrials", config.min_num_trials),
        ("maxNumTrials", config.max_num_trials),
        ("maxNumTrialsNoProgress", config.max_num_trials_no_progress),
    ];
    for (name, _) in counts.iter().filter(|(_, count)| *count == Some(0)) {
        violations.error(format_args!("{FIELD}.{name}"), "0 is below the minimum", "a whole number from 1 on");
    }
    if let (Some(least), Some(most)) = (config.min_num_trials, config.max_num_trials)
        && least > most
    {
        violations.error(
            format_args!("{FIELD}.minNumTrials"),
            format_args!("{least} is above maxNumTrials"),
            format_args!("at most {most}"),
        );
    }
    if config.max_duration_no_progress.is_some_and(|limit| limit.0.is_zero()) {
        violations.error(format_args!("{FIELD}.maxDurationNoProgress"), "0s is no time", "longer than 0s");
    }
    if let Some(gain) = config.min_expected_gain.filter(|gain| !(gain.0.is_finite() && gain.0 > 0.0)) {
        let field = format_args!("{FIELD}.minExpectedGain");
        violations.error(field, format_args!("{gain} is out of range"), "a finite number above 0");
    }
    let progress = [
        ("minExpectedGain", config.min_expected_gain.is_some()),
        ("maxNumTrialsNoProgress", config.max_num_trials_no_progress.is_some()),
        ("maxDurationNoProgress", config.max_duration_no_progress.is_some()),
    ];
    for (name, _) in progress.iter().filter(|(_, is_given)| *is_given && metrics > 1) {
        let message = format_args!("the study has {metrics} metrics, which have no single order");
        violations.error(format_args!("{FIELD}.{name}"), message, "only with one metric");
    }
    if config.min_expected_gain.is_some() && metrics == 1 && constraints > 0 {
        violations.error(
            format_args!("{FIELD}.minExpectedGain"),
            "the expected gain does not consider constraints",
            "only without constraints; maxNumTrialsNoProgress and maxDurationNoProgress consider them",
        );
    }
}

impl StudyStoppingConfig {
    /// Rules of the study, except the maximum number of trials. `self` must have passed [`check_study_stopping`].
    pub(super) fn to_domain(&self) -> StudyStopping {
        let time = |constraint: &Option<StudyTimeConstraint>| {
            let constraint = constraint.as_ref()?;
            let at = constraint.end_time.map(StudyTime::At);
            at.or_else(|| constraint.max_duration.map(|duration| StudyTime::After(duration.0)))
        };
        StudyStopping {
            min_time: time(&self.minimum_runtime_constraint),
            max_time: time(&self.maximum_runtime_constraint),
            min_trials: self.min_num_trials.map(u64::from),
            max_trials_without_progress: self.max_num_trials_no_progress.map(u64::from),
            max_time_without_progress: self.max_duration_no_progress.map(|limit| limit.0),
            min_expected_gain: self.min_expected_gain.map(|gain| gain.0),
        }
    }

    /// Configuration of `rules`; `None` without rules.
    pub(super) fn of_domain(rules: &StudyStopping) -> Option<Self> {
        let count = |count: Option<u64>| count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let time = |time: StudyTime| match time {
            StudyTime::After(duration) => {
                StudyTimeConstraint { max_duration: Some(ProtoDuration(duration)), end_time: None }
            }
            StudyTime::At(time) => StudyTimeConstraint { max_duration: None, end_time: Some(time) },
        };
        (*rules != StudyStopping::default()).then(|| Self {
            minimum_runtime_constraint: rules.min_time.map(time),
            maximum_runtime_constraint: rules.max_time.map(time),
            min_num_trials: count(rules.min_trials),
            max_num_trials: None,
            max_num_trials_no_progress: count(rules.max_trials_without_progress),
            max_duration_no_progress: rules.max_time_without_progress.map(ProtoDuration),
            min_expected_gain: rules.min_expected_gain.map(Double),
        })
    }

    /// The smaller of `max_trials` and `maxNumTrials`.
    pub(super) fn limit(&self, max_trials: Option<u64>) -> Option<u64> {
        max_trials.into_iter().chain(self.max_num_trials.map(u64::from)).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn configuration_of_rules_is_that_of_the_user() {
        let json = json!({
            "minimumRuntimeConstraint": {"maxDuration": "1.5s"},
            "maximumRuntimeConstraint": {"endTime": "2030-01-31T12:00:00Z"},
            "minNumTrials": 3, "maxNumTrialsNoProgress": 8, "maxDurationNoProgress": "3600s", "minExpectedGain": 0.01,
        });
        let config: StudyStoppingConfig = serde_json::from_value(json.clone()).unwrap();
        let rules = config.to_domain();
        assert_eq!(rules.min_time, Some(StudyTime::After(Duration::from_millis(1500))));
        assert_eq!((rules.min_trials, rules.max_trials_without_progress), (Some(3), Some(8)));
        assert_eq!(serde_json::to_value(StudyStoppingConfig::of_domain(&rules).unwrap()).unwrap(), json);
        assert_eq!(StudyStoppingConfig::of_domain(&StudyStoppingConfig::default().to_domain()), None);
        let most = StudyStoppingConfig { max_num_trials: Some(7), ..StudyStoppingConfig::default() };
        assert_eq!([None, Some(5), Some(9)].map(|trials| most.limit(trials)), [Some(7), Some(5), Some(7)]);
    }

    #[test]
    fn rules_without_a_meaning_are_refused() {
        let refused = |json: serde_json::Value, metrics| {
            let mut violations = Violations::default();
            check_study_stopping(&serde_json::from_value(json).unwrap(), metrics, 0, &mut violations);
            let text = |field: &str| field.trim_start_matches("tunesmith.studyStoppingConfig.").to_owned();
            let violations = violations.into_vec().into_iter();
            violations.map(|one| format!("{}: {}; {}", text(&one.field), one.message, one.allowed)).collect::<Vec<_>>()
        };
        let both = json!({"maxDuration": "1s", "endTime": "2030-01-31T12:00:00Z"});
        assert_eq!(
            refused(json!({"minimumRuntimeConstraint": both, "maximumRuntimeConstraint": {}}), 1),
            [
                "minimumRuntimeConstraint: has two times; one of maxDuration and endTime",
                "maximumRuntimeConstraint: has no time; one of maxDuration and endTime"
            ]
        );
        assert_eq!(
            refused(json!({"minNumTrials": 9, "maxNumTrials": 3, "maxNumTrialsNoProgress": 0}), 1),
            [
                "maxNumTrialsNoProgress: 0 is below the minimum; a whole number from 1 on",
                "minNumTrials: 9 is above maxNumTrials; at most 3"
            ]
        );
        assert_eq!(
            refused(json!({"minExpectedGain": 0}), 1),
            ["minExpectedGain: 0 is out of range; a finite number above 0"]
        );
        assert_eq!(
            refused(json!({"maxDurationNoProgress": "0s"}), 2),
            [
                "maxDurationNoProgress: 0s is no time; longer than 0s",
                "maxDurationNoProgress: the study has 2 metrics, which have no single order; only with one metric"
            ]
        );
        assert_eq!(refused(json!({"minNumTrials": 1, "maxNumTrials": 1}), 2), Vec::<String>::new());
    }

    #[test]
    fn expected_gain_with_constraints_is_refused() {
        let config = serde_json::from_value(json!({"minExpectedGain": 0.1, "maxNumTrialsNoProgress": 3})).unwrap();
        let mut violations = Violations::default();
        check_study_stopping(&config, 1, 2, &mut violations);
        let fields: Vec<String> = violations.into_vec().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["tunesmith.studyStoppingConfig.minExpectedGain"]);
    }
}
