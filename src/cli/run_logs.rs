//! Output of a job's programs for `tunesmith run --follow`.

use std::io;
use std::path::{Path, PathBuf};

use super::output::{Followed, Writers, write_line};
use tunesmith_executor::logs::{self, LogFile, LogName, MASTER};

/// Logs of a job, followed from their current ends.
pub(super) struct RunLogs {
    directory: PathBuf,
    followed: Followed,
}

impl RunLogs {
    /// Follows the logs in a job's folder; existing content is not printed.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let mut logs = Self { directory: directory.to_owned(), followed: Followed::default() };
        logs.each_line(Writers::Alive, |_, _| Ok(()))?;
        Ok(logs)
    }

    /// Prints new lines.
    pub(super) fn print(&mut self, writers: Writers) -> io::Result<()> {
        self.each_line(writers, |label, line| write_line(&mut io::stdout().lock(), label, line))
    }

    fn each_line(&mut self, writers: Writers, mut each: impl FnMut(&str, &[u8]) -> io::Result<()>) -> io::Result<()> {
        for LogFile { name, .. } in logs::logs(&self.directory, None)? {
            // The job's progress display shows the installer's output.
            if name == LogName::packages() {
                continue;
            }
            let what = name.trial.map_or_else(|| "job".to_owned(), |trial| format!("trial {trial}"));
            let label = if name.task == MASTER { format!("[{what}]") } else { format!("[{what} {}]", name.task) };
            self.followed.new_lines(&logs::path(&name, &self.directory), writers, |line| each(&label, line))?;
        }
        Ok(())
    }
}
