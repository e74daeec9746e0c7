//! What the agent keeps until the server has it, shared by all that read reports.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::spool::Spool;
use tunesmith_api::agent::NumberedMeasurement;
use tunesmith_domain::Measurement;

/// The attempt is stored above this number of bits of the mark of a report over HTTP.
const ATTEMPT_SHIFT: u32 = 48;

/// The measurements that the server has not confirmed.
#[derive(Debug)]
pub(super) struct Kept {
    state: Mutex<State>,
    attempt: u64,
    stopping: AtomicBool,
}

#[derive(Debug)]
struct State {
    spool: Spool,
    /// The names of metrics in reports over HTTP.
    tags: BTreeSet<String>,
}

impl Kept {
    /// # Errors
    /// If the spool in `folder` cannot be opened.
    pub(super) fn open(folder: &Path, attempt: u64) -> io::Result<Self> {
        let state = State { spool: Spool::open(folder)?, tags: BTreeSet::new() };
        Ok(Self { state: Mutex::new(state), attempt, stopping: AtomicBool::new(false) })
    }

    /// Returns all measurements of the attempt, which a former agent may have kept.
    pub(super) fn known(&self) -> io::Result<Vec<Measurement>> {
        self.lock().spool.all()
    }

    /// Adds measurements from files.
    pub(super) fn add(&self, measurements: &[Measurement]) -> io::Result<()> {
        self.lock().spool.append(measurements)
    }

    /// Adds a report over HTTP.
    pub(super) fn add_report(&self, mut measurement: Measurement) -> io::Result<()> {
        let mut state = self.lock();
        state.tags.extend(measurement.metrics.iter().map(|metric| metric.metric.clone()));
        measurement.mark = state.spool.len() | self.attempt << ATTEMPT_SHIFT;
        state.spool.append(&[measurement])
    }

    /// As [`Spool::confirm`].
    pub(super) fn confirm(&self, next: u64) -> io::Result<()> {
        self.lock().spool.confirm(next)
    }

    /// As [`Spool::next`].
    pub(super) fn next(&self, limit: usize) -> io::Result<(u64, Vec<NumberedMeasurement>)> {
        self.lock().spool.next(limit)
    }

    /// The names of metrics in reports over HTTP.
    pub(super) fn tags(&self) -> BTreeSet<String> {
        self.lock().tags.clone()
    }

    /// Records that the program is asked to end.
    pub(super) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the program is asked to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
