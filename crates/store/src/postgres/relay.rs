//! Requests between servers: rows of the table `relayed`, announced by notifications.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::PostgresClaims;
use super::notifications::{ANSWERED, ASKED};
use crate::StoreError;
use crate::sharing::{Asked, Relay};
use crate::sql::{Row, values};
use tunesmith_domain::JobId;

/// Polling interval, in case a response's notification was missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Expiry of unanswered requests.
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
        let values = values![job, self.owner.clone(), request, ASKED];
        let asked = self.store.core.rows("pass a request to another server", sql, values, |row| row.number(0));
        let Some(id) = asked.await?.pop() else { return Ok(None) };
        let answer = loop {
            let answer = self.answer_of(id).await?;
            if answer.is_some() || Instant::now() >= until {
                break answer;
            }
            let next = until.min(Instant::now() + LOOK_INTERVAL);
            // A receiver that lagged has missed notices.
            while let Ok(Ok(other)) = timeout_at(next, answered.recv()).await {
                if other == id.cast_unsigned() {
                    break;
                }
            }
        };
        // Leftovers expire.
        let sql = "DELETE FROM relayed WHERE id = $1";
        drop(self.store.core.execute("remove an answered request", sql, values![id]).await);
        Ok(answer)
    }

    async fn take(&self) -> Result<Vec<Asked>, StoreError> {
        let sql = format!(
            "WITH old AS (DELETE FROM relayed WHERE asked < now() - interval '{RETENTION}')
             UPDATE relayed SET is_taken = true
             WHERE server = $1 AND NOT is_taken AND asked >= now() - interval '{RETENTION}' RETURNING id, request"
        );
        let asked =
            self.store.core.rows("take the requests of other servers", &sql, values![self.owner.clone()], |row| {
                Ok(Asked { id: row.number(0)?.cast_unsigned(), request: row.bytes(1)? })
            });
        asked.await
    }

    async fn answer(&self, id: u64, answer: Vec<u8>) -> Result<(), StoreError> {
        let sql = "WITH answered AS (UPDATE relayed SET answer = $2 WHERE id = $1 RETURNING asker)
                   SELECT pg_notify($3, asker || ' ' || $1::text) FROM answered";
        let values = values![id, answer, ANSWERED];
        self.store.core.execute("answer a request of another server", sql, values).await.map(drop)
    }

    fn asked(&self) -> watch::Receiver<u64> {
        self.notices.asked.clone()
    }
}

impl PostgresClaims {
    /// Response to the request `id`; `None` so far.
    async fn answer_of(&self, id: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT answer FROM relayed WHERE id = $1 AND answer IS NOT NULL";
        let answer = self.store.core.rows("read the answer of another server", sql, values![id], |row| row.bytes(0));
        Ok(answer.await?.pop())
    }
}
