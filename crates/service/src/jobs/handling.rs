//! Sets a job aside whose handling ended the server several times.
//!
//! A program may do something that ends the process that handles it, such as using up its memory. The job is resumed
//! at each start, so without a limit no start would succeed. The folder of each job therefore contains the number
//! of processes that began to handle it and died before they made progress: before a trial ended, or ten minutes passed.
//! A process that ends in an orderly way, also because its store has failed, is not counted.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tunesmith_files::{OpenError, Place};

use super::{CANCELLED_BY_USER, Jobs};
use crate::JobEvent;
use crate::runner::end_programs;
use tunesmith_domain::{JobChange, JobId, JobState};
use tunesmith_store::StoreError;

/// Number of processes that may die while they handle a job. A guess: more than the ends of a server that have another
/// cause and follow each other within ten minutes.
const MAX_DEATHS: u32 = 5;

/// A process that has handled a job for this time would not have been ended by it. A guess.
const SURVIVAL: Duration = Duration::from_secs(600);

/// The name of the file in the folder of a job.
const FILE: &str = "handling";

/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 16;

/// The handling of one job by this process. Dropping the value records that this process did not die of it.
pub(super) struct Handling {
    place: Place,
    deaths: u32,
    /// Whether dropping the value leaves the number of deaths as it is.
    is_kept: bool,
}

impl Drop for Handling {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = std::fs::remove_file(self.place.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.place.path().display(), %error, "the end of a job's handling is not recorded");
        }
    }
}

impl Handling {
    /// Counts this process among those that handle the job in the folder `directory`, which is created.
    pub(super) async fn begin(directory: &Path) -> Self {
        let place = Place::from(directory.to_owned()).join(FILE);
        let started = tokio::task::spawn_blocking(move || {
            let deaths = if let Err(error) = std::fs::create_dir_all(place.path().parent().unwrap_or(Path::new("."))) {
                tracing::warn!(path = %place.path().display(), %error, "the start of a job is not counted");
                0
            } else {
                read(&place)
            };
            let handling = Self { place, deaths, is_kept: false };
            handling.write(deaths.saturating_add(1));
            handling
        });
        match started.await {
            Ok(handling) => handling,
            // The runtime is shutting down.
            Err(_) => Self { place: Place::from(directory.to_owned()).join(FILE), deaths: 0, is_kept: true },
        }
    }

    /// Whether too many processes died while they handled the job.
    pub(super) fn is_fatal(&self) -> bool {
        self.deaths >= MAX_DEATHS
    }

    /// Completes `run`, and records the progress that its `events` tell.
    pub(super) async fn during<T>(&self, mut events: UnboundedReceiver<JobEvent>, run: impl Future<Output = T>) -> T {
        let mut run = std::pin::pin!(run);
        let mut survived = std::pin::pin!(tokio::time::sleep(SURVIVAL));
        let mut counts = true;
        loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => {
                    if counts && matches!(event, JobEvent::TrialEnded { .. }) {
                        counts = false;
                        self.write(0);
                    }
                }
                outcome = &mut run => return outcome,
                () = &mut survived, if counts => {
                    counts = false;
                    self.write(0);
                }
            }
        }
    }

    /// Keeps the number of deaths.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    fn write(&self, deaths: u32) {
        // Not synced: the death of a process does not lose the file.
        if let Err(error) = self.place.replace(format!("{deaths}\n").as_bytes(), false) {
            tracing::warn!(path = %self.place.path().display(), %error, "the start of a job is not counted");
        }
    }
}

/// Reads the number; 0 if the file does not exist, or a program has replaced it by something else.
fn read(place: &Place) -> u32 {
    match place.read(MAX_BYTES) {
        Ok(text) => String::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
        Err(OpenError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => {
            tracing::warn!(path = %place.path().display(), %error, "the number of starts of a job cannot be read");
            0
        }
    }
}

/// Ends the job `id` because of its handling, without reading the files of its programs.
pub(super) async fn set_aside(jobs: &Jobs, id: &JobId) -> Result<(), StoreError> {
    let services = &jobs.services_of(id);
    let job = services.store.job(id).await?;
    if job.state.is_final() {
        return Ok(());
    }
    let reason = format!(
        "the server died {MAX_DEATHS} times in a row while it handled this job, which is set aside; the logs of the \
         server and of the job's programs may show why"
    );
    let (state, error_message) = match job.state {
        JobState::Cancelling => (JobState::Cancelled, CANCELLED_BY_USER.to_owned()),
        _ => (JobState::Failed, reason.clone()),
    };
    // First of all, so that the job is not resumed if the rest ends the server, too.
    let at = services.clock.now();
    services.store.change_job(id, JobChange::Become { state, error_message, at }).await?;
    tracing::error!(job.id = %id, reason, "a job is set aside");
    end_programs(services, &job, &reason).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_domain::Trial;
    use tunesmith_store::contract::samples;

    #[tokio::test]
    async fn deaths_are_counted_until_the_handling_ends_or_progresses() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        for deaths in 0..MAX_DEATHS {
            let handling = Handling::begin(&job).await;
            assert_eq!((handling.deaths, handling.is_fatal()), (deaths, false));
            handling.keep();
        }
        let fatal = Handling::begin(&job).await;
        assert!(fatal.is_fatal());
        drop(fatal);

        let handling = Handling::begin(&job).await;
        assert_eq!(handling.deaths, 0);
        let (events, emitted) = tokio::sync::mpsc::unbounded_channel();
        let trial = Trial::new(samples::new_trial(1)).unwrap();
        // A report is no progress: another trial of the same job may be the one that ends the process.
        events.send(JobEvent::TrialMeasured { id: trial.id, step: 1, value: 0.5 }).unwrap();
        assert_eq!(handling.during(emitted, std::future::ready(7)).await, 7);
        handling.keep();
        let handling = Handling::begin(&job).await;
        assert_eq!(handling.deaths, 1);
        let (events, emitted) = tokio::sync::mpsc::unbounded_channel();
        events.send(JobEvent::TrialEnded { trial: Box::new(trial) }).unwrap();
        drop(events);
        let waits = tokio::task::yield_now();
        handling.during(emitted, waits).await;
        handling.keep();
        assert_eq!(Handling::begin(&job).await.deaths, 0);
    }
}
