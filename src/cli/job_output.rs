//! Live output of a job without hyperparameters.

use std::io::{self, Write};
use std::path::PathBuf;

use super::output::{Followed, Writers, write_line};
use tunesmith_executor::logs::{self, LogName, LogStream, MASTER};

/// Prints the output of a job's program, line by line.
pub(super) struct JobOutput {
    directory: PathBuf,
    followed: Followed,
}

impl JobOutput {
    /// Follows the logs below `directory` from their current ends.
    pub(super) fn new(directory: PathBuf) -> io::Result<Self> {
        let mut output = Self { directory, followed: Followed::default() };
        output.each_line(Writers::Alive, |_, _| Ok(()))?;
        Ok(output)
    }

    /// Writes new lines to standard output and standard error. Lines of tasks other than the master are prefixed with
    /// the task.
    pub(super) fn print(&mut self, writers: Writers) -> io::Result<()> {
        self.each_line(writers, |name, line| {
            let mut stream: Box<dyn Write> = match name.stream {
                LogStream::Stdout => Box::new(io::stdout().lock()),
                LogStream::Stderr => Box::new(io::stderr().lock()),
            };
            if name.task != MASTER {
                return write_line(&mut stream, &format!("[{}]", name.task), line);
            }
            stream.write_all(&[line, b"\n"].concat())?;
            stream.flush()
        })
    }

    fn each_line(
        &mut self,
        writers: Writers,
        mut each: impl FnMut(&LogName, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        // The job's progress display shows the installer's output.
        let is_shown = |name: &LogName| name.trial.is_none() && *name != LogName::packages();
        for log in logs::logs(&self.directory, None)?.into_iter().filter(|log| is_shown(&log.name)) {
            let path = logs::path(&log.name, &self.directory);
            self.followed.new_lines(&path, writers, |line| each(&log.name, line))?;
        }
        Ok(())
    }
}
