//! Quotation of the error output of a program that failed.

use tunesmith_files::Place;

/// Number of bytes at the end of the log in which the line is searched.
const TAIL_BYTES: u64 = 8192;
/// Maximum length of a quotation in characters.
const MAX_CHARACTERS: usize = 200;

/// Returns the last line of the log at `place` that states a reason, cut to 200 characters; `None` if there is none.
pub(super) async fn error_quote(place: Place) -> Option<String> {
    let tail = tokio::task::spawn_blocking(move || place.read_tail(TAIL_BYTES).ok()).await.ok()??;
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty() && !is_advice(line))?;
    Some(line.chars().take(MAX_CHARACTERS).collect())
}

/// Whether a line is the advice that docker prints after its error.
fn is_advice(line: &str) -> bool {
    line.starts_with("See 'docker ") || line.starts_with("Run 'docker ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::program_files::attempt_place;
    use super::*;

    async fn quote(text: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr.log");
        std::fs::write(&path, text).unwrap();
        error_quote(Place::from(path)).await
    }

    #[tokio::test]
    async fn last_line_with_a_reason_is_quoted() {
        let docker = "Unable to find image 'absent:1' locally\n\
                      docker: Error response from daemon: pull access denied for absent.\n\n\
                      Run 'docker run --help' for more information\n";
        let expected = "docker: Error response from daemon: pull access denied for absent.";
        assert_eq!(quote(docker).await.as_deref(), Some(expected));
        assert_eq!(quote("one\n  two  \n\n").await.as_deref(), Some("two"));
        assert_eq!(quote(&"é".repeat(300)).await.map(|line| line.chars().count()), Some(MAX_CHARACTERS));
        assert_eq!(quote(" \n").await, None);
        assert_eq!(error_quote(Place::new("/absent", "stderr.log")).await, None);
    }

    #[tokio::test]
    async fn link_to_an_endless_device_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = attempt_place(&folder.path().join("attempt-1"));
        std::fs::create_dir(attempt.path()).unwrap();
        symlink("/dev/zero", attempt.path().join("stderr.log")).unwrap();
        assert_eq!(error_quote(attempt.join("stderr.log")).await, None);
        std::fs::write(attempt.path().join("log"), format!("{}\n first \n\n", "x".repeat(10_000))).unwrap();
        assert_eq!(error_quote(attempt.join("log")).await.as_deref(), Some("first"));
    }
}
