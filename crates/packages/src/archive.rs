//! Recognition of wheels and source archives, with clearer errors than those of installers.

use super::PackageError;

/// Number of bytes at the start of a file that [`check`] needs.
pub const SIGNATURE_BYTES: usize = 6;

/// Checks by name and first bytes whether `file_name` may be a package. The installer checks the content.
///
/// # Errors
/// [`PackageError::NotAPackage`] with `uri`.
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
            "`{file_name}` does not end in .whl, .tar.gz, .tgz, .zip, .tar.bz2 or .tar.xz"
        )));
    };
    if lower.ends_with(".whl") && !matches!(file_name.split('-').count(), 5 | 6) {
        return Err(not_a_package(format!(
            "a wheel is named name-version-python-abi-platform.whl, not `{file_name}`: \
             restore the name it was built with"
        )));
    }
    if start.is_empty() {
        return Err(not_a_package("it is empty".to_owned()));
    }
    if !start.starts_with(signature) {
        let found: String = start.iter().flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from).collect();
        return Err(not_a_package(format!(
            "it is named {file_name} but is not a {kind} file; it begins with `{found}`"
        )));
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
    fn valid_archives_are_accepted() {
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
    fn other_files_are_rejected_with_their_content() {
        assert!(message("trainer.py", b"import").contains("`trainer.py` does not end in .whl, .tar.gz"));
        assert!(message("a-1.tar.gz", b"<!DOCT").contains("is not a gzip file; it begins with `<!DOCT`"));
        assert!(message("a-1.tar.gz", b"PK\x03\x04..").contains("it begins with `PK\\x03\\x04..`"));
        assert!(message("a-1.tar.gz", b"").contains("it is empty"));
        assert!(message("latest.whl", b"PK\x03\x04..").contains("name-version-python-abi-platform.whl"));
    }
}
