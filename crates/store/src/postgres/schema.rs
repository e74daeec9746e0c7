//! Tables, schema versions and migrations.
//!
//! During a rolling upgrade, servers of two versions share a database. Migrations are therefore additive, and the
//! previous version keeps working. A migration that removes something raises `readable_from`, and is released only
//! after a version that does not need it.

use std::path::Path;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};

use crate::{OpenMode, RESTORE_ADVICE, StoreError};

/// Migrations from an empty database to the newest schema. Released ones never change; new ones are appended.
const MIGRATIONS: &[Migration] = &[Migration { sql: include_str!("schema/1_0.1.0.sql"), readable_from: 1 }];

/// Table with the schema version, and its counterpart before 0.1.0.
const VERSION_TABLE: &str = "tunesmith_schema";
const VERSION_TABLE_BEFORE_RELEASE: &str = "schema_version";

/// Advisory lock held by a migration: `TnSm`.
const LOCK: i64 = 0x546e_536d;

struct Migration {
    sql: &'static str,
    /// Oldest schema version whose programs work with the result.
    readable_from: u32,
}

/// Creates or migrates the tables in one transaction.
///
/// # Errors
/// [`StoreError::TooNew`], [`StoreError::BeforeRelease`]; [`StoreError::Damaged`] for tables of another program, and in
/// [`OpenMode::Existing`] for missing ones; [`sqlx::Error`] otherwise.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    place: &Path,
    mode: OpenMode,
) -> Result<Result<(), StoreError>, sqlx::Error> {
    let known = MIGRATIONS.len() as u32;
    match version(connection).await? {
        Some(found) if found.version >= known => return Ok(found.check(place)),
        None if has_table(connection, &[VERSION_TABLE_BEFORE_RELEASE]).await? => {
            let found = format!("the table {VERSION_TABLE_BEFORE_RELEASE}");
            return Ok(Err(StoreError::BeforeRelease { path: place.to_owned(), found }));
        }
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
    let sql = "UPDATE tunesmith_schema SET version = $1, readable_from = $2 WHERE singleton = 0";
    sqlx::query(sql).bind(i64::from(known)).bind(i64::from(readable_from)).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(Ok(()))
}

/// Random database ID, created with the tables.
pub(super) async fn identity(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    let row =
        sqlx::query("SELECT identity::text FROM tunesmith_schema WHERE singleton = 0").fetch_one(connection).await?;
    row.try_get(0)
}

/// Warns of server settings that may lose acknowledged changes and that a session cannot override.
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

/// Version of the tables; `None` if there are none.
async fn version(connection: &mut PgConnection) -> Result<Option<Found>, sqlx::Error> {
    if !has_table(connection, &[VERSION_TABLE]).await? {
        return Ok(None);
    }
    let row = sqlx::query("SELECT version, readable_from FROM tunesmith_schema WHERE singleton = 0")
        .fetch_one(&mut *connection)
        .await?;
    let number = |index| row.try_get::<i64, usize>(index).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Ok(Some(Found { version: number(0)?, readable_from: number(1)? }))
}

async fn is_of_another_program(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    has_table(connection, &["jobs", "studies", "trials"]).await
}

/// Whether any of the tables `names` exists. Queries the catalogue as of this statement: `to_regclass` may use a cache
/// that predates the migration lock.
async fn has_table(connection: &mut PgConnection, names: &[&str]) -> Result<bool, sqlx::Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables
               WHERE tablename = ANY ($1) AND schemaname = ANY (current_schemas(false)))";
    sqlx::query(sql).bind(names).fetch_one(connection).await?.try_get(0)
}
