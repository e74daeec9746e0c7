//! Shared documents: rows of the table `documents`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::PostgresStore;
use crate::StoreError;
use crate::sharing::{DocumentChanges, Documents};
use crate::sql::{Row, values};

/// Database time in microseconds since 1970.
const MICROSECONDS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

#[derive(Debug)]
pub struct PostgresDocuments(Arc<PostgresStore>);

impl PostgresDocuments {
    pub fn new(store: Arc<PostgresStore>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Documents for PostgresDocuments {
    async fn put(&self, kind: &str, name: &str, part: u64, body: Vec<u8>) -> Result<(), StoreError> {
        let sql = "INSERT INTO documents (kind, name, part, body) VALUES ($1, $2, $3, $4)
                   ON CONFLICT (kind, name, part) DO UPDATE SET body = excluded.body, changed = now()";
        self.0.core.execute("store a document", sql, values![kind, name, part, body]).await.map(drop)
    }

    async fn get_or_put(&self, kind: &str, name: &str, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        // A no-op update, which makes the statement return the existing row.
        let sql = "INSERT INTO documents (kind, name, part, body) VALUES ($1, $2, 0, $3)
                   ON CONFLICT (kind, name, part) DO UPDATE SET body = documents.body RETURNING body";
        let stored = self.0.core.rows("store a document", sql, values![kind, name, body], |row| row.bytes(0)).await?;
        stored.into_iter().next().ok_or_else(|| self.0.core.not_applied("store a document", sqlx::Error::RowNotFound))
    }

    async fn replace(
        &self,
        kind: &str,
        name: &str,
        expected: Option<Vec<u8>>,
        body: Vec<u8>,
    ) -> Result<bool, StoreError> {
        let (sql, values) = match expected {
            Some(expected) => (
                "UPDATE documents SET body = $3, changed = now()
                 WHERE kind = $1 AND name = $2 AND part = 0 AND body = $4",
                values![kind, name, body, expected],
            ),
            None => (
                "INSERT INTO documents (kind, name, part, body) VALUES ($1, $2, 0, $3)
                 ON CONFLICT (kind, name, part) DO NOTHING",
                values![kind, name, body],
            ),
        };
        Ok(self.0.core.execute("replace a document", sql, values).await? > 0)
    }

    async fn part(&self, kind: &str, name: &str, part: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM documents WHERE kind = $1 AND name = $2 AND part = $3";
        let body = self.0.core.rows("read a document", sql, values![kind, name, part], |row| row.bytes(0));
        Ok(body.await?.pop())
    }

    async fn list(&self, kind: &str) -> Result<Vec<(String, Vec<u8>, Duration)>, StoreError> {
        let sql = "SELECT name, body, (extract(epoch FROM now() - changed) * 1000)::bigint FROM documents
                   WHERE kind = $1 AND part = 0 ORDER BY name";
        let documents = self.0.core.rows("list documents", sql, values![kind], |row| {
            let millis = row.number(2)?.max(0).cast_unsigned();
            Ok((row.text(0)?, row.bytes(1)?, Duration::from_millis(millis)))
        });
        documents.await
    }

    async fn list_after(&self, kind: &str, after: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        // The order of bytes, as in other stores: that of the database depends on its language.
        let sql = "SELECT name, body FROM documents WHERE kind = $1 AND part = 0 AND name COLLATE \"C\" > $2
                   ORDER BY name COLLATE \"C\" LIMIT $3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = self
            .0
            .core
            .rows("list documents", sql, values![kind, after, limit], |row| Ok((row.text(0)?, row.bytes(1)?)));
        read.await
    }

    async fn changes(
        &self,
        prefix: &str,
        cursor: Option<u64>,
        limit: usize,
    ) -> Result<Option<DocumentChanges>, StoreError> {
        // A row has the number of the transaction that wrote it. The next read includes those that are in progress, whose numbers
        // are not below the snapshot's. Numbers of rows have 32 bits: half of them follow any other.
        let sql = "SELECT '', '', ''::bytea, count(*), pg_snapshot_xmin(pg_current_snapshot())::text::bigint
                   FROM documents WHERE kind >= $1 AND kind < $2 AND part = 0
                   UNION ALL
                   (SELECT kind, name, body, 0, 0 FROM documents
                   WHERE kind >= $1 AND kind < $2 AND part = 0
                   AND (xmin::text::bigint - $3::bigint % 4294967296 + 4294967296) % 4294967296 < 2147483648
                   ORDER BY kind, name LIMIT $4)";
        let limit = cursor.map_or(0, |_| i64::try_from(limit).unwrap_or(i64::MAX));
        let values = values![prefix, format!("{prefix}\u{10ffff}"), cursor.unwrap_or_default(), limit];
        let rows = self.0.core.rows("read changed documents", sql, values, |row| {
            let (total, cursor) = (row.number(3)?, row.number(4)?);
            Ok((row.text(0)?, row.text(1)?, row.bytes(2)?, total, cursor))
        });
        let mut changes = DocumentChanges { total: 0, cursor: 0, documents: Vec::new() };
        for (kind, name, body, total, cursor) in rows.await? {
            if kind.is_empty() {
                changes.total = usize::try_from(total).unwrap_or_default();
                changes.cursor = cursor.cast_unsigned();
            } else {
                changes.documents.push((kind, name, body));
            }
        }
        Ok(Some(changes))
    }

    async fn touch(&self, kind: &str, name: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE documents SET changed = now() WHERE kind = $1 AND name = $2 AND part = 0";
        Ok(self.0.core.execute("note the use of a document", sql, values![kind, name]).await? > 0)
    }

    async fn remove_unused(&self, kind: &str, unused_for: Duration) -> Result<Vec<String>, StoreError> {
        // Rechecks the age of a row touched since the statement began.
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
        self.0.core.rows("remove unused documents", sql, values![kind, millis], |row| row.text(0)).await
    }

    async fn remove(&self, kind: &str, name: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM documents WHERE kind = $1 AND name = $2";
        self.0.core.execute("remove a document", sql, values![kind, name]).await.map(drop)
    }

    async fn remove_exactly(&self, kind: &str, name: &str, expected: Vec<u8>) -> Result<bool, StoreError> {
        let sql = "DELETE FROM documents WHERE kind = $1 AND name = $2 AND part = 0 AND body = $3";
        Ok(self.0.core.execute("remove a document", sql, values![kind, name, expected]).await? > 0)
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        let read = self.0.core.rows("read the time", MICROSECONDS, values![], |row| row.number(0));
        let microseconds = read.await?.pop().unwrap_or_default();
        Timestamp::from_microsecond(microseconds)
            .map_err(|source| StoreError::NotApplied { operation: "read the time", source: source.into() })
    }
}
