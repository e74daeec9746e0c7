//! The folders that a program finds at its start.

use std::fs;

use super::ExecutorJobSpec;
use super::reports::metric_file;
use tunesmith_files::create_folder_for_user;

/// Creates the folder of the attempt with that of its metric file, and the folders that programs write to in the mode that
/// the user's umask gives. With `as_another_user`, the latter are left to the engine.
///
/// # Errors
/// The folder that cannot be created, and why. It is the fault of the job, not of the service.
pub fn create_folders(spec: &ExecutorJobSpec, as_another_user: bool) -> Result<(), String> {
    let metrics = metric_file(&spec.directory);
    if let Some(folder) = metrics.parent() {
        fs::create_dir_all(folder)
            .map_err(|error| format!("its folder {} cannot be created: {error}", folder.display()))?;
    }
    if as_another_user {
        return Ok(());
    }
    for folder in &spec.program_folders {
        let created = create_folder_for_user(folder);
        created.map_err(|error| format!("its job folder {} cannot be created: {error}", folder.display()))?;
    }
    Ok(())
}
