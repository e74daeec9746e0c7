//! Write buffer: changes of one study collected in memory and written by one statement.
//!
//! The study is read once per transaction. Optimistic concurrency: every change of a study or its trials replaces the
//! study's progress row, and the writing statement requires the row to be the one that was read. Nothing is locked
//! meanwhile, so that without locks this one statement is the transaction. Other changes fall back to
//! [`PostgresRecords`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

use super::error::Failure;
use super::records::{PostgresRecords, Statement, Surroundings};
use super::sessions::Writer;
use crate::engine::{Changes, Lookups};
use crate::record::{Progress, checksum, encode_chunks, encode_trial};
use crate::sql::{Value, deadline, number, text, values};
use crate::{StoreError, SummaryKind, keys};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// Execution strategy for a group of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteStrategy {
    /// Buffered, then written by a single autocommit statement.
    Unlocked,
    /// Buffered, then written by one statement in a transaction that has locked the study.
    Locked,
    /// One statement per change.
    ByStatement,
}

pub(super) struct BufferedRecords<'a> {
    records: PostgresRecords<'a>,
    is_locked: bool,
    read: RefCell<Option<ReadStudy>>,
    /// Writes and reads of the group's earlier changes.
    kept: RefCell<Buffer>,
    /// Writes of the current change.
    staged: RefCell<Buffer>,
    /// Claims checked and locked.
    claims: RefCell<HashSet<(JobId, u64)>>,
    /// Strategy required instead of the current one.
    needed: Cell<Option<WriteStrategy>>,
    /// Number of statements that read the study or a trial.
    reads: Cell<u32>,
}

struct ReadStudy {
    id: StudyId,
    /// Transaction that wrote the progress row.
    version: String,
}

#[derive(Default)]
struct Buffer {
    study: Option<Study>,
    trials: BTreeMap<TrialId, Version>,
    chunks: Vec<Chunk>,
    is_changed: bool,
}

struct Version {
    trial: Trial,
    /// Pending write of the row; `None` if it was only read.
    write: Option<Write>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Insert,
    Update,
}

struct Chunk {
    trial: i64,
    first: i64,
    body: Vec<u8>,
    crc: i64,
}

impl<'a> BufferedRecords<'a> {
    /// With `is_locked`, the connection is in a transaction, and reading the study locks it.
    pub(super) fn new(connection: &'a mut PgConnection, surroundings: Surroundings<'a>, is_locked: bool) -> Self {
        Self {
            records: PostgresRecords::for_writing(connection, surroundings),
            is_locked,
            read: RefCell::default(),
            kept: RefCell::default(),
            staged: RefCell::default(),
            claims: RefCell::default(),
            needed: Cell::new(None),
            reads: Cell::new(0),
        }
    }

    /// Effect of the last failed statement on the transaction.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.records.failure()
    }

    /// Strategy that the group requires instead; `None` if the current one suffices.
    pub(super) fn needed(&self) -> Option<WriteStrategy> {
        self.needed.get()
    }

    /// Whether all reads form a consistent snapshot, even without a write.
    pub(super) fn is_of_one_time(&self) -> bool {
        self.is_locked || self.reads.get() <= 1
    }

    /// Keeps or discards the writes of the current change.
    pub(super) fn end_change(&self, is_kept: bool) {
        let staged = self.staged.take();
        if !is_kept || !staged.is_changed {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        kept.is_changed = true;
        kept.study = staged.study.or(kept.study.take());
        kept.chunks.extend(staged.chunks);
        for (id, Version { trial, write }) in staged.trials {
            let before = kept.trials.get(&id).and_then(|version| version.write);
            kept.trials.insert(id, Version { trial, write: before.or(write) });
        }
    }

    /// The group's writes; `None` if there are none.
    pub(super) fn into_writes(self) -> Option<Writes> {
        let Buffer { study, trials, chunks, is_changed } = self.kept.into_inner();
        let (read, study) = self.read.into_inner().zip(study).filter(|_| is_changed)?;
        let progress = Progress { next_trial_id: study.next_trial_id, revision: study.revision };
        Some(Writes { read, progress, trials: trials.into_values().collect(), chunks })
    }

    /// Reads the study, together with `trial` unless that must wait for a lock on the study.
    fn read_study(&self, id: &StudyId, trial: Option<TrialId>) -> Result<(), StoreError> {
        let trial = trial.filter(|_| !self.is_locked);
        let (columns, join) = match trial {
            Some(_) => (", t.id, t.revision, t.body, t.crc", "LEFT JOIN trials t ON t.study = s.id AND t.id = ?2"),
            None => ("", ""),
        };
        let lock = if self.is_locked { "FOR UPDATE OF s, p" } else { "" };
        let sql = format!(
            "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc, p.xmin::text{columns}
             FROM studies s JOIN progress p ON p.study = s.id {join} WHERE s.id = ?1 {lock}"
        );
        let mut values = values![id];
        values.extend(trial.map(Value::from));
        self.reads.set(self.reads.get() + 1);
        let read = self.records.get(&sql, values, |row| {
            let trial = trial.map(|_| self.records.optional_trial_of(id, row, 6)).transpose()?.flatten();
            Ok((self.records.study_of(id, row)?, row.text(5)?, trial))
        })?;
        // The other strategy distinguishes missing from damaged.
        let Some((study, version, trial)) = read else { return self.leave_to(WriteStrategy::ByStatement) };
        let mut kept = self.kept.borrow_mut();
        kept.study = Some(study);
        if let Some(trial) = trial {
            kept.trials.insert(trial.id, Version { trial, write: None });
        }
        *self.read.borrow_mut() = Some(ReadStudy { id: id.clone(), version });
        Ok(())
    }

    fn known_study(&self) -> Option<Study> {
        let staged = self.staged.borrow().study.clone();
        staged.or_else(|| self.kept.borrow().study.clone())
    }

    fn known_trial(&self, id: TrialId) -> Option<Trial> {
        let staged = self.staged.borrow().trials.get(&id).map(|version| version.trial.clone());
        staged.or_else(|| self.kept.borrow().trials.get(&id).map(|version| version.trial.clone()))
    }

    /// Whether `id` is the group's study, already read; changes of another study require a different strategy.
    fn is_read(&self, id: &StudyId) -> Result<bool, StoreError> {
        match &*self.read.borrow() {
            Some(read) if read.id != *id => self.leave_to(WriteStrategy::ByStatement),
            read => Ok(read.is_some()),
        }
    }

    /// Aborts in favour of another strategy, with which the caller reruns the group.
    fn leave_to<T>(&self, way: WriteStrategy) -> Result<T, StoreError> {
        self.needed.set(Some(way));
        Err(StoreError::NotApplied { operation: "write", source: "it is run again in another way".into() })
    }
}

impl Lookups for BufferedRecords<'_> {
    fn path(&self) -> &Path {
        self.records.path()
    }

    fn job(&self, _id: &JobId) -> Result<Option<Job>, StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }

    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError> {
        if !self.is_read(id)? {
            self.read_study(id, None)?;
        }
        Ok(self.known_study())
    }

    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError> {
        if !self.is_read(study)? {
            self.read_study(study, Some(id))?;
        }
        if let Some(trial) = self.known_trial(id) {
            return Ok(Some(trial));
        }
        if self.known_study().is_none_or(|study| id < TrialId::FIRST || id >= study.next_trial_id) {
            return Ok(None);
        }
        self.reads.set(self.reads.get() + 1);
        let trial = self.records.trial(study, id)?;
        if let Some(trial) = trial.clone() {
            self.kept.borrow_mut().trials.insert(id, Version { trial, write: None });
        }
        Ok(trial)
    }

    fn study_and_trial(&self, study: &StudyId, id: TrialId) -> Result<(Option<Study>, Option<Trial>), StoreError> {
        let trial = self.trial(study, id)?;
        Ok((self.known_study(), trial))
    }

    fn remains(&self, _id: &StudyId) -> Result<Option<TrialId>, StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }
}

impl Changes for BufferedRecords<'_> {
    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        if !self.is_locked {
            return self.leave_to(WriteStrategy::Locked);
        }
        let claim = (job.clone(), fence);
        if !self.claims.borrow().contains(&claim) {
            self.records.check_claim(job, fence)?;
            self.claims.borrow_mut().insert(claim);
        }
        Ok(())
    }

    fn put_job(&self, _job: &Job) -> Result<(), StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }

    fn remove_job(&self, _id: &JobId) -> Result<(), StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }

    fn put_study(&self, _study: &Study) -> Result<(), StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }

    fn put_progress(&self, study: &Study) -> Result<(), StoreError> {
        let mut staged = self.staged.borrow_mut();
        staged.study = Some(study.clone());
        staged.is_changed = true;
        Ok(())
    }

    fn put_summary(&self, _study: &StudyId, _kind: SummaryKind, _body: &[u8]) -> Result<(), StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }

    fn put_remains(&self, _study: &StudyId, _next: Option<TrialId>) -> Result<(), StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }

    fn remove_trials(&self, _study: &StudyId, _first: TrialId, _end: TrialId) -> Result<(), StoreError> {
        self.leave_to(WriteStrategy::ByStatement)
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError> {
        if !self.is_read(study)? {
            return self.leave_to(WriteStrategy::ByStatement);
        }
        let write = if replaces.is_some() { Write::Update } else { Write::Insert };
        let version = Version { trial: trial.clone(), write: Some(write) };
        self.staged.borrow_mut().trials.insert(trial.id, version);
        Ok(())
    }

    fn add_measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        first: u64,
        measurements: &[Measurement],
    ) -> Result<(), StoreError> {
        if !self.is_read(study)? {
            return self.leave_to(WriteStrategy::ByStatement);
        }
        let chunks = encode_chunks(first, measurements).into_iter().map(|(first, body)| {
            let crc = i64::from(checksum(&keys::chunk(study, trial, first), &body));
            Chunk { trial: number(trial.0), first: number(first), body, crc }
        });
        self.staged.borrow_mut().chunks.extend(chunks);
        Ok(())
    }
}

pub(super) struct Writes {
    read: ReadStudy,
    progress: Progress,
    trials: Vec<Version>,
    chunks: Vec<Chunk>,
}

impl Writes {
    /// Statement that applies all changes or none, and returns the number of rows of the writer and of the study. With
    /// `writer`, it autocommits and sets the writer's number.
    pub(super) fn statement(&self, writer: Option<Writer>) -> Statement {
        let (own, from, counted) = match writer {
            // Requires the previous number in the row, so that nothing is written once the outcome was resolved.
            Some(_) => (
                "own AS (SELECT id FROM writers WHERE id = $6 AND sequence = $7 - 1 FOR UPDATE),",
                "FROM own",
                ", counted AS (UPDATE writers SET sequence = $7, used = now() FROM progressed WHERE id = $6)",
            ),
            None => ("own AS (SELECT $6::bigint AS id, $7::bigint),", "", ""),
        };
        let added: Vec<&Trial> = self.written(Write::Insert).collect();
        let changed: Vec<&Trial> = self.written(Write::Update).collect();
        let mut parameters = 7;
        let mut parts = String::new();
        if !added.is_empty() {
            parts += &format!(
                ", added AS (INSERT INTO trials (study, id, revision, body, crc, open, deadline)
                    SELECT progressed.study, new.* FROM progressed, {} AS new)",
                trial_rows(&mut parameters)
            );
        }
        if !changed.is_empty() {
            parts += &format!(
                ", changed AS (UPDATE trials SET revision = new.revision, body = new.body, crc = new.crc,
                    open = new.open, deadline = new.deadline
                    FROM progressed, {} AS new (id, revision, body, crc, open, deadline)
                    WHERE trials.study = progressed.study AND trials.id = new.id)",
                trial_rows(&mut parameters)
            );
        }
        if !self.chunks.is_empty() {
            let [trial, first, body, crc] = [1, 2, 3, 4].map(|index| parameters + index);
            parts += &format!(
                ", measured AS (INSERT INTO measurements (study, trial, first, body, crc)
                    SELECT progressed.study, new.* FROM progressed,
                        unnest(${trial}::bigint[], ${first}::bigint[], ${body}::bytea[], ${crc}::bigint[]) AS new)"
            );
        }
        let sql = format!(
            "WITH {own} progressed AS (
                 UPDATE progress SET next_trial_id = $3, revision = $4, crc = $5 {from}
                 WHERE study = $1 AND progress.xmin = $2::text::xid RETURNING study
             ){counted}{parts}
             SELECT (SELECT count(*) FROM own), (SELECT count(*) FROM progressed)"
        );
        let study = &self.read.id;
        let (id, sequence) = writer.map_or((0, 0), |writer| (writer.id, writer.sequence));
        let mut statement = sqlx::query(AssertSqlSafe(sql))
            .bind(study.as_str().to_owned())
            .bind(self.read.version.clone())
            .bind(number(self.progress.next_trial_id.0))
            .bind(number(self.progress.revision))
            .bind(i64::from(checksum(study.as_str().as_bytes(), &self.progress.encode())))
            .bind(id)
            .bind(sequence);
        for trials in [added, changed] {
            if !trials.is_empty() {
                statement = bind_trials(statement, study, &trials);
            }
        }
        if !self.chunks.is_empty() {
            let column = |read: fn(&Chunk) -> i64| self.chunks.iter().map(read).collect::<Vec<i64>>();
            statement = statement
                .bind(column(|chunk| chunk.trial))
                .bind(column(|chunk| chunk.first))
                .bind(self.chunks.iter().map(|chunk| chunk.body.clone()).collect::<Vec<Vec<u8>>>())
                .bind(column(|chunk| chunk.crc));
        }
        statement
    }

    fn written(&self, write: Write) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |version| version.write == Some(write)).map(|version| &version.trial)
    }
}

/// Trial rows with the next six of `parameters`.
fn trial_rows(parameters: &mut usize) -> String {
    let [id, revision, body, crc, open, deadline] = [1, 2, 3, 4, 5, 6].map(|index| *parameters + index);
    *parameters = deadline;
    format!(
        "unnest(${id}::bigint[], ${revision}::bigint[], ${body}::text[], ${crc}::bigint[], ${open}::boolean[],
            ${deadline}::bigint[])"
    )
}

fn bind_trials(statement: Statement, study: &StudyId, trials: &[&Trial]) -> Statement {
    let bodies: Vec<Vec<u8>> = trials.iter().map(|trial| encode_trial(trial)).collect();
    let crc = |(trial, body): (&&Trial, &Vec<u8>)| i64::from(checksum(&keys::trial(study, trial.id), body));
    let crcs: Vec<i64> = trials.iter().zip(&bodies).map(crc).collect();
    statement
        .bind(trials.iter().map(|trial| number(trial.id.0)).collect::<Vec<i64>>())
        .bind(trials.iter().map(|trial| number(trial.revision)).collect::<Vec<i64>>())
        .bind(bodies.into_iter().map(text).collect::<Vec<String>>())
        .bind(crcs)
        .bind(trials.iter().map(|trial| !trial.state.is_final()).collect::<Vec<bool>>())
        .bind(trials.iter().map(|trial| deadline(trial)).collect::<Vec<Option<i64>>>())
}
