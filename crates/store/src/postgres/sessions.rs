//! Sessions with the database.
//!
//! Each session that writes has a row in the table `writers`, in which each of its transactions sets the next number. If
//! the answer to a commit is lost, the row states whether the transaction was committed: a later session reads it under a
//! lock, for which it waits until the lost one has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::DatabaseAddress;

/// Maximum number of sessions of one store. A guess: enough for the studies that change at once, few enough for five
/// servers on a database with its default of 100 sessions.
const MAX_SESSIONS: usize = 16;

/// The time in which the database has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which a session that does not answer is lost: longer than the timeout of a statement in the database.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The time after which the row of a session that no longer exists is removed.
const WRITER_RETENTION: &str = "7 days";

/// A session with the database.
pub(super) struct Session {
    pub(super) connection: PgConnection,
    /// The row in `writers`, and the number of the last transaction; `None` before the first one.
    pub(super) writer: Option<Writer>,
    /// Whether it has served no transaction yet, so that its loss is that of the database.
    pub(super) is_new: bool,
}

/// A row in the table `writers`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    pub(super) id: i64,
    pub(super) sequence: i64,
}

/// The permission to use one session.
pub(super) type Permit = OwnedSemaphorePermit;

/// The sessions of one store.
pub(super) struct Sessions {
    options: PgConnectOptions,
    idle: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
}

impl Sessions {
    /// Sessions with the database at `address`, none of which is open yet.
    pub(super) fn new(address: &DatabaseAddress) -> Self {
        Self {
            options: address.session_options(),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(MAX_SESSIONS)),
        }
    }

    /// The options of every session.
    pub(super) fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// Waits for the permission to use a session.
    pub(super) async fn permit(&self) -> Permit {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    /// Returns an idle session, or a new one.
    pub(super) async fn take(&self) -> Result<Session, sqlx::Error> {
        let idle = self.idle().pop();
        match idle {
            Some(session) => Ok(session),
            None => self.connect().await,
        }
    }

    /// Opens a session.
    pub(super) async fn connect(&self) -> Result<Session, sqlx::Error> {
        let connect = async {
            let mut connection = self.options.connect().await?;
            // Other values, such as remote_apply, wait at least for this one.
            let sql = "SELECT set_config('synchronous_commit', 'on', false)
                       WHERE current_setting('synchronous_commit') = 'off'";
            sqlx::query(sql).persistent(false).execute(&mut connection).await?;
            Ok(Session { connection, writer: None, is_new: true })
        };
        within(CONNECT_TIMEOUT, connect).await
    }

    /// Makes `session` available to other transactions. It must not be in one.
    pub(super) fn put_back(&self, mut session: Session) {
        session.is_new = false;
        self.idle().push(session);
    }

    /// Closes the idle sessions, after one was found to be lost.
    pub(super) fn close_idle(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// The row of this session with the number of its last transaction.
    pub(super) async fn writer(&mut self) -> Result<Writer, sqlx::Error> {
        let writer = match self.writer {
            Some(writer) => writer,
            None => self.register().await?,
        };
        Ok(*self.writer.insert(writer))
    }

    /// Begins a transaction that changes records, and sets its number in the row of this session.
    pub(super) async fn begin_write(&mut self) -> Result<Writer, sqlx::Error> {
        // The row may have been removed while the session was idle, so there may be a second turn.
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

    /// Begins a transaction that reads one state of the database.
    pub(super) async fn begin_read(&mut self) -> Result<(), sqlx::Error> {
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    /// Executes a statement of this module without parameters.
    pub(super) async fn execute(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        within(ANSWER_TIMEOUT, sqlx::raw_sql(sql).execute(&mut self.connection)).await.map(|_| ())
    }

    async fn register(&mut self) -> Result<Writer, sqlx::Error> {
        let row = sqlx::query("INSERT INTO writers DEFAULT VALUES RETURNING id, sequence")
            .fetch_one(&mut self.connection)
            .await?;
        Ok(Writer { id: row.try_get(0)?, sequence: row.try_get(1)? })
    }

    /// Whether the transaction `writer` of a lost session was committed, once that session has ended; `None` if its row is
    /// missing.
    pub(super) async fn was_committed(&mut self, writer: Writer) -> Result<Option<bool>, sqlx::Error> {
        // Changed, so that a statement of the lost session which still waits finds another number and changes nothing.
        let sql = "UPDATE writers SET sequence = sequence + 1 WHERE id = $1 RETURNING sequence - 1";
        let read = sqlx::query(sql).bind(writer.id).fetch_optional(&mut self.connection);
        let row = within(ANSWER_TIMEOUT, read).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(row.try_get::<i64, _>(0)? >= writer.sequence))
    }

    /// Removes the rows of sessions that ended long ago.
    pub(super) async fn remove_old_writers(&mut self) -> Result<(), sqlx::Error> {
        let sql = format!("DELETE FROM writers WHERE used < now() - interval '{WRITER_RETENTION}'");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.map(|_| ())
    }
}

/// Waits for `answer` for at most `limit`. After that time the connection cannot be used again.
pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let answer = tokio::time::timeout(limit, answer).await;
    answer.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
