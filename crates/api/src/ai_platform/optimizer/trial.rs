//! `Trial`, in requests and responses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tunesmith_algorithms::problem::{
    Origin, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, SearchSpace,
};

use super::NoteMessage;
use super::attempt::AttemptMessage;
use super::study::study_name;
use super::{FieldViolation, MeasurementMessage, PublishedNames};
use crate::ai_platform::job::{known_origin, origin_schema, violated_names};
use crate::ai_platform::{Int64, Notice, Number, ProtoDuration, is_default};
use tunesmith_domain::{Measurement, Study, StudyId, Trial, TrialState};

/// Value of one parameter: exactly one of the three fields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TrialParameter {
    /// Name of the parameter.
    pub parameter: String,
    /// Value of a `DOUBLE` or `DISCRETE` parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub float_value: Option<Number>,
    /// Value of an `INTEGER` parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub int_value: Option<Int64>,
    /// Value of a `CATEGORICAL` parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
}

impl TrialParameter {
    /// The `value` of the parameter `name`.
    pub fn new(name: &str, value: &ParameterValue) -> Self {
        let mut parameter = Self { parameter: name.to_owned(), ..Self::default() };
        match value {
            ParameterValue::Double(value) | ParameterValue::Discrete(value) => {
                parameter.float_value = Some(Number::from(*value));
            }
            ParameterValue::Integer(value) => parameter.int_value = Some(Int64(*value)),
            ParameterValue::Categorical(value) => parameter.string_value = Some(value.clone()),
        }
        parameter
    }
}

/// Trial in a request. Fields set only by the service are accepted and ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "TrialInput")]
pub struct TrialRequest {
    /// Parameter values.
    pub parameters: Vec<TrialParameter>,
    /// Result of a completed trial.
    pub final_measurement: Option<MeasurementMessage>,
    /// Measurements of a completed trial. With the state `COMPLETED` and no `finalMeasurement`, one of them becomes the
    /// result, as in `trials.complete`.
    pub measurements: Vec<MeasurementMessage>,
    /// Whether the trial has no result. Its parameters are then not tried again.
    pub trial_infeasible: bool,
    /// Reason; only with `trialInfeasible`.
    pub infeasible_reason: String,
    /// Tunesmith's extensions.
    pub tunesmith: TrialInputAdditions,
    name: Value,
    pub(super) state: Value,
    start_time: Value,
    end_time: Value,
    client_id: Value,
}

/// Tunesmith's extensions of a trial in a request. Other fields of the extensions are accepted and ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TrialInputAdditions {
    /// Whether the completed trial was stopped early; its result is then its last measurement.
    pub stopped_early: bool,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl TrialRequest {
    /// Notices about given fields without effect.
    pub fn notices(&self) -> Vec<Notice> {
        let state = if self.is_from_curve() { &Value::Null } else { &self.state };
        let fields = [
            ("name", &self.name),
            ("state", state),
            ("startTime", &self.start_time),
            ("endTime", &self.end_time),
            ("clientId", &self.client_id),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
        let mut notices: Vec<Notice> = fields.map(|(name, _)| Notice::set_by_service(name)).collect();
        notices.extend(self.tunesmith.others.keys().map(|name| Notice::set_by_service(&format!("tunesmith.{name}"))));
        let has_result = self.final_measurement.is_some() || self.trial_infeasible || self.is_from_curve();
        let given =
            [("measurements", !self.measurements.is_empty()), ("tunesmith.stoppedEarly", self.tunesmith.stopped_early)];
        for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given && !has_result) {
            let description = "has no effect on a trial without a result".to_owned();
            notices.push(Notice { field: field.to_owned(), description });
        }
        if self.trial_infeasible && self.final_measurement.is_some() {
            notices.push(result_of_infeasible_trial());
        }
        notices
    }
}

/// Notice that a result of an infeasible trial is ignored, as published.
pub(super) fn result_of_infeasible_trial() -> Notice {
    let description = "has no effect: trialInfeasible is set".to_owned();
    Notice { field: "finalMeasurement".to_owned(), description }
}

/// Trial of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Trial")]
pub struct TrialMessage {
    /// Resource name: `{study}/trials/{number}`. After an expired lease, the attempt is appended to the number, as in
    /// `7~2`.
    pub name: String,
    /// State of the trial.
    pub state: TrialStateName,
    /// Parameter values.
    pub parameters: Vec<TrialParameter>,
    /// Result of the trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_measurement: Option<MeasurementMessage>,
    /// Measurements, by step and elapsed time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<MeasurementMessage>,
    /// Time at which the trial was assigned to its client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Time at which the trial became `COMPLETED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// ID of the trial's owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_id: String,
    /// Whether the trial has no result. Its parameters are then not tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trial_infeasible: bool,
    /// Reason for the infeasibility.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infeasible_reason: Option<String>,
    /// Tunesmith's extensions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tunesmith: TrialAdditions,
}

/// State of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "TrialState")]
pub enum TrialStateName {
    /// User-supplied trial, not yet assigned.
    Requested,
    /// Assigned to a client.
    Active,
    /// The trial's client is asked to stop.
    Stopping,
    /// The trial has a result, or is infeasible.
    Completed,
}

/// Tunesmith's extensions of a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialAdditions {
    /// Algorithm and step that proposed the trial.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_origin")]
    #[schemars(schema_with = "origin_schema")]
    pub origin: Option<Origin>,
    /// Parameters whose values the caller fixed, as a context of Vertex AI does; the algorithm chose the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed_parameters: Vec<String>,
    /// Note of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<NoteMessage>,
    /// End of the lease, unless a request of the client renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_end_time: Option<Timestamp>,
    /// Number of times a client lost the trial due to an expired lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired_leases: Option<Int64>,
    /// Number of runs of the program since the last retry that ended with a failure of their supervisor or machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_attempts: Option<Int64>,
    /// Total duration of runs of the program since the last retry that were lost or preempted, or whose lease expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_time: Option<ProtoDuration>,
    /// Number of runs of the program since the last retry that the engine's scheduler preempted in favour of other
    /// work. They are retried without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_attempts: Option<Int64>,
    /// Known locations of the runs of the program, in order. The oldest are omitted if there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptMessage>,
    /// Metrics found in several folders of event files, with the folder that contains the curve, and the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric_folders: Vec<MetricFolderChoice>,
    /// Number of measurements omitted from this response: that of `addMeasurement` contains the curve only up to 100
    /// measurements. `trials.get` returns all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_measurements: Option<Int64>,
    /// Whether the trial was stopped early; its result is then its last measurement.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stopped_early: bool,
    /// Constraints that the result violates: metrics with a `safetyConfig`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violated_constraints: Vec<String>,
    /// Error of the study's algorithm, if random search stepped in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_reason: Option<String>,
    /// Request fields without effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// Metric found in several folders of event files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricFolderChoice {
    /// Name of the metric.
    pub metric: String,
    /// Folder with the curve of the metric, relative to the trial's folder; `.` for that folder.
    pub taken: String,
    /// Other folders. Of many, the first ones in order of preference.
    pub others: Vec<String>,
}

impl MetricFolderChoice {
    pub(in crate::ai_platform) fn of(trial: &Trial) -> Vec<Self> {
        let choices = trial.metric_folders.ambiguous().filter_map(|(metric, folders)| {
            let (taken, others) = folders.split_first()?;
            let others = others.iter().map(|folder| folder.to_string()).collect();
            Some(Self { metric: metric.to_owned(), taken: taken.to_string(), others })
        });
        choices.collect()
    }
}

impl TrialMessage {
    /// Trial of `study` with the measurements of its curve; `names` are those of the study's search space.
    pub fn new(study: &Study, names: &PublishedNames<'_>, trial: &Trial, curve: &[Measurement]) -> Self {
        let mut message = Self::with(&study.id, names, trial, curve);
        message.tunesmith.violated_constraints = violated_names(study, trial);
        message
    }

    /// Trial of `study` with the number of its measurements instead of the curve.
    pub fn without_curve(study: &Study, names: &PublishedNames<'_>, trial: &Trial) -> Self {
        let mut message = Self::new(study, names, trial, &[]);
        message.tunesmith.omitted_measurements = Some(Int64(trial.measurement_count.cast_signed()));
        message
    }

    /// Trial of a job's study, without measurements.
    pub fn of_job(study: &StudyId, trial: &Trial) -> Self {
        Self::with(study, &PublishedNames::default(), trial, &[])
    }

    /// Adds notices about parts of the request without effect.
    #[must_use]
    pub fn with_notices(mut self, notices: Vec<Notice>) -> Self {
        self.tunesmith.notices = notices;
        self
    }

    fn with(study: &StudyId, names: &PublishedNames<'_>, trial: &Trial, curve: &[Measurement]) -> Self {
        let parameters = trial.parameters.iter();
        let parameters = parameters.map(|(name, value)| TrialParameter::new(names.published(name), value));
        Self {
            name: trial_name(study, trial),
            state: match trial.state {
                TrialState::Requested => TrialStateName::Requested,
                TrialState::Active => TrialStateName::Active,
                TrialState::Stopping => TrialStateName::Stopping,
                TrialState::Succeeded | TrialState::Infeasible | TrialState::Deleted => TrialStateName::Completed,
            },
            parameters: parameters.collect(),
            final_measurement: trial.final_measurement.as_ref().map(MeasurementMessage::from),
            measurements: curve.iter().map(MeasurementMessage::from).collect(),
            start_time: trial.start_time,
            end_time: trial.end_time,
            client_id: trial.client_id.clone(),
            trial_infeasible: trial.state == TrialState::Infeasible,
            infeasible_reason: trial.infeasible_reason.clone(),
            tunesmith: TrialAdditions {
                origin: trial.origin,
                note: trial.note().map(NoteMessage::from),
                lease_end_time: trial.lease.map(|lease| lease.deadline),
                expired_leases: count(trial.expired_leases),
                lost_attempts: count(trial.lost_attempts),
                lost_time: (!trial.lost_time.is_zero()).then_some(ProtoDuration(trial.lost_time)),
                preempted_attempts: count(trial.preempted_attempts),
                attempts: trial.places.iter().map(AttemptMessage::from).collect(),
                metric_folders: MetricFolderChoice::of(trial),
                omitted_measurements: None,
                stopped_early: trial.stopped_early,
                violated_constraints: Vec::new(),
                fallback_reason: trial.fallback_reason.clone(),
                fixed_parameters: trial.fixed_parameters.iter().map(|it| names.published(it).to_owned()).collect(),
                notices: Vec::new(),
            },
        }
    }
}

/// Count in a message, which omits zero.
fn count(count: u64) -> Option<Int64> {
    (count > 0).then(|| Int64(count.cast_signed()))
}

/// List of trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(rename = "ListTrialsResponse")]
pub struct TrialList {
    /// Trials, by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<TrialMessage>,
}

/// Formats `{study}/trials/{number}`. After an expired lease, the attempt is appended, as in `7~2`: the former owner
/// knows the trial under another name, so its requests are refused.
pub fn trial_name(study: &StudyId, trial: &Trial) -> String {
    let name = format!("{}/trials/{}", study_name(study), trial.id);
    if study.is_of_job() || trial.expired_leases == 0 { name } else { format!("{name}~{}", trial.attempt) }
}

/// Point of `space` with the values `parameters`.
///
/// # Errors
/// The first parameter that is unknown, inactive, repeated, or of another type.
pub fn point(space: &SearchSpace, parameters: &[TrialParameter]) -> Result<ParameterValues, FieldViolation> {
    completed_point(space, parameters, |_, _| None)
}

/// As [`point`], with missing values from `fill`, called for each active parameter without a value in `parameters`. If a
/// given child needs certain values of the parameter, the slice contains them.
///
/// # Errors
/// As [`point`].
pub fn completed_point(
    space: &SearchSpace,
    parameters: &[TrialParameter],
    mut fill: impl FnMut(&ParameterSpec, Option<&[ParameterValue]>) -> Option<ParameterValue>,
) -> Result<ParameterValues, FieldViolation> {
    let names = PublishedNames::of(space);
    let mut given: BTreeMap<&str, (usize, &TrialParameter)> = BTreeMap::new();
    let refuse =
        |index: usize, description: String| Err(FieldViolation { field: format!("parameters[{index}]"), description });
    for (index, parameter) in parameters.iter().enumerate() {
        if given.insert(&parameter.parameter, (index, parameter)).is_some() {
            return refuse(index, format!("{:?} is given twice", parameter.parameter));
        }
    }
    let mut values = ParameterValues::new();
    // Parents precede their children.
    for spec in space.parameters() {
        let is_active = spec.condition().is_none_or(|condition| {
            values.get(condition.parent()).is_some_and(|value| condition.values().contains(value))
        });
        if !is_active {
            continue;
        }
        let Some((index, parameter)) = given.remove(names.published(spec.name())) else {
            let child = space.parameters().iter().find_map(|child| {
                let condition = child.condition().filter(|condition| condition.parent() == spec.name())?;
                given.contains_key(names.published(child.name())).then(|| condition.values())
            });
            if let Some(value) = fill(spec, child) {
                values.insert(spec.name().to_owned(), value);
            }
            continue;
        };
        let value = match (spec.kind(), &parameter.float_value, &parameter.int_value, &parameter.string_value) {
            (ParameterKind::Double { .. }, Some(value), None, None) => ParameterValue::Double(value.0),
            (ParameterKind::Discrete { .. }, Some(value), None, None) if value.is_too_large() => {
                let reason = "is too large to be exact; allowed: whole numbers from -2^53 to 2^53";
                return refuse(index, format!("the floatValue {value} of {:?} {reason}", parameter.parameter));
            }
            (ParameterKind::Discrete { .. }, Some(value), None, None) => ParameterValue::Discrete(value.0),
            (ParameterKind::Integer { .. }, None, Some(value), None) => ParameterValue::Integer(value.0),
            (ParameterKind::Categorical { .. }, None, None, Some(value)) => ParameterValue::Categorical(value.clone()),
            (kind, ..) => {
                let field = match kind {
                    ParameterKind::Double { .. } | ParameterKind::Discrete { .. } => "floatValue",
                    ParameterKind::Integer { .. } => "intValue",
                    ParameterKind::Categorical { .. } => "stringValue",
                };
                return refuse(index, format!("{:?} must have {field} and no other value", parameter.parameter));
            }
        };
        values.insert(spec.name().to_owned(), value);
    }
    if let Some((name, (index, _))) = given.into_iter().next() {
        return refuse(index, format!("{name:?} is not a parameter of the study, or does not exist for these values"));
    }
    Ok(values)
}
