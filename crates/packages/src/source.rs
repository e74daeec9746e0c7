use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use reqwest::Url;

use tunesmith_objects::{ObjectAddress, ObjectError};

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    File(PathBuf),
    Web(Url),
    Bucket(ObjectAddress),
}

impl PackageSource {
    /// Last component of the path or URI, decoded. Never empty, `.` or `..`, and without separators.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Path of a local archive; `None` for others.
    pub fn local_path(&self) -> Option<&Path> {
        match &self.location {
            Location::File(path) => Some(path),
            Location::Web(_) | Location::Bucket(_) => None,
        }
    }

    /// Address of an archive in an object store; `None` for others.
    pub fn object(&self) -> Option<&ObjectAddress> {
        match &self.location {
            Location::Bucket(address) => Some(address),
            Location::File(_) | Location::Web(_) => None,
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
        let url = match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = url()?.to_file_path().map_err(|()| {
                    invalid("a file:// URI needs an absolute path and no host: file:///folder/file".to_owned())
                })?;
                let file_name = name_of(&path).ok_or_else(|| invalid("does not name a file".to_owned()))?;
                return Ok(Self { location: Location::File(path), file_name });
            }
            "http" | "https" => url()?,
            scheme @ ("gs" | "s3") => return object(text, &text[scheme.len()..]),
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
        Ok(Self { location: Location::Web(url), file_name })
    }
}

/// Parses the object store address `text`, with `rest` after the scheme. Object names are percent-encoded.
fn object(text: &str, rest: &str) -> Result<PackageSource, PackageError> {
    let invalid = |detail: String| PackageError::InvalidUri { uri: text.to_owned(), detail };
    let scheme = text[..text.len() - rest.len()].to_ascii_lowercase();
    if rest.contains(['?', '#']) {
        return Err(invalid("an object has no query and no fragment: write ? as %3F and # as %23".to_owned()));
    }
    let decoded = percent_decode_str(rest).decode_utf8().map_err(|error| invalid(error.to_string()))?;
    // Bucket names are not encoded.
    let bucket = |rest: &str| rest.strip_prefix("://").and_then(|rest| rest.split('/').next()).map(str::to_owned);
    if bucket(rest) != bucket(&decoded) {
        return Err(invalid("the bucket has no valid name: it is not percent-encoded".to_owned()));
    }
    let address = ObjectAddress::parse(&format!("{scheme}{decoded}")).map_err(|error| match error {
        ObjectError::Address { reason, .. } => invalid(reason),
        other => invalid(other.to_string()),
    })?;
    // The decoded name is checked, since it may contain a separator (`%2F`).
    let last = rest.rsplit('/').next().unwrap_or_default();
    let file_name =
        address.path().filename().filter(|name| percent_decode_str(last).decode_utf8().is_ok_and(|last| last == *name));
    let file_name = file_name.ok_or_else(|| invalid("does not name a file".to_owned()))?.to_owned();
    Ok(PackageSource { location: Location::Bucket(address), file_name })
}

impl fmt::Display for PackageSource {
    /// Omits user name, password and query, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::File(path) => write!(f, "{}", path.display()),
            Location::Bucket(address) => f.write_str(address.url()),
            Location::Web(url) => {
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
        let object = |text: &str| parse(text).unwrap().object().unwrap().clone();
        assert_eq!(object("gs://bucket/a-1.tar.gz"), ObjectAddress::parse("gs://bucket/a-1.tar.gz").unwrap());
        assert_eq!(object("S3://bucket/f%20g/a-1.tar.gz"), ObjectAddress::parse("s3://bucket/f g/a-1.tar.gz").unwrap());
    }

    #[test]
    fn buckets_have_valid_names() {
        for wrong in [
            "s3://b b/a-1.whl",
            "s3://../a-1.whl",
            "s3://user:secret@bucket/a-1.whl",
            "gs://bucket:80/a-1.whl",
            "gs://bu%63ket/a-1.whl",
            "s3://bucket%2Ff/a-1.whl",
            "s3://b\r\nx/a-1.whl",
            "s3:// bucket/a-1.whl",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("has no valid name"), "{error}");
        }
        for wrong in ["s3://b#f/a-1.whl", "s3://b?list-type=2/a-1.whl", "gs://bucket/a-1.whl?generation=1"] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("an object has no query and no fragment"), "{error}");
        }
        for wrong in ["s3://bucket/../a-1.whl", "s3://bucket/%2e%2e/a-1.whl", "s3://bucket/f%0a/a-1.whl"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn file_name_is_decoded_and_has_no_separators() {
        assert_eq!(parse("https://host/d/a-1%2Bcpu.whl?sig=a/b").unwrap().file_name(), "a-1+cpu.whl");
        for wrong in
            ["https://host/", "https://host/d%2Fe.whl", "gs://bucket", "gs://bucket/d%2Fe.whl", "file:///", "..", ""]
        {
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
