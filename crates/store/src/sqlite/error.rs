//! Conversion of SQLite errors to store errors.

use std::path::Path;

use rusqlite::{Error, ErrorCode};

use super::recovery;
use crate::{RESTORE_ADVICE, StoreError};

pub(super) fn not_applied(path: &Path, operation: &'static str, source: Error) -> StoreError {
    if is_damage(&source) {
        return StoreError::Damaged { path: path.to_owned(), detail: format!("{source}; {RESTORE_ADVICE}") };
    }
    if let Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen) =
        source.sqlite_error_code()
    {
        return StoreError::NotApplied { operation, source: Box::new(recovery::fault_of(path, &source)) };
    }
    StoreError::NotApplied { operation, source: Box::new(source) }
}

fn is_damage(error: &Error) -> bool {
    match error {
        // `Unknown` is a missing table or column, whose existence the schema version guarantees.
        Error::SqliteFailure(failure, _) | Error::SqlInputError { error: failure, .. } => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
        }
        Error::InvalidColumnType(..)
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..) => true,
        _ => false,
    }
}
