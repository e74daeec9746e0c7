//! A store in a PostgreSQL database, which several servers may use at once.
//!
//! Every change locks the row of its job or of the progress of its study first ([`records`]), so that changes of one study
//! take effect in one order, whichever server makes them. The changes of one study that wait in this process share a
//! transaction, and so one sync of the database's log ([`lanes`]). A commit whose answer was lost is looked up
//! ([`sessions`]).

mod address;
mod buffered;
mod claims;
mod combined;
mod documents;
mod error;
mod lanes;
mod notifications;
mod ranges;
mod records;
mod relay;
mod running;
mod schema;
mod sessions;
mod transactions;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::postgres::PgConnection;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::decoded_studies::DecodedStudies;
use super::engine::{Changes, Engine, Ranges, Scope};
use super::{Condition, OpenMode, StoreError, StoreFault};
use crate::group::TypedRequest;
use crate::sharing::Claim;
use error::Failure;
use lanes::Lanes;
use records::Surroundings;
use sessions::{ANSWER_TIMEOUT, Sessions, within};

pub use address::{DatabaseAddress, DatabaseAddressError};
pub use claims::PostgresClaims;
pub use documents::PostgresDocuments;

/// The pause between two attempts to reach a database that has failed.
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// A [`super::Store`] in a PostgreSQL database. Several processes may have it open.
pub struct PostgresStore {
    core: Arc<Core>,
    lanes: Arc<Lanes>,
    /// The claim that every change requires.
    claim: Option<Claim>,
}

/// What the transactions of a store share.
struct Core {
    runtime: Handle,
    sessions: Sessions,
    /// The address without the password, for messages.
    place: PathBuf,
    identity: String,
    decoded: DecodedStudies,
    condition: watch::Sender<Condition>,
    /// Whether a task waits for the database to return.
    is_probing: AtomicBool,
}

impl PostgresStore {
    /// Opens the store in the database at `address`, and creates or migrates its tables. Requires a Tokio runtime that
    /// outlives the store.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`] with what to do if the database cannot be reached or used; [`StoreError::TooNew`] if a
    /// later version has changed the tables so that this one cannot use them; [`StoreError::Damaged`] if the tables are
    /// those of another program, or are missing in [`OpenMode::Existing`].
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
        Ok(Self { lanes: Arc::new(Lanes::new(Arc::clone(&core))), core, claim: None })
    }

    /// This store for the owner of `claim`: its changes fail with [`StoreError::NotOwner`] once the claim is lost.
    pub(crate) fn fenced(&self, claim: Claim) -> Self {
        Self { core: Arc::clone(&self.core), lanes: Arc::clone(&self.lanes), claim: Some(claim) }
    }

    /// The random ID of the database, which distinguishes it from others at the same address.
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
        self.lanes.add(scope, Box::new(TypedRequest::new(change, answer)));
        // A request is dropped only if the runtime shuts down.
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
    /// Runs `query` on one state of the database. With `is_short`, it is expected to need one statement.
    async fn query<T: Send + 'static>(
        &self,
        is_short: bool,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let core = Arc::clone(&self.core);
        let permit = core.sessions.permit().await;
        tokio::task::spawn_blocking(move || {
            // The caller may no longer wait.
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

    /// Runs a query that may be repeated, in a transaction of its own.
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

    fn not_applied(&self, operation: &'static str, source: sqlx::Error) -> StoreError {
        error::not_applied(&self.place, operation, source)
    }

    /// The error of `operation`, for which no session could be opened.
    fn cannot_connect(self: &Core, operation: &'static str, source: sqlx::Error) -> StoreError {
        let fault = error::fault_of(&source).unwrap_or_else(|| error::unreachable(&source));
        self.fails(fault.clone());
        StoreError::cannot(operation, fault)
    }

    /// The fault of a session that was lost in the middle of a transaction.
    fn lost_fault(&self) -> StoreFault {
        StoreFault::Failed { detail: "the connection to the database was lost".to_owned() }
    }

    /// Notes that the database takes changes.
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

    /// Notes that the database takes no changes because of `fault`.
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

    /// Waits in a task until the database takes changes, unless one does so already.
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
