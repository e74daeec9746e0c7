//! Records as rows of tables, within an open transaction.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::Path;

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use tokio::runtime::Handle;

use super::error::{self, Failure};
use super::sessions::{ANSWER_TIMEOUT, within};
use crate::decoded_studies::DecodedStudies;
use crate::engine::{Changes, Lookups};
use crate::record::{
    self, Progress, RecordError, checksum, decode_job, decode_trial, encode_chunks, encode_job, encode_study,
    encode_trial,
};
use crate::{StoreError, keys};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// What every transaction of a store uses.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// Runs the statements. The caller is on a thread that may block.
    pub(super) runtime: &'a Handle,
    /// The address of the database, for messages.
    pub(super) place: &'a Path,
    /// Decoded studies.
    pub(super) decoded: &'a DecodedStudies,
}

/// The records of one connection, within its open transaction.
pub(super) struct PostgresRecords<'a> {
    connection: RefCell<&'a mut PgConnection>,
    surroundings: Surroundings<'a>,
    /// Whether lookups lock the rows that they find, and no other transaction changes them until the end of this one.
    locks: bool,
    /// The jobs and studies that a lookup has not found. Adding one that another transaction has added meanwhile is a
    /// conflict, not a replacement.
    absent: RefCell<HashSet<String>>,
    failure: Cell<Option<Failure>>,
    reading: Cell<Reading>,
}

/// In what a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// In a transaction, so that all statements read one state.
    Transaction,
    /// Without a transaction: in one statement.
    OneStatement,
    /// As before, after that statement.
    HasRead,
    /// As before, but another statement was needed.
    NeedsTransaction,
}

pub(super) type Statement = Query<'static, Postgres, PgArguments>;

impl<'a> PostgresRecords<'a> {
    /// The records of `connection` to change them.
    pub(super) fn for_writing(connection: &'a mut PgConnection, surroundings: Surroundings<'a>) -> Self {
        Self::new(connection, surroundings, true, Reading::Transaction)
    }

    /// The records of `connection`, which is in a transaction, to read them.
    pub(super) fn for_reading(connection: &'a mut PgConnection, surroundings: Surroundings<'a>) -> Self {
        Self::new(connection, surroundings, false, Reading::Transaction)
    }

    /// The records of `connection`, which is in no transaction, to read them by one statement.
    pub(super) fn for_one_statement(connection: &'a mut PgConnection, surroundings: Surroundings<'a>) -> Self {
        Self::new(connection, surroundings, false, Reading::OneStatement)
    }

    fn new(connection: &'a mut PgConnection, surroundings: Surroundings<'a>, locks: bool, reading: Reading) -> Self {
        let (absent, failure) = (RefCell::default(), Cell::new(None));
        let (connection, reading) = (RefCell::new(connection), Cell::new(reading));
        Self { connection, surroundings, locks, absent, failure, reading }
    }

    /// What the last failed statement means for the transaction; `None` if none has failed.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.get()
    }

    /// The address of the database, for messages.
    pub(super) fn place(&self) -> &'a Path {
        self.surroundings.place
    }

    fn wait<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, StoreError> {
        let answer = self.surroundings.runtime.block_on(within(ANSWER_TIMEOUT, answer));
        answer.map_err(|source| {
            self.failure.set(Some(Failure::of(&source)));
            error::not_applied(self.place(), operation, source)
        })
    }

    /// Counts a statement, which [`Reading::OneStatement`] refuses unless it is the first.
    fn count_statement(&self) -> Result<(), StoreError> {
        match self.reading.get() {
            Reading::Transaction => Ok(()),
            Reading::OneStatement => {
                self.reading.set(Reading::HasRead);
                Ok(())
            }
            Reading::HasRead | Reading::NeedsTransaction => {
                self.reading.set(Reading::NeedsTransaction);
                Err(StoreError::NotApplied { operation: "read", source: "it is run again in a transaction".into() })
            }
        }
    }

    /// Whether the query has tried to read with more than one statement outside of a transaction.
    pub(super) fn needs_transaction(&self) -> bool {
        self.reading.get() == Reading::NeedsTransaction
    }

    /// Executes a changing statement and returns the number of rows.
    pub(super) fn execute(&self, statement: Statement) -> Result<u64, StoreError> {
        let mut connection = self.connection.borrow_mut();
        let done = async { statement.execute(&mut **connection).await };
        self.wait("write", done).map(|done| done.rows_affected())
    }

    /// Reads at most one row.
    pub(super) fn get<T>(
        &self,
        statement: Statement,
        read: impl FnOnce(&PgRow) -> Result<T, sqlx::Error>,
    ) -> Result<Option<T>, StoreError> {
        self.count_statement()?;
        let mut connection = self.connection.borrow_mut();
        self.wait("read", async {
            let row = statement.fetch_optional(&mut **connection).await?;
            row.map(|row| read(&row)).transpose()
        })
    }

    /// Reads all rows.
    pub(super) fn list<T>(
        &self,
        statement: Statement,
        read: impl FnMut(&PgRow) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, StoreError> {
        self.count_statement()?;
        let mut connection = self.connection.borrow_mut();
        self.wait("read", async {
            let rows = statement.fetch_all(&mut **connection).await?;
            rows.iter().map(read).collect()
        })
    }

    pub(super) fn decode_trial(&self, study: &StudyId, row: &TrialRow) -> Result<Trial, StoreError> {
        let TrialRow { id, revision, body, crc } = row;
        let key = keys::trial(study, TrialId(id.cast_unsigned()));
        let decoded = record::verify(&key, body.as_bytes(), *crc).and_then(|()| decode_trial(body.as_bytes()));
        let of = |error: RecordError| error.of(self.place(), &format!("trial {id} of study {study}"));
        let trial = decoded.map_err(of)?;
        if trial.revision == revision.cast_unsigned() {
            return Ok(trial);
        }
        let detail = format!("it has revision {}, its row has {revision}", trial.revision);
        Err(of(RecordError::Malformed { detail }))
    }

    pub(super) fn decode_study(&self, id: &StudyId, row: StudyRow) -> Result<Study, StoreError> {
        let StudyRow { body, crc, next, revision, progress_crc } = row;
        let decode = move || {
            record::verify(id.as_str().as_bytes(), body.as_bytes(), crc)?;
            self.surroundings.decoded.decode(id, body, progress_of(id, next, revision, progress_crc)?)
        };
        decode().map_err(|error| error.of(self.place(), &format!("study {id}")))
    }

    pub(super) fn decode_job(&self, (id, body, crc): &(String, String, u32)) -> Result<Job, StoreError> {
        let decoded = record::verify(id.as_bytes(), body.as_bytes(), *crc).and_then(|()| decode_job(body.as_bytes()));
        decoded.map_err(|error| error.of(self.place(), &format!("job {id}")))
    }

    fn write_progress(&self, study: &StudyId, progress: Progress) -> Result<(), StoreError> {
        let crc = checksum(study.as_str().as_bytes(), &progress.encode());
        let bind = |sql: &'static str| {
            sqlx::query(sql)
                .bind(study.as_str().to_owned())
                .bind(number(progress.next_trial_id.0))
                .bind(number(progress.revision))
                .bind(i64::from(crc))
        };
        // Nearly every change finds the row.
        let sql = "UPDATE progress SET next_trial_id = $2, revision = $3, crc = $4 WHERE study = $1";
        if self.execute(bind(sql))? == 0 {
            self.execute(bind("INSERT INTO progress (study, next_trial_id, revision, crc) VALUES ($1, $2, $3, $4)"))?;
        }
        Ok(())
    }

    /// Executes `insert` if a lookup has not found the record `id`, else `update`.
    fn put(&self, id: &str, insert: Statement, update: Statement) -> Result<(), StoreError> {
        let is_new = self.absent.borrow_mut().remove(id);
        self.execute(if is_new { insert } else { update }).map(|_| ())
    }
}

/// The row of a trial.
pub(super) struct TrialRow {
    id: i64,
    revision: i64,
    body: String,
    crc: u32,
}

/// Reads the columns `id, revision, body, crc`, the first of which has the number `first`.
pub(super) fn trial_row(row: &PgRow, first: usize) -> Result<TrialRow, sqlx::Error> {
    Ok(TrialRow {
        id: row.try_get(first)?,
        revision: row.try_get(first + 1)?,
        body: row.try_get(first + 2)?,
        crc: crc_of(row, first + 3)?,
    })
}

/// The row of a study with that of its progress.
pub(super) struct StudyRow {
    body: String,
    crc: u32,
    next: i64,
    revision: i64,
    progress_crc: u32,
}

/// Reads the columns `body, crc` of a study, and `next_trial_id, revision, crc` of its progress.
pub(super) fn study_row(row: &PgRow) -> Result<StudyRow, sqlx::Error> {
    Ok(StudyRow {
        body: row.try_get(0)?,
        crc: crc_of(row, 1)?,
        next: row.try_get(2)?,
        revision: row.try_get(3)?,
        progress_crc: crc_of(row, 4)?,
    })
}

/// Reads the columns `id, body, crc`.
pub(super) fn job_row(row: &PgRow) -> Result<(String, String, u32), sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, crc_of(row, 2)?))
}

/// Reads a checksum. A number that is none fails the comparison.
pub(super) fn crc_of(row: &PgRow, index: usize) -> Result<u32, sqlx::Error> {
    Ok(row.try_get::<i64, _>(index)?.cast_unsigned() as u32)
}

/// A number as an integer of the database. Stored numbers are far below the limit; arguments of calls may exceed it.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The progress of study `id` with these columns, if its checksum is right.
pub(super) fn progress_of(id: &StudyId, next: i64, revision: i64, crc: u32) -> Result<Progress, RecordError> {
    let progress = Progress { next_trial_id: TrialId(next.cast_unsigned()), revision: revision.cast_unsigned() };
    record::verify(id.as_str().as_bytes(), &progress.encode(), crc)?;
    Ok(progress)
}

/// The end of the lease of `trial` in microseconds since 1970, rounded up so that no lease is found before its end.
pub(super) fn deadline(trial: &Trial) -> Option<i64> {
    trial.lease.map(|lease| lease.deadline.as_microsecond().saturating_add(1))
}

/// The text of a stored JSON document.
pub(super) fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).expect("JSON is UTF-8")
}

impl Lookups for PostgresRecords<'_> {
    fn path(&self) -> &Path {
        self.place()
    }

    fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        let sql = match self.locks {
            true => "SELECT id, body, crc FROM jobs WHERE id = $1 FOR UPDATE",
            false => "SELECT id, body, crc FROM jobs WHERE id = $1",
        };
        let row = self.get(sqlx::query(sql).bind(id.as_str().to_owned()), job_row)?;
        if row.is_none() {
            self.absent.borrow_mut().insert(format!("job {id}"));
        }
        row.map(|row| self.decode_job(&row)).transpose()
    }

    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError> {
        // Both rows are locked, so that after a wait both are read again: a change of a trial writes only the second.
        let sql = match self.locks {
            true => {
                "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc
                 FROM studies s JOIN progress p ON p.study = s.id WHERE s.id = $1 FOR UPDATE OF s, p"
            }
            false => {
                "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc
                 FROM studies s JOIN progress p ON p.study = s.id WHERE s.id = $1"
            }
        };
        if let Some(row) = self.get(sqlx::query(sql).bind(id.as_str().to_owned()), study_row)? {
            return self.decode_study(id, row).map(Some);
        }
        let alone = sqlx::query("SELECT 1 FROM studies WHERE id = $1").bind(id.as_str().to_owned());
        if self.get(alone, |_| Ok(()))?.is_some() && !self.locks {
            let error = RecordError::Malformed { detail: "its progress is missing".into() };
            return Err(error.of(self.place(), &format!("study {id}")));
        }
        self.absent.borrow_mut().insert(format!("study {id}"));
        Ok(None)
    }

    fn study_and_trial(&self, study: &StudyId, id: TrialId) -> Result<(Option<Study>, Option<Trial>), StoreError> {
        // With locks, the trial is read after the lock of the study was waited for.
        let found = if self.locks { None } else { self.read_study_and_trial(study, id)? };
        match found {
            Some((study, trial)) => Ok((Some(study), trial)),
            None => Ok((self.study(study)?, self.trial(study, id)?)),
        }
    }

    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = $1 AND id = $2";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(id.0));
        let row = self.get(statement, |row| trial_row(row, 0))?;
        row.map(|row| self.decode_trial(study, &row)).transpose()
    }

    fn remains(&self, id: &StudyId) -> Result<Option<TrialId>, StoreError> {
        let sql = match self.locks {
            true => "SELECT next_trial_id, revision, crc FROM progress WHERE study = $1 FOR UPDATE",
            false => "SELECT next_trial_id, revision, crc FROM progress WHERE study = $1",
        };
        let row = self.get(sqlx::query(sql).bind(id.as_str().to_owned()), |row| {
            Ok((row.try_get(0)?, row.try_get(1)?, crc_of(row, 2)?))
        })?;
        let Some((next, revision, crc)) = row else { return Ok(None) };
        let progress = progress_of(id, next, revision, crc);
        let progress = progress.map_err(|error| error.of(self.place(), &format!("the progress of study {id}")))?;
        Ok(progress.remains())
    }
}

impl Changes for PostgresRecords<'_> {
    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        let sql = "SELECT 1 FROM claims WHERE job = $1 AND fence = $2 FOR SHARE";
        let statement = sqlx::query(sql).bind(job.as_str().to_owned()).bind(number(fence));
        match self.get(statement, |_| Ok(()))? {
            Some(()) => Ok(()),
            None => Err(StoreError::NotOwner { job: job.clone() }),
        }
    }

    fn put_job(&self, job: &Job) -> Result<(), StoreError> {
        let body = encode_job(job);
        let crc = checksum(job.id.as_str().as_bytes(), &body);
        let body = text(body);
        let bind = |sql: &'static str| {
            sqlx::query(sql)
                .bind(job.id.as_str().to_owned())
                .bind(job.state.to_string())
                .bind(body.clone())
                .bind(i64::from(crc))
        };
        self.put(
            &format!("job {}", job.id),
            bind("INSERT INTO jobs (id, state, body, crc) VALUES ($1, $2, $3, $4)"),
            bind("UPDATE jobs SET state = $2, body = $3, crc = $4 WHERE id = $1"),
        )
    }

    fn remove_job(&self, id: &JobId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM jobs WHERE id = $1",
            "DELETE FROM claims WHERE job = $1",
            "UPDATE job_folders SET is_deleted = true WHERE job = $1",
        ] {
            self.execute(sqlx::query(sql).bind(id.as_str().to_owned()))?;
        }
        let sql = "DELETE FROM documents WHERE kind = 'secret' AND name = $1";
        self.execute(sqlx::query(sql).bind(id.as_str().to_owned())).map(|_| ())
    }

    fn put_study(&self, study: &Study) -> Result<(), StoreError> {
        let (body, _) = encode_study(study);
        let crc = checksum(study.id.as_str().as_bytes(), &body);
        let body = text(body);
        let bind = |sql: &'static str| {
            sqlx::query(sql).bind(study.id.as_str().to_owned()).bind(body.clone()).bind(i64::from(crc))
        };
        self.put(
            &format!("study {}", study.id),
            bind("INSERT INTO studies (id, body, crc) VALUES ($1, $2, $3)"),
            bind("UPDATE studies SET body = $2, crc = $3 WHERE id = $1"),
        )?;
        self.put_progress(study)
    }

    fn put_progress(&self, study: &Study) -> Result<(), StoreError> {
        self.write_progress(&study.id, Progress { next_trial_id: study.next_trial_id, revision: study.revision })
    }

    fn put_summary(&self, study: &StudyId, body: &[u8]) -> Result<(), StoreError> {
        let crc = checksum(study.as_str().as_bytes(), body);
        let sql = "INSERT INTO summaries (study, body, crc) VALUES ($1, $2, $3)
                   ON CONFLICT (study) DO UPDATE SET body = excluded.body, crc = excluded.crc";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(body.to_vec()).bind(i64::from(crc));
        self.execute(statement).map(|_| ())
    }

    fn put_remains(&self, study: &StudyId, next: Option<TrialId>) -> Result<(), StoreError> {
        for sql in ["DELETE FROM studies WHERE id = $1", "DELETE FROM summaries WHERE study = $1"] {
            self.execute(sqlx::query(sql).bind(study.as_str().to_owned()))?;
        }
        match next {
            Some(next) => self.write_progress(study, Progress::of_deleted(next)),
            None => {
                let sql = "DELETE FROM progress WHERE study = $1";
                self.execute(sqlx::query(sql).bind(study.as_str().to_owned())).map(|_| ())
            }
        }
    }

    fn remove_trials(&self, study: &StudyId, first: TrialId, end: TrialId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM measurements WHERE study = $1 AND trial >= $2 AND trial < $3",
            "DELETE FROM trials WHERE study = $1 AND id >= $2 AND id < $3",
        ] {
            let statement = sqlx::query(sql).bind(study.as_str().to_owned());
            self.execute(statement.bind(number(first.0)).bind(number(end.0)))?;
        }
        Ok(())
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError> {
        let body = encode_trial(trial);
        let crc = checksum(&keys::trial(study, trial.id), &body);
        let sql = match replaces {
            None => {
                "INSERT INTO trials (study, id, revision, body, crc, open, deadline)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)"
            }
            Some(_) => {
                "UPDATE trials SET revision = $3, body = $4, crc = $5, open = $6, deadline = $7
                 WHERE study = $1 AND id = $2"
            }
        };
        let statement = sqlx::query(sql)
            .bind(study.as_str().to_owned())
            .bind(number(trial.id.0))
            .bind(number(trial.revision))
            .bind(text(body))
            .bind(i64::from(crc))
            .bind(!trial.state.is_final())
            .bind(deadline(trial));
        self.execute(statement).map(|_| ())
    }

    fn add_measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        first: u64,
        measurements: &[Measurement],
    ) -> Result<(), StoreError> {
        for (first, body) in encode_chunks(first, measurements) {
            let crc = checksum(&keys::chunk(study, trial, first), &body);
            let sql = "INSERT INTO measurements (study, trial, first, body, crc) VALUES ($1, $2, $3, $4, $5)";
            let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(trial.0));
            self.execute(statement.bind(number(first)).bind(body).bind(i64::from(crc)))?;
        }
        Ok(())
    }
}
