//! Reads the files of a running trial on another thread, so that a file that blocks its reader delays nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::RunError;
use tunesmith_domain::Measurement;
use tunesmith_metrics::Collector;

/// Maximum time for one read of the files of an ended program. A program may have replaced a file by a pipe, whose
/// reader waits for ever.
pub(super) const FILES_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads measurements from the files of one attempt, one read at a time.
pub(super) struct FileReader {
    state: State,
    /// Number of the collector's problems that were returned.
    problems_returned: usize,
}

enum State {
    Idle(Box<Collector>),
    Reading(JoinHandle<(Box<Collector>, Vec<Measurement>)>),
    /// A read took too long, or panicked. Its thread keeps the collector.
    Broken {
        problem: Option<String>,
    },
}

impl FileReader {
    /// A reader that uses `collector`.
    pub(super) fn new(collector: Collector) -> Self {
        Self { state: State::Idle(Box::new(collector)), problems_returned: 0 }
    }

    /// Whether a read was started whose result was not returned.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    /// Starts a read, unless one was started or an earlier one took too long.
    pub(super) fn start(&mut self, how: fn(&mut Collector) -> Vec<Measurement>) {
        let state = std::mem::replace(&mut self.state, State::Broken { problem: None });
        self.state = match state {
            State::Idle(mut collector) => State::Reading(tokio::task::spawn_blocking(move || {
                let measurements = how(&mut collector);
                (collector, measurements)
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
        let (collector, measurements) = ended?;
        self.state = State::Idle(collector);
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
        how: fn(&mut Collector) -> Vec<Measurement>,
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
            State::Idle(collector) => {
                let problems = collector.problems();
                let new = problems[self.problems_returned..].iter().map(ToString::to_string).collect();
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
            State::Idle(collector) => collector.seen_tags().iter().cloned().collect(),
            State::Reading(_) | State::Broken { .. } => BTreeSet::new(),
        }
    }
}
