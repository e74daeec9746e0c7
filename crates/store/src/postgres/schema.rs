//! Tables, their versions and migrations.
//!
//! Servers of two versions may use one database while they are replaced one after the other. A step therefore only adds:
//! servers of the version before continue to work. A step that removes something raises `readable_from`, and is released
//! only after a version that does not need it.

use std::path::Path;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};

use crate::{OpenMode, RESTORE_ADVICE, StoreError};

/// The steps from an empty database to the newest schema. A released step never changes; new steps are appended.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("migrations/0001_records.sql"), readable_from: 1 },
    Migration { sql: include_str!("migrations/0002_sharing.sql"), readable_from: 1 },
    Migration { sql: include_str!("migrations/0003_servers.sql"), readable_from: 1 },
    Migration { sql: include_str!("migrations/0004_relay.sql"), readable_from: 1 },
    Migration { sql: include_str!("migrations/0005_summaries.sql"), readable_from: 1 },
];

/// The key of the advisory lock that a migration holds: `TnSm`.
const LOCK: i64 = 0x546e_536d;

struct Migration {
    sql: &'static str,
    /// The oldest schema version whose programs work with the result.
    readable_from: u32,
}

/// Creates or migrates the tables in one transaction.
///
/// # Errors
/// [`StoreError::TooNew`]; [`StoreError::Damaged`] for tables of another program, and in [`OpenMode::Existing`] for missing
/// ones; [`sqlx::Error`] otherwise.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    place: &Path,
    mode: OpenMode,
) -> Result<Result<(), StoreError>, sqlx::Error> {
    let known = MIGRATIONS.len() as u32;
    match version(connection).await? {
        Some(found) if found.version >= known => return Ok(found.check(place)),
        None if mode == OpenMode::Existing => {
            let detail = format!("its tables are missing; {RESTORE_ADVICE}");
            return Ok(Err(StoreError::Damaged { path: place.to_owned(), detail }));
        }
        Some(_) | None => {}
    }
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    // Another server may have migrated meanwhile.
    let found = version(&mut transaction).await?;
    if let Some(found) = found
        && found.version >= known
    {
        transaction.rollback().await?;
        return Ok(found.check(place));
    }
    if found.is_none() && is_of_another_program(&mut transaction).await? {
        transaction.rollback().await?;
        let detail = "it has tables of another program named jobs, studies or trials; use an empty database".to_owned();
        return Ok(Err(StoreError::Damaged { path: place.to_owned(), detail }));
    }
    let from = found.map_or(0, |found| found.version);
    tracing::info!(store.path = %place.display(), from, to = known, "migrating the tables");
    for migration in MIGRATIONS.iter().skip(from as usize) {
        sqlx::raw_sql(migration.sql).execute(&mut *transaction).await?;
    }
    let readable_from = MIGRATIONS.iter().map(|migration| migration.readable_from).max().unwrap_or(1);
    let sql = "UPDATE schema_version SET version = $1, readable_from = $2 WHERE singleton = 0";
    sqlx::query(sql).bind(i64::from(known)).bind(i64::from(readable_from)).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(Ok(()))
}

/// The random ID that the database got with its tables.
pub(super) async fn identity(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    let row =
        sqlx::query("SELECT identity::text FROM schema_version WHERE singleton = 0").fetch_one(connection).await?;
    row.try_get(0)
}

/// Reports settings of the server with which acknowledged changes may be lost. A session cannot change them.
pub(super) async fn check_durability(connection: &mut PgConnection, place: &Path) -> Result<(), sqlx::Error> {
    for (setting, effect) in [
        ("fsync", "acknowledged changes are lost in a crash of the operating system"),
        ("full_page_writes", "pages may be torn in a crash of the operating system"),
    ] {
        let sql = AssertSqlSafe(format!("SHOW {setting}"));
        let row = sqlx::query(sql).fetch_one(&mut *connection).await?;
        if row.try_get::<&str, _>(0)? == "off" {
            tracing::warn!(store.path = %place.display(), "the database has {setting}=off: {effect}");
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Found {
    version: u32,
    readable_from: u32,
}

impl Found {
    fn check(self, place: &Path) -> Result<(), StoreError> {
        let known = MIGRATIONS.len() as u32;
        if self.readable_from > known {
            return Err(StoreError::TooNew { path: place.to_owned(), found: self.version, known });
        }
        Ok(())
    }
}

/// The version of the tables; `None` if there are none.
async fn version(connection: &mut PgConnection) -> Result<Option<Found>, sqlx::Error> {
    if !has_table(connection, &["schema_version"]).await? {
        return Ok(None);
    }
    let row = sqlx::query("SELECT version, readable_from FROM schema_version WHERE singleton = 0")
        .fetch_one(&mut *connection)
        .await?;
    let number = |index| row.try_get::<i64, usize>(index).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Ok(Some(Found { version: number(0)?, readable_from: number(1)? }))
}

async fn is_of_another_program(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    has_table(connection, &["jobs", "studies", "trials"]).await
}

/// Whether one of the tables `names` exists. Reads the catalogue as of this statement: `to_regclass` may use a cache from
/// before the lock of a migration was taken.
async fn has_table(connection: &mut PgConnection, names: &[&str]) -> Result<bool, sqlx::Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables
               WHERE tablename = ANY ($1) AND schemaname = ANY (current_schemas(false)))";
    sqlx::query(sql).bind(names).fetch_one(connection).await?.try_get(0)
}
