#![doc = include_str!("../README.md")]

#[cfg(any(feature = "sled", feature = "sqlite"))]
mod acknowledged;
mod changes;
mod copy;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod decoded_studies;
pub mod engine;
mod error;
mod fault;
#[cfg(any(feature = "sled", feature = "sqlite"))]
mod file_lock;
mod folder_documents;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod group;
#[cfg(any(feature = "postgres", feature = "sled", feature = "sqlite"))]
mod keys;
mod memory;
mod observed;
pub mod pages;
#[cfg(feature = "postgres")]
mod postgres;
mod queries;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sled", feature = "sqlite")),
    expect(dead_code, unused_imports, reason = "without an engine, only the forms of plans and snapshots are used")
)]
mod record;
mod sharing;
#[cfg(feature = "sled")]
mod sled;
mod snapshot;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store_of_engine;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

pub use copy::{Contents, CopiedRecords, CopyError, copy, read_all};
pub use error::{OptionalExtension, StoreError};
pub use fault::{Condition, StoreFault};
pub use folder_documents::FolderDocuments;
pub use memory::MemoryStore;
pub use observed::{Changed, Observer, observed, observed_claims};
#[cfg(feature = "postgres")]
pub use postgres::{DatabaseAddress, DatabaseAddressError, PostgresClaims, PostgresDocuments, PostgresStore};
pub use sharing::{
    Admission, Admits, Asked, Claim, DocumentChanges, Documents, JobClaims, JobOwner, Notice, OnlyServer, QueuedJobs,
    Relay, Renewal, RunningTrial, RunningTrials,
};
#[cfg(feature = "sled")]
pub use sled::SledStore;
pub use snapshot::snapshot;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, back_up};

use tunesmith_domain::{
    Document, Job, JobChange, JobId, JobPlan, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange,
    TrialId,
};

/// JSON of `plan` as stored in job records, the input of plan digests.
pub fn plan_document(plan: &JobPlan) -> Document {
    record::encode_plan(plan)
}

/// Behaviour of opening a missing store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Creates an empty store if none exists.
    Create,
    /// Requires an existing store; an empty or missing one counts as damaged.
    Existing,
}

/// Maximum number of records read on the calling thread, which is faster than a thread switch.
pub const FEW: usize = 32;

const RESTORE_ADVICE: &str = "stop, keep a copy of the data folder, and restore the store from a backup";

/// Kind of a summary: what it was derived for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SummaryKind {
    /// Statistics, optimal trials and the course of the best result.
    Figures,
    /// Columns of all trials, for views. Large; not part of copies, since they are derived again.
    Columns,
}

/// Durable storage of jobs, studies, trials and measurements. The crate documentation states the contract.
///
/// Errors: [`StoreError::NotFound`] for a missing job, study or trial; [`StoreError::AlreadyExists`] for a taken ID;
/// [`StoreError::Refused`] for a change rejected by the domain.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Whether changes take effect in the order in which their futures are first polled.
    fn keeps_order(&self) -> bool;

    /// Watches whether the store accepts changes.
    fn condition(&self) -> watch::Receiver<Condition>;

    /// Adds a job and its study, or neither.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if the ID of either is taken.
    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError>;

    async fn job(&self, id: &JobId) -> Result<Job, StoreError>;

    /// Up to `limit` jobs by ID, after `after`.
    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError>;

    /// Applies `change` and returns the changed job. [`JobChange::Retry`] and [`JobChange::Extend`] also reactivate the
    /// job's study; the former returns infeasible trials to their client.
    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError>;

    /// Removes a job in a final state with its study, trials and measurements. Its ID becomes available.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`] if the job is not in a final state.
    async fn delete_job(&self, id: &JobId) -> Result<(), StoreError>;

    async fn create_study(&self, study: Study) -> Result<(), StoreError>;

    /// Up to `limit` studies that belong to no job, by ID after `after`: those of a project at a location, or with
    /// `None` all.
    async fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError>;

    /// Removes a study with its trials and measurements; its ID becomes available. The study disappears with the first
    /// of several transactions, which other changes may interleave.
    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError>;

    /// Completes interrupted deletions of studies.
    async fn finish_deletions(&self) -> Result<(), StoreError>;

    async fn study(&self, id: &StudyId) -> Result<Study, StoreError>;

    /// Applies `change` and returns the changed study.
    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError>;

    /// Adds a trial to an active study and returns it with its revision.
    ///
    /// # Errors
    /// [`StoreError::TrialIdTaken`] if another caller added a trial, so that `trial.id` is not the study's next number:
    /// compute the suggestion again with that trial pending. [`StoreError::NotFound`]. [`StoreError::Refused`] if the
    /// study is not active.
    async fn create_trial(&self, study: &StudyId, trial: NewTrial) -> Result<Trial, StoreError> {
        let id = trial.id;
        let created = self.create_trials(study, vec![trial]).await?;
        let created = created.into_iter().next();
        created.ok_or_else(|| StoreError::NotFound { resource: format!("trial {id} of study {study}") })
    }

    /// As [`Self::create_trial`] for trials with consecutive numbers, atomically.
    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError>;

    /// Up to `limit` non-final trials of `study` by number, after `after`. The cost is independent of the number of
    /// final trials.
    async fn open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.study_and_open_trials(study, after, limit).await.map(|(_, trials)| trials)
    }

    /// Consistent snapshot of a study and its [`Self::open_trials`].
    async fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<(Study, Vec<Trial>), StoreError>;

    /// Up to `limit` trials of all studies with leases that end at or before `at`, earliest first. The cost is
    /// independent of the number of other trials.
    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError>;

    async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StoreError> {
        self.trial_of_study(study, id).await.map(|(_, trial)| trial)
    }

    /// Consistent snapshot of a trial and its study.
    async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<(Study, Trial), StoreError>;

    /// Up to `limit` trials of `study` by number, after `after`.
    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError>;

    /// Up to `limit` trials with revisions above `revision`, by revision. A caller that remembers the latest revision
    /// reads only the changes since its previous call.
    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError>;

    /// Applies `change`, stores its measurements, and returns the changed trial.
    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError>;

    /// Latest stored summary of `study` of this kind, if any.
    async fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores data derived from the trials of `study`, in the caller's own format, replacing the previous summary of this kind.
    /// Removed with the study.
    async fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: Vec<u8>) -> Result<(), StoreError>;

    /// Adds records of another store unchanged, each once.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for the ID of a job or study.
    async fn add_copied(&self, records: CopiedRecords) -> Result<(), StoreError>;

    /// Up to `limit` measurements of a trial in order of arrival, starting with number `from`, counted from 0.
    async fn measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Measurement>, StoreError>;
}
