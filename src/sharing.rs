//! What a process shares with other servers on the same database: the ownership of jobs, documents, and a clock.

use std::sync::Arc;
use std::time::Duration;

use tunesmith_data_dir::DataDir;
use tunesmith_store::{Documents, JobClaims, OnlyServer, Relay, RunningTrials, Store};
#[cfg(feature = "postgres")]
use tunesmith_studies::clock::SharedClock;
use tunesmith_studies::clock::{Clock, SystemClock};

/// The lease of the jobs of commands that have no option for it.
pub(crate) const JOB_LEASE: Duration = Duration::from_secs(30);

/// Interval between two readings of the clock that servers share. The clocks of machines differ by less than a millisecond
/// after it.
#[cfg(feature = "postgres")]
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);

/// What the services of this process share with other servers.
pub(crate) struct Sharing {
    pub(crate) claims: Arc<dyn JobClaims>,
    /// The running trials of all servers; `None` if there is one server.
    pub(crate) running: Option<Arc<dyn RunningTrials>>,
    /// The way to the other servers; `None` if there is one server.
    pub(crate) relay: Option<Arc<dyn Relay>>,
    /// `None` if there is one server.
    pub(crate) documents: Option<Arc<dyn Documents>>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What the only server on `store` uses.
fn alone(store: &Arc<dyn Store>) -> Sharing {
    Sharing {
        claims: Arc::new(OnlyServer::new(Arc::clone(store))),
        running: None,
        relay: None,
        documents: None,
        clock: Arc::new(SystemClock),
    }
}

/// Returns what this process shares with other servers on the store of `data_dir`, whose jobs are taken over `lease` after
/// their server has died.
///
/// # Errors
/// If the database does not answer, or the ID of this server cannot be stored.
#[cfg(feature = "postgres")]
pub(crate) async fn open(data_dir: &DataDir, store: &Arc<dyn Store>, lease: Duration) -> anyhow::Result<Sharing> {
    use anyhow::Context;
    use tunesmith_store::{PostgresClaims, PostgresDocuments};

    let Some(shared) = data_dir.shared_store() else { return Ok(alone(store)) };
    let id = server_id(data_dir.path()).with_context(|| format!("{} cannot be written", data_dir.path().display()))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = format!("{host}, data folder {}", data_dir.path().display());
    let documents: Arc<dyn Documents> = Arc::new(PostgresDocuments::new(Arc::clone(&shared)));
    let clock = Arc::new(SharedClock::new(documents.now().await?));
    tokio::spawn(follow(Arc::downgrade(&clock), Arc::clone(&documents)));
    let claims = Arc::new(PostgresClaims::new(shared, id, name, lease));
    let running: Arc<dyn RunningTrials> = Arc::<PostgresClaims>::clone(&claims);
    let relay: Arc<dyn Relay> = Arc::<PostgresClaims>::clone(&claims);
    Ok(Sharing { claims, running: Some(running), relay: Some(relay), documents: Some(documents), clock })
}

/// As the other function of this name, without databases.
#[cfg(not(feature = "postgres"))]
pub(crate) async fn open(_data_dir: &DataDir, store: &Arc<dyn Store>, _lease: Duration) -> anyhow::Result<Sharing> {
    Ok(alone(store))
}

/// Sets `clock` by the time of the database while it is in use.
#[cfg(feature = "postgres")]
async fn follow(clock: std::sync::Weak<SharedClock>, documents: Arc<dyn Documents>) {
    loop {
        tokio::time::sleep(CLOCK_INTERVAL).await;
        let Some(clock) = clock.upgrade() else { return };
        // While the database does not answer, the clock goes on by itself.
        if let Ok(now) = documents.now().await {
            clock.set(now);
        }
    }
}

/// The random ID of the server with the data folder `folder`, which it keeps.
#[cfg(feature = "postgres")]
fn server_id(folder: &std::path::Path) -> std::io::Result<String> {
    use std::fs;
    use std::io::{ErrorKind, Write};

    let path = folder.join(tunesmith_data_dir::SERVER_FILE);
    match fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let id = hex::encode(rand::random::<[u8; 16]>());
    let mut file = fs::File::create(&path)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    Ok(id)
}
