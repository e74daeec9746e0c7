//! Tells wheels and source archives from everything else, before an installer fails on it in its own words.

use super::PackageError;

/// How many of the first bytes of a file are enough to check it.
pub const SIGNATURE_BYTES: usize = 6;

/// Checks by name and first bytes that `file_name` may be a package; what is inside is the installer's to judge.
///
/// # Errors
/// [`PackageError::NotAPackage`] about `uri`.
pub fn check(uri: &str, file_name: &str, start: &[u8]) -> Result<(), PackageError> {
    let not_a_package = |detail: String| PackageError::NotAPackage { uri: uri.to_owned(), detail };
    let lower = file_name.to_ascii_lowercase();
    let (kind, signature): (_, &[u8]) = if lower.ends_with(".whl") || lower.ends_with(".zip") {
        ("zip", b"PK\x03\x04")
    } else if lower.ends_with(".tar.gz") || lower.ends_with(".tgz") {
        ("gzip", b"\x1f\x8b")
    } else if lower.ends_with(".tar.bz2") {
        ("bzip2", b"BZh")
    } else if lower.ends_with(".tar.xz") {
        ("xz", b"\xfd7zXZ\0")
    } else {
        return Err(not_a_package(format!(
            "`{file_name}` ends in none of .whl, .tar.gz, .tgz, .zip, .tar.bz2, .tar.xz"
        )));
    };
    if lower.ends_with(".whl") && !matches!(file_name.split('-').count(), 5 | 6) {
        return Err(not_a_package(format!(
            "a wheel is called name-version-python-abi-platform.whl, not `{file_name}`: \
             give it the name it was built with"
        )));
    }
    if start.is_empty() {
        return Err(not_a_package("it is empty".to_owned()));
    }
    if !start.starts_with(signature) {
        let found: String = start.iter().flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from).collect();
        return Err(not_a_package(format!("it is called {file_name} but is no {kind} file; it begins with `{found}`")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(file_name: &str, start: &[u8]) -> String {
        check("u", file_name, start).unwrap_err().to_string()
    }

    #[test]
    fn packages_are_accepted() {
        for (file_name, start) in [
            ("a-1-py3-none-any.whl", b"PK\x03\x04..".as_slice()),
            ("a-1-2-cp311-cp311-manylinux_2_17_x86_64.whl", b"PK\x03\x04.."),
            ("a-1.zip", b"PK\x03\x04.."),
            ("A-1.TAR.GZ", b"\x1f\x8b\x08..."),
            ("a-1.tgz", b"\x1f\x8b\x08..."),
            ("a-1.tar.bz2", b"BZh91A"),
            ("a-1.tar.xz", b"\xfd7zXZ\0"),
        ] {
            check("u", file_name, start).unwrap();
        }
    }

    #[test]
    fn everything_else_is_refused_with_what_was_found() {
        assert!(message("trainer.py", b"import").contains("`trainer.py` ends in none of .whl, .tar.gz"));
        assert!(message("a-1.tar.gz", b"<!DOCT").contains("is no gzip file; it begins with `<!DOCT`"));
        assert!(message("a-1.tar.gz", b"PK\x03\x04..").contains("it begins with `PK\\x03\\x04..`"));
        assert!(message("a-1.tar.gz", b"").contains("it is empty"));
        assert!(message("latest.whl", b"PK\x03\x04..").contains("name-version-python-abi-platform.whl"));
    }
}
