//! Errors of object stores, with what the user can do.

/// Why an object store did not answer as it should.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The address is not that of a folder in an object store.
    #[error("{url:?} is not an address of the form gs://BUCKET/FOLDER or s3://BUCKET/FOLDER: {reason}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The settings or credentials in the environment cannot be used.
    #[error("the settings in the environment cannot be used for {url}: {reason}")]
    Settings {
        /// The address.
        url: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The credentials are missing or have no permission.
    #[error("{url} cannot be {operation}: access is denied; {advice}")]
    Denied {
        /// The address.
        url: String,
        /// Such as `written`.
        operation: &'static str,
        /// The variables that give credentials.
        advice: &'static str,
    },
    /// There is no such bucket.
    #[error("{url} cannot be {operation}: the bucket {bucket:?} does not exist, or is in another region")]
    NoBucket {
        /// The address.
        url: String,
        /// Such as `written`.
        operation: &'static str,
        /// The name of the bucket.
        bucket: String,
    },
    /// The store could not be reached, or failed.
    #[error("{url} cannot be {operation}: {reason}")]
    Failed {
        /// The address.
        url: String,
        /// Such as `written`.
        operation: &'static str,
        /// The innermost cause.
        reason: String,
    },
    /// A local copy could not be written.
    #[error("the copy {path} of an event file cannot be written")]
    Copy {
        /// The copy.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The event files are too large to be read.
    #[error("the event files below {url} have more than {limit_mib} MiB; the rest is not read")]
    TooLarge {
        /// The address.
        url: String,
        /// The limit.
        limit_mib: u64,
    },
}

impl ObjectError {
    /// Whether the request may succeed if it is repeated without a change of settings.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}
