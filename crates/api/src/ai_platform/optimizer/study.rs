//! `Study`, in requests and responses.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::study_rendering::study_config;
use super::{FieldViolation, StudyConfig};
use crate::ai_platform::proto_json::{self, MessageError};
use crate::ai_platform::{Int64, Notice, Notices, is_default};
use tunesmith_domain::{Study, StudyId, StudyState};

/// Only field of a study that can be changed.
const MAX_TRIALS: &str = "studyConfig.tunesmith.maxTrials";

/// Copies `config` with another maximum number of trials.
pub fn with_max_trials(config: &Value, max_trials: u64) -> Value {
    let mut config = config.clone();
    if let Value::Object(config) = &mut config
        && let Value::Object(additions) = config.entry("tunesmith").or_insert_with(|| json!({}))
    {
        additions.insert("maxTrials".to_owned(), json!(max_trials.to_string()));
    }
    config
}

/// Study in a request. Fields set only by the service are accepted and ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "StudyInput")]
pub struct StudyRequest {
    /// Search space, metrics and algorithm.
    pub study_config: Option<StudyConfig>,
    name: Value,
    state: Value,
    create_time: Value,
    inactive_reason: Value,
    tunesmith: Value,
}

impl StudyRequest {
    /// New maximum number of trials in a request that updates the fields `mask`.
    ///
    /// # Errors
    /// If the request updates another field, or the number is invalid.
    pub fn max_trials(&self, mask: &str) -> Result<u64, FieldViolation> {
        if mask.trim() != MAX_TRIALS {
            let text = format!("must be {MAX_TRIALS}, the only field that can be changed");
            return Err(FieldViolation::new("updateMask", text));
        }
        let requested = self.study_config.as_ref().and_then(|config| config.tunesmith.max_trials.as_ref());
        let max_trials = requested.and_then(|count| u64::try_from(count.0).ok()).filter(|count| *count > 0);
        max_trials.ok_or_else(|| FieldViolation::new(MAX_TRIALS, "is required, and must be at least 1"))
    }

    /// Notices about given fields without effect because the service sets them.
    pub fn notices(&self) -> Vec<Notice> {
        let fields = [
            ("name", &self.name),
            ("state", &self.state),
            ("createTime", &self.create_time),
            ("inactiveReason", &self.inactive_reason),
            ("tunesmith", &self.tunesmith),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| Notice::set_by_service(name)).collect()
    }
}

/// Study with its configuration and state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Study")]
pub struct StudyMessage {
    /// Resource name: `projects/{project}/locations/{location}/studies/{study}`.
    pub name: String,
    /// Search space, metrics and algorithm.
    #[schemars(with = "StudyConfig")]
    pub study_config: StudyConfigMessage,
    /// State of the study.
    pub state: StudyStateName,
    /// Creation time.
    pub create_time: Timestamp,
    /// Reason for the state `INACTIVE`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub inactive_reason: String,
    /// Tunesmith's extensions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tunesmith: StudyOutputAdditions,
}

/// Tunesmith's extensions of a study.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StudyOutputAdditions")]
pub struct StudyOutputAdditions {
    /// Parts of the request without effect, in the response to the study's creation.
    #[serde(flatten)]
    pub notices: Notices,
    /// Reason for the state `COMPLETED`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state_reason: String,
    /// Seed of all random choices, if drawn because `studyConfig` has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Int64>,
}

impl StudyMessage {
    /// Adds notices about parts of the request without effect.
    #[must_use]
    pub fn with_notices(mut self, notices: Vec<Notice>) -> Self {
        self.tunesmith.notices.notices = notices;
        self
    }
}

/// Configuration of a study.
#[derive(Debug, Clone, PartialEq)]
pub enum StudyConfigMessage {
    /// As sent by its client.
    AsSent(Arc<Value>),
    /// Derived from a study created in another way.
    Rendered(Box<StudyConfig>),
}

impl Serialize for StudyConfigMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AsSent(config) => config.serialize(serializer),
            Self::Rendered(config) => config.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for StudyConfigMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::AsSent(Arc::new(Value::deserialize(deserializer)?)))
    }
}

impl StudyConfigMessage {
    /// The configuration without fields unknown to this version.
    ///
    /// # Errors
    /// The first field with a value unknown to this version.
    pub fn known(&self) -> Result<StudyConfig, MessageError> {
        match self {
            Self::AsSent(config) => proto_json::known(Value::clone(config)),
            Self::Rendered(config) => Ok((**config).clone()),
        }
    }
}

impl From<&Study> for StudyMessage {
    fn from(study: &Study) -> Self {
        Self {
            name: study_name(&study.id),
            study_config: if study.config.is_null() {
                StudyConfigMessage::Rendered(Box::new(study_config(study)))
            } else {
                StudyConfigMessage::AsSent(Arc::clone(&study.config))
            },
            state: study.state.into(),
            create_time: study.create_time,
            inactive_reason: match study.state {
                StudyState::Inactive => study.state_reason.clone(),
                StudyState::Active | StudyState::Completed => String::new(),
            },
            tunesmith: StudyOutputAdditions {
                notices: Notices::default(),
                state_reason: match study.state {
                    StudyState::Completed => study.state_reason.clone(),
                    StudyState::Active | StudyState::Inactive => String::new(),
                },
                seed: has_no_seed(&study.config).then(|| Int64(study.seed.cast_signed())),
            },
        }
    }
}

/// Whether `config` was sent without a seed.
fn has_no_seed(config: &Value) -> bool {
    config.is_object() && config["tunesmith"]["seed"].is_null()
}

/// Name of `study` for display: that of its configuration, or its ID.
pub fn display_name(study: &Study) -> &str {
    let given = study.config["tunesmith"]["displayName"].as_str().filter(|name| !name.is_empty());
    given.unwrap_or_else(|| study.id.parts().2)
}

/// `projects/{p}/locations/{l}/studies/{s}`.
pub fn study_name(study: &StudyId) -> String {
    let (project, location, id) = study.parts();
    format!("projects/{project}/locations/{location}/studies/{id}")
}

/// State of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "StudyState")]
pub enum StudyStateName {
    /// The study accepts requests for trials.
    Active,
    /// The study's algorithm failed.
    Inactive,
    /// All points have been tried, the maximum number of trials is reached, or a rule of `studyStoppingConfig` applies.
    Completed,
}

impl From<StudyState> for StudyStateName {
    fn from(state: StudyState) -> Self {
        match state {
            StudyState::Active => Self::Active,
            StudyState::Inactive => Self::Inactive,
            StudyState::Completed => Self::Completed,
        }
    }
}

impl From<StudyStateName> for StudyState {
    fn from(state: StudyStateName) -> Self {
        match state {
            StudyStateName::Active => Self::Active,
            StudyStateName::Inactive => Self::Inactive,
            StudyStateName::Completed => Self::Completed,
        }
    }
}

/// List of studies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(rename = "ListStudiesResponse")]
pub struct StudyList {
    /// Studies, by ID.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub studies: Vec<StudyMessage>,
}
