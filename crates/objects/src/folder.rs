//! A folder in an object store.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};

use super::ObjectError;
use super::bucket::{Cloud, bucket};

/// The objects below an address such as `gs://bucket/folder`.
#[derive(Debug, Clone)]
pub struct ObjectFolder {
    url: String,
    cloud: Cloud,
    bucket: String,
    prefix: Path,
    store: Arc<dyn ObjectStore>,
}

impl ObjectFolder {
    /// Whether `url` has the scheme of an object store.
    pub fn is_address(url: &str) -> bool {
        Cloud::of(url).is_some()
    }

    /// The folder at `url`, with the settings in the environment variables `variables`. Does no IO.
    ///
    /// # Errors
    /// [`ObjectError::Address`], [`ObjectError::Settings`].
    pub fn open(url: &str, variables: &BTreeMap<OsString, OsString>) -> Result<Self, ObjectError> {
        let invalid = |reason: &str| ObjectError::Address { url: url.to_owned(), reason: reason.to_owned() };
        let (cloud, rest) = Cloud::of(url).ok_or_else(|| invalid("the scheme is neither gs nor s3"))?;
        let (name, folder) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(invalid("the bucket is missing"));
        }
        let prefix = Path::parse(folder.trim_end_matches('/')).map_err(|error| invalid(&error.to_string()))?;
        let store = bucket(cloud, name, variables)
            .map_err(|error| ObjectError::Settings { url: url.to_owned(), reason: innermost(&error) })?;
        Ok(Self { url: url.trim_end_matches('/').to_owned(), cloud, bucket: name.to_owned(), prefix, store })
    }

    /// The address, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder `name` below this one.
    ///
    /// # Errors
    /// [`ObjectError::Address`] if objects cannot have such a name.
    pub fn join(&self, name: &str) -> Result<Self, ObjectError> {
        let url = format!("{}/{name}", self.url);
        let joined = format!("{}/{name}", self.prefix);
        let prefix = Path::parse(joined.trim_start_matches('/'))
            .map_err(|error| ObjectError::Address { url: url.clone(), reason: error.to_string() })?;
        Ok(Self { url, prefix, ..self.clone() })
    }

    /// Writes an object of no other use, and removes it.
    ///
    /// # Errors
    /// If either fails.
    pub async fn probe(&self) -> Result<(), ObjectError> {
        let path = self.prefix.clone().join(format!(".tunesmith-probe-{}", std::process::id()));
        let written = self.store.put(&path, PutPayload::from_static(b"")).await;
        written.map_err(|error| self.failed("written", error))?;
        match self.store.delete(&path).await {
            // Another probe of the folder has removed it.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("cleaned up", error)),
        }
    }

    /// The objects at any depth.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) async fn list(&self) -> Result<Vec<ObjectMeta>, ObjectError> {
        let listed = self.store.list(Some(&self.prefix)).try_collect().await;
        listed.map_err(|error| self.failed("listed", error))
    }

    /// The bytes `range` of the object `path`.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn read(&self, path: &Path, range: std::ops::Range<u64>) -> Result<Vec<u8>, ObjectError> {
        let read = self.store.get_range(path, range).await;
        read.map(Into::into).map_err(|error| self.failed("read", error))
    }

    /// The path of `object` below this folder.
    pub(crate) fn name_of<'a>(&self, object: &'a Path) -> &'a str {
        let whole = object.as_ref();
        whole.strip_prefix(self.prefix.as_ref()).unwrap_or(whole).trim_start_matches('/')
    }

    fn failed(&self, operation: &'static str, error: object_store::Error) -> ObjectError {
        let url = self.url.clone();
        let reason = innermost(&error);
        match error {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ObjectError::Denied { url, operation, advice: self.cloud.advice() }
            }
            object_store::Error::NotFound { .. } if operation != "read" => {
                ObjectError::NoBucket { url, operation, bucket: self.bucket.clone() }
            }
            _ => ObjectError::Failed { url, operation, reason },
        }
    }
}

/// The innermost cause of `error`, in one line.
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
    fn addresses_have_a_bucket_and_a_folder() {
        for (url, expected) in [
            (
                "ftp://b/f",
                "\"ftp://b/f\" is not an address of the form gs://BUCKET/FOLDER or s3://BUCKET/FOLDER: the scheme is neither gs nor s3",
            ),
            (
                "s3://",
                "\"s3://\" is not an address of the form gs://BUCKET/FOLDER or s3://BUCKET/FOLDER: the bucket is missing",
            ),
        ] {
            assert_eq!(open(url).unwrap_err().to_string(), expected);
        }
        let error = open("s3://b/a//c").unwrap_err().to_string();
        assert!(error.contains("empty path segment"), "{error}");
        let folder = open("s3://b/a/c/").unwrap();
        assert_eq!((folder.url(), folder.bucket.as_str(), folder.prefix.as_ref()), ("s3://b/a/c", "b", "a/c"));
        let trial = open("gs://b").unwrap().join("7").unwrap();
        assert_eq!((trial.url(), trial.prefix.as_ref()), ("gs://b/7", "7"));
        assert!(ObjectFolder::is_address("gs://b") && !ObjectFolder::is_address("/folder"));
    }

    #[test]
    fn name_is_relative_to_the_folder() {
        let folder = open("s3://b/a/c").unwrap();
        assert_eq!(folder.name_of(&Path::from("a/c/logs/events.out.tfevents.1")), "logs/events.out.tfevents.1");
    }
}
