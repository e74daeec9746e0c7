//! Conversion of database errors to store errors.

use std::path::Path;

use sqlx::error::Error;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use super::address::DatabaseAddress;
use crate::{RESTORE_ADVICE, StoreError, StoreFault};

/// Effect of a failed statement on its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Conflict with another transaction, rolled back; a retry may succeed.
    Conflict,
    /// The connection is lost, and with it the transaction unless it was committing.
    Lost,
    /// The statement failed, and would fail again.
    Statement,
}

impl Failure {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::Database(_) => match code(error) {
                // Serialization failure, deadlock, and a record added concurrently by another transaction.
                "40001" | "40P01" | "23505" => Self::Conflict,
                _ if is_fatal(error) => Self::Lost,
                _ => Self::Statement,
            },
            Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed | Error::BeginFailed => Self::Lost,
            _ => Self::Statement,
        }
    }
}

/// Error of a transaction that conflicted on every attempt.
#[derive(Debug, thiserror::Error)]
#[error("the change met other changes {attempts} times; try again")]
pub(super) struct Contended {
    pub(super) attempts: u32,
}

/// Why a database is unusable, with advice.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {detail}")]
pub(super) struct Unusable {
    pub(super) place: String,
    pub(super) detail: String,
}

pub(super) fn unusable(address: &DatabaseAddress, source: &Error) -> StoreError {
    let (user, database) = (address.user(), address.database());
    let detail = match code(source) {
        "28P01" | "28000" => format!(
            "{}; give the password of {user} in PGPASSWORD, in the file that PGPASSFILE names, or with \
             --store-password-file",
            message(source)
        ),
        "3D000" => format!("there is no database {database}; create it with `createdb --owner={user} {database}`"),
        "42501" => {
            format!("{}; the user needs to create tables: `ALTER DATABASE {database} OWNER TO {user}`", message(source))
        }
        "57P03" => format!("{}; try again when it is ready", message(source)),
        "53300" => format!("{}; raise max_connections, or run fewer servers", message(source)),
        "" if Failure::of(source) == Failure::Lost => format!(
            "the database cannot be reached: {}; check that it runs, and the host and port of --store",
            message(source)
        ),
        _ => message(source),
    };
    StoreError::NotApplied {
        operation: "open the database",
        source: Box::new(Unusable { place: address.to_string(), detail }),
    }
}

pub(super) fn not_applied(place: &Path, operation: &'static str, source: Error) -> StoreError {
    match code(&source) {
        // Corrupted data or index, missing table, missing column.
        "XX001" | "XX002" | "42P01" | "42703" => {
            let detail = format!("{}; {RESTORE_ADVICE}", message(&source));
            StoreError::Damaged { path: place.to_owned(), detail }
        }
        _ => match fault_of(&source) {
            Some(fault) => StoreError::NotApplied { operation, source: Box::new(fault) },
            None => StoreError::NotApplied { operation, source: Box::new(source) },
        },
    }
}

/// Fault of the whole database, if `error` indicates one.
pub(super) fn fault_of(error: &Error) -> Option<StoreFault> {
    match code(error) {
        "53100" => Some(StoreFault::NoSpace),
        "25006" => Some(StoreFault::Failed { detail: "the database is read-only, as a standby is".to_owned() }),
        "53300" => Some(StoreFault::Failed { detail: "the database has no connection left".to_owned() }),
        _ if Failure::of(error) == Failure::Lost => Some(unreachable(error)),
        _ => None,
    }
}

pub(super) fn unreachable(error: &Error) -> StoreFault {
    StoreFault::Failed { detail: format!("the database cannot be reached: {}", message(error)) }
}

/// Message of the database or the system, without the driver's prefixes.
pub(super) fn message(error: &Error) -> String {
    match error {
        Error::Database(error) => error.message().to_owned(),
        Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// SQLSTATE code; empty for other errors.
pub(super) fn code(error: &Error) -> &str {
    error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
        .map_or("", |error| error.code())
}

/// Whether the database closed the session with `error`.
fn is_fatal(error: &Error) -> bool {
    let error = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}
