//! The outbox: measurements that the server has not confirmed, shared by the tasks that read reports.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::spool::Spool;
use parking_lot::{Mutex, MutexGuard};
use tunesmith_domain::Measurement;

/// The measurements of an attempt for the server.
#[derive(Debug)]
pub(super) struct Outbox {
    spool: Mutex<Spool>,
    /// The names of metrics in reports over HTTP.
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

    /// Locks the file of the measurements.
    pub(super) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock()
    }

    /// Adds a report over HTTP.
    pub(super) fn add_report(&self, measurement: Measurement) -> io::Result<()> {
        self.tags.lock().extend(measurement.metrics.iter().map(|metric| metric.metric.clone()));
        self.spool().append(&[measurement])
    }

    /// The names of metrics in reports over HTTP.
    pub(super) fn tags(&self) -> BTreeSet<String> {
        self.tags.lock().clone()
    }

    /// Records that the program is asked to end.
    pub(super) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the program is asked to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
