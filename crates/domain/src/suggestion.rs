//! Requests for trials.

use std::num::NonZeroUsize;
use std::time::Duration;

use jiff::Timestamp;

use super::StudyId;

/// Request of a client for trials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuggestionRequest {
    pub client_id: String,
    /// Number of unfinished trials the client will own.
    pub count: NonZeroUsize,
    /// Lease of new trials; `None` for the study's default.
    pub lease: Option<Duration>,
}

/// Identity of a suggestion that may continue in the background.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuggestionOperation {
    pub study: StudyId,
    pub request: SuggestionRequest,
    pub start_time: Timestamp,
}
