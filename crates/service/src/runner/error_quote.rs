//! Quotation of the error output of a program that failed.

use std::path::Path;

use super::JobServices;
use super::files::FILES_TIMEOUT;
use tunesmith_executor::ExecutorJobId;
use tunesmith_executor::logs::{LogName, LogStart, LogStream, MASTER};

/// Number of bytes at the end of the log in which the line is searched.
const TAIL_BYTES: usize = 8192;
/// Maximum length of a quotation in characters.
const MAX_CHARACTERS: usize = 200;

/// Returns the name of the log of the master of `id`.
pub(super) fn log_name(id: &ExecutorJobId, stream: LogStream) -> LogName {
    LogName { trial: id.trial.map(|trial| trial.0), attempt: id.attempt, task: MASTER.to_owned(), stream }
}

/// Returns the last line of the log `name` that states a reason, cut to 200 characters; `None` if there is none, or if the
/// executor cannot read the log in time. `job` is the folder of the job's files.
pub(super) async fn error_quote(services: &JobServices, job: &Path, name: &LogName) -> Option<String> {
    let reading = services.executor.read_log(job, name, LogStart::Tail, TAIL_BYTES);
    match tokio::time::timeout(FILES_TIMEOUT, reading).await {
        Ok(Ok(tail)) => quote(&tail?.text),
        Ok(Err(error)) => {
            tracing::warn!(log.name = %name, error = &error as &dyn std::error::Error, "a log cannot be quoted");
            None
        }
        Err(_) => None,
    }
}

fn quote(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty() && !is_advice(line))?;
    Some(line.chars().take(MAX_CHARACTERS).collect())
}

/// Whether a line is the advice that docker prints after its error.
fn is_advice(line: &str) -> bool {
    line.starts_with("See 'docker ") || line.starts_with("Run 'docker ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_with_a_reason_is_quoted() {
        let docker = "Unable to find image 'absent:1' locally\n\
                      docker: Error response from daemon: pull access denied for absent.\n\n\
                      Run 'docker run --help' for more information\n";
        let expected = "docker: Error response from daemon: pull access denied for absent.";
        assert_eq!(quote(docker).as_deref(), Some(expected));
        assert_eq!(quote("one\n  two  \n\n").as_deref(), Some("two"));
        assert_eq!(quote(&"é".repeat(300)).map(|line| line.chars().count()), Some(MAX_CHARACTERS));
        assert_eq!(quote(" \n"), None);
    }
}
