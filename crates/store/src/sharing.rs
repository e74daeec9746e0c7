//! State shared by several servers on one store, besides its records: job ownership, documents and a clock.
//!
//! Calls that cannot reach the shared state fail with [`StoreError::NotApplied`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use super::{Store, StoreError};
use tunesmith_domain::{Job, JobId, JobState, StudyId, TrialId};

/// Right of one server to run a job, until released or expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub job: JobId,
    /// Fencing number, greater than that of any earlier claim.
    pub fence: u64,
    /// Whether another server owned the job before, so that its programs may run elsewhere.
    pub is_taken_over: bool,
    /// Whether this server may have the folder of a deleted namesake, which must be removed first.
    pub has_old_folder: bool,
}

/// Result of renewing a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    pub job: JobId,
    /// State of the job; `None` if another server has the claim now.
    pub state: Option<JobState>,
}

/// Current or last server of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOwner {
    /// Display name of the server.
    pub name: String,
    pub is_self: bool,
    pub is_current: bool,
}

/// Decides which of several servers runs a job. Thread-safe.
///
/// A server claims a job before running it, renews the claim meanwhile, and writes through [`Self::store_of`], which
/// fences off former owners. One clock measures the claims and leases of all servers.
#[async_trait]
pub trait JobClaims: Send + Sync + 'static {
    /// Interval for renewing claims and discovering jobs of dead servers; `None` in single-server mode.
    fn interval(&self) -> Option<Duration>;

    /// Claims the job `id`; `None` if another server owns it with a current lease. A second claim by the same server
    /// ends its first.
    async fn claim(&self, id: &JobId) -> Result<Option<Claim>, StoreError>;

    /// Renews claims and returns the result of each.
    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>, StoreError>;

    /// Releases `claim`, so that another server can claim the job immediately.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`]; the claim then ends with its lease.
    async fn release(&self, claim: &Claim) -> Result<(), StoreError>;

    /// Unfinished jobs that no other server owns.
    async fn available(&self) -> Result<Vec<JobId>, StoreError>;

    /// Current or last server of the job; `None` if never claimed.
    async fn owner(&self, id: &JobId) -> Result<Option<JobOwner>, StoreError>;

    /// Deleted jobs whose folder this server may still have.
    async fn deleted(&self) -> Result<Vec<JobId>, StoreError> {
        Ok(Vec::new())
    }

    /// Records that this server has removed the folder of the deleted job.
    async fn removed(&self, id: &JobId) -> Result<(), StoreError> {
        let _ = id;
        Ok(())
    }

    /// Fenced store for the run of a job: changes fail with [`StoreError::NotOwner`] once the claim is lost.
    fn store_of(&self, claim: &Claim) -> Arc<dyn Store>;

    /// Notifies other servers of a queued, cancelled or released job. A lost notification delays them by
    /// [`Self::interval`].
    async fn announce(&self);

    /// Changes after each notification from another server.
    fn announcements(&self) -> watch::Receiver<u64>;

    /// Unfinished jobs not run by any server. Other servers' counts block until the returned value is dropped. `None`
    /// in single-server mode.
    async fn queued(&self) -> Result<Option<QueuedJobs>, StoreError> {
        Ok(None)
    }

    /// Notifies the server running the trial of measurements stored by this server. A lost notification delays it by
    /// [`Self::interval`].
    async fn announce_measurements(&self, study: &StudyId, trial: TrialId) {
        let _ = (study, trial);
    }

    /// Notices of other servers; never any in single-server mode.
    fn notices(&self) -> broadcast::Receiver<Notice> {
        broadcast::channel(1).1
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// New measurements of a trial.
    Measured(StudyId, TrialId),
    TrialEnded,
    /// Notices may have been lost.
    Missed,
}

/// Unfinished jobs not run by any server, by ID.
pub struct QueuedJobs {
    pub jobs: Vec<Job>,
    /// Blocks counts by other servers until dropped.
    pub lock: Box<dyn Send>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub id: u64,
    pub request: Vec<u8>,
}

/// Relays requests to the server that runs a job, and the responses back. Either may be lost with a server or the
/// database, so senders retry, and requests must be idempotent.
#[async_trait]
pub trait Relay: Send + Sync + 'static {
    /// Sends `request` to the other server running `job`, and returns its response. `None` if there is no such server,
    /// or no response within `limit`.
    async fn ask(&self, job: &JobId, request: Vec<u8>, limit: Duration) -> Result<Option<Vec<u8>>, StoreError>;

    /// Takes the requests for this server, each once.
    async fn take(&self) -> Result<Vec<Asked>, StoreError>;

    /// Responds to the request `id`.
    async fn answer(&self, id: u64, answer: Vec<u8>) -> Result<(), StoreError>;

    /// Changes when there may be requests for this server.
    fn asked(&self) -> watch::Receiver<u64>;
}

/// A running trial, or a job without hyperparameters, subject to the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningTrial {
    pub job: JobId,
    pub principal: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Whether the trial may run, and is counted from now on.
    pub is_admitted: bool,
    /// Trials running on other servers.
    pub others: Vec<RunningTrial>,
}

/// Whether a trial may run beside others.
pub type Admits = Arc<dyn Fn(&[RunningTrial]) -> bool + Send + Sync>;

/// Counts the running trials of several servers; unrenewed ones expire.
#[async_trait]
pub trait RunningTrials: Send + Sync + 'static {
    /// Counts `trial` as this server's `ticket`, if `admits` accepts the other running trials of all servers.
    /// Admissions are serialized. A repeated ticket replaces the first.
    async fn admit(&self, ticket: u64, trial: &RunningTrial, admits: Admits) -> Result<Admission, StoreError>;

    /// Renews this server's running trials, exactly those `held`. Returns those of other servers.
    async fn renew(&self, held: &[(u64, RunningTrial)]) -> Result<Vec<RunningTrial>, StoreError>;

    /// Stops counting this server's `ticket`, and notifies the others.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`]; the next renewal has the same effect.
    async fn release(&self, ticket: u64) -> Result<(), StoreError>;
}

/// Claims of the only server on a store, which owns every job.
pub struct OnlyServer {
    store: Arc<dyn Store>,
    announcements: watch::Sender<u64>,
}

impl OnlyServer {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, announcements: watch::channel(0).0 }
    }
}

#[async_trait]
impl JobClaims for OnlyServer {
    fn interval(&self) -> Option<Duration> {
        None
    }

    async fn claim(&self, id: &JobId) -> Result<Option<Claim>, StoreError> {
        Ok(Some(Claim { job: id.clone(), fence: 0, is_taken_over: false, has_old_folder: false }))
    }

    async fn renew(&self, _claims: &[Claim]) -> Result<Vec<Renewal>, StoreError> {
        Ok(Vec::new())
    }

    async fn release(&self, _claim: &Claim) -> Result<(), StoreError> {
        Ok(())
    }

    async fn available(&self) -> Result<Vec<JobId>, StoreError> {
        const PAGE: usize = 100;
        let mut available = Vec::new();
        let mut after = None;
        loop {
            let jobs = self.store.jobs(after.as_ref(), PAGE).await?;
            let is_last = jobs.len() < PAGE;
            after = jobs.last().map(|job| job.id.clone());
            available.extend(jobs.into_iter().filter(|job| !job.state.is_final()).map(|job| job.id.clone()));
            if is_last {
                return Ok(available);
            }
        }
    }

    async fn owner(&self, _id: &JobId) -> Result<Option<JobOwner>, StoreError> {
        Ok(None)
    }

    fn store_of(&self, _claim: &Claim) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    async fn announce(&self) {}

    fn announcements(&self) -> watch::Receiver<u64> {
        self.announcements.subscribe()
    }
}

/// Changes of documents since a former read, all of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentChanges {
    /// Number of all documents of the kinds, changed or not.
    pub total: usize,
    /// Start of the next read.
    pub cursor: u64,
    /// Kinds, names and first parts.
    pub documents: Vec<(String, String, Vec<u8>)>,
}

/// Named documents by kind, shared by servers. Parts are read one by one.
#[async_trait]
pub trait Documents: Send + Sync + 'static {
    /// Stores or replaces a part of a document. A document exists once it has part 0.
    async fn put(&self, kind: &str, name: &str, part: u64, body: Vec<u8>) -> Result<(), StoreError>;

    /// Stores a single-part document unless the name is taken, and returns the resulting content.
    async fn get_or_put(&self, kind: &str, name: &str, body: Vec<u8>) -> Result<Vec<u8>, StoreError>;

    /// Compare-and-swap of a single-part document; `expected` is `None` for absence. Returns whether it matched.
    async fn replace(
        &self,
        kind: &str,
        name: &str,
        expected: Option<Vec<u8>>,
        body: Vec<u8>,
    ) -> Result<bool, StoreError>;

    /// A part of a document, counted from 0.
    async fn part(&self, kind: &str, name: &str, part: u64) -> Result<Option<Vec<u8>>, StoreError>;

    /// First parts of all documents of `kind`, by name, with the time since each was last written or touched.
    async fn list(&self, kind: &str) -> Result<Vec<(String, Vec<u8>, Duration)>, StoreError>;

    /// First parts of the first `limit` documents of `kind` whose names follow `after`, by name in the order of bytes.
    async fn list_after(&self, kind: &str, after: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Changes of the documents whose kinds begin with `prefix` since the read that returned `cursor`: at most `limit`
    /// documents that were written or touched, none without a cursor. A write in progress at that read is among them.
    /// `None` if only this process changes the documents.
    async fn changes(
        &self,
        prefix: &str,
        cursor: Option<u64>,
        limit: usize,
    ) -> Result<Option<DocumentChanges>, StoreError> {
        let _ = (prefix, cursor, limit);
        Ok(None)
    }

    /// Marks a document as in use; returns whether it exists.
    async fn touch(&self, kind: &str, name: &str) -> Result<bool, StoreError>;

    /// Removes documents neither written nor touched for `unused_for`, and returns their names. A concurrent touch
    /// prevents removal.
    async fn remove_unused(&self, kind: &str, unused_for: Duration) -> Result<Vec<String>, StoreError>;

    async fn remove(&self, kind: &str, name: &str) -> Result<(), StoreError>;

    /// Removes a single-part document that still is `expected`; returns whether it was.
    async fn remove_exactly(&self, kind: &str, name: &str, expected: Vec<u8>) -> Result<bool, StoreError>;

    /// Current time of the shared clock.
    async fn now(&self) -> Result<Timestamp, StoreError>;
}
