//! Named pipes, which synchronise a test with a program on the same machine.

use std::path::{Path, PathBuf};

use tunesmith_contract::executor::Harness;

/// Creates a named pipe in the folder of `harness`: opening one end waits for the other.
pub(crate) fn pipe(harness: &dyn Harness, name: &str) -> PathBuf {
    let path = harness.directory().join(name);
    let made = tunesmith_testing::program("mkfifo").arg(&path).status().expect("mkfifo is installed");
    assert!(made.success(), "mkfifo {}", path.display());
    path
}

/// Waits until a program has written to the pipe `path` and returns the text.
pub(crate) async fn read_pipe(path: &Path) -> String {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
    reading.await.expect("reading does not panic").expect("the pipe can be read")
}
