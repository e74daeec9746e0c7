//! Excludes transactions and flushes of sled's log from each other. Sled does so itself, but a wait inside sled has no limit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time between two looks at a store that keeps its caller waiting.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// What sled is doing.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum Running {
    #[default]
    Nothing,
    Transaction,
    /// This many at once, at least one.
    Flushes(u32),
}

/// Excludes transactions from each other, and from flushes.
#[derive(Debug, Default)]
pub(super) struct Exclusion {
    running: Mutex<Running>,
    freed: Condvar,
}

impl Exclusion {
    /// Waits until nothing runs, as long as `may_wait`, which is asked first and then each [`PAUSE`].
    pub(super) fn take<E>(
        self: &Arc<Self>,
        wanted: Running,
        may_wait: impl Fn() -> Result<(), E>,
    ) -> Result<Permit, E> {
        let mut running = self.lock();
        loop {
            may_wait()?;
            if let Running::Nothing = *running {
                *running = wanted;
                return Ok(Permit(Arc::clone(self)));
            }
            (running, _) = self.freed.wait_timeout(running, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A permit for a flush beside those that run, of which there are up to `most` besides the first.
    pub(super) fn join_flush(self: &Arc<Self>, most: u32) -> Option<Permit> {
        let mut running = self.lock();
        let Running::Flushes(count @ 1..) = *running else { return None };
        (count <= most).then(|| {
            *running = Running::Flushes(count + 1);
            Permit(Arc::clone(self))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permits one transaction or flush to run until it is dropped.
pub(super) struct Permit(Arc<Exclusion>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = self.0.lock();
        *running = match *running {
            Running::Flushes(count @ 2..) => Running::Flushes(count - 1),
            _ => Running::Nothing,
        };
        drop(running);
        self.0.freed.notify_one();
    }
}
