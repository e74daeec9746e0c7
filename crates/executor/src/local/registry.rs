//! Registry of attempts: a folder per attempt with the files of executors and supervisors, found by ID.
//!
//! It is separate from the folders programs write to, so that a program that removes or changes the files of its own
//! attempt does not affect it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::attempt::Attempt;
use crate::ExecutorJobId;
use tunesmith_domain::JobId;

/// Returns the attempt `id`, if registered.
pub(super) fn find(registry: &Path, id: &ExecutorJobId) -> io::Result<Option<Attempt>> {
    let entry = registry.join(id.to_string());
    match fs::symlink_metadata(&entry) {
        Ok(metadata) if metadata.is_dir() => Ok(Some(Attempt::new(entry))),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates the folder of the attempt `id`, or returns the existing one.
pub(super) fn register(registry: &Path, id: &ExecutorJobId) -> io::Result<Attempt> {
    if let Some(attempt) = find(registry, id)? {
        return Ok(attempt);
    }
    fs::create_dir_all(registry)?;
    let entry = registry.join(id.to_string());
    match fs::DirBuilder::new().mode(0o700).create(&entry) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(Attempt::new(entry))
}

/// Removes the entries of all attempts of `job`.
pub(super) fn forget(registry: &Path, job: &JobId) -> io::Result<()> {
    let prefix = ExecutorJobId::file_name_of(job);
    let entries = match fs::read_dir(registry) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        // Job names contain no hyphen.
        if name.to_str().and_then(|name| name.strip_prefix(&prefix)).is_some_and(|rest| rest.starts_with('-')) {
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn id() -> ExecutorJobId {
        ExecutorJobId { job: "j".parse().unwrap(), trial: None, attempt: 1 }
    }

    #[test]
    fn attempt_is_found_after_its_data_folder_was_moved() {
        let folder = TempDir::new().unwrap();
        let registry = folder.path().join("data/executions");
        assert!(find(&registry, &id()).unwrap().is_none());
        register(&registry, &id()).unwrap();
        fs::rename(folder.path().join("data"), folder.path().join("moved")).unwrap();
        let moved = folder.path().join("moved/executions");
        assert_eq!(find(&moved, &id()).unwrap().unwrap().folder(), moved.join(id().to_string()));
        assert!(!folder.path().join("data").exists());
    }
}
