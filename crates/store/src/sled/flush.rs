//! Flushes of sled's log that return even where sled itself would wait forever (decision 025).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::RwLock;
use sled::{Db, Error};
use tokio::sync::watch;

use super::panic_text;
use crate::{Condition, StoreFault};

/// Polling interval of a store that keeps its caller waiting.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) enum FlushError {
    Sled(Error),
    Stopped(StoreFault),
}

/// Result of a flush, or the text of sled's panic.
type Outcome = Result<Result<(), Error>, String>;

/// Flush thread of a store. It drops the last `Db`, because closing sled flushes too.
#[derive(Debug)]
pub(super) struct Flusher {
    db: Option<Db>,
    requests: Option<Sender<SyncSender<Outcome>>>,
    thread: Option<JoinHandle<()>>,
    /// Read-locked by flushes, write-locked by a transaction. Sled excludes them itself, but without a timeout.
    log: Arc<RwLock<()>>,
    condition: watch::Receiver<Condition>,
    /// Number of flushes besides that of the thread.
    additional: Arc<AtomicU32>,
}

impl Flusher {
    /// Starts the thread for `db`, given the store's `condition`.
    pub(super) fn start(db: Db, condition: watch::Receiver<Condition>) -> std::io::Result<Self> {
        let (requests, received) = channel();
        let log = Arc::<RwLock<()>>::default();
        let (its_db, its_log) = (db.clone(), Arc::clone(&log));
        let thread = Builder::new().name("sled-flush".into()).spawn(move || answer(&its_db, &its_log, &received))?;
        Ok(Self {
            db: Some(db),
            requests: Some(requests),
            thread: Some(thread),
            log,
            condition,
            additional: Arc::default(),
        })
    }

    /// Runs `transaction` exclusively of flushes and other transactions. Waiting inside sled for a stuck flush would
    /// keep all further flushes from starting.
    ///
    /// # Errors
    /// The fault if the store has stopped, even during the wait; `transaction` has not run.
    pub(super) fn between_flushes<T>(&self, transaction: impl FnOnce() -> T) -> Result<T, StoreFault> {
        loop {
            let permit = self.log.try_write_for(PAUSE);
            if let Some(fault) = self.fault() {
                return Err(fault);
            }
            if permit.is_some() {
                return Ok(transaction());
            }
        }
    }

    fn fault(&self) -> Option<StoreFault> {
        self.condition.borrow().fault().cloned()
    }

    /// Flushes all changes made before the call. Blocks.
    ///
    /// # Panics
    /// If sled panics.
    pub(super) fn flush(&self) -> Result<(), FlushError> {
        let (reply, outcome) = sync_channel(1);
        if let Some(requests) = &self.requests {
            // The thread outlives the requests.
            let _ = requests.send(reply);
        }
        let mut looks = 0_u32;
        loop {
            match outcome.recv_timeout(PAUSE) {
                Ok(Ok(result)) => return result.map_err(FlushError::Sled),
                Ok(Err(panic)) => resume_unwind(Box::new(panic)),
                Err(RecvTimeoutError::Disconnected) => resume_unwind(Box::new("the thread of flushes ended")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(fault) = self.fault() {
                return Err(FlushError::Stopped(fault));
            }
            looks = looks.saturating_add(1);
            self.flush_beside(looks.ilog2() + 1);
        }
    }

    /// Starts an additional flush, up to `most`. It wakes the waiting ones if sled failed.
    fn flush_beside(&self, most: u32) {
        let more = |running| (running < most).then_some(running + 1);
        let Some(db) = self.db.clone() else { return };
        if self.additional.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return;
        }
        let (log, additional) = (Arc::clone(&self.log), Arc::clone(&self.additional));
        let started = Builder::new().name("sled-flush-beside".into()).spawn(move || {
            // Recursive, to overtake waiting transactions. The flush that it wakes reports the same error.
            let _ = log.try_read_recursive().map(|_running| catch_unwind(AssertUnwindSafe(|| db.flush())));
            additional.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.additional.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Flusher {
    /// Closes sled, and waits for it unless the store has stopped.
    fn drop(&mut self) {
        self.db = None;
        // Ends the thread, along with the last `Db`.
        self.requests = None;
        if self.fault().is_none()
            && let Some(thread) = self.thread.take()
        {
            // Its panics were delivered as responses.
            let _ = thread.join();
        }
    }
}

/// Flushes `db` once for all pending requests, until there are no more.
fn answer(db: &Db, log: &RwLock<()>, requests: &Receiver<SyncSender<Outcome>>) {
    while let Ok(first) = requests.recv() {
        let running = log.read_recursive();
        let others: Vec<_> = requests.try_iter().collect();
        let flush = || db.flush().map(|_bytes| ());
        let outcome = catch_unwind(AssertUnwindSafe(flush)).map_err(|panic| panic_text(&*panic));
        drop(running);
        // A caller that has returned needs no response.
        for reply in others {
            let _ = reply.try_send(outcome.clone());
        }
        let _ = first.try_send(outcome);
    }
}
