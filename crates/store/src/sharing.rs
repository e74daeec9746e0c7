//! What several servers on one store share besides its records: the ownership of jobs, documents, and a clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use super::{Store, StoreError};
use tunesmith_domain::{Job, JobId, JobState, StudyId, TrialId};

/// The right of one server to run a job, until it is released or its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The job.
    pub job: JobId,
    /// The fencing number. A later claim of any server has a larger one.
    pub fence: u64,
    /// Whether another server owned the job before, so that its programs may run elsewhere.
    pub is_taken_over: bool,
    /// Whether this server may have the folder of a deleted job of the same name, which has to be removed first.
    pub has_old_folder: bool,
}

/// A claim after an attempt to renew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The job.
    pub job: JobId,
    /// The state of the job; `None` if the claim is lost to another server.
    pub state: Option<JobState>,
}

/// The server that runs a job, or ran it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOwner {
    /// The name of the server for people.
    pub name: String,
    /// Whether it is this server.
    pub is_self: bool,
    /// Whether its lease has not ended.
    pub is_current: bool,
}

/// Decides which of several servers runs a job. Implementations answer concurrent calls.
///
/// A server claims a job before it runs it, renews the claim while it runs, and writes through [`Self::store_of`], which
/// refuses the writes of a former owner. Claims and leases are measured with one clock for all servers.
#[async_trait]
pub trait JobClaims: Send + Sync + 'static {
    /// The interval at which claims are renewed and jobs of dead servers are looked for; `None` if there is one server.
    fn interval(&self) -> Option<Duration>;

    /// Claims the job `id`. `None` if another server owns it and its lease has not ended. A second claim of the same
    /// server ends its first one.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn claim(&self, id: &JobId) -> Result<Option<Claim>, StoreError>;

    /// Renews claims, and returns what became of each.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>, StoreError>;

    /// Gives `claim` up, so that another server may claim the job at once.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`]; the claim then ends with its lease.
    async fn release(&self, claim: &Claim) -> Result<(), StoreError>;

    /// The unfinished jobs that no other server owns.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn available(&self) -> Result<Vec<JobId>, StoreError>;

    /// The server that runs the job `id`, or ran it last; `None` if none has claimed it.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn owner(&self, id: &JobId) -> Result<Option<JobOwner>, StoreError>;

    /// The deleted jobs of which this server may have a folder.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn deleted(&self) -> Result<Vec<JobId>, StoreError> {
        Ok(Vec::new())
    }

    /// Notes that this server has no folder of the deleted job `id` any more.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn removed(&self, id: &JobId) -> Result<(), StoreError> {
        let _ = id;
        Ok(())
    }

    /// The store for the run of a job: a change fails with [`StoreError::NotOwner`] once the claim is lost.
    fn store_of(&self, claim: &Claim) -> Arc<dyn Store>;

    /// Notifies the other servers that a job was queued, cancelled or released. A lost notice delays them by
    /// [`Self::interval`].
    async fn announce(&self);

    /// Changes after each notice of another server.
    fn announcements(&self) -> watch::Receiver<u64>;

    /// The unfinished jobs of all servers that none of them runs. No other server counts them before the returned value is
    /// dropped. `None` if there is one server.
    ///
    /// # Errors
    /// If they cannot be read.
    async fn queued(&self) -> Result<Option<QueuedJobs>, StoreError> {
        Ok(None)
    }

    /// Notifies the server that runs the trial `trial` of `study` that this one has stored measurements of it. A lost notice
    /// delays it by [`Self::interval`].
    async fn announce_measurements(&self, study: &StudyId, trial: TrialId) {
        let _ = (study, trial);
    }

    /// Receives what other servers have announced. Without others, nothing is received.
    fn notices(&self) -> broadcast::Receiver<Notice> {
        broadcast::channel(1).1
    }
}

/// What another server has announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It has stored measurements of a trial.
    Measured(StudyId, TrialId),
    /// One of its trials has ended, so that another one may run within the limits.
    TrialEnded,
    /// Notices may have been missed.
    Missed,
}

/// The unfinished jobs that no server runs.
pub struct QueuedJobs {
    /// The jobs, by ID.
    pub jobs: Vec<Job>,
    /// Keeps other servers from counting them, until it is dropped.
    pub lock: Box<dyn Send>,
}

/// A request of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its number.
    pub id: u64,
    /// Its content.
    pub request: Vec<u8>,
}

/// Passes requests to the server that runs a job, and its answers back. Both may be lost with a server or the database, so that a
/// request is repeated by its sender, and has to have the same effect as once.
#[async_trait]
pub trait Relay: Send + Sync + 'static {
    /// Passes `request` to the other server that runs `job`, and returns its answer. `None` if there is no such server, or it did
    /// not answer within `limit`.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn ask(&self, job: &JobId, request: Vec<u8>, limit: Duration) -> Result<Option<Vec<u8>>, StoreError>;

    /// Takes the requests for this server, each once.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn take(&self) -> Result<Vec<Asked>, StoreError>;

    /// Answers the request `id`.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn answer(&self, id: u64, answer: Vec<u8>) -> Result<(), StoreError>;

    /// Changes when there may be requests for this server.
    fn asked(&self) -> watch::Receiver<u64>;
}

/// A running trial, or a job without hyperparameters, that counts towards the limits on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningTrial {
    /// The job.
    pub job: JobId,
    /// Who submitted it.
    pub principal: Option<String>,
}

/// The answer to [`RunningTrials::admit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Whether the trial may run, and is counted from now on.
    pub is_admitted: bool,
    /// The trials that run on other servers.
    pub others: Vec<RunningTrial>,
}

/// Whether a trial may run beside others.
pub type Admits = Arc<dyn Fn(&[RunningTrial]) -> bool + Send + Sync>;

/// Counts the running trials of several servers. Those of a server that does not renew them end with a lease.
#[async_trait]
pub trait RunningTrials: Send + Sync + 'static {
    /// Counts `trial` under the number `ticket` of this server, if `admits` returns true for the other running trials of
    /// all servers. No other trial is admitted meanwhile. A second call with the same number replaces the first.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn admit(&self, ticket: u64, trial: &RunningTrial, admits: Admits) -> Result<Admission, StoreError>;

    /// Renews the running trials of this server, which are `held` and no others. Returns those of other servers.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn renew(&self, held: &[(u64, RunningTrial)]) -> Result<Vec<RunningTrial>, StoreError>;

    /// No longer counts the trial `ticket` of this server, and notifies the others.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`]; the next renewal has the same effect.
    async fn release(&self, ticket: u64) -> Result<(), StoreError>;
}

/// The claims of the only server on a store: it owns every job.
pub struct OnlyServer {
    store: Arc<dyn Store>,
    announcements: watch::Sender<u64>,
}

impl OnlyServer {
    /// The claims of the only server on `store`.
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

/// Named documents of several kinds that servers share. Each has parts, which are read one by one.
#[async_trait]
pub trait Documents: Send + Sync + 'static {
    /// Stores part `part` of a document, and replaces the former one. A document exists once it has part 0.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn put(&self, kind: &str, name: &str, part: u64, body: Vec<u8>) -> Result<(), StoreError>;

    /// Stores a document of one part unless there is one of that name, and returns the one that there is afterwards.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn get_or_put(&self, kind: &str, name: &str, body: Vec<u8>) -> Result<Vec<u8>, StoreError>;

    /// Replaces a document of one part if it is still `expected` (`None`: if there is none). Returns whether it was.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn replace(
        &self,
        kind: &str,
        name: &str,
        expected: Option<Vec<u8>>,
        body: Vec<u8>,
    ) -> Result<bool, StoreError>;

    /// Part `part` of a document, counted from 0; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn part(&self, kind: &str, name: &str, part: u64) -> Result<Option<Vec<u8>>, StoreError>;

    /// The first parts of all documents of `kind`, by name, with the time since each was last written or touched.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn list(&self, kind: &str) -> Result<Vec<(String, Vec<u8>, Duration)>, StoreError>;

    /// Notes that a document is in use; returns whether it exists.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn touch(&self, kind: &str, name: &str) -> Result<bool, StoreError>;

    /// Removes the documents of `kind` that were neither written nor touched for `unused_for`, and returns their names. One that
    /// is touched meanwhile is kept.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn remove_unused(&self, kind: &str, unused_for: Duration) -> Result<Vec<String>, StoreError>;

    /// Removes a document, if there is one.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn remove(&self, kind: &str, name: &str) -> Result<(), StoreError>;

    /// The present time of the clock that all servers share.
    ///
    /// # Errors
    /// [`StoreError::NotApplied`].
    async fn now(&self) -> Result<Timestamp, StoreError>;
}
