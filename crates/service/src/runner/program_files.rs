//! The files of an attempt that its program may have replaced.

use std::path::Path;

use tunesmith_files::Place;

/// Number of bytes at the end of standard error in which its last line is searched.
const ERROR_TAIL_BYTES: u64 = 8192;

/// Maximum length of the line, in characters.
const LINE_CHARS: usize = 200;

/// Returns the place of the folder of an attempt below its job: trial and attempt must not be links.
pub(super) fn attempt_place(directory: &Path) -> Place {
    match (directory.parent().and_then(Path::parent), directory.parent(), directory.file_name()) {
        (Some(trials), Some(trial), Some(attempt)) => {
            Place::new(trials, trial.file_name().unwrap_or_default()).join(attempt)
        }
        _ => Place::from(directory.to_owned()),
    }
}

/// Returns the last non-blank line of a text file, cut to 200 characters; `None` if there is none.
pub(super) async fn last_line(place: Place) -> Option<String> {
    let tail = tokio::task::spawn_blocking(move || place.read_tail(ERROR_TAIL_BYTES).ok()).await.ok()??;
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(LINE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test]
    async fn last_line_of_a_link_to_an_endless_device_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = attempt_place(&folder.path().join("attempt-1"));
        std::fs::create_dir(attempt.path()).unwrap();
        symlink("/dev/zero", attempt.path().join("stderr.log")).unwrap();
        assert_eq!(last_line(attempt.join("stderr.log")).await, None);
        std::fs::write(attempt.path().join("log"), format!("{}\n first \n\n", "x".repeat(10_000))).unwrap();
        assert_eq!(last_line(attempt.join("log")).await.as_deref(), Some("first"));
    }
}
