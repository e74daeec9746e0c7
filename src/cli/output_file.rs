//! Early checks of files that a command writes at its end.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, bail};

/// Checks that the file `path`, given by `flag`, is writable, without changing it.
///
/// # Errors
/// The flag, the path and the reason.
pub(super) fn check(flag: &str, path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("{flag} {}: the file cannot be written", path.display());
    match path.metadata() {
        Ok(file) if file.is_dir() => bail!("{flag} {}: it is a folder, not a file", path.display()),
        Ok(file) if file.is_file() => drop(File::options().append(true).open(path).with_context(cannot)?),
        // Opening a pipe waits for its reader.
        Ok(_) => {}
        Err(_) => {
            drop(File::create_new(path).with_context(cannot)?);
            std::fs::remove_file(path).with_context(cannot)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_leaves_files_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
        std::fs::write(&old, "kept").unwrap();
        check("--output", &old).unwrap();
        check("--output", &new).unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "kept");
        assert!(!new.exists());
    }

    #[test]
    fn file_that_cannot_be_written_is_an_error_with_flag_and_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = check("--export", folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("--export /") && error.ends_with(": it is a folder, not a file"), "{error}");
        let error = check("--export", &folder.path().join("absent/trials.csv")).unwrap_err();
        assert!(format!("{error:#}").contains("trials.csv: the file cannot be written: No such file"), "{error:#}");
    }
}
