//! Crash counters of jobs.
//!
//! A program may crash the server process that handles it, for example by exhausting its memory. Since jobs are resumed
//! at each start, an unlimited retry would crash every start. Each job folder therefore counts the consecutive
//! processes that died while handling the job, together with others or alone, without progress: before a trial ended or
//! ten minutes passed. Orderly exits, including those after a store failure, do not count. [`super::suspects`] acts on
//! the counts.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tunesmith_files::{OpenError, RootedPath};

use super::{CANCELLED_BY_USER, Jobs};
use crate::JobEvent;
use crate::runner::end_programs;
use tunesmith_domain::{JobChange, JobId, JobState};
use tunesmith_store::StoreError;

/// Handling time after which a job is no longer suspected of crashing the process. A guess.
const SURVIVAL: Duration = Duration::from_secs(600);

/// File name within a job's folder.
const FILE: &str = "handling";

const MAX_BYTES: u64 = 128;

/// Phase of handling, recorded before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// Not handled; the deaths of earlier processes count.
    #[default]
    Idle,
    /// Handled together with other jobs.
    Together,
    /// Handled exclusively, after the process had run jobs for this many seconds.
    Alone(u64),
    /// Handled past probation, now together with others.
    Passed,
    /// Suspended exclusively, as a control: does the process die without it?
    Held,
}

/// Crash counts, and the phase at the last crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record {
    /// Consecutive deaths while the job was handled.
    pub(super) deaths: u32,
    /// Deaths while it was handled exclusively, since the last death without handling it.
    pub(super) alone: u32,
    pub(super) phase: Phase,
}

impl Record {
    /// This record after the death of its process.
    pub(super) fn after_death(self) -> Self {
        let Self { deaths, alone, phase } = self;
        let (deaths, alone) = match phase {
            Phase::Idle => (deaths, alone),
            Phase::Together | Phase::Passed => (deaths.saturating_add(1), alone),
            Phase::Alone(_) => (deaths.saturating_add(1), alone.saturating_add(1)),
            Phase::Held => (deaths, 0),
        };
        Self { deaths, alone, phase: Phase::Idle }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (deaths, alone) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let phase = match (words.next()?, words.next()) {
            ("idle", None) => Phase::Idle,
            ("together", None) => Phase::Together,
            ("alone", Some(secs)) => Phase::Alone(secs.parse().ok()?),
            ("passed", None) => Phase::Passed,
            ("held", None) => Phase::Held,
            _ => return None,
        };
        Some(Self { deaths, alone, phase })
    }

    fn text(self) -> String {
        let phase = match self.phase {
            Phase::Idle => "idle".to_owned(),
            Phase::Together => "together".to_owned(),
            Phase::Alone(secs) => format!("alone {secs}"),
            Phase::Passed => "passed".to_owned(),
            Phase::Held => "held".to_owned(),
        };
        format!("{} {} {phase}\n", self.deaths, self.alone)
    }
}

#[derive(Debug, Clone)]
pub(super) struct HandlingFile(RootedPath);

impl HandlingFile {
    pub(super) fn of(directory: &Path) -> Self {
        Self(RootedPath::from(directory.to_owned()).join(FILE))
    }

    /// Reads the record of the previous process; `None` if missing, or replaced by a program with something else.
    /// Blocks.
    pub(super) fn read(&self) -> Option<Record> {
        match self.0.read(MAX_BYTES) {
            Ok(text) => String::from_utf8(text).ok().and_then(|text| Record::parse(&text)),
            Err(OpenError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %self.0.path().display(), %error, "the deaths of a job's handling cannot be read");
                None
            }
        }
    }

    /// Reads the record and counts the death of its process. Blocks.
    pub(super) fn count(&self) -> Option<Record> {
        let counted = self.read()?.after_death();
        self.write(counted);
        Some(counted)
    }

    pub(super) fn write(&self, record: Record) {
        // Unsynced writes survive the death of the process, but not of the machine.
        let is_durable = matches!(record.phase, Phase::Alone(_) | Phase::Held);
        let created =
            std::fs::create_dir_all(self.0.path().parent().unwrap_or(Path::new("."))).map_err(OpenError::from);
        if let Err(error) = created.and_then(|()| self.0.replace(record.text().as_bytes(), is_durable)) {
            tracing::warn!(path = %self.0.path().display(), %error, "the handling of a job is not recorded");
        }
    }

    fn remove(&self) {
        if let Err(error) = std::fs::remove_file(self.0.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.path().display(), %error, "the end of a job's handling is not recorded");
        }
    }
}

/// Handling of one job by this process. Dropping it records a survival.
pub(super) struct Handling {
    file: HandlingFile,
    record: Record,
    /// Whether dropping leaves the record unchanged.
    is_kept: bool,
}

impl Drop for Handling {
    fn drop(&mut self) {
        if !self.is_kept {
            self.file.remove();
        }
    }
}

impl Handling {
    /// Records the start of handling in `phase`, in the folder `directory`, which is created. Earlier deaths come from
    /// `counted`, or are read if it is `None`.
    pub(super) async fn begin(directory: &Path, phase: Phase, counted: Option<Record>) -> Self {
        let file = HandlingFile::of(directory);
        let started = tokio::task::spawn_blocking({
            let file = file.clone();
            move || {
                let counted = counted.unwrap_or_else(|| file.read().unwrap_or_default().after_death());
                let record = Record { phase, ..counted };
                file.write(record);
                record
            }
        });
        match started.await {
            Ok(record) => Self { file, record, is_kept: false },
            // The runtime is shutting down.
            Err(_) => Self { file, record: Record::default(), is_kept: true },
        }
    }

    /// Drives `run` while recording progress from its `events`. Calls `passed` after `probation` or earlier progress.
    pub(super) async fn during<T>(
        &self,
        mut events: UnboundedReceiver<JobEvent>,
        probation: Option<Duration>,
        passed: impl Fn(),
        run: impl Future<Output = T>,
    ) -> T {
        let mut run = std::pin::pin!(run);
        let mut survived = std::pin::pin!(tokio::time::sleep(SURVIVAL));
        let mut over = std::pin::pin!(tokio::time::sleep(probation.unwrap_or_default()));
        let (mut counts, mut is_on_probation) = (true, probation.is_some());
        loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => {
                    if counts && matches!(event, JobEvent::TrialEnded { .. }) {
                        (counts, is_on_probation) = (false, false);
                        self.file.remove();
                        passed();
                    }
                }
                outcome = &mut run => return outcome,
                () = &mut over, if is_on_probation => {
                    is_on_probation = false;
                    self.file.write(Record { phase: Phase::Passed, ..self.record });
                    passed();
                }
                () = &mut survived, if counts => {
                    (counts, is_on_probation) = (false, false);
                    self.file.remove();
                    passed();
                }
            }
        }
    }

    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

/// Fails the job because of its crashes, without reading its programs' files.
pub(super) async fn set_aside(jobs: &Jobs, id: &JobId, record: Record) -> Result<(), StoreError> {
    let services = &jobs.services_of(id);
    let job = services.store.job(id).await?;
    if job.state.is_final() {
        return Ok(());
    }
    let reason = format!(
        "the server died {} times in a row while it handled this job, the last {} times while it handled no other, which it \
         survived without the job in between; the job is set aside; the logs of the server and of the job's programs may \
         show why",
        record.deaths, record.alone
    );
    let (state, error_message) = match job.state {
        JobState::Cancelling => (JobState::Cancelled, CANCELLED_BY_USER.to_owned()),
        _ => (JobState::Failed, reason.clone()),
    };
    // First, so that the job is not resumed if the rest also crashes the server.
    let at = services.clock.now();
    services.store.change_job(id, JobChange::Become { state, error_message, at }).await?;
    tracing::error!(job.id = %id, reason, "a job is set aside");
    end_programs(services, &job, &reason).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_contract::samples;
    use tunesmith_domain::Trial;

    async fn deaths(job: &Path, phase: Phase) -> (u32, u32) {
        let handling = Handling::begin(job, phase, None).await;
        let record = handling.record;
        assert_eq!(handling.file.read(), Some(record), "it can be read by the next process");
        handling.keep();
        (record.deaths, record.alone)
    }

    #[tokio::test]
    async fn deaths_are_counted_by_their_phase_until_the_handling_ends() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        assert_eq!(deaths(&job, Phase::Together).await, (0, 0));
        assert_eq!(deaths(&job, Phase::Together).await, (1, 0));
        assert_eq!(deaths(&job, Phase::Alone(0)).await, (2, 0));
        assert_eq!(deaths(&job, Phase::Alone(5)).await, (3, 1));
        assert_eq!(deaths(&job, Phase::Passed).await, (4, 2));
        assert_eq!(deaths(&job, Phase::Held).await, (5, 2));
        // A death without handling the job.
        assert_eq!(deaths(&job, Phase::Idle).await, (5, 0));
        assert_eq!(HandlingFile::of(&job).count(), Some(Record { deaths: 5, alone: 0, phase: Phase::Idle }));
        drop(Handling::begin(&job, Phase::Together, None).await);
        assert_eq!(deaths(&job, Phase::Together).await, (0, 0));
    }

    #[tokio::test]
    async fn progress_and_probation_are_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        let trial = Trial::new(samples::new_trial(1)).unwrap();
        let record = HandlingFile::of(&job);
        // The run ends with the probation.
        let handle = async |event: JobEvent, probation: Duration| {
            let handling = Handling::begin(&job, Phase::Alone(0), None).await;
            let (events, emitted) = tokio::sync::mpsc::unbounded_channel();
            events.send(event).unwrap();
            let has_passed = tokio::sync::Notify::new();
            handling.during(emitted, Some(probation), || has_passed.notify_one(), has_passed.notified()).await;
            handling.keep();
        };
        // A report is not progress: another trial of the job may be the culprit.
        let report = JobEvent::TrialMeasured { id: trial.id, step: 1, value: 0.5 };
        for deaths in 0..3 {
            handle(report.clone(), Duration::from_millis(1)).await;
            assert_eq!(record.read(), Some(Record { deaths, alone: 0, phase: Phase::Passed }));
        }
        handle(JobEvent::TrialEnded { trial: Box::new(trial) }, SURVIVAL).await;
        assert_eq!(record.read(), None);
    }
}
