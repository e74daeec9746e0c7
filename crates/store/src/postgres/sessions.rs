//! Database sessions.
//!
//! Each writing session has a row in the table `writers`, whose number each of its transactions increments. After a
//! lost commit response, the row states whether the transaction was committed: a later session reads it under a lock,
//! which it obtains only when the lost session has ended.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::DatabaseAddress;

/// Maximum number of sessions per store. A guess: enough for the studies changing concurrently, few enough for five
/// servers on a database with the default limit of 100 sessions.
const MAX_SESSIONS: usize = 16;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout after which an unresponsive session counts as lost; longer than the database's statement timeout.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// Retention of the rows of closed sessions.
const WRITER_RETENTION: &str = "7 days";

pub(super) struct Session {
    pub(super) connection: PgConnection,
    /// Row in `writers` and last transaction number; `None` before the first transaction.
    pub(super) writer: Option<Writer>,
    /// Whether it has served no transaction yet, so that losing it means losing the database.
    pub(super) is_new: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    pub(super) id: i64,
    pub(super) sequence: i64,
}

pub(super) type Permit = OwnedSemaphorePermit;

pub(super) struct Sessions {
    options: PgConnectOptions,
    idle: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
}

impl Sessions {
    pub(super) fn new(address: &DatabaseAddress) -> Self {
        Self {
            options: address.session_options(),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(MAX_SESSIONS)),
        }
    }

    pub(super) fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    pub(super) async fn permit(&self) -> Permit {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    /// An idle session, or a new one.
    pub(super) async fn take(&self) -> Result<Session, sqlx::Error> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(session) => Ok(session),
            None => self.connect().await,
        }
    }

    pub(super) async fn connect(&self) -> Result<Session, sqlx::Error> {
        let connect = async {
            let mut connection = self.options.connect().await?;
            // Other values, such as remote_apply, are at least as strict.
            let sql = "SELECT set_config('synchronous_commit', 'on', false)
                       WHERE current_setting('synchronous_commit') = 'off'";
            sqlx::query(sql).persistent(false).execute(&mut connection).await?;
            Ok(Session { connection, writer: None, is_new: true })
        };
        within(CONNECT_TIMEOUT, connect).await
    }

    /// Returns `session`, which must not be in a transaction, to the pool.
    pub(super) fn put_back(&self, mut session: Session) {
        session.is_new = false;
        self.idle.lock().push(session);
    }

    /// Closes the idle sessions after one was found lost.
    pub(super) fn close_idle(&self) {
        self.idle.lock().clear();
    }
}

impl Session {
    /// This session's row, with its last transaction number.
    pub(super) async fn writer(&mut self) -> Result<Writer, sqlx::Error> {
        let writer = match self.writer {
            Some(writer) => writer,
            None => self.register().await?,
        };
        Ok(*self.writer.insert(writer))
    }

    /// Begins a writing transaction and sets its number in the session's row.
    pub(super) async fn begin_write(&mut self) -> Result<Writer, sqlx::Error> {
        // The row may have expired while the session was idle, hence a second attempt.
        for _ in 0..2 {
            let Writer { id, sequence } = self.writer().await?;
            let next = Writer { id, sequence: sequence + 1 };
            self.writer = Some(next);
            let sql = format!("BEGIN; UPDATE writers SET sequence = {}, used = now() WHERE id = {id}", next.sequence);
            let answer = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection);
            let done = within(ANSWER_TIMEOUT, answer).await?;
            if done.rows_affected() == 1 {
                return Ok(next);
            }
            self.execute("ROLLBACK").await?;
            self.writer = None;
        }
        Err(sqlx::Error::RowNotFound)
    }

    /// Begins a read transaction on a consistent snapshot.
    pub(super) async fn begin_read(&mut self) -> Result<(), sqlx::Error> {
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    pub(super) async fn execute(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        within(ANSWER_TIMEOUT, sqlx::raw_sql(sql).execute(&mut self.connection)).await.map(|_| ())
    }

    async fn register(&mut self) -> Result<Writer, sqlx::Error> {
        let row = sqlx::query("INSERT INTO writers DEFAULT VALUES RETURNING id, sequence")
            .fetch_one(&mut self.connection)
            .await?;
        Ok(Writer { id: row.try_get(0)?, sequence: row.try_get(1)? })
    }

    /// Whether the transaction `writer` of a lost session was committed, once that session has ended; `None` if its row
    /// is missing.
    pub(super) async fn was_committed(&mut self, writer: Writer) -> Result<Option<bool>, sqlx::Error> {
        // Incremented, so that a statement of the lost session still waiting finds a different number and changes
        // nothing.
        let sql = "UPDATE writers SET sequence = sequence + 1 WHERE id = $1 RETURNING sequence - 1";
        let read = sqlx::query(sql).bind(writer.id).fetch_optional(&mut self.connection);
        let row = within(ANSWER_TIMEOUT, read).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(row.try_get::<i64, _>(0)? >= writer.sequence))
    }

    /// Removes expired rows of closed sessions.
    pub(super) async fn remove_old_writers(&mut self) -> Result<(), sqlx::Error> {
        let sql = format!("DELETE FROM writers WHERE used < now() - interval '{WRITER_RETENTION}'");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.map(|_| ())
    }
}

/// Waits up to `limit` for `answer`; after a timeout, the connection is unusable.
pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let answer = tokio::time::timeout(limit, answer).await;
    answer.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
