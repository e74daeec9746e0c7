//! Requests between servers: rows of the table `relayed`, which the servers announce to each other.

use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::PostgresClaims;
use super::notifications::{ANSWERED, ASKED};
use super::records::number;
use crate::StoreError;
use crate::sharing::{Asked, Relay};
use tunesmith_domain::JobId;

/// Interval at which an answer is looked for whose notice may have been missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Requests without an answer are removed after this time.
const RETENTION: &str = "5 minutes";

#[async_trait]
impl Relay for PostgresClaims {
    async fn ask(&self, job: &JobId, request: Vec<u8>, limit: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let until = Instant::now() + limit;
        let mut answered = self.notices.answered.subscribe();
        let sql = "WITH asked AS (
                       INSERT INTO relayed (server, asker, request)
                       SELECT owner, $2, $3 FROM claims WHERE job = $1 AND owner <> $2 AND until > now()
                       RETURNING id, server
                   )
                   SELECT id, pg_notify($4, server) FROM asked";
        let row = self.store.core.autocommit("pass a request to another server", |connection| {
            let query = sqlx::query(sql).bind(job.as_str().to_owned()).bind(self.owner.clone());
            let query = query.bind(request.clone()).bind(ASKED);
            let read = |row: PgRow| row.try_get::<i64, _>(0);
            async move { query.fetch_optional(connection).await?.map(read).transpose() }.boxed()
        });
        let Some(id) = row.await? else { return Ok(None) };
        let answer = loop {
            let answer = self.answer_of(id).await?;
            if answer.is_some() || Instant::now() >= until {
                break answer;
            }
            let next = until.min(Instant::now() + LOOK_INTERVAL);
            // A receiver that was too slow has missed notices.
            while let Ok(Ok(other)) = timeout_at(next, answered.recv()).await {
                if other == id.cast_unsigned() {
                    break;
                }
            }
        };
        let sql = "DELETE FROM relayed WHERE id = $1";
        let done = self.store.core.autocommit("remove an answered request", |connection| {
            let query = sqlx::query(sql).bind(id);
            async move { query.execute(connection).await }.boxed()
        });
        // What is left is removed by its age.
        drop(done.await);
        Ok(answer)
    }

    async fn take(&self) -> Result<Vec<Asked>, StoreError> {
        let sql = format!(
            "WITH old AS (DELETE FROM relayed WHERE asked < now() - interval '{RETENTION}')
             UPDATE relayed SET is_taken = true
             WHERE server = $1 AND NOT is_taken AND asked >= now() - interval '{RETENTION}' RETURNING id, request"
        );
        let rows = self.store.core.autocommit("take the requests of other servers", |connection| {
            let query = sqlx::query(sqlx::AssertSqlSafe(sql.clone())).bind(self.owner.clone());
            let read = |row: PgRow| {
                Ok(Asked { id: row.try_get::<i64, _>(0)?.cast_unsigned(), request: row.try_get::<Vec<u8>, _>(1)? })
            };
            async move { query.fetch_all(connection).await?.into_iter().map(read).collect() }.boxed()
        });
        rows.await
    }

    async fn answer(&self, id: u64, answer: Vec<u8>) -> Result<(), StoreError> {
        let sql = "WITH answered AS (UPDATE relayed SET answer = $2 WHERE id = $1 RETURNING asker)
                   SELECT pg_notify($3, asker || ' ' || $1::text) FROM answered";
        let done = self.store.core.autocommit("answer a request of another server", |connection| {
            let query = sqlx::query(sql).bind(number(id)).bind(answer.clone()).bind(ANSWERED);
            async move { query.execute(connection).await }.boxed()
        });
        done.await.map(drop)
    }

    fn asked(&self) -> watch::Receiver<u64> {
        self.notices.asked.clone()
    }
}

impl PostgresClaims {
    /// The answer to the request `id`; `None` before there is one.
    async fn answer_of(&self, id: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT answer FROM relayed WHERE id = $1";
        let row = self.store.core.autocommit("read the answer of another server", |connection| {
            let query = sqlx::query(sql).bind(id);
            let read = |row: PgRow| row.try_get::<Option<Vec<u8>>, _>(0);
            async move { query.fetch_optional(connection).await?.map(read).transpose() }.boxed()
        });
        Ok(row.await?.flatten())
    }
}
