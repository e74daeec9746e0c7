//! Events and their wire form.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tunesmith_algorithms::problem::ParameterValue;
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_domain::{Job, Study, Trial};

/// Maximum length of an error message in an event, in characters.
const MAX_MESSAGE: usize = 2_000;
/// Maximum size of the parameters and metrics of a trial in an event, as JSON. A guess: receivers accept 20 KB or more.
const MAX_TRIAL_BYTES: usize = 12 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    JobCreated,
    JobStarted,
    JobSucceeded,
    JobFailed,
    JobCancelled,
    TrialCompleted,
    TrialFailed,
    /// A trial has the best result so far.
    TrialBest,
    StudyCreated,
    StudyCompleted,
    StudyStopped,
    /// Sent on request only, to every webhook.
    Test,
}

impl EventKind {
    /// Kinds that a webhook can select.
    pub const ALL: [Self; 11] = [
        Self::JobCreated,
        Self::JobStarted,
        Self::JobSucceeded,
        Self::JobFailed,
        Self::JobCancelled,
        Self::TrialCompleted,
        Self::TrialFailed,
        Self::TrialBest,
        Self::StudyCreated,
        Self::StudyCompleted,
        Self::StudyStopped,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::JobCreated => "job.created",
            Self::JobStarted => "job.started",
            Self::JobSucceeded => "job.succeeded",
            Self::JobFailed => "job.failed",
            Self::JobCancelled => "job.cancelled",
            Self::TrialCompleted => "trial.completed",
            Self::TrialFailed => "trial.failed",
            Self::TrialBest => "trial.best",
            Self::StudyCreated => "study.created",
            Self::StudyCompleted => "study.completed",
            Self::StudyStopped => "study.stopped",
            Self::Test => "webhook.test",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let known = Self::ALL.into_iter().chain([Self::Test]);
        known.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownKind)
    }
}

/// Error for text that is not an [`EventKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of event")]
pub struct UnknownKind;

impl Serialize for EventKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An event, as stored and sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Unique and stable: receivers recognise a repeated delivery by it.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// Time of the event.
    pub timestamp: Timestamp,
    pub data: EventData,
}

/// Subject of an event: a job, or a study that belongs to no job, and possibly one of its trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventData {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Resource name of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Resource name of a study that belongs to no job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// State of the job or study.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Reason for the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialData>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialData {
    /// Number of the trial, as text.
    pub id: String,
    pub state: String,
    pub attempt: u64,
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// Result by metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Value>,
    /// Training step of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped_early: bool,
    /// Reason for a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether parameters and metrics are left out due to their size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_truncated: bool,
}

impl Event {
    /// Event of the subject in `data`, which was created at `created`. `occurrence` distinguishes events of the same
    /// kind about the same subject and trial.
    pub(crate) fn new(
        kind: EventKind,
        timestamp: Timestamp,
        created: Timestamp,
        occurrence: &dyn fmt::Display,
        data: EventData,
    ) -> Self {
        let subject = data.job.as_deref().or(data.study.as_deref()).unwrap_or_default();
        let trial = data.trial.as_ref().map_or_else(String::new, |trial| format!("{}/{}", trial.id, trial.attempt));
        let key = format!("{subject}\n{created}\n{kind}\n{trial}\n{occurrence}");
        Self { id: format!("evt_{}", hex::encode(&Sha256::digest(key)[..16])), kind, timestamp, data }
    }

    /// Event that tests a webhook.
    pub(crate) fn test(timestamp: Timestamp) -> Self {
        let id = format!("evt_{:032x}", rand::random::<u128>());
        let data = EventData { message: "test of a webhook".to_owned(), ..EventData::default() };
        Self { id, kind: EventKind::Test, timestamp, data }
    }

    /// JSON body of the Standard Webhooks specification.
    pub(crate) fn body(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: EventKind,
            timestamp: Timestamp,
            data: &'a EventData,
        }
        let body = Body { r#type: self.kind, timestamp: self.timestamp, data: &self.data };
        serde_json::to_string(&body).expect("keys are text, and numbers finite")
    }

    /// One line for people.
    pub(crate) fn summary(&self) -> String {
        let EventData { project, job, study, message, trial, .. } = &self.data;
        let short = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let subject = match (job, study) {
            (Some(job), _) => format!("job {} of project {project}", short(job)),
            (None, Some(study)) => format!("study {} of project {project}", short(study)),
            (None, None) => String::new(),
        };
        let result = |trial: &TrialData| {
            let values = trial.metrics.iter().map(|(name, value)| match value.as_f64() {
                Some(number) => format!("{name} = {}", Rounded(number)),
                None => format!("{name} = {value}"),
            });
            values.collect::<Vec<_>>().join(", ")
        };
        let text = match (self.kind, trial) {
            (EventKind::TrialCompleted, Some(trial)) => {
                format!("Trial {} of {subject} completed: {}", trial.id, result(trial))
            }
            (EventKind::TrialBest, Some(trial)) => {
                format!("Trial {} of {subject} has the best result so far: {}", trial.id, result(trial))
            }
            (EventKind::TrialFailed, Some(trial)) => {
                format!("Trial {} of {subject} failed: {}", trial.id, trial.message)
            }
            (EventKind::Test, _) => "Tunesmith: test of a webhook".to_owned(),
            (kind, _) => {
                let verb = kind.as_str().split_once('.').map_or("", |(_, verb)| verb);
                let mut subject = subject;
                if let Some(first) = subject.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                match message.is_empty() {
                    true => format!("{subject} {verb}"),
                    false => format!("{subject} {verb}: {message}"),
                }
            }
        };
        shortened(&text)
    }
}

impl EventData {
    pub(crate) fn of_job(job: &Job) -> Self {
        let (project, name) = job.id.parts();
        Self {
            project: project.to_owned(),
            job: Some(format!("projects/{project}/jobs/{name}")),
            labels: job.labels.clone(),
            state: job.state.to_string(),
            message: shortened(&job.error_message),
            ..Self::default()
        }
    }

    pub(crate) fn of_study(study: &Study) -> Self {
        let (project, location, name) = study.id.parts();
        Self {
            project: project.to_owned(),
            study: Some(format!("projects/{project}/locations/{location}/studies/{name}")),
            state: study.state.to_string(),
            message: shortened(&study.state_reason),
            ..Self::default()
        }
    }

    /// Data of `trial`. The reason for the state of its job or study is left out.
    pub(crate) fn with_trial(&self, trial: &Trial) -> Self {
        let result = trial.final_measurement.as_ref();
        let metrics = result.iter().flat_map(|result| &result.metrics);
        let mut data = TrialData {
            id: trial.id.to_string(),
            state: trial.state.to_string(),
            attempt: trial.attempt,
            parameters: trial.parameters.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
            metrics: metrics.map(|metric| (metric.metric.clone(), number(metric.value))).collect(),
            step: result.map(|result| result.step),
            stopped_early: trial.stopped_early,
            message: shortened(trial.infeasible_reason.as_deref().unwrap_or_default()),
            is_truncated: false,
        };
        let size = |map: &BTreeMap<String, Value>| {
            map.iter().map(|(name, value)| name.len() + value.as_str().map_or(24, str::len)).sum::<usize>()
        };
        if size(&data.parameters) + size(&data.metrics) > MAX_TRIAL_BYTES {
            data.parameters.clear();
            data.metrics.clear();
            data.is_truncated = true;
        }
        Self { trial: Some(data), message: String::new(), ..self.clone() }
    }
}

fn json(value: &ParameterValue) -> Value {
    match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => number(*value),
        ParameterValue::Integer(value) => (*value).into(),
        ParameterValue::Categorical(value) => value.as_str().into(),
    }
}

/// JSON number; text for NaN and infinities, as in Protobuf's JSON.
fn number(value: f64) -> Value {
    match serde_json::Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
