//! Stateless operation names.
//!
//! An operation ID encodes its content in base64url: the request, and the result if known at the time of the
//! response. Operations therefore survive a server restart. IDs can be forged, but reading an operation changes
//! nothing and only shows what its caller may read anyway.

use std::num::NonZeroUsize;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tunesmith_domain::{StudyId, StudyState, SuggestionOperation, SuggestionRequest, TrialId};

use super::operation::{
    CheckTrialEarlyStoppingStateMetadata, CheckTrialEarlyStoppingStateResponse, Operation, OperationMetadata,
    OperationResponse, Progress, SuggestTrialsMetadata, SuggestTrialsResponse,
};
use super::requests::MAX_SUGGESTIONS;
use super::study::{StudyStateName, study_name};
use super::trial::TrialMessage;

/// Content of an operation ID. The serialized form is part of published names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OperationName {
    /// Pending request for trials.
    Suggest {
        study: String,
        client: String,
        count: usize,
        /// Requested lease.
        lease_millis: Option<u64>,
        #[serde(rename = "begun")]
        started: i64,
    },
    /// Completed request for trials.
    Suggested {
        study: String,
        client: String,
        /// Number of requested trials.
        count: usize,
        /// Ranges, inclusive at both ends.
        trials: Vec<(u64, u64)>,
        state: StudyStateName,
        #[serde(rename = "begun")]
        started: i64,
        ended: i64,
    },
    /// Completed check for early stopping.
    CheckEarlyStopping {
        study: String,
        trial: u64,
        /// The attempt in the trial's name, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
        should_stop: bool,
        #[serde(rename = "begun")]
        started: i64,
    },
}

impl OperationName {
    /// Name of a pending suggestion.
    pub fn suggest(operation: &SuggestionOperation) -> Self {
        let SuggestionOperation { study, request, start_time } = operation;
        Self::Suggest {
            study: study.as_str().to_owned(),
            client: request.client_id.clone(),
            count: request.count.get(),
            lease_millis: request.lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
            started: start_time.as_millisecond(),
        }
    }

    /// Name of a suggestion that returned `trials`, in ascending order, and left the study in `state`.
    pub fn suggested(
        operation: &SuggestionOperation,
        state: StudyState,
        trials: impl Iterator<Item = TrialId>,
        end_time: Timestamp,
    ) -> Self {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for TrialId(trial) in trials {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == trial => *last += 1,
                _ => ranges.push((trial, trial)),
            }
        }
        Self::Suggested {
            study: operation.study.as_str().to_owned(),
            client: operation.request.client_id.clone(),
            count: operation.request.count.get(),
            trials: ranges,
            state: state.into(),
            started: operation.start_time.as_millisecond(),
            ended: end_time.as_millisecond(),
        }
    }

    /// Decodes an ID into its operation and study; `None` if invalid.
    pub fn parse(id: &str) -> Option<(Self, StudyId)> {
        let name: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
        let study = name.study().parse().ok()?;
        Some((name, study))
    }

    pub fn id(&self) -> String {
        // Serializing numbers and text cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// The pending suggestion of `study`; `None` for other operations.
    pub fn pending(&self, study: StudyId) -> Option<SuggestionOperation> {
        let Self::Suggest { client, count, lease_millis, started, .. } = self else { return None };
        let count = NonZeroUsize::new(*count).unwrap_or(NonZeroUsize::MIN);
        let lease = lease_millis.map(Duration::from_millis);
        let request = SuggestionRequest { client_id: client.clone(), count, lease };
        Some(SuggestionOperation { study, request, start_time: time(*started) })
    }

    pub fn has_trials(&self) -> bool {
        matches!(self, Self::Suggested { .. })
    }

    /// Returned trials, at most [`MAX_SUGGESTIONS`].
    pub fn trials(&self) -> impl Iterator<Item = TrialId> {
        let ranges: &[(u64, u64)] = if let Self::Suggested { trials, .. } = self { trials } else { &[] };
        ranges.iter().flat_map(|(first, last)| *first..=*last).take(MAX_SUGGESTIONS).map(TrialId)
    }

    pub fn count(&self) -> usize {
        match self {
            Self::Suggest { count, .. } | Self::Suggested { count, .. } => *count,
            Self::CheckEarlyStopping { .. } => 1,
        }
    }

    /// Progress of an operation whose name contains its result, except the returned `trials`.
    pub fn progress(&self, trials: Vec<TrialMessage>) -> Progress {
        Progress::Done(match self {
            Self::Suggest { .. } => return Progress::Running,
            Self::Suggested { state, started, ended, .. } => OperationResponse::Suggest(SuggestTrialsResponse {
                // Published clients read the state only if trials are absent.
                trials: (!trials.is_empty() || *state != StudyStateName::Inactive).then_some(trials),
                study_state: *state,
                start_time: time(*started),
                end_time: time(*ended),
            }),
            Self::CheckEarlyStopping { should_stop, started, .. } => {
                let (should_stop, time) = (*should_stop, time(*started));
                let response = CheckTrialEarlyStoppingStateResponse { should_stop, start_time: time, end_time: time };
                OperationResponse::CheckEarlyStopping(response)
            }
        })
    }

    pub fn operation(&self, progress: Progress) -> Operation {
        let study: Result<StudyId, _> = self.study().parse();
        let (project, location) = study.as_ref().map_or(("-", "-"), |study| (study.parts().0, study.parts().1));
        let name = format!("projects/{project}/locations/{location}/operations/{}", self.id());
        let study_name = study.as_ref().map_or_else(|_| String::new(), study_name);
        let metadata = match self {
            Self::Suggest { client, count, started, .. } | Self::Suggested { client, count, started, .. } => {
                OperationMetadata::Suggest(SuggestTrialsMetadata {
                    study: study_name,
                    client_id: client.clone(),
                    suggestion_count: *count,
                    create_time: time(*started),
                })
            }
            Self::CheckEarlyStopping { trial, attempt, started, .. } => {
                let attempt = attempt.map(|attempt| format!("~{attempt}")).unwrap_or_default();
                OperationMetadata::CheckEarlyStopping(CheckTrialEarlyStoppingStateMetadata {
                    create_time: time(*started),
                    trial: format!("{study_name}/trials/{trial}{attempt}"),
                    study: study_name,
                })
            }
        };
        Operation::new(name, metadata, progress)
    }

    fn study(&self) -> &str {
        match self {
            Self::Suggest { study, .. } | Self::Suggested { study, .. } | Self::CheckEarlyStopping { study, .. } => {
                study
            }
        }
    }
}

fn time(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::UNIX_EPOCH)
}
