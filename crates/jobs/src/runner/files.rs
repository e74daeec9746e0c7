//! Reads a running trial's files on a separate thread, so that a blocking file delays nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::RunError;
use tunesmith_domain::Measurement;
use tunesmith_executor::reports::Reports;

/// Read timeout for the files of an ended program, which may have replaced a file by a pipe that blocks forever.
pub(super) const FILES_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct FileReader {
    state: State,
    /// Number of collector problems already returned.
    problems_returned: usize,
}

enum State {
    Idle(Box<dyn Reports>),
    Reading(JoinHandle<(Box<dyn Reports>, Vec<Measurement>)>),
    /// A read timed out or panicked; its thread keeps the reports.
    Broken {
        problem: Option<String>,
    },
}

impl FileReader {
    pub(super) fn new(reports: Box<dyn Reports>) -> Self {
        Self { state: State::Idle(reports), problems_returned: 0 }
    }

    /// Whether reading before the program's end may find anything.
    pub(super) fn has_files(&self) -> bool {
        matches!(&self.state, State::Idle(reports) if reports.has_files())
    }

    pub(super) fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    /// Starts a read, unless one is pending or an earlier one timed out.
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

    /// Waits for the pending read, if any, and returns its measurements. Cancel safe.
    pub(super) async fn read(&mut self) -> Result<Vec<Measurement>, RunError> {
        let State::Reading(thread) = &mut self.state else { return Ok(Vec::new()) };
        let ended = thread.await;
        self.state = State::Broken { problem: None };
        let (reports, measurements) = ended?;
        self.state = State::Idle(reports);
        Ok(measurements)
    }

    /// Completes the pending read, reads once more with `how`, and returns the measurements of both. On `timeout`,
    /// returns those read so far and disables further reads.
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

    /// Problems found since the last call.
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

    pub(super) fn seen_tags(&self) -> BTreeSet<String> {
        match &self.state {
            State::Idle(reports) => reports.seen_tags(),
            State::Reading(_) | State::Broken { .. } => BTreeSet::new(),
        }
    }
}
