//! Object store errors and their remedies.

/// A failed request to an object store.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("{url:?} is not an address of the form gs://BUCKET/FOLDER or s3://BUCKET/FOLDER: {reason}")]
    Address { url: String, reason: String },
    #[error("the settings in the environment cannot be used for {url}: {reason}")]
    Settings { url: String, reason: String },
    #[error("{url} cannot be {operation}: access is denied; {advice}")]
    Denied { url: String, operation: &'static str, advice: &'static str },
    #[error("{url} cannot be {operation}: the bucket {bucket:?} does not exist, or is in another region")]
    NoBucket { url: String, operation: &'static str, bucket: String },
    #[error("{url} cannot be {operation}: {reason}")]
    Failed { url: String, operation: &'static str, reason: String },
    #[error("the copy {path} of an event file cannot be written")]
    Copy {
        path: std::path::PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the event files below {url} have more than {limit_mib} MiB; the rest is not read")]
    TooLarge { url: String, limit_mib: u64 },
    #[error("{url} has {found} files; up to {limit} are copied")]
    TooMany { url: String, found: usize, limit: usize },
    #[error("the files of {url} have more than {limit_mib} MiB")]
    FolderTooLarge { url: String, limit_mib: u64 },
    #[error("{path} cannot be written")]
    NotWritten {
        path: std::path::PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl ObjectError {
    /// Whether a retry may succeed without a change of settings.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}
