//! Records of a PostgreSQL session.

use std::cell::{Cell, RefCell};
use std::path::Path;

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Decode, Postgres, Type};
use tokio::runtime::Handle;

use super::error::{self, Failure};
use super::sessions::{ANSWER_TIMEOUT, within};
use crate::StoreError;
use crate::decoded_studies::DecodedStudies;
use crate::sql::{Connection, Reader, Row, SqlRecords, Value, values};
use tunesmith_domain::JobId;

pub(super) type Statement = Query<'static, Postgres, PgArguments>;

#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// Runs the statements; the caller's thread may block.
    pub(super) runtime: &'a Handle,
    pub(super) place: &'a Path,
    pub(super) decoded: &'a DecodedStudies,
}

pub(super) type PostgresRecords<'a> = SqlRecords<PostgresConnection<'a>>;

/// A connection within its open transaction.
pub(super) struct PostgresConnection<'a> {
    connection: RefCell<&'a mut PgConnection>,
    surroundings: Surroundings<'a>,
    /// Whether lookups lock the rows found until the end of the transaction.
    locks: bool,
    failure: Cell<Option<Failure>>,
    reading: Cell<Reading>,
}

/// Read mode of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Within a transaction, for a consistent snapshot.
    Transaction,
    /// A single statement, without a transaction.
    OneStatement,
    /// As before, after that statement.
    HasRead,
    /// As before, but another statement was required.
    NeedsTransaction,
}

impl<'a> PostgresRecords<'a> {
    pub(super) fn for_writing(connection: &'a mut PgConnection, surroundings: Surroundings<'a>) -> Self {
        Self::of(connection, surroundings, true, Reading::Transaction)
    }

    /// Reads within an open transaction.
    pub(super) fn for_reading(connection: &'a mut PgConnection, surroundings: Surroundings<'a>) -> Self {
        Self::of(connection, surroundings, false, Reading::Transaction)
    }

    /// Reads by a single statement, outside any transaction.
    pub(super) fn for_one_statement(connection: &'a mut PgConnection, surroundings: Surroundings<'a>) -> Self {
        Self::of(connection, surroundings, false, Reading::OneStatement)
    }

    fn of(connection: &'a mut PgConnection, surroundings: Surroundings<'a>, locks: bool, reading: Reading) -> Self {
        let (connection, reading) = (RefCell::new(connection), Cell::new(reading));
        Self::new(PostgresConnection { connection, surroundings, locks, failure: Cell::new(None), reading })
    }

    /// Effect of the last failed statement on the transaction; `None` without a failure.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.connection.failure.get()
    }

    /// Whether the query attempted a second statement outside a transaction.
    pub(super) fn needs_transaction(&self) -> bool {
        self.connection.reading.get() == Reading::NeedsTransaction
    }
}

impl PostgresConnection<'_> {
    fn wait<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, StoreError> {
        let answer = self.surroundings.runtime.block_on(within(ANSWER_TIMEOUT, answer));
        answer.map_err(|source| {
            self.failure.set(Some(Failure::of(&source)));
            error::not_applied(self.surroundings.place, operation, source)
        })
    }

    /// Counts a statement; [`Reading::OneStatement`] refuses all but the first.
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
}

impl Connection for PostgresConnection<'_> {
    fn path(&self) -> &Path {
        self.surroundings.place
    }

    fn decoded(&self) -> &DecodedStudies {
        self.surroundings.decoded
    }

    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let mut connection = self.connection.borrow_mut();
        let done = self.wait("write", statement(sql, values).execute(&mut **connection));
        done.map(|done| done.rows_affected())
    }

    fn query(&self, sql: &str, values: Vec<Value>, read: &mut Reader<'_>) -> Result<(), StoreError> {
        self.count_statement()?;
        let mut connection = self.connection.borrow_mut();
        let rows = self.wait("read", statement(sql, values).fetch_all(&mut **connection))?;
        rows.iter().try_for_each(|row| read(&PostgresRow { row, place: self.path() }))
    }

    fn locks(&self) -> bool {
        self.locks
    }

    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        let sql = "SELECT 1 FROM claims WHERE job = ?1 AND fence = ?2 FOR SHARE";
        let mut is_held = false;
        self.query(sql, values![job, fence], &mut |_| {
            is_held = true;
            Ok(())
        })?;
        if is_held { Ok(()) } else { Err(StoreError::NotOwner { job: job.clone() }) }
    }

    fn remove_shared(&self, job: &JobId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM claims WHERE job = ?1",
            "UPDATE job_folders SET is_deleted = true WHERE job = ?1",
            "DELETE FROM documents WHERE kind = 'secret' AND name = ?1",
        ] {
            self.execute(sql, values![job])?;
        }
        Ok(())
    }

    fn combines(&self) -> bool {
        // With locks, a trial must be read after the lock on the study was acquired.
        !self.locks
    }
}

/// Translates `sql` to PostgreSQL: `$1` parameters, no hints.
pub(super) fn statement(sql: &str, values: Vec<Value>) -> Statement {
    let mut sql = sql.replace('?', "$");
    if let Some((before, hint)) = sql.split_once(" INDEXED BY ")
        && let Some((_, after)) = hint.split_once(char::is_whitespace)
    {
        sql = format!("{before} {after}");
    }
    values.into_iter().fold(sqlx::query(AssertSqlSafe(sql)), |statement, value| match value {
        Value::Text(text) => statement.bind(text),
        Value::Number(value) => statement.bind(value),
        Value::Bytes(bytes) => statement.bind(bytes),
        Value::Flag(flag) => statement.bind(flag),
        Value::Optional(value) => statement.bind(value),
    })
}

/// A row, with the database address for messages.
pub(super) struct PostgresRow<'a> {
    pub(super) row: &'a PgRow,
    pub(super) place: &'a Path,
}

impl<'a> PostgresRow<'a> {
    pub(super) fn get<T: Decode<'a, Postgres> + Type<Postgres>>(&self, column: usize) -> Result<T, StoreError> {
        let value = sqlx::Row::try_get(self.row, column);
        value.map_err(|source| error::not_applied(self.place, "read", source))
    }
}

impl Row for PostgresRow<'_> {
    fn text(&self, column: usize) -> Result<String, StoreError> {
        self.get(column)
    }

    fn number(&self, column: usize) -> Result<i64, StoreError> {
        self.get(column)
    }

    fn bytes(&self, column: usize) -> Result<Vec<u8>, StoreError> {
        self.get(column)
    }

    fn is_null(&self, column: usize) -> Result<bool, StoreError> {
        self.get::<Option<i64>>(column).map(|value| value.is_none())
    }
}
