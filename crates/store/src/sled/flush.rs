//! Flushes of sled's log, from which a caller returns even where sled itself would wait for ever (decision 025).

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use sled::{Db, Error};
use tokio::sync::watch;

use super::panic_text;
use crate::{Condition, StoreFault};

/// The time between two looks at a store that keeps its caller waiting.
const PAUSE: Duration = Duration::from_millis(250);

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
    turns: Arc<Turns>,
    condition: watch::Receiver<Condition>,
}

impl Flusher {
    /// Starts the thread for `db`. `condition` is that of the store.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn start(db: Db, condition: watch::Receiver<Condition>) -> std::io::Result<Self> {
        let (requests, received) = channel();
        let turns = Arc::<Turns>::default();
        let (its_db, its_turns) = (db.clone(), Arc::clone(&turns));
        let thread = Builder::new().name("sled-flush".into()).spawn(move || answer(&its_db, &its_turns, &received))?;
        Ok(Self { db: Some(db), requests: Some(requests), thread: Some(thread), turns, condition })
    }

    /// Runs `transaction` when no other and no flush runs. Sled excludes them too, but lets a transaction wait for a flush
    /// without an end, and any further flush for that transaction.
    ///
    /// # Errors
    /// The fault if the store has stopped, also while this waited; then `transaction` has not run.
    pub(super) fn between_flushes<T>(&self, transaction: impl FnOnce() -> T) -> Result<T, StoreFault> {
        let _turn = self.turns.take(Running::Transaction, || self.fault().map_or(Ok(()), Err))?;
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
        let Some((db, turn)) = self.db.clone().zip(self.turns.join_flush(most)) else { return };
        // Without a thread, the next look tries again.
        let _ = Builder::new().name("sled-flush-beside".into()).spawn(move || {
            // Its error is that of the flush that it wakes.
            let _ = catch_unwind(AssertUnwindSafe(|| db.flush()));
            drop(turn);
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
fn answer(db: &Db, turns: &Arc<Turns>, requests: &Receiver<SyncSender<Outcome>>) {
    while let Ok(first) = requests.recv() {
        let Ok(turn) = turns.take(Running::Flushes(1), || Ok::<_, Infallible>(()));
        let others: Vec<_> = requests.try_iter().collect();
        let flush = || db.flush().map(|_bytes| ());
        let outcome = catch_unwind(AssertUnwindSafe(flush)).map_err(|panic| panic_text(&*panic));
        drop(turn);
        // A caller that has returned needs no answer.
        for reply in others {
            let _ = reply.try_send(outcome.clone());
        }
        let _ = first.try_send(outcome);
    }
}

/// What sled is doing.
#[derive(Debug, Default, Clone, Copy)]
enum Running {
    #[default]
    Nothing,
    Transaction,
    /// This many at once, at least one.
    Flushes(u32),
}

/// Lets either one transaction run, or flushes.
#[derive(Debug, Default)]
struct Turns {
    running: Mutex<Running>,
    freed: Condvar,
}

impl Turns {
    /// Waits until nothing runs, as long as `may_wait`, which is asked first and then each [`PAUSE`].
    fn take<E>(self: &Arc<Self>, wanted: Running, may_wait: impl Fn() -> Result<(), E>) -> Result<Turn, E> {
        let mut running = self.lock();
        loop {
            may_wait()?;
            if let Running::Nothing = *running {
                *running = wanted;
                return Ok(Turn(Arc::clone(self)));
            }
            (running, _) = self.freed.wait_timeout(running, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The turn of a flush beside those that run, of which there are up to `most` besides the first.
    fn join_flush(self: &Arc<Self>, most: u32) -> Option<Turn> {
        let mut running = self.lock();
        let Running::Flushes(count @ 1..) = *running else { return None };
        (count <= most).then(|| {
            *running = Running::Flushes(count + 1);
            Turn(Arc::clone(self))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What runs may run until this is dropped.
struct Turn(Arc<Turns>);

impl Drop for Turn {
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
