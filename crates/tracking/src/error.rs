//! Failures of an export.

use std::path::PathBuf;

use tunesmith_client::ClientFailure;
use tunesmith_store::StoreError;

/// Why an export stopped. What was sent stays; the next pass continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrackingError {
    /// No response, or none in time.
    #[error("{server} cannot be reached")]
    Unreachable {
        server: String,
        #[source]
        source: reqwest::Error,
    },
    /// Not public, and not the operator's.
    #[error(
        "{server} is not sent to: its address is not public; the operator may allow it with MLFLOW_TRACKING_URI={server}"
    )]
    NotPublic { server: String },
    /// An error response.
    #[error("{server} refused {request}: {status} {code}{}{message}", if message.is_empty() { "" } else { ": " })]
    Refused {
        server: String,
        /// Such as `runs/create`.
        request: &'static str,
        status: u16,
        /// Error code of MLflow; empty if the response has none.
        code: String,
        /// Text of the server, shortened.
        message: String,
    },
    /// A response of another form, or with other values than those sent.
    #[error("{server} answered {request} unexpectedly: {detail}")]
    Unexpected { server: String, request: &'static str, detail: String },
    #[error("the HTTP client for the tracking server cannot be created")]
    Client(#[from] ClientFailure),
    #[error("{} cannot be written", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TrackingError {
    /// Whether a run is missing or deleted, so that the export starts from the beginning.
    pub(crate) fn is_of_missing_run(&self) -> bool {
        match self {
            Self::Refused { code, message, .. } => {
                code == "RESOURCE_DOES_NOT_EXIST" || message.contains("must be in the 'active' state")
            }
            _ => false,
        }
    }

    /// Whether repeating the request may help without a change of the server or the job.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Store(_) | Self::File { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            _ => false,
        }
    }

    /// The error with its causes, in one line.
    pub fn text(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}
