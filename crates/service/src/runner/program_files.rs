//! The files of an attempt that its program may have replaced.

use std::path::Path;

use tunesmith_files::Place;

/// Returns the place of the folder of an attempt below its job: trial and attempt must not be links.
pub(super) fn attempt_place(directory: &Path) -> Place {
    match (directory.parent().and_then(Path::parent), directory.parent(), directory.file_name()) {
        (Some(trials), Some(trial), Some(attempt)) => {
            Place::new(trials, trial.file_name().unwrap_or_default()).join(attempt)
        }
        _ => Place::from(directory.to_owned()),
    }
}
