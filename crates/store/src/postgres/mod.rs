//! Store in a PostgreSQL database, shared by several servers.
//!
//! Every change first locks the row of its job or of its study's progress ([`records`]), which serializes the changes
//! of a study across servers. Changes of one study waiting in this process share a transaction, and thus one sync of
//! the database's log ([`scope_queues`]). A commit whose response was lost is looked up ([`sessions`]).

mod address;
mod buffered;
mod claims;
mod documents;
mod error;
mod notifications;
mod records;
mod relay;
mod running;
mod schema;
mod scope_queues;
mod sessions;
mod transactions;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::postgres::PgConnection;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::decoded_studies::DecodedStudies;
use super::engine::{Changes, Engine, Ranges, Scope};
use super::{Condition, OpenMode, StoreError, StoreFault};
use crate::group::TypedRequest;
use crate::sharing::Claim;
use crate::sql::Value;
use error::Failure;
use records::{PostgresRow, Statement, Surroundings, statement};
use scope_queues::ScopeQueues;
use sessions::{ANSWER_TIMEOUT, Sessions, within};

pub use address::{DatabaseAddress, DatabaseAddressError};
pub use claims::PostgresClaims;
pub use documents::PostgresDocuments;

/// Interval between attempts to reach a failed database.
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// A [`super::Store`] in a PostgreSQL database. Several processes may have it open.
pub struct PostgresStore {
    core: Arc<Core>,
    queues: Arc<ScopeQueues>,
    /// Claim required by every change.
    claim: Option<Claim>,
}

struct Core {
    runtime: Handle,
    sessions: Sessions,
    /// Address without the password, for messages.
    place: PathBuf,
    identity: String,
    decoded: DecodedStudies,
    condition: watch::Sender<Condition>,
    /// Whether a task waits for the database to recover.
    is_probing: AtomicBool,
}

impl PostgresStore {
    /// Opens the store at `address`, creating or migrating its tables. Requires a Tokio runtime that outlives the
    /// store.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`], with advice, if the database is unreachable or unusable; [`StoreError::TooNew`] if a
    /// later version has made the tables incompatible; [`StoreError::Damaged`] if the tables belong to another program,
    /// or are missing in [`OpenMode::Existing`].
    pub async fn open(address: &DatabaseAddress, mode: OpenMode) -> Result<Self, StoreError> {
        let place = PathBuf::from(address.to_string());
        let sessions = Sessions::new(address);
        let failed = |source: sqlx::Error| error::unusable(address, &source);
        let mut session = sessions.connect().await.map_err(failed)?;
        schema::migrate(&mut session.connection, &place, mode).await.map_err(failed)??;
        schema::check_durability(&mut session.connection, &place).await.map_err(failed)?;
        session.remove_old_writers().await.map_err(failed)?;
        let identity = schema::identity(&mut session.connection).await.map_err(failed)?;
        sessions.put_back(session);
        let (condition, _) = watch::channel(Condition::Working);
        let core = Arc::new(Core {
            runtime: Handle::current(),
            sessions,
            place,
            identity,
            decoded: DecodedStudies::default(),
            condition,
            is_probing: AtomicBool::new(false),
        });
        Ok(Self { queues: Arc::new(ScopeQueues::new(Arc::clone(&core))), core, claim: None })
    }

    /// Fenced view of this store: changes fail with [`StoreError::NotOwner`] once `claim` is lost.
    pub(crate) fn fenced(&self, claim: Claim) -> Self {
        Self { core: Arc::clone(&self.core), queues: Arc::clone(&self.queues), claim: Some(claim) }
    }

    /// Random database ID, which distinguishes it from others at the same address.
    pub fn identity(&self) -> &str {
        &self.core.identity
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostgresStore({})", self.core.place.display())
    }
}

impl Engine for PostgresStore {
    const KEEPS_ORDER: bool = false;

    fn condition(&self) -> watch::Receiver<Condition> {
        self.core.condition.subscribe()
    }

    async fn write<T: Send + 'static>(
        &self,
        scope: Scope,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let claim = self.claim.clone();
        let change = move |records: &dyn Changes| {
            if let Some(Claim { job, fence, .. }) = &claim {
                records.check_claim(job, *fence)?;
            }
            change(records)
        };
        self.queues.add(scope, Box::new(TypedRequest::new(change, answer)));
        // Requests are dropped only on runtime shutdown.
        answered.await.unwrap_or_else(|source| Err(StoreError::Unknown { source: source.into() }))
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.query(false, query).await
    }

    async fn lookup<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.query(true, query).await
    }
}

impl PostgresStore {
    /// Runs `query` on a consistent snapshot. `is_short` expects a single statement.
    async fn query<T: Send + 'static>(
        &self,
        is_short: bool,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let core = Arc::clone(&self.core);
        let permit = core.sessions.permit().await;
        tokio::task::spawn_blocking(move || {
            // The caller may be gone.
            core.query(is_short, query, |result| drop(answer.send(result)));
            core.probe();
            drop(permit);
        });
        answered.await.unwrap_or_else(|source| Err(StoreError::NotApplied { operation: "read", source: source.into() }))
    }
}

impl Core {
    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings { runtime: &self.runtime, place: &self.place, decoded: &self.decoded }
    }

    /// Runs a repeatable query in its own transaction.
    async fn autocommit<T>(
        self: &Arc<Self>,
        operation: &'static str,
        query: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync,
    ) -> Result<T, StoreError> {
        let _permit = self.sessions.permit().await;
        loop {
            let mut session = match self.sessions.take().await {
                Ok(session) => session,
                Err(source) => {
                    let error = self.cannot_connect(operation, source);
                    self.probe();
                    return Err(error);
                }
            };
            match within(ANSWER_TIMEOUT, query(&mut session.connection)).await {
                Ok(value) => {
                    self.sessions.put_back(session);
                    return Ok(value);
                }
                Err(source) if Failure::of(&source) == Failure::Lost => {
                    self.sessions.close_idle();
                    if session.is_new {
                        self.fails(error::unreachable(&source));
                        self.probe();
                        return Err(self.not_applied(operation, source));
                    }
                }
                Err(source) => {
                    // It may be in a transaction.
                    drop(session);
                    return Err(self.not_applied(operation, source));
                }
            }
        }
    }

    /// Executes a changing statement in its own transaction; returns the number of rows.
    async fn execute(
        self: &Arc<Self>,
        operation: &'static str,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        let done = self.autocommit(operation, |connection| {
            let statement = statement(sql, values.clone());
            async move { statement.execute(connection).await }.boxed()
        });
        done.await.map(|done| done.rows_affected())
    }

    /// Executes a statement in its own transaction and reads its rows.
    async fn rows<T>(
        self: &Arc<Self>,
        operation: &'static str,
        sql: &str,
        values: Vec<Value>,
        read: impl Fn(PostgresRow<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<Vec<T>, StoreError> {
        self.rows_of(operation, || statement(sql, values.clone()), read).await
    }

    /// As [`Self::rows`], for a statement with other parameters.
    async fn rows_of<T>(
        self: &Arc<Self>,
        operation: &'static str,
        statement: impl Fn() -> Statement + Send + Sync,
        read: impl Fn(PostgresRow<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.autocommit(operation, |connection| {
            let statement = statement();
            async move { statement.fetch_all(connection).await }.boxed()
        });
        rows.await?.iter().map(|row| read(PostgresRow { row, place: &self.place })).collect()
    }

    fn not_applied(&self, operation: &'static str, source: sqlx::Error) -> StoreError {
        error::not_applied(&self.place, operation, source)
    }

    fn cannot_connect(self: &Core, operation: &'static str, source: sqlx::Error) -> StoreError {
        let fault = error::fault_of(&source).unwrap_or_else(|| error::unreachable(&source));
        self.fails(fault.clone());
        StoreError::cannot(operation, fault)
    }

    fn lost_fault(&self) -> StoreFault {
        StoreFault::Failed { detail: "the connection to the database was lost".to_owned() }
    }

    fn works(&self) {
        let is_new = self.condition.send_if_modified(|condition| {
            let was_failing = *condition != Condition::Working;
            *condition = Condition::Working;
            was_failing
        });
        if is_new {
            tracing::info!(store.path = %self.place.display(), "the database takes changes again");
        }
    }

    fn fails(&self, fault: StoreFault) {
        let is_new = self.condition.send_if_modified(|condition| {
            let was_working = *condition == Condition::Working;
            *condition = Condition::Failing(fault.clone());
            was_working
        });
        if is_new {
            tracing::error!(store.path = %self.place.display(), error = %fault, "the database takes no changes");
        }
    }

    /// Starts a task that waits for the database to accept changes, unless one is running.
    fn probe(self: &Arc<Self>) {
        if *self.condition.borrow() == Condition::Working || self.is_probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let core = Arc::downgrade(self);
        self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(PROBE_PAUSE).await;
                let Some(core) = core.upgrade() else { return };
                if *core.condition.borrow() != Condition::Working && !core.takes_changes().await {
                    continue;
                }
                core.works();
                core.is_probing.store(false, Ordering::Relaxed);
                return;
            }
        });
    }

    async fn takes_changes(&self) -> bool {
        let Ok(mut session) = self.sessions.connect().await else { return false };
        let written = async {
            session.begin_write().await?;
            session.execute("COMMIT").await
        };
        written.await.is_ok()
    }
}
