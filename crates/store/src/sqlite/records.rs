//! Records of an SQLite connection.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, ToSql, params_from_iter};

use super::error;
use crate::StoreError;
use crate::decoded_studies::DecodedStudies;
use crate::sql::{Connection, Reader, Row, SqlRecords, Value};

pub(super) type SqliteRecords<'a> = SqlRecords<SqliteConnection<'a>>;

/// A connection within its open transaction; `path` is for messages.
pub(super) struct SqliteConnection<'a> {
    pub(super) connection: &'a rusqlite::Connection,
    pub(super) path: &'a Path,
    pub(super) decoded: &'a DecodedStudies,
}

impl<'a> SqliteConnection<'a> {
    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>, StoreError> {
        self.connection.prepare_cached(sql).map_err(|source| self.failed("prepare a statement", source))
    }

    fn failed(&self, operation: &'static str, source: rusqlite::Error) -> StoreError {
        error::not_applied(self.path, operation, source)
    }
}

impl Connection for SqliteConnection<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn decoded(&self) -> &DecodedStudies {
        self.decoded
    }

    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let done = self.prepare(sql)?.execute(params_from_iter(values));
        done.map(|rows| rows as u64).map_err(|source| self.failed("write", source))
    }

    fn query(&self, sql: &str, values: Vec<Value>, read: &mut Reader<'_>) -> Result<(), StoreError> {
        let failed = |source| self.failed("read", source);
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            read(&SqliteRow { row, path: self.path })?;
        }
        Ok(())
    }
}

struct SqliteRow<'a> {
    row: &'a rusqlite::Row<'a>,
    path: &'a Path,
}

impl SqliteRow<'_> {
    fn get<T: rusqlite::types::FromSql>(&self, column: usize) -> Result<T, StoreError> {
        self.row.get(column).map_err(|source| error::not_applied(self.path, "read", source))
    }
}

impl Row for SqliteRow<'_> {
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
        self.get::<rusqlite::types::Value>(column).map(|value| value == rusqlite::types::Value::Null)
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Number(value) | Self::Optional(Some(value)) => ValueRef::Integer(*value),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Flag(flag) => ValueRef::Integer((*flag).into()),
            Self::Optional(None) => ValueRef::Null,
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}
