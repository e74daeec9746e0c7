use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};

use super::bucket::{Cloud, bucket};
use super::{ObjectAddress, ObjectError};

/// Objects below an address such as `gs://bucket/folder`.
#[derive(Debug, Clone)]
pub struct ObjectFolder {
    url: String,
    address: ObjectAddress,
    pub(crate) prefix: Path,
    pub(crate) store: Arc<dyn ObjectStore>,
}

impl ObjectFolder {
    /// Whether `url` has the scheme of an object store.
    pub fn is_address(url: &str) -> bool {
        Cloud::of(url).is_some()
    }

    /// Opens the folder at `url` with the settings in `variables`, without IO.
    ///
    /// # Errors
    /// [`ObjectError::Address`], [`ObjectError::Settings`].
    pub fn open(url: &str, variables: &BTreeMap<OsString, OsString>) -> Result<Self, ObjectError> {
        let address = ObjectAddress::parse(url)?;
        let store = bucket(&address, variables)
            .map_err(|error| ObjectError::Settings { url: url.to_owned(), reason: innermost(&error) })?;
        Ok(Self { url: address.url().to_owned(), prefix: address.path().clone(), address, store })
    }

    /// The address without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Subfolder `name`.
    ///
    /// # Errors
    /// [`ObjectError::Address`] if `name` is not allowed in an object name.
    pub fn join(&self, name: &str) -> Result<Self, ObjectError> {
        let url = format!("{}/{name}", self.url);
        let joined = format!("{}/{name}", self.prefix);
        let prefix = Path::parse(joined.trim_start_matches('/'))
            .map_err(|error| ObjectError::Address { url: url.clone(), reason: error.to_string() })?;
        Ok(Self { url, prefix, ..self.clone() })
    }

    /// Checks write access by writing and deleting a probe object.
    ///
    /// # Errors
    /// If either operation fails.
    pub async fn probe(&self) -> Result<(), ObjectError> {
        let path = self.prefix.clone().join(format!(".tunesmith-probe-{}", std::process::id()));
        let written = self.store.put(&path, PutPayload::from_static(b"")).await;
        written.map_err(|error| self.failed("written", error))?;
        match self.store.delete(&path).await {
            // A concurrent probe has removed it.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("cleaned up", error)),
        }
    }

    /// Lists all objects recursively.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) async fn list(&self) -> Result<Vec<ObjectMeta>, ObjectError> {
        let listed = self.store.list(Some(&self.prefix)).try_collect().await;
        listed.map_err(|error| self.failed("listed", error))
    }

    /// Reads the byte `range` of the object `path`.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn read(&self, path: &Path, range: std::ops::Range<u64>) -> Result<Vec<u8>, ObjectError> {
        let read = self.store.get_range(path, range).await;
        read.map(Into::into).map_err(|error| self.failed("read", error))
    }

    /// Path of `object` relative to this folder.
    pub(crate) fn name_of<'a>(&self, object: &'a Path) -> &'a str {
        let whole = object.as_ref();
        whole.strip_prefix(self.prefix.as_ref()).unwrap_or(whole).trim_start_matches('/')
    }

    pub(crate) fn failed(&self, operation: &'static str, error: object_store::Error) -> ObjectError {
        let url = self.url.clone();
        let reason = innermost(&error);
        match error {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ObjectError::Denied { url, operation, advice: self.address.cloud().advice() }
            }
            object_store::Error::NotFound { .. } if operation != "read" => {
                ObjectError::NoBucket { url, operation, bucket: self.address.bucket().to_owned() }
            }
            // Listings fail with the response.
            _ if reason.contains("<Code>NoSuchBucket</Code>") => {
                ObjectError::NoBucket { url, operation, bucket: self.address.bucket().to_owned() }
            }
            _ => ObjectError::Failed { url, operation, reason },
        }
    }
}

/// Innermost error on one line.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<ObjectFolder, ObjectError> {
        ObjectFolder::open(url, &BTreeMap::new())
    }

    #[test]
    fn folders_are_joined() {
        let trial = open("gs://bucket").unwrap().join("7").unwrap();
        assert_eq!((trial.url(), trial.prefix.as_ref()), ("gs://bucket/7", "7"));
        assert!(ObjectFolder::is_address("gs://bucket") && !ObjectFolder::is_address("/folder"));
        let error = open("ftp://bucket/f").unwrap_err().to_string();
        let expected = "\"ftp://bucket/f\" is not an address of the form gs://BUCKET/FOLDER or s3://BUCKET/FOLDER: the scheme is neither gs \
                        nor s3";
        assert_eq!(error, expected);
    }

    #[test]
    fn name_is_relative_to_the_folder() {
        let folder = open("s3://bucket/a/c").unwrap();
        assert_eq!(folder.name_of(&Path::from("a/c/logs/events.out.tfevents.1")), "logs/events.out.tfevents.1");
    }
}
