//! Records as table rows, for every engine with an SQL connection.
//!
//! Statements are written for SQLite, with `?1` parameters and `INDEXED BY` hints; connections translate them to their
//! dialect.

mod changes;
mod ranges;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;

use crate::decoded_studies::DecodedStudies;
use crate::engine::Lookups;
use crate::record::{self, Progress, RecordError, decode_job, decode_trial};
use crate::{StoreError, keys};
use tunesmith_domain::{IdError, Job, JobId, Study, StudyId, Trial, TrialId};

#[cfg(feature = "postgres")]
pub(crate) use changes::{deadline, text};

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
    Bytes(Vec<u8>),
    Flag(bool),
    Optional(Option<i64>),
}

macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::sql::Value::from($value)),*] };
}
pub(crate) use values;

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&StudyId> for Value {
    fn from(study: &StudyId) -> Self {
        Self::from(study.as_str())
    }
}

impl From<&JobId> for Value {
    fn from(job: &JobId) -> Self {
        Self::from(job.as_str())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(number(value))
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl From<TrialId> for Value {
    fn from(id: TrialId) -> Self {
        Self::from(id.0)
    }
}

impl From<u32> for Value {
    fn from(checksum: u32) -> Self {
        Self::Number(checksum.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Optional(value)
    }
}

/// A number as a database integer. Stored numbers are far below the limit; call arguments may exceed it.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Result row; columns are counted from 0.
pub(crate) trait Row {
    fn text(&self, column: usize) -> Result<String, StoreError>;
    fn number(&self, column: usize) -> Result<i64, StoreError>;
    fn bytes(&self, column: usize) -> Result<Vec<u8>, StoreError>;
    fn is_null(&self, column: usize) -> Result<bool, StoreError>;

    /// A checksum; a non-numeric value fails the comparison.
    fn checksum(&self, column: usize) -> Result<u32, StoreError> {
        Ok(self.number(column)?.cast_unsigned() as u32)
    }
}

pub(crate) type Reader<'r> = dyn FnMut(&dyn Row) -> Result<(), StoreError> + 'r;

/// A connection within an open transaction.
pub(crate) trait Connection {
    /// File or address, for messages.
    fn path(&self) -> &Path;

    fn decoded(&self) -> &DecodedStudies;

    /// Executes a changing statement; returns the number of rows.
    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError>;

    /// Passes each result row to `read`.
    fn query(&self, sql: &str, values: Vec<Value>, read: &mut Reader<'_>) -> Result<(), StoreError>;

    /// Whether lookups lock the rows found until the end of the transaction.
    fn locks(&self) -> bool {
        false
    }

    #[cfg(feature = "postgres")]
    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        let _ = (job, fence);
        Ok(())
    }

    /// Removes the shared data of a deleted job.
    fn remove_shared(&self, job: &JobId) -> Result<(), StoreError> {
        let _ = job;
        Ok(())
    }

    /// Whether one statement can read a study with its trials ([`SqlRecords::read_study_and_trial`] and others), which
    /// saves a round trip.
    fn combines(&self) -> bool {
        false
    }
}

pub(crate) struct SqlRecords<C> {
    pub(crate) connection: C,
    /// Jobs and studies not found by lookups. Adding one that another transaction added meanwhile is a conflict, not a
    /// replacement.
    absent: RefCell<HashSet<String>>,
}

impl<C: Connection> SqlRecords<C> {
    pub(crate) fn new(connection: C) -> Self {
        Self { connection, absent: RefCell::default() }
    }

    pub(crate) fn get<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: impl FnMut(&dyn Row) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.list(sql, values, read)?.pop())
    }

    pub(crate) fn list<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        mut read: impl FnMut(&dyn Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        self.connection.query(sql, values, &mut |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<(), StoreError> {
        self.connection.execute(sql, values).map(|_| ())
    }

    fn error(&self, error: RecordError, resource: impl Display) -> StoreError {
        error.of(self.connection.path(), &resource.to_string())
    }

    fn malformed(&self, detail: impl Display, resource: impl Display) -> StoreError {
        self.error(RecordError::Malformed { detail: detail.to_string() }, resource)
    }

    fn parse_study(&self, text: &str) -> Result<StudyId, StoreError> {
        text.parse().map_err(|error: IdError| self.malformed(error, format_args!("study {text}")))
    }

    /// Trial from the columns `id, revision, body, crc`, starting at `first`.
    pub(crate) fn trial_of(&self, study: &StudyId, row: &dyn Row, first: usize) -> Result<Trial, StoreError> {
        let (id, revision) = (row.number(first)?, row.number(first + 1)?.cast_unsigned());
        let (body, crc) = (row.text(first + 2)?, row.checksum(first + 3)?);
        let resource = format_args!("trial {id} of study {study}").to_string();
        let key = keys::trial(study, TrialId(id.cast_unsigned()));
        let decoded = record::verify(&key, body.as_bytes(), crc).and_then(|()| decode_trial(body.as_bytes()));
        let trial = decoded.map_err(|error| self.error(error, &resource))?;
        if trial.revision == revision {
            return Ok(trial);
        }
        Err(self.malformed(format_args!("it has revision {}, its row has {revision}", trial.revision), resource))
    }

    /// As [`Self::trial_of`], if present.
    pub(crate) fn optional_trial_of(
        &self,
        study: &StudyId,
        row: &dyn Row,
        first: usize,
    ) -> Result<Option<Trial>, StoreError> {
        if row.is_null(first)? { Ok(None) } else { self.trial_of(study, row, first).map(Some) }
    }

    /// Study from the columns `body, crc, next_trial_id, revision, crc`, the last three being its progress.
    pub(crate) fn study_of(&self, id: &StudyId, row: &dyn Row) -> Result<Study, StoreError> {
        let (body, crc, progress) = (row.text(0)?, row.checksum(1)?, self.progress_of(id, row, 2)?);
        record::verify(id.as_str().as_bytes(), body.as_bytes(), crc)
            .and_then(|()| self.connection.decoded().decode(id, body, progress))
            .map_err(|error| self.error(error, format_args!("study {id}")))
    }

    /// Progress from the columns `next_trial_id, revision, crc`, starting at `first`; verifies the checksum.
    pub(crate) fn progress_of(&self, id: &StudyId, row: &dyn Row, first: usize) -> Result<Progress, StoreError> {
        let (next, revision) = (row.number(first)?, row.number(first + 1)?);
        let progress = Progress { next_trial_id: TrialId(next.cast_unsigned()), revision: revision.cast_unsigned() };
        record::verify(id.as_str().as_bytes(), &progress.encode(), row.checksum(first + 2)?)
            .map_err(|error| self.error(error, format_args!("the progress of study {id}")))?;
        Ok(progress)
    }

    /// Job from the columns `id, body, crc`.
    pub(crate) fn job_of(&self, row: &dyn Row) -> Result<Job, StoreError> {
        let (id, body, crc) = (row.text(0)?, row.text(1)?, row.checksum(2)?);
        let decoded = record::verify(id.as_bytes(), body.as_bytes(), crc).and_then(|()| decode_job(body.as_bytes()));
        decoded.map_err(|error| self.error(error, format_args!("job {id}")))
    }

    /// Appends a row lock to `sql` if lookups lock.
    fn locking(&self, sql: &str, lock: &str) -> String {
        if self.connection.locks() { format!("{sql} {lock}") } else { sql.to_owned() }
    }

    /// Study and trial by one statement; `None` without the study.
    pub(crate) fn read_study_and_trial(
        &self,
        study: &StudyId,
        id: TrialId,
    ) -> Result<Option<(Study, Option<Trial>)>, StoreError> {
        let sql = "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc, t.id, t.revision, t.body, t.crc
                   FROM studies s JOIN progress p ON p.study = s.id LEFT JOIN trials t ON t.study = s.id AND t.id = ?2
                   WHERE s.id = ?1";
        self.get(sql, values![study, id], |row| {
            Ok((self.study_of(study, row)?, self.optional_trial_of(study, row, 5)?))
        })
    }
}

impl<C: Connection> Lookups for SqlRecords<C> {
    fn path(&self) -> &Path {
        self.connection.path()
    }

    fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        let sql = self.locking("SELECT id, body, crc FROM jobs WHERE id = ?1", "FOR UPDATE");
        let job = self.get(&sql, values![id], |row| self.job_of(row))?;
        if job.is_none() {
            self.absent.borrow_mut().insert(format!("job {id}"));
        }
        Ok(job)
    }

    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError> {
        // Locks both rows, so that both are reread after a wait: changing a trial writes only the second.
        let sql = self.locking(
            "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc
             FROM studies s JOIN progress p ON p.study = s.id WHERE s.id = ?1",
            "FOR UPDATE OF s, p",
        );
        if let Some(study) = self.get(&sql, values![id], |row| self.study_of(id, row))? {
            return Ok(Some(study));
        }
        let alone = self.get("SELECT 1 FROM studies WHERE id = ?1", values![id], |_| Ok(()))?;
        if alone.is_some() && !self.connection.locks() {
            return Err(self.malformed("its progress is missing", format_args!("study {id}")));
        }
        self.absent.borrow_mut().insert(format!("study {id}"));
        Ok(None)
    }

    fn study_and_trial(&self, study: &StudyId, id: TrialId) -> Result<(Option<Study>, Option<Trial>), StoreError> {
        if self.connection.combines()
            && let Some((study, trial)) = self.read_study_and_trial(study, id)?
        {
            return Ok((Some(study), trial));
        }
        Ok((self.study(study)?, self.trial(study, id)?))
    }

    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = ?1 AND id = ?2";
        self.get(sql, values![study, id], |row| self.trial_of(study, row, 0))
    }

    fn remains(&self, id: &StudyId) -> Result<Option<TrialId>, StoreError> {
        let sql = self.locking("SELECT next_trial_id, revision, crc FROM progress WHERE study = ?1", "FOR UPDATE");
        let progress = self.get(&sql, values![id], |row| self.progress_of(id, row, 0))?;
        Ok(progress.and_then(Progress::remains))
    }
}
