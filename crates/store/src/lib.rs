#![doc = include_str!("../README.md")]

#[cfg(any(feature = "sled", feature = "sqlite"))]
mod acknowledged;
mod changes;
#[cfg(feature = "testing")]
pub mod contract;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod decoded_studies;
mod engine;
mod error;
mod fault;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod group;
#[cfg(any(feature = "postgres", feature = "sled", feature = "sqlite"))]
mod keys;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod queries;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sled", feature = "sqlite")),
    expect(dead_code, unused_imports, reason = "without an engine, only the form of a plan is used")
)]
mod record;
mod sharing;
#[cfg(feature = "sled")]
mod sled;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store_of_engine;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

pub use error::StoreError;
pub use fault::{Condition, StoreFault};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{DatabaseAddress, DatabaseAddressError, PostgresClaims, PostgresDocuments, PostgresStore};
pub use sharing::{
    Admission, Admits, Asked, Claim, Documents, JobClaims, JobOwner, Notice, OnlyServer, QueuedJobs, Relay, Renewal,
    RunningTrial, RunningTrials,
};
#[cfg(feature = "sled")]
pub use sled::SledStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

use tunesmith_domain::{
    Document, Job, JobChange, JobId, JobPlan, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange,
    TrialId,
};

/// The JSON of `plan`, as the record of a job contains it. Digests of plans are computed over it.
pub fn plan_document(plan: &JobPlan) -> Document {
    record::encode_plan(plan)
}

/// Whether opening creates a missing store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Opens the store, or creates an empty one if there is none.
    Create,
    /// Opens an existing store. An empty or missing one is damaged.
    Existing,
}

/// Maximal number of records that are read on the calling thread: reading them takes less time than a change of thread.
pub const FEW: usize = 32;

/// The advice in errors about a damaged store.
const RESTORE_ADVICE: &str = "stop, keep a copy of the data folder, and restore the store from a backup";

/// Durable storage of jobs, studies, trials and measurements. The crate documentation contains the contract.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Whether changes take effect in the order in which their futures are polled for the first time.
    fn keeps_order(&self) -> bool;

    /// Whether the store takes changes, and every change of that.
    fn condition(&self) -> watch::Receiver<Condition>;

    /// Adds a job and its study.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if a job or a study has that ID; then neither is added.
    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError>;

    /// The job `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn job(&self, id: &JobId) -> Result<Job, StoreError>;

    /// Up to `limit` jobs in the order of their IDs, starting after `after`.
    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError>;

    /// Applies `change` and returns the changed job. [`JobChange::Retry`] and [`JobChange::Extend`] also let the job's study
    /// accept trials again, and the former returns its infeasible trials to their client.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError>;

    /// Removes a job in a final state with its study, trials and measurements. Its ID may be used again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`] if the job is not in a final state.
    async fn delete_job(&self, id: &JobId) -> Result<(), StoreError>;

    /// Adds a study that belongs to no job.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`].
    async fn create_study(&self, study: Study) -> Result<(), StoreError>;

    /// Up to `limit` studies of `project` at `location` in the order of their IDs, starting after `after`, without the
    /// studies of jobs.
    async fn studies(
        &self,
        project: &str,
        location: &str,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError>;

    /// Up to `limit` studies of all projects and locations in the order of their IDs, starting after `after`, without the
    /// studies of jobs.
    async fn all_studies(&self, after: Option<&StudyId>, limit: usize) -> Result<Vec<Study>, StoreError>;

    /// Removes a study with its trials and their measurements. Its ID may be used again. The study no longer exists after
    /// the first of several transactions, between which other changes are made.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError>;

    /// Removes what remains of studies whose deletion was interrupted.
    ///
    /// # Errors
    /// If they cannot be found.
    async fn finish_deletions(&self) -> Result<(), StoreError>;

    /// The study `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn study(&self, id: &StudyId) -> Result<Study, StoreError>;

    /// Applies `change` and returns the changed study.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError>;

    /// Adds a trial to an active study and returns it, with its revision.
    ///
    /// # Errors
    /// [`StoreError::TrialIdTaken`] if `trial.id` is not the study's next number, because another caller added a trial:
    /// compute the suggestion again with that trial pending. [`StoreError::NotFound`]. [`StoreError::Refused`] if
    /// the study is not active.
    async fn create_trial(&self, study: &StudyId, trial: NewTrial) -> Result<Trial, StoreError> {
        let id = trial.id;
        let created = self.create_trials(study, vec![trial]).await?;
        let created = created.into_iter().next();
        created.ok_or_else(|| StoreError::NotFound { resource: format!("trial {id} of study {study}") })
    }

    /// As [`Self::create_trial`] for any number of trials with consecutive numbers, all or none.
    ///
    /// # Errors
    /// As [`Self::create_trial`].
    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError>;

    /// Up to `limit` trials of `study` that are not final, in the order of their numbers, starting after `after`. The
    /// cost does not depend on the number of final trials.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError>;

    /// The study `study`, and up to `limit` of its trials that are not final, in the order of their numbers, as both were
    /// at one time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn study_and_open_trials(&self, study: &StudyId, limit: usize) -> Result<(Study, Vec<Trial>), StoreError>;

    /// Up to `limit` trials of all studies whose leases end at `at` or before, earliest first. The cost does not depend
    /// on the number of other trials.
    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError>;

    /// The trial `id` of `study`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StoreError>;

    /// The trial `id` of `study`, and the study, as both were at one time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<(Study, Trial), StoreError>;

    /// Up to `limit` trials of `study` in the order of their numbers, starting after `after`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError>;

    /// Up to `limit` trials whose latest change has a revision above `revision`, in the order of revisions. A caller
    /// that keeps the latest revision reads only the changes since its former call.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError>;

    /// Applies `change`, stores its measurements, and returns the changed trial.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError>;

    /// The summary of `study` that was stored last; `None` without one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn summary(&self, study: &StudyId) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores what a caller has derived from the trials of `study`, in a form of its own, and replaces the former summary. It
    /// is removed with the study.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn put_summary(&self, study: &StudyId, body: Vec<u8>) -> Result<(), StoreError>;

    /// Up to `limit` measurements of a trial in the order of arrival, starting with number `from`, counted from 0.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such trial.
    async fn measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Measurement>, StoreError>;
}
