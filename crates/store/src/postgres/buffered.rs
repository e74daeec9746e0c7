//! Changes of one study that are collected in memory and written by one statement.
//!
//! The study is read once for all changes of a transaction. The statement that writes them requires that the row of the
//! study's progress is the one that was read, which every change of the study or its trials replaces. So nothing has to
//! be locked while the changes are computed: without locks, the transaction is this one statement. Changes of anything
//! else are left to [`PostgresRecords`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row};

use super::error::Failure;
use super::records::{PostgresRecords, Surroundings, number, study_row, text, trial_row};
use super::sessions::Writer;
use crate::engine::{Changes, Lookups};
use crate::record::{Progress, checksum, encode_chunks, encode_trial};
use crate::{StoreError, keys};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// How the changes of a group are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Collected, and written by one statement that is a transaction of its own.
    Unlocked,
    /// Collected, and written by one statement in a transaction that has locked the study.
    Locked,
    /// One statement after the other.
    ByStatement,
}

/// The records of one study that a group of changes uses.
pub(super) struct BufferedRecords<'a> {
    records: PostgresRecords<'a>,
    is_locked: bool,
    /// The study as it was read.
    read: RefCell<Option<ReadStudy>>,
    /// What the former changes of the group have written or read.
    kept: RefCell<Buffer>,
    /// What the present change has written.
    staged: RefCell<Buffer>,
    /// The claims that were checked and are locked.
    claims: RefCell<HashSet<(JobId, u64)>>,
    /// The way that the group needs instead of this one.
    needed: Cell<Option<Way>>,
    /// Number of statements that read the study or a trial.
    reads: Cell<u32>,
}

struct ReadStudy {
    id: StudyId,
    /// The transaction that wrote the row of its progress.
    version: String,
}

#[derive(Default)]
struct Buffer {
    study: Option<Study>,
    trials: BTreeMap<TrialId, Version>,
    chunks: Vec<Chunk>,
    /// Whether there is something to write.
    is_changed: bool,
}

struct Version {
    trial: Trial,
    /// How the row is to be written; `None` if it was only read.
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
    /// The records of `connection`. With `is_locked` it is in a transaction, in which the study is locked when it is read.
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

    /// What the last failed statement means for the transaction.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.records.failure()
    }

    /// The way that the group needs; `None` if this one will do.
    pub(super) fn needed(&self) -> Option<Way> {
        self.needed.get()
    }

    /// Whether all that was read is of one time, also if nothing is written.
    pub(super) fn is_of_one_time(&self) -> bool {
        self.is_locked || self.reads.get() <= 1
    }

    /// Keeps or drops what the present change has written.
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

    /// What the group has to write; `None` if nothing.
    pub(super) fn into_writes(self) -> Option<Writes> {
        let Buffer { study, trials, chunks, is_changed } = self.kept.into_inner();
        let (read, study) = self.read.into_inner().zip(study).filter(|_| is_changed)?;
        let progress = Progress { next_trial_id: study.next_trial_id, revision: study.revision };
        Some(Writes { read, progress, trials: trials.into_values().collect(), chunks })
    }

    /// Reads the study, and the trial `trial` with it unless that has to wait for a lock of the study.
    fn read_study(&self, id: &StudyId, trial: Option<TrialId>) -> Result<(), StoreError> {
        let trial = trial.filter(|_| !self.is_locked);
        let statement = match trial {
            _ if self.is_locked => sqlx::query(
                "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc, p.xmin::text
                 FROM studies s JOIN progress p ON p.study = s.id WHERE s.id = $1 FOR UPDATE OF s, p",
            ),
            None => sqlx::query(
                "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc, p.xmin::text
                 FROM studies s JOIN progress p ON p.study = s.id WHERE s.id = $1",
            ),
            Some(_) => sqlx::query(
                "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc, p.xmin::text, t.id, t.revision, t.body, t.crc
                 FROM studies s JOIN progress p ON p.study = s.id LEFT JOIN trials t ON t.study = s.id AND t.id = $2
                 WHERE s.id = $1",
            ),
        };
        let statement = statement.bind(id.as_str().to_owned());
        let statement = match trial {
            Some(trial) => statement.bind(number(trial.0)),
            None => statement,
        };
        self.reads.set(self.reads.get() + 1);
        let row = self.records.get(statement, |row| {
            let has_trial = trial.is_some() && row.try_get::<Option<i64>, _>(6)?.is_some();
            let trial = has_trial.then(|| trial_row(row, 6)).transpose()?;
            Ok((study_row(row)?, row.try_get::<String, _>(5)?, trial))
        })?;
        // Whether it is missing or damaged is found by the other way.
        let Some((study, version, trial)) = row else { return self.leave_to(Way::ByStatement) };
        let mut kept = self.kept.borrow_mut();
        kept.study = Some(self.records.decode_study(id, study)?);
        if let Some(row) = trial {
            let trial = self.records.decode_trial(id, &row)?;
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

    /// Whether `id` is the study of this group; that of another study is left to another way.
    fn is_read(&self, id: &StudyId) -> Result<bool, StoreError> {
        match &*self.read.borrow() {
            Some(read) if read.id != *id => self.leave_to(Way::ByStatement),
            read => Ok(read.is_some()),
        }
    }

    /// Ends this way. The caller runs the group again.
    fn leave_to<T>(&self, way: Way) -> Result<T, StoreError> {
        self.needed.set(Some(way));
        Err(StoreError::NotApplied { operation: "write", source: "it is run again in another way".into() })
    }
}

impl Lookups for BufferedRecords<'_> {
    fn path(&self) -> &Path {
        self.records.place()
    }

    fn job(&self, _id: &JobId) -> Result<Option<Job>, StoreError> {
        self.leave_to(Way::ByStatement)
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
        self.leave_to(Way::ByStatement)
    }
}

impl Changes for BufferedRecords<'_> {
    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        if !self.is_locked {
            return self.leave_to(Way::Locked);
        }
        let claim = (job.clone(), fence);
        if !self.claims.borrow().contains(&claim) {
            self.records.check_claim(job, fence)?;
            self.claims.borrow_mut().insert(claim);
        }
        Ok(())
    }

    fn put_job(&self, _job: &Job) -> Result<(), StoreError> {
        self.leave_to(Way::ByStatement)
    }

    fn remove_job(&self, _id: &JobId) -> Result<(), StoreError> {
        self.leave_to(Way::ByStatement)
    }

    fn put_study(&self, _study: &Study) -> Result<(), StoreError> {
        self.leave_to(Way::ByStatement)
    }

    fn put_progress(&self, study: &Study) -> Result<(), StoreError> {
        let mut staged = self.staged.borrow_mut();
        staged.study = Some(study.clone());
        staged.is_changed = true;
        Ok(())
    }

    fn put_summary(&self, _study: &StudyId, _body: &[u8]) -> Result<(), StoreError> {
        self.leave_to(Way::ByStatement)
    }

    fn put_remains(&self, _study: &StudyId, _next: Option<TrialId>) -> Result<(), StoreError> {
        self.leave_to(Way::ByStatement)
    }

    fn remove_trials(&self, _study: &StudyId, _first: TrialId, _end: TrialId) -> Result<(), StoreError> {
        self.leave_to(Way::ByStatement)
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError> {
        if !self.is_read(study)? {
            return self.leave_to(Way::ByStatement);
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
            return self.leave_to(Way::ByStatement);
        }
        let chunks = encode_chunks(first, measurements).into_iter().map(|(first, body)| {
            let crc = i64::from(checksum(&keys::chunk(study, trial, first), &body));
            Chunk { trial: number(trial.0), first: number(first), body, crc }
        });
        self.staged.borrow_mut().chunks.extend(chunks);
        Ok(())
    }
}

/// What a group of changes writes.
pub(super) struct Writes {
    read: ReadStudy,
    progress: Progress,
    trials: Vec<Version>,
    chunks: Vec<Chunk>,
}

type Statement = Query<'static, Postgres, PgArguments>;

impl Writes {
    /// The statement that makes all changes or none. It returns the number of rows of the writer, and of the study. With
    /// `writer`, the statement is a transaction of its own and sets that number.
    pub(super) fn statement(&self, writer: Option<Writer>) -> Statement {
        let (own, from, counted) = match writer {
            // The row is required to be at the former number, so that nothing is written after the outcome was read.
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

/// The rows of trials with the next six of `parameters`.
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
        .bind(trials.iter().map(|trial| super::records::deadline(trial)).collect::<Vec<Option<i64>>>())
}
