//! Local copies of event files in an object store, updated while the program of an attempt runs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tunesmith_objects::{Buckets, EventMirror, ObjectError};

/// Interval between two listings of the objects, at one cloud request each.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time limit of one update while the program runs; the next one resumes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Copies of the event files of one attempt.
#[derive(Debug)]
pub(super) struct EventCopies {
    mirror: Result<EventMirror, String>,
    updated: Option<Instant>,
    /// Whether everything was copied after the program ended.
    is_complete: bool,
    problems: Vec<String>,
}

impl EventCopies {
    /// Copies the event files below `url` to the folder `copies`. Does no IO.
    pub(super) fn new(url: &str, copies: PathBuf) -> Self {
        let folder = Buckets::of_environment().folder(url);
        let mirror = folder.map(|folder| EventMirror::new(folder, copies)).map_err(|error| error.to_string());
        let problems = mirror.as_ref().err().cloned().into_iter().collect();
        Self { mirror, updated: None, is_complete: false, problems }
    }

    /// Copies additions if an update is due or this is the `last` one. Blocks.
    pub(super) fn update(&mut self, last: bool) {
        let (Ok(mirror), Ok(runtime)) = (&self.mirror, Handle::try_current()) else { return };
        if !last && self.updated.is_some_and(|updated| updated.elapsed() < INTERVAL) {
            return;
        }
        self.updated = Some(Instant::now());
        let updated = runtime.block_on(async { tokio::time::timeout(TIMEOUT, mirror.update()).await });
        match updated {
            Ok(Ok(_)) => self.is_complete = last,
            // The next update retries, if there is one.
            Ok(Err(error)) if error.is_temporary() && !last => {
                tracing::warn!(error = &error as &dyn std::error::Error, "event files cannot be read now");
            }
            Ok(Err(error)) => self.note(&error),
            Err(_) if !last => {}
            Err(_) => self.add(format!("the event files could not be copied within {} s", TIMEOUT.as_secs())),
        }
    }

    /// Distinct read errors.
    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    fn note(&mut self, error: &ObjectError) {
        self.add(error.to_string());
    }

    fn add(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl Drop for EventCopies {
    /// Removes the copies once read. For a running program, the next process continues with them.
    fn drop(&mut self) {
        if let Ok(mirror) = self.mirror.as_ref()
            && self.is_complete
            && let Err(error) = mirror.remove()
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "copies of event files are left");
        }
    }
}
