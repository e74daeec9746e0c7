//! Flushes of sled's log, from which a caller returns even where sled itself would wait for ever (decision 025).

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use sled::{Db, Error};
use tokio::sync::watch;

use super::exclusion::{Exclusion, PAUSE, Running};
use super::panic_text;
use crate::{Condition, StoreFault};

/// Why a flush failed.
#[derive(Debug)]
pub(super) enum FlushError {
    Sled(Error),
    /// The store stopped while the flush waited.
    Stopped(StoreFault),
}

/// The result of a flush, or the text of sled's panic.
type Outcome = Result<Result<(), Error>, String>;

/// The thread that flushes a store's log. It drops its `Db` as the last one, because closing sled flushes, too.
#[derive(Debug)]
pub(super) struct Flusher {
    db: Option<Db>,
    requests: Option<Sender<SyncSender<Outcome>>>,
    thread: Option<JoinHandle<()>>,
    exclusion: Arc<Exclusion>,
    condition: watch::Receiver<Condition>,
}

impl Flusher {
    /// Starts the thread for `db`. `condition` is that of the store.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn start(db: Db, condition: watch::Receiver<Condition>) -> std::io::Result<Self> {
        let (requests, received) = channel();
        let exclusion = Arc::<Exclusion>::default();
        let (its_db, its_exclusion) = (db.clone(), Arc::clone(&exclusion));
        let thread =
            Builder::new().name("sled-flush".into()).spawn(move || answer(&its_db, &its_exclusion, &received))?;
        Ok(Self { db: Some(db), requests: Some(requests), thread: Some(thread), exclusion, condition })
    }

    /// Runs `transaction` when no other and no flush runs. If it waited inside sled for a flush that does not end, it would
    /// also keep every further flush from starting.
    ///
    /// # Errors
    /// The fault if the store has stopped, also while this waited; then `transaction` has not run.
    pub(super) fn between_flushes<T>(&self, transaction: impl FnOnce() -> T) -> Result<T, StoreFault> {
        let _permit = self.exclusion.take(Running::Transaction, || self.fault().map_or(Ok(()), Err))?;
        Ok(transaction())
    }

    fn fault(&self) -> Option<StoreFault> {
        self.condition.borrow().fault().cloned()
    }

    /// Writes all changes that were made before the call to the log. Blocks.
    ///
    /// # Panics
    /// If sled panics.
    pub(super) fn flush(&self) -> Result<(), FlushError> {
        let (reply, outcome) = sync_channel(1);
        if let Some(requests) = &self.requests {
            // The thread ends after the requests do.
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

    /// Starts another flush beside the one that runs, if one does and at most `most` others do. It wakes those that wait if
    /// sled failed.
    fn flush_beside(&self, most: u32) {
        let Some((db, permit)) = self.db.clone().zip(self.exclusion.join_flush(most)) else { return };
        // Without a thread, the next look tries again.
        let _ = Builder::new().name("sled-flush-beside".into()).spawn(move || {
            // Its error is that of the flush that it wakes.
            let _ = catch_unwind(AssertUnwindSafe(|| db.flush()));
            drop(permit);
        });
    }
}

impl Drop for Flusher {
    /// Closes sled, and waits for it unless the store has stopped.
    fn drop(&mut self) {
        self.db = None;
        // The thread ends, with the last `Db`.
        self.requests = None;
        if self.fault().is_none()
            && let Some(thread) = self.thread.take()
        {
            // Its panics were answers.
            let _ = thread.join();
        }
    }
}

/// Flushes `db` once for all requests that have arrived, until there are no more.
fn answer(db: &Db, exclusion: &Arc<Exclusion>, requests: &Receiver<SyncSender<Outcome>>) {
    while let Ok(first) = requests.recv() {
        let Ok(permit) = exclusion.take(Running::Flushes(1), || Ok::<_, Infallible>(()));
        let others: Vec<_> = requests.try_iter().collect();
        let flush = || db.flush().map(|_bytes| ());
        let outcome = catch_unwind(AssertUnwindSafe(flush)).map_err(|panic| panic_text(&*panic));
        drop(permit);
        // A caller that has returned needs no answer.
        for reply in others {
            let _ = reply.try_send(outcome.clone());
        }
        let _ = first.try_send(outcome);
    }
}
