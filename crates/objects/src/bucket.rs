//! Bucket access, with the settings of the cloud's own clients.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use object_store::ObjectStore;

#[cfg(feature = "clouds")]
use super::clouds;
use super::{ObjectAddress, ObjectError, ObjectFolder};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloud {
    /// Google Cloud Storage, `gs://`.
    Google,
    /// Amazon S3 and compatible services, `s3://`.
    Amazon,
}

impl Cloud {
    /// Splits `url` into its cloud and the part after the scheme; `None` for other schemes.
    pub fn of(url: &str) -> Option<(Self, &str)> {
        let google = url.strip_prefix("gs://").map(|rest| (Self::Google, rest));
        google.or_else(|| Some((Self::Amazon, url.strip_prefix("s3://")?)))
    }

    /// Advice on credentials.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Google => "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account that may write there",
            Self::Amazon => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may write there",
        }
    }
}

/// Access to object stores.
#[derive(Debug, Clone, Default)]
pub struct Buckets {
    variables: Arc<BTreeMap<OsString, OsString>>,
}

impl Buckets {
    /// Reads the settings from `variables`.
    pub fn new(variables: BTreeMap<OsString, OsString>) -> Self {
        Self { variables: Arc::new(variables) }
    }

    /// Reads the settings from the environment.
    pub fn of_environment() -> Self {
        Self::new(std::env::vars_os().collect())
    }

    /// Opens the folder at `url`, without IO.
    ///
    /// # Errors
    /// [`ObjectError::Address`], [`ObjectError::Settings`].
    pub fn folder(&self, url: &str) -> Result<ObjectFolder, ObjectError> {
        ObjectFolder::open(url, &self.variables)
    }
}

/// Opens the bucket of `address` with the settings in `variables`, without IO.
///
/// # Errors
/// If a setting is invalid, or the feature `clouds` is disabled.
pub fn bucket(
    address: &ObjectAddress,
    variables: &BTreeMap<OsString, OsString>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    #[cfg(feature = "clouds")]
    return clouds::bucket(address, variables);
    #[cfg(not(feature = "clouds"))]
    {
        let _ = (address, variables);
        let source = "this program was built without object stores (feature object-stores)".into();
        Err(object_store::Error::NotSupported { source })
    }
}
