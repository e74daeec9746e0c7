//! Object store addresses, validated before any request or signature.

use object_store::path::Path;

use super::bucket::Cloud;
use super::error::ObjectError;

/// Bucket name lengths. Google's names with dots may be longer.
const SHORTEST: usize = 3;
const LONGEST: usize = 63;
const LONGEST_WITH_DOTS: usize = 222;

/// An address such as `gs://bucket/folder`, with a bucket name valid in its cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectAddress {
    url: String,
    cloud: Cloud,
    bucket: String,
    path: Path,
}

impl ObjectAddress {
    /// Parses `url`, ignoring trailing slashes.
    ///
    /// # Errors
    /// [`ObjectError::Address`].
    pub fn parse(url: &str) -> Result<Self, ObjectError> {
        let invalid = |reason: String| ObjectError::Address { url: url.to_owned(), reason };
        let (cloud, rest) = Cloud::of(url).ok_or_else(|| invalid("the scheme is neither gs nor s3".to_owned()))?;
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        check_bucket(cloud, bucket).map_err(invalid)?;
        let path = Path::parse(path.trim_end_matches('/')).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { url: url.trim_end_matches('/').to_owned(), cloud, bucket: bucket.to_owned(), path })
    }

    /// The address without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn cloud(&self) -> Cloud {
        self.cloud
    }

    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Path within the bucket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `other` equals this address or is below it.
    pub fn contains(&self, other: &Self) -> bool {
        (self.cloud, &self.bucket) == (other.cloud, &other.bucket) && other.path.prefix_matches(&self.path)
    }
}

/// Checks a bucket name against the published rules, except those on reserved words.
fn check_bucket(cloud: Cloud, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the bucket is missing".to_owned());
    }
    let (letters, may_have) = match cloud {
        Cloud::Google => ("-_.", "lower-case letters, digits, '-', '_' and '.'"),
        Cloud::Amazon => ("-.", "lower-case letters, digits, '-' and '.'"),
    };
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let longest = if cloud == Cloud::Google && name.contains('.') { LONGEST_WITH_DOTS } else { LONGEST };
    let is_valid = (SHORTEST..=longest).contains(&name.len())
        && name.bytes().all(|byte| is_end(&byte) || letters.as_bytes().contains(&byte))
        && [name.as_bytes().first(), name.as_bytes().last()].into_iter().flatten().all(is_end)
        && name.split('.').all(|part| !part.is_empty() && part.len() <= LONGEST)
        && name.parse::<std::net::Ipv4Addr>().is_err();
    if is_valid {
        return Ok(());
    }
    Err(format!(
        "the bucket {name:?} has no valid name: {SHORTEST} to {longest} {may_have}, the first and the last of them a letter or digit, \
         no two dots together, and not an IP address"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(url: &str) -> String {
        match ObjectAddress::parse(url) {
            Err(ObjectError::Address { reason, .. }) => reason,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn addresses_have_a_bucket_and_a_path() {
        assert_eq!(reason("ftp://bucket/f"), "the scheme is neither gs nor s3");
        assert_eq!(reason("s3://"), "the bucket is missing");
        assert!(reason("s3://bucket/a//c").contains("empty path segment"));
        let address = ObjectAddress::parse("s3://bucket/a/c/").unwrap();
        assert_eq!((address.url(), address.bucket(), address.path().as_ref()), ("s3://bucket/a/c", "bucket", "a/c"));
    }

    #[test]
    fn names_of_buckets_follow_the_published_rules() {
        for valid in ["abc", "a-b.c9", &"a".repeat(63), "my-models.example.com"] {
            for scheme in ["gs", "s3"] {
                ObjectAddress::parse(&format!("{scheme}://{valid}/x")).unwrap();
            }
        }
        ObjectAddress::parse("gs://with_underscores").unwrap();
        let (long, too_long) = (vec!["a".repeat(55); 4].join("."), "a".repeat(64));
        ObjectAddress::parse(&format!("gs://{}", &long[..222])).unwrap();
        for wrong in [
            "b#f",
            "..",
            "b b",
            "b?list-type=2",
            "b\r\nx: y",
            " bucket",
            "bucket ",
            "ab",
            "Bucket",
            "a..b",
            "-ab",
            "ab-",
            ".ab",
            "192.168.0.1",
            "user@bucket",
            "bucket:80",
            "b%2f",
            "bücket",
            "buck\0et",
            &too_long,
            "[::1]",
            "b\\c",
        ] {
            for scheme in ["gs", "s3"] {
                let reason = reason(&format!("{scheme}://{wrong}/x"));
                assert!(reason.starts_with(&format!("the bucket {wrong:?} has no valid name: 3 to ")), "{reason}");
            }
        }
        assert!(reason("s3://with_underscores").contains("has no valid name"));
        for path in ["a/../b", "..", "./a", "a\r\nb", "a\0"] {
            assert!(ObjectAddress::parse(&format!("s3://bucket/{path}")).is_err(), "{path:?}");
        }
    }

    #[test]
    fn folders_contain_what_is_below_them() {
        let at = |url: &str| ObjectAddress::parse(url).unwrap();
        for (folder, inside) in [
            ("gs://bucket", "gs://bucket/x"),
            ("gs://bucket/a", "gs://bucket/a"),
            ("s3://bucket/a/", "s3://bucket/a/b/c"),
        ] {
            assert!(at(folder).contains(&at(inside)), "{folder} {inside}");
        }
        for (folder, outside) in [
            ("gs://bucket/a", "gs://bucket/ab"),
            ("gs://bucket/a", "gs://bucket"),
            ("gs://bucket", "s3://bucket"),
            ("gs://bucket", "gs://bucket2"),
        ] {
            assert!(!at(folder).contains(&at(outside)), "{folder} {outside}");
        }
    }
}
