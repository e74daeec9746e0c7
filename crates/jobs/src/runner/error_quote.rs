//! Quotation from a failed program's error output.

use std::path::Path;

use super::files::FILES_TIMEOUT;
use tunesmith_executor::logs::{LogName, LogStart, LogStream, MASTER};
use tunesmith_executor::{ExecutorJobId, JobLogs};

/// Length of the log tail that is searched, in bytes.
const TAIL_BYTES: usize = 8192;
/// Maximum length of a quotation in characters.
const MAX_CHARACTERS: usize = 200;

/// Name of the master's log.
pub(super) fn log_name(id: &ExecutorJobId, stream: LogStream) -> LogName {
    LogName { trial: id.trial.map(|trial| trial.0), attempt: id.attempt, task: MASTER.to_owned(), stream }
}

/// Last line of the log that states a reason, cut to 200 characters; `None` if there is none or the log cannot be read
/// in time. `job` is the job's folder.
pub(super) async fn error_quote(job: &Path, name: &LogName) -> Option<String> {
    let reading = JobLogs::new(job.to_owned()).read(name.clone(), LogStart::Tail, TAIL_BYTES);
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

/// Whether a line is the usage hint that docker prints after its error.
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
