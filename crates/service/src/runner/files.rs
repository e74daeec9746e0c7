//! Reads the files of a running trial on another thread, so that a file that blocks its reader delays nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::RunError;
use tunesmith_domain::Measurement;
use tunesmith_executor::reports::Reports;

/// Maximum time for one read of the files of an ended program. A program may have replaced a file by a pipe, whose
/// reader waits for ever.
pub(super) const FILES_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the measurements of one attempt, one read at a time.
pub(super) struct FileReader {
    state: State,
    /// Number of the collector's problems that were returned.
    problems_returned: usize,
}

enum State {
    Idle(Box<dyn Reports>),
    Reading(JoinHandle<(Box<dyn Reports>, Vec<Measurement>)>),
    /// A read took too long, or panicked. Its thread keeps the reports.
    Broken {
        problem: Option<String>,
    },
}

impl FileReader {
    /// A reader of `reports`.
    pub(super) fn new(reports: Box<dyn Reports>) -> Self {
        Self { state: State::Idle(reports), problems_returned: 0 }
    }

    /// Whether a read was started whose result was not returned.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    /// Starts a read, unless one was started or an earlier one took too long.
    pub(super) fn start(&mut self, how: fn(&mut dyn Reports) -> Vec<Measurement>) {
        let state = std::mem::replace(&mut self.state, State::Broken { problem: None });
        self.state = match state {
            State::Idle(mut reports) => State::Reading(tokio::task::spawn_blocking(move || {
                let measurements = how(&mut *reports);
                (reports, measurements)
            })),
            other => other,
        };
    }

    /// Waits for the read that was started, and returns its measurements. Returns nothing if none was started. Dropping the
    /// future does not lose measurements.
    ///
    /// # Errors
    /// [`RunError::Interrupted`] if the reading thread panicked.
    pub(super) async fn read(&mut self) -> Result<Vec<Measurement>, RunError> {
        let State::Reading(thread) = &mut self.state else { return Ok(Vec::new()) };
        let ended = thread.await;
        self.state = State::Broken { problem: None };
        let (reports, measurements) = ended?;
        self.state = State::Idle(reports);
        Ok(measurements)
    }

    /// Completes the read that was started, reads once more with `how`, and returns the measurements of both. Returns what
    /// was read if that takes longer than `timeout`, and reads nothing from then on.
    ///
    /// # Errors
    /// [`RunError::Interrupted`] if the reading thread panicked.
    pub(super) async fn read_within(
        &mut self,
        timeout: Duration,
        how: fn(&mut dyn Reports) -> Vec<Measurement>,
    ) -> Result<Vec<Measurement>, RunError> {
        let mut measurements = Vec::new();
        let reading = async {
            measurements = self.read().await?;
            self.start(how);
            measurements.extend(self.read().await?);
            Ok(())
        };
        let in_time = tokio::time::timeout(timeout, reading).await;
        match in_time {
            Ok(result) => result.map(|()| measurements),
            Err(_) => {
                let problem = format!(
                    "its files could not be read within {} s: a file that it was to write may be a pipe; later reports \
                     are not read",
                    timeout.as_secs()
                );
                self.state = State::Broken { problem: Some(problem) };
                Ok(measurements)
            }
        }
    }

    /// Returns the problems that were found since the last call.
    pub(super) fn new_problems(&mut self) -> Vec<String> {
        match &mut self.state {
            State::Idle(reports) => {
                let problems = reports.problems();
                let new = problems.get(self.problems_returned..).unwrap_or_default().to_vec();
                self.problems_returned = problems.len();
                new
            }
            State::Reading(_) => Vec::new(),
            State::Broken { problem } => problem.take().into_iter().collect(),
        }
    }

    /// Returns the names of the metrics in the files.
    pub(super) fn seen_tags(&self) -> BTreeSet<String> {
        match &self.state {
            State::Idle(reports) => reports.seen_tags(),
            State::Reading(_) | State::Broken { .. } => BTreeSet::new(),
        }
    }
}
