//! Outbox: measurements not yet confirmed by the server, shared by the tasks that read reports.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::spool::Spool;
use parking_lot::{Mutex, MutexGuard};
use tunesmith_domain::Measurement;

/// Measurements of an attempt for the server.
#[derive(Debug)]
pub(super) struct Outbox {
    spool: Mutex<Spool>,
    /// Metric names in reports over HTTP.
    tags: Mutex<BTreeSet<String>>,
    stopping: AtomicBool,
}

impl Outbox {
    /// # Errors
    /// If the spool in `folder` cannot be opened.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let (tags, stopping) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { spool: Mutex::new(Spool::open(folder)?), tags, stopping })
    }

    /// Locks the spool.
    pub(super) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock()
    }

    /// Adds a report over HTTP.
    pub(super) fn add_report(&self, measurement: Measurement) -> io::Result<()> {
        self.tags.lock().extend(measurement.metrics.iter().map(|metric| metric.metric.clone()));
        self.spool().append(&[measurement])
    }

    /// Metric names in reports over HTTP.
    pub(super) fn tags(&self) -> BTreeSet<String> {
        self.tags.lock().clone()
    }

    /// Records that the program was asked to stop.
    pub(super) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the program was asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
