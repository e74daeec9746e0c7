//! Documents that servers share: rows of the table `documents`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use jiff::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::PostgresStore;
use super::records::number;
use crate::StoreError;
use crate::sharing::Documents;

/// The time in microseconds since 1970, of the database.
const MICROSECONDS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The documents of a [`PostgresStore`].
#[derive(Debug)]
pub struct PostgresDocuments(Arc<PostgresStore>);

impl PostgresDocuments {
    /// The documents of `store`.
    pub fn new(store: Arc<PostgresStore>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Documents for PostgresDocuments {
    async fn put(&self, kind: &str, name: &str, part: u64, body: Vec<u8>) -> Result<(), StoreError> {
        let sql = "INSERT INTO documents (kind, name, part, body) VALUES ($1, $2, $3, $4)
                   ON CONFLICT (kind, name, part) DO UPDATE SET body = excluded.body, changed = now()";
        let done = self.0.core.autocommit("store a document", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned()).bind(name.to_owned());
            let query = query.bind(number(part)).bind(body.clone());
            async move { query.execute(connection).await }.boxed()
        });
        done.await.map(|_| ())
    }

    async fn get_or_put(&self, kind: &str, name: &str, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        // The update changes nothing; it makes the statement return the row that there is.
        let sql = "INSERT INTO documents (kind, name, part, body) VALUES ($1, $2, 0, $3)
                   ON CONFLICT (kind, name, part) DO UPDATE SET body = documents.body RETURNING body";
        let row = self.0.core.autocommit("store a document", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned()).bind(name.to_owned()).bind(body.clone());
            async move { query.fetch_one(connection).await?.try_get(0) }.boxed()
        });
        row.await
    }

    async fn replace(
        &self,
        kind: &str,
        name: &str,
        expected: Option<Vec<u8>>,
        body: Vec<u8>,
    ) -> Result<bool, StoreError> {
        let sql = match expected {
            Some(_) => {
                "UPDATE documents SET body = $3, changed = now()
                 WHERE kind = $1 AND name = $2 AND part = 0 AND body = $4"
            }
            None => {
                "INSERT INTO documents (kind, name, part, body) SELECT $1, $2, 0, $3 WHERE $4::bytea IS NULL
                 ON CONFLICT (kind, name, part) DO NOTHING"
            }
        };
        let done = self.0.core.autocommit("replace a document", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned()).bind(name.to_owned());
            let query = query.bind(body.clone()).bind(expected.clone());
            async move { query.execute(connection).await }.boxed()
        });
        Ok(done.await?.rows_affected() > 0)
    }

    async fn part(&self, kind: &str, name: &str, part: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM documents WHERE kind = $1 AND name = $2 AND part = $3";
        let row = self.0.core.autocommit("read a document", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned()).bind(name.to_owned()).bind(number(part));
            async move { query.fetch_optional(connection).await?.map(|row| row.try_get(0)).transpose() }.boxed()
        });
        row.await
    }

    async fn list(&self, kind: &str) -> Result<Vec<(String, Vec<u8>, Duration)>, StoreError> {
        let sql = "SELECT name, body, (extract(epoch FROM now() - changed) * 1000)::bigint FROM documents
                   WHERE kind = $1 AND part = 0 ORDER BY name";
        let rows = self.0.core.autocommit("list documents", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned());
            let read = |row: &PgRow| {
                let millis = row.try_get::<i64, _>(2)?.max(0).cast_unsigned();
                Ok((row.try_get(0)?, row.try_get(1)?, Duration::from_millis(millis)))
            };
            async move { query.fetch_all(connection).await?.iter().map(read).collect() }.boxed()
        });
        rows.await
    }

    async fn touch(&self, kind: &str, name: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE documents SET changed = now() WHERE kind = $1 AND name = $2 AND part = 0";
        let done = self.0.core.autocommit("note the use of a document", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned()).bind(name.to_owned());
            async move { query.execute(connection).await }.boxed()
        });
        Ok(done.await?.rows_affected() > 0)
    }

    async fn remove_unused(&self, kind: &str, unused_for: Duration) -> Result<Vec<String>, StoreError> {
        // The age is checked again in a row that was touched since the statement began.
        let sql = "WITH unused AS (
                       DELETE FROM documents
                       WHERE kind = $1 AND part = 0 AND changed < now() - $2 * interval '1 millisecond' RETURNING name
                   ),
                   rest AS (
                       DELETE FROM documents USING unused
                       WHERE documents.kind = $1 AND documents.name = unused.name AND documents.part > 0
                   )
                   SELECT name FROM unused ORDER BY name";
        let millis = i64::try_from(unused_for.as_millis()).unwrap_or(i64::MAX);
        let rows = self.0.core.autocommit("remove unused documents", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned()).bind(millis);
            let read = |row: &PgRow| row.try_get::<String, _>(0);
            async move { query.fetch_all(connection).await?.iter().map(read).collect() }.boxed()
        });
        rows.await
    }

    async fn remove(&self, kind: &str, name: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM documents WHERE kind = $1 AND name = $2";
        let done = self.0.core.autocommit("remove a document", |connection| {
            let query = sqlx::query(sql).bind(kind.to_owned()).bind(name.to_owned());
            async move { query.execute(connection).await }.boxed()
        });
        done.await.map(|_| ())
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        let read = self.0.core.autocommit("read the time", |connection| {
            async move { sqlx::query(MICROSECONDS).fetch_one(connection).await?.try_get::<i64, _>(0) }.boxed()
        });
        let microseconds = read.await?;
        Timestamp::from_microsecond(microseconds)
            .map_err(|source| StoreError::NotApplied { operation: "read the time", source: source.into() })
    }
}
