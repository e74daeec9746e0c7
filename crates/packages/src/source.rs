//! The location of a package archive.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use reqwest::Url;

use tunesmith_objects::Cloud;

use super::PackageError;

/// One entry of `packageUris`: the location of a wheel or source archive.
///
/// Parsed from a local path or a URI with the scheme `file`, `http`, `https`, `gs` or `s3`.
///
/// ```
/// use tunesmith_packages::PackageSource;
///
/// let source: PackageSource = "gs://bucket/trainer-0.1.tar.gz".parse()?;
/// assert_eq!(source.file_name(), "trainer-0.1.tar.gz");
/// assert!("ftp://host/trainer-0.1.tar.gz".parse::<PackageSource>().is_err());
/// # Ok::<(), tunesmith_packages::PackageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageSource {
    location: Location,
    file_name: String,
}

/// The location, by the way of access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    File(PathBuf),
    Web(Url),
    Bucket(Cloud, Url),
}

impl PackageSource {
    /// The last part of the path or URI, decoded. Never empty, `.` or `..`, and without separators.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// The path of an archive on this machine; `None` for an address elsewhere.
    pub fn local_path(&self) -> Option<&Path> {
        match &self.location {
            Location::File(path) => Some(path),
            Location::Web(_) | Location::Bucket(..) => None,
        }
    }

    pub(super) fn location(&self) -> &Location {
        &self.location
    }
}

impl FromStr for PackageSource {
    type Err = PackageError;

    /// # Errors
    /// [`PackageError::UnsupportedScheme`], or [`PackageError::InvalidUri`] if the text does not name a file.
    fn from_str(text: &str) -> Result<Self, PackageError> {
        let invalid = |detail: String| PackageError::InvalidUri { uri: text.to_owned(), detail };
        let Some((scheme, _)) = text.split_once("://") else {
            let path = PathBuf::from(text);
            let file_name = name_of(&path).ok_or_else(|| invalid("does not name a file".to_owned()))?;
            return Ok(Self { location: Location::File(path), file_name });
        };
        let url = || Url::parse(text).map_err(|error| invalid(error.to_string()));
        let (url, location): (Url, fn(Url) -> Location) = match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = url()?.to_file_path().map_err(|()| {
                    invalid("a file:// URI needs an absolute path and no host: file:///folder/file".to_owned())
                })?;
                let file_name = name_of(&path).ok_or_else(|| invalid("does not name a file".to_owned()))?;
                return Ok(Self { location: Location::File(path), file_name });
            }
            "http" | "https" => (url()?, Location::Web),
            "gs" => (url()?, |url| Location::Bucket(Cloud::Google, url)),
            "s3" => (url()?, |url| Location::Bucket(Cloud::Amazon, url)),
            _ => {
                return Err(PackageError::UnsupportedScheme { uri: text.to_owned(), scheme: scheme.to_owned() });
            }
        };
        let last = url.path().rsplit('/').next().unwrap_or_default();
        let decoded = percent_decode_str(last).decode_utf8().map_err(|error| invalid(error.to_string()))?;
        // The decoded name is checked as a path, since it may contain a separator (`%2F`).
        let file_name = name_of(Path::new(decoded.as_ref()))
            .filter(|name| *name == decoded)
            .ok_or_else(|| invalid("does not name a file".to_owned()))?;
        Ok(Self { location: location(url), file_name })
    }
}

impl fmt::Display for PackageSource {
    /// Writes the location without user name, password and query, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::File(path) => write!(f, "{}", path.display()),
            Location::Web(url) | Location::Bucket(_, url) => {
                write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default())?;
                if let Some(port) = url.port() {
                    write!(f, ":{port}")?;
                }
                f.write_str(url.path())
            }
        }
    }
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().and_then(|name| name.to_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PackageSource, String> {
        text.parse().map_err(|error: PackageError| error.to_string())
    }

    #[test]
    fn schemes_are_parsed_to_locations() {
        let path = |text: &str| Location::File(PathBuf::from(text));
        assert_eq!(parse("dist/a-1.tar.gz").unwrap().location, path("dist/a-1.tar.gz"));
        assert_eq!(parse("file:///dist/a%20b-1.tar.gz").unwrap().location, path("/dist/a b-1.tar.gz"));
        assert!(matches!(parse("https://host/a-1.tar.gz").unwrap().location, Location::Web(_)));
        assert!(matches!(parse("gs://bucket/a-1.tar.gz").unwrap().location, Location::Bucket(Cloud::Google, _)));
        assert!(matches!(parse("S3://bucket/a-1.tar.gz").unwrap().location, Location::Bucket(Cloud::Amazon, _)));
    }

    #[test]
    fn file_name_is_decoded_and_has_no_separators() {
        assert_eq!(parse("https://host/d/a-1%2Bcpu.whl?sig=a/b").unwrap().file_name(), "a-1+cpu.whl");
        for wrong in ["https://host/", "https://host/d%2Fe.whl", "gs://bucket", "file:///", "..", ""] {
            assert!(parse(wrong).unwrap_err().contains("does not name a file"), "{wrong}");
        }
    }

    #[test]
    fn secrets_are_not_displayed() {
        let source = parse("https://user:password@host:8080/a-1.whl?token=secret").unwrap();
        assert_eq!(source.to_string(), "https://host:8080/a-1.whl");
    }

    #[test]
    fn unsupported_schemes_are_rejected_with_their_name() {
        assert_eq!(
            parse("hdfs://name/a-1.tar.gz").unwrap_err(),
            "package `hdfs://name/a-1.tar.gz`: the scheme `hdfs` is not supported; \
             use a local path, file://, http://, https://, gs:// or s3://"
        );
        assert!(parse("file://host/a-1.whl").unwrap_err().contains("absolute path and no host"));
    }
}
