//! `Study`, as it is sent and answered.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StudyConfig;
use crate::domain::{Study, StudyId, StudyState};

/// A study as a client sends it. What the service alone decides is accepted and has no effect.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
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

/// `google.cloud.ml.v1.Study`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StudyMessage {
    name: String,
    study_config: Value,
    state: &'static str,
    create_time: Timestamp,
    #[serde(skip_serializing_if = "String::is_empty")]
    inactive_reason: String,
}

impl From<&Study> for StudyMessage {
    fn from(study: &Study) -> Self {
        Self {
            name: study_name(&study.id),
            study_config: study.config.clone(),
            state: state_name(study.state),
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

/// The name of a study's state.
pub fn state_name(state: StudyState) -> &'static str {
    match state {
        StudyState::Active => "ACTIVE",
        StudyState::Inactive => "INACTIVE",
        StudyState::Completed => "COMPLETED",
    }
}
