//! Transactions: retries after conflicts, and resolution of the outcome after a lost connection.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::Row;

use super::buffered::{BufferedRecords, WriteStrategy, Writes};
use super::error::{self, Contended, Failure};
use super::records::PostgresRecords;
use super::sessions::{ANSWER_TIMEOUT, Session, Writer, within};
use super::{Core, StoreFault};
use crate::StoreError;
use crate::engine::Ranges;
use crate::group::{CommitOutcome, Request};

/// Maximum attempts of a conflicting group. Changes of one study are serialized, so conflicts are rare: only concurrent
/// additions of the same job or study.
const MAX_ATTEMPTS: u32 = 20;

/// Maximum back-off between attempts.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Time limit for resolving a commit whose response was lost: the restart of a database.
const RESOLUTION_TIME: Duration = Duration::from_secs(20);

/// Retry interval of that resolution.
const RESOLUTION_PAUSE: Duration = Duration::from_millis(100);

/// Outcome of one attempt at a group.
enum Run {
    /// All changes are durable, except refused ones.
    Committed,
    /// No change was applied; the session remains usable.
    RolledBack(StoreError),
    /// Conflict with another transaction; the session remains usable.
    Conflict,
    /// No change was applied, and the group requires this strategy; the session remains usable.
    Needs(WriteStrategy),
    /// The session is lost; no change was applied.
    Lost(StoreFault),
    /// The session was lost during the commit.
    Unknown(Writer, StoreFault),
}

impl Core {
    /// Applies the changes of `group` in one transaction. Blocks.
    pub(super) fn commit(&self, group: &mut [Box<dyn Request>]) -> CommitOutcome {
        let mut attempts = 0;
        let mut way = WriteStrategy::Unlocked;
        loop {
            attempts += 1;
            let mut session = match self.runtime.block_on(self.sessions.take()) {
                Ok(session) => session,
                Err(source) => return CommitOutcome::RolledBack(Arc::new(self.cannot_connect("write", source))),
            };
            let run = match way {
                WriteStrategy::Unlocked => self.run_unlocked(&mut session, group),
                WriteStrategy::Locked => self.run_locked(&mut session, group),
                WriteStrategy::ByStatement => self.run(&mut session, group),
            };
            match run {
                Run::Needs(needed) => {
                    self.sessions.put_back(session);
                    way = needed;
                }
                Run::Conflict if way == WriteStrategy::Unlocked => {
                    self.sessions.put_back(session);
                    way = WriteStrategy::Locked;
                }
                Run::Committed => {
                    self.sessions.put_back(session);
                    self.works();
                    return CommitOutcome::Committed;
                }
                Run::RolledBack(error) => {
                    self.sessions.put_back(session);
                    if let Some(fault) = error.fault() {
                        self.fails(fault.clone());
                    }
                    return CommitOutcome::RolledBack(Arc::new(error));
                }
                Run::Conflict if attempts < MAX_ATTEMPTS => {
                    self.sessions.put_back(session);
                    std::thread::sleep(pause(attempts));
                }
                Run::Conflict => {
                    self.sessions.put_back(session);
                    let source = Box::new(Contended { attempts });
                    return CommitOutcome::RolledBack(Arc::new(StoreError::NotApplied { operation: "write", source }));
                }
                Run::Lost(fault) => {
                    self.sessions.close_idle();
                    // A past database restart may have closed an idle session.
                    if session.is_new || attempts >= MAX_ATTEMPTS {
                        self.fails(fault.clone());
                        return CommitOutcome::RolledBack(Arc::new(StoreError::not_applied(fault)));
                    }
                }
                Run::Unknown(writer, fault) => {
                    self.sessions.close_idle();
                    drop(session);
                    match self.resolve(writer) {
                        Some(true) => return CommitOutcome::Committed,
                        Some(false) if attempts < MAX_ATTEMPTS => {}
                        Some(false) => return CommitOutcome::RolledBack(Arc::new(StoreError::not_applied(fault))),
                        None => {
                            self.fails(fault.clone());
                            return CommitOutcome::Unknown(fault);
                        }
                    }
                }
            }
        }
    }

    fn run(&self, session: &mut Session, group: &mut [Box<dyn Request>]) -> Run {
        let writer = match self.runtime.block_on(session.begin_write()) {
            Ok(writer) => writer,
            Err(source) => return self.ended(session, source),
        };
        let mut kept = false;
        // A single change needs no savepoint.
        let is_group = group.len() > 1;
        for request in group {
            if is_group && let Err(source) = self.runtime.block_on(session.execute("SAVEPOINT change")) {
                return self.ended(session, source);
            }
            let records = PostgresRecords::for_writing(&mut session.connection, self.surroundings());
            let is_kept = request.run(&records);
            match records.failure() {
                Some(Failure::Lost) => return Run::Lost(self.lost_fault()),
                Some(Failure::Conflict) => return self.rolled_back(session, Run::Conflict),
                Some(Failure::Statement) | None => {}
            }
            kept |= is_kept;
            if is_group {
                let end = if is_kept { "RELEASE change" } else { "ROLLBACK TO change; RELEASE change" };
                if let Err(source) = self.runtime.block_on(session.execute(end)) {
                    return self.ended(session, source);
                }
            }
        }
        if !kept {
            return self.rolled_back(session, Run::Committed);
        }
        self.finish(session, writer)
    }

    /// Buffers the changes of `group` and writes them by one autocommit statement.
    fn run_unlocked(&self, session: &mut Session, group: &mut [Box<dyn Request>]) -> Run {
        let writes = match self.collect(session, group, false) {
            Ok(writes) => writes,
            Err(run) => return run,
        };
        let Some(writes) = writes else { return Run::Committed };
        let Writer { id, sequence } = match self.runtime.block_on(within(ANSWER_TIMEOUT, session.writer())) {
            Ok(writer) => writer,
            Err(source) if Failure::of(&source) == Failure::Lost => return Run::Lost(error::unreachable(&source)),
            Err(source) => return Run::RolledBack(error::not_applied(&self.place, "write", source)),
        };
        let next = Writer { id, sequence: sequence + 1 };
        let answer = async {
            let row = writes.statement(Some(next)).fetch_one(&mut session.connection).await?;
            Ok::<(i64, i64), sqlx::Error>((row.try_get(0)?, row.try_get(1)?))
        };
        match self.runtime.block_on(within(ANSWER_TIMEOUT, answer)) {
            Ok((1, 1)) => {
                session.writer = Some(next);
                Run::Committed
            }
            Ok((own, _)) => {
                // The row expired while the session was idle.
                session.writer = session.writer.filter(|_| own == 1);
                Run::Conflict
            }
            Err(source) => match Failure::of(&source) {
                Failure::Conflict => Run::Conflict,
                // A failed autocommit statement is rolled back. Another strategy reports the cause.
                Failure::Statement => Run::Needs(WriteStrategy::ByStatement),
                Failure::Lost => Run::Unknown(next, error::unreachable(&source)),
            },
        }
    }

    /// Buffers the changes of `group` in a transaction that locks the study, and writes them by one statement.
    fn run_locked(&self, session: &mut Session, group: &mut [Box<dyn Request>]) -> Run {
        let writer = match self.runtime.block_on(session.begin_write()) {
            Ok(writer) => writer,
            Err(source) => return self.ended(session, source),
        };
        match self.collect(session, group, true) {
            Err(Run::Lost(fault)) => return Run::Lost(fault),
            Err(run) => return self.rolled_back(session, run),
            Ok(None) => return self.rolled_back(session, Run::Committed),
            Ok(Some(writes)) => {
                let answer = writes.statement(None).fetch_one(&mut session.connection);
                match self.runtime.block_on(within(ANSWER_TIMEOUT, answer)).and_then(|row| row.try_get(1)) {
                    Ok(1_i64) => {}
                    Ok(_) => return self.rolled_back(session, Run::Conflict),
                    Err(source) => return self.ended(session, source),
                }
            }
        }
        self.finish(session, writer)
    }

    /// Buffers the changes of `group`; returns their writes, or `None` without any. An error ends the attempt early,
    /// before any open transaction is rolled back.
    fn collect(
        &self,
        session: &mut Session,
        group: &mut [Box<dyn Request>],
        is_locked: bool,
    ) -> Result<Option<Writes>, Run> {
        let records = BufferedRecords::new(&mut session.connection, self.surroundings(), is_locked);
        for request in group {
            let is_kept = request.run(&records);
            match records.failure() {
                Some(Failure::Lost) => return Err(Run::Lost(self.lost_fault())),
                Some(Failure::Conflict) => return Err(Run::Conflict),
                Some(Failure::Statement) => return Err(Run::Needs(WriteStrategy::ByStatement)),
                None => {}
            }
            if let Some(way) = records.needed() {
                return Err(Run::Needs(way));
            }
            records.end_change(is_kept);
        }
        let is_of_one_time = records.is_of_one_time();
        let writes = records.into_writes();
        // Without a writing statement to verify the study's version, it may have changed between two reads.
        if writes.is_none() && !is_of_one_time { Err(Run::Conflict) } else { Ok(writes) }
    }

    fn finish(&self, session: &mut Session, writer: Writer) -> Run {
        match self.runtime.block_on(session.execute("COMMIT")) {
            Ok(()) => Run::Committed,
            Err(source) => match Failure::of(&source) {
                Failure::Conflict => self.rolled_back(session, Run::Conflict),
                // The commit's progress is unknown, even after an error reported by the database.
                Failure::Lost | Failure::Statement => Run::Unknown(writer, error::unreachable(&source)),
            },
        }
    }

    /// Outcome of the attempt after a transaction control statement failed with `source`.
    fn ended(&self, session: &mut Session, source: sqlx::Error) -> Run {
        match Failure::of(&source) {
            Failure::Lost => Run::Lost(error::unreachable(&source)),
            Failure::Conflict => self.rolled_back(session, Run::Conflict),
            Failure::Statement => {
                let error = error::not_applied(&self.place, "write", source);
                self.rolled_back(session, Run::RolledBack(error))
            }
        }
    }

    /// Rolls the transaction back and returns `run`.
    fn rolled_back(&self, session: &mut Session, run: Run) -> Run {
        match self.runtime.block_on(session.execute("ROLLBACK")) {
            Ok(()) => run,
            Err(source) => Run::Lost(error::unreachable(&source)),
        }
    }

    /// Whether the transaction `writer`, whose session was lost during the commit, was committed; `None` if
    /// undeterminable.
    fn resolve(&self, writer: Writer) -> Option<bool> {
        let begin = Instant::now();
        loop {
            let read = self.runtime.block_on(async {
                let mut session = self.sessions.connect().await?;
                let committed = session.was_committed(writer).await?;
                Ok::<_, sqlx::Error>((session, committed))
            });
            match read {
                Ok((session, committed)) => {
                    self.sessions.put_back(session);
                    tracing::warn!(
                        store.path = %self.place.display(), committed,
                        "the connection was lost during a commit; its outcome was read afterwards"
                    );
                    return committed;
                }
                Err(_) if begin.elapsed() < RESOLUTION_TIME => std::thread::sleep(RESOLUTION_PAUSE),
                Err(source) => {
                    tracing::error!(
                        store.path = %self.place.display(), error = error::message(&source),
                        "the outcome of a commit could not be determined"
                    );
                    return None;
                }
            }
        }
    }

    /// Runs `query` on a consistent snapshot and passes the result to `answer`. `is_short` expects a single statement,
    /// which needs no transaction. Blocks.
    pub(super) fn query<T>(
        &self,
        mut is_short: bool,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError>,
        answer: impl FnOnce(Result<T, StoreError>),
    ) {
        loop {
            let mut session = match self.runtime.block_on(self.sessions.take()) {
                Ok(session) => session,
                Err(source) => return answer(Err(self.cannot_connect("read", source))),
            };
            if !is_short && let Err(source) = self.runtime.block_on(session.begin_read()) {
                if Failure::of(&source) == Failure::Lost && !session.is_new {
                    self.sessions.close_idle();
                    continue;
                }
                return answer(Err(error::not_applied(&self.place, "read", source)));
            }
            let records = match is_short {
                true => PostgresRecords::for_one_statement(&mut session.connection, self.surroundings()),
                false => PostgresRecords::for_reading(&mut session.connection, self.surroundings()),
            };
            let result = query(&records);
            if records.failure() == Some(Failure::Lost) {
                self.sessions.close_idle();
                if session.is_new {
                    self.fails(self.lost_fault());
                    return answer(result);
                }
                continue;
            }
            if records.needs_transaction() {
                is_short = false;
                self.sessions.put_back(session);
                continue;
            }
            // The caller need not wait for the end of the transaction.
            answer(result);
            if is_short {
                self.sessions.put_back(session);
                return;
            }
            if self.runtime.block_on(session.execute("ROLLBACK")).is_ok() {
                self.sessions.put_back(session);
            }
            return;
        }
    }
}

/// Back-off before attempt `attempts + 1`, randomized so that two groups do not collide again.
fn pause(attempts: u32) -> Duration {
    let longest = Duration::from_millis(1 << attempts.min(10)).min(MAX_PAUSE);
    longest.mul_f64(RandomState::new().hash_one(attempts) as f64 / u64::MAX as f64)
}
