//! A child process that exchanges lines, with a time limit per response.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::children::Group;

/// Maximum response length: an endless line must not exhaust memory.
const LONGEST_ANSWER_BYTES: u64 = 16 << 20;
/// Number of bytes at the end of standard error quoted in messages.
const TAIL_BYTES: u64 = 4096;
/// Variables that limit numerical libraries to one thread: more would compete for the processors of a small machine.
const SINGLE_THREAD: [&str; 5] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS"];

/// A running child; dropping it kills its process group.
pub(super) struct Process {
    child: Child,
    group: Group,
    /// Queue of a writer thread: a child that does not read must not block us beyond the time limit.
    requests: Sender<String>,
    answers: Receiver<Said>,
    /// Standard error of the child.
    log: File,
}

enum Said {
    /// A line, without its line end.
    Line(String),
    /// A line above the maximum length.
    TooMuch,
    /// End of output.
    Nothing,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    #[error("cannot start {command:?}: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("cannot write its log: {0}")]
    Log(std::io::Error),
    #[error("it did not respond within {} s", limit.as_secs_f64())]
    Hung { limit: Duration },
    #[error("it wrote a line that is not the response to a request")]
    Unasked,
    #[error("its response has more than {LONGEST_ANSWER_BYTES} bytes")]
    TooLong,
    #[error("it {end}{}", last_line(.stderr_line))]
    Died { end: String, stderr_line: String },
}

impl Process {
    /// Starts `command` in the shell, in its own process group; standard error is appended to `log`.
    pub(super) fn start(command: &str, log: &Path) -> Result<Self, ProcessError> {
        let log = File::options().create(true).append(true).read(true).open(log).map_err(ProcessError::Log)?;
        let errors = log.try_clone().map_err(ProcessError::Log)?;
        let start_error = |source| ProcessError::Start { command: command.to_owned(), source };
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", command])
            .envs(SINGLE_THREAD.map(|variable| (variable, "1")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors);
        let (mut child, group) = Group::start(&mut shell).map_err(start_error)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(start_error(std::io::Error::other("it has no pipes")));
        };
        let (requests, lines) = mpsc::channel();
        std::thread::spawn(move || write_lines(stdin, &lines));
        // At most one line ahead: a child that writes endlessly blocks instead of filling memory.
        let (sender, answers) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            loop {
                let line = read_line(&mut reader);
                let last = !matches!(line, Said::Line(_));
                if sender.send(line).is_err() || last {
                    return;
                }
            }
        });
        Ok(Self { group, child, requests, answers, log })
    }

    /// Process id, which is also the process group id.
    pub(super) fn id(&self) -> u32 {
        self.group.id()
    }

    /// Sends `line` and waits for the response.
    pub(super) fn ask(&mut self, line: &str, limit: Duration) -> Result<String, ProcessError> {
        if matches!(self.answers.try_recv(), Ok(Said::Line(_))) {
            return Err(ProcessError::Unasked);
        }
        // If the child has died, its output has ended, which is detected below.
        let _ = self.requests.send(format!("{line}\n"));
        match self.answers.recv_timeout(limit) {
            Ok(Said::Line(answer)) => Ok(answer),
            Ok(Said::TooMuch) => Err(ProcessError::TooLong),
            Ok(Said::Nothing) | Err(RecvTimeoutError::Disconnected) => Err(self.death()),
            Err(RecvTimeoutError::Timeout) => Err(ProcessError::Hung { limit }),
        }
    }

    /// Exit of the process, after the end of its output.
    fn death(&mut self) -> ProcessError {
        // It may only have closed its output; kill it, since it can no longer respond.
        self.group.kill();
        let end = match self.child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(9)) => "closed its standard output or was killed".to_owned(),
                (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
            },
            Err(error) => format!("is lost: {error}"),
        };
        ProcessError::Died { end, stderr_line: self.last_error_line() }
    }

    fn last_error_line(&mut self) -> String {
        let mut tail = Vec::new();
        let length = self.log.metadata().map(|metadata| metadata.len()).unwrap_or(0);
        let read = self
            .log
            .seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
            .and_then(|_| self.log.read_to_end(&mut tail));
        if read.is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&tail);
        text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.group.kill();
            let _ = self.child.wait();
        }
    }
}

/// Writes lines until the child stops reading or the queue closes.
fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for line in lines {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> Said {
    let mut bytes = Vec::new();
    match reader.take(LONGEST_ANSWER_BYTES).read_until(b'\n', &mut bytes) {
        Ok(0) | Err(_) => Said::Nothing,
        Ok(count) if count as u64 == LONGEST_ANSWER_BYTES => Said::TooMuch,
        Ok(_) => Said::Line(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
    }
}

fn last_line(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!("; the last line of its standard error: {line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(command: &str, line: &str) -> Result<String, ProcessError> {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process::start(command, &folder.path().join("log")).unwrap();
        process.ask(line, Duration::from_millis(300))
    }

    #[test]
    fn a_child_answers_in_lines() {
        assert_eq!(ask("cat", "hello").unwrap(), "hello");
        let error = ask("echo why >&2; exit 3", "hello").unwrap_err();
        assert_eq!(error.to_string(), "it ended with exit code 3; the last line of its standard error: why");
    }

    #[test]
    fn a_child_that_does_not_read_is_no_reason_to_wait_longer() {
        // Far above a pipe's capacity.
        let error = ask("exec sleep 60", &"x".repeat(1 << 20)).unwrap_err();
        assert_eq!(error.to_string(), "it did not respond within 0.3 s");
    }
}
