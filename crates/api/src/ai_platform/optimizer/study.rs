//! `Study`, as it is sent and answered.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StudyConfig;
use tunesmith_domain::{Study, StudyId, StudyState};

/// A study as a client sends it. What the service alone decides is accepted and has no effect.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "StudyInput")]
pub struct StudyRequest {
    /// What is searched, and how.
    pub study_config: Option<StudyConfig>,
    #[serde(rename = "name")]
    _name: Value,
    #[serde(rename = "state")]
    _state: Value,
    #[serde(rename = "createTime")]
    _create_time: Value,
    #[serde(rename = "inactiveReason")]
    _inactive_reason: Value,
}

/// A study.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Study")]
pub struct StudyMessage {
    /// `projects/{project}/locations/{location}/studies/{study}`.
    name: String,
    /// What is searched, and how.
    #[schemars(with = "StudyConfig")]
    study_config: Value,
    /// Where it stands.
    state: StudyStateName,
    /// When it was created.
    create_time: Timestamp,
    /// Why it is `INACTIVE`.
    #[serde(skip_serializing_if = "String::is_empty")]
    inactive_reason: String,
}

impl From<&Study> for StudyMessage {
    fn from(study: &Study) -> Self {
        Self {
            name: study_name(&study.id),
            study_config: (*study.config).clone(),
            state: study.state.into(),
            create_time: study.create_time,
            inactive_reason: match study.state {
                StudyState::Inactive => study.state_reason.clone(),
                StudyState::Active | StudyState::Completed => String::new(),
            },
        }
    }
}

/// `projects/{p}/locations/{l}/studies/{s}`.
pub fn study_name(study: &StudyId) -> String {
    let (project, location, id) = study.parts();
    format!("projects/{project}/locations/{location}/studies/{id}")
}

/// Where a study stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "StudyState")]
pub enum StudyStateName {
    /// Gives trials.
    Active,
    /// Was stopped by a fault of its algorithm.
    Inactive,
    /// All points have been tried, or as many as there may be.
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

/// Some studies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(rename = "ListStudiesResponse")]
pub struct StudyList {
    /// The studies, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub studies: Vec<StudyMessage>,
}
