//! Requests of clients for trials.

use std::num::NonZeroUsize;
use std::time::Duration;

use jiff::Timestamp;

use super::StudyId;

/// A request for trials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuggestionRequest {
    pub client_id: String,
    /// Number of unfinished trials that the client will own.
    pub count: NonZeroUsize,
    /// Lease of new trials; `None`: the study's.
    pub lease: Option<Duration>,
}

/// The identity of a suggestion that may continue in the background.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuggestionOperation {
    pub study: StudyId,
    pub request: SuggestionRequest,
    /// Time of the request.
    pub start_time: Timestamp,
}
