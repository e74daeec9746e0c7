//! Where jobs, studies, trials and measurements are kept.
//!
//! # Contract for implementers
//! - Every call is **one transaction**: all of it happens, or nothing. Changes are values of the domain
//!   ([`TrialChange`] and its like): a store reads the record, applies the change, writes the record, and commits;
//!   what the domain refuses is returned as [`StoreError::Refused`] and changes nothing.
//! - **An answer means durable.** `Ok` is returned after the change would survive what the implementation promises to
//!   survive (see the table below).
//! - Calls may come from many tasks at once; changes of one study take effect in one order, the order of revisions.
//! - Reads see every change that was acknowledged before they began.
//!
//! # What each store promises
//! | | [`SqliteStore`] (default) | [`SledStore`] | [`MemoryStore`] |
//! |---|---|---|---|
//! | an acknowledged change survives `kill -9` of the program | yes | yes | no |
//! | ... a crash of the operating system or a power cut | yes: synced with its commit | no: sled asks for no sync of the device | no |
//! | changes of many callers share one sync | yes, up to 512 | - | - |
//! | flipped bytes | found: at opening up to 8 MiB or, above that, in the background after an unclean end; else when read | found when opened or read | - |
//! | file or log cut off, emptied, gone | refused: acknowledged changes are counted beside it | refused likewise | - |
//! | looked at while a program has it open | yes | no | no |
//! | its content can be seen with | `sqlite3`; bodies are JSON | nothing common | nothing |
//! | cost of a change with 100,000 trials there | logarithmic | logarithmic | logarithmic |
//!
//! # How to create trials fast
//! [`Store::create_trial`] names the number it expects, so of several callers that ask for the same number one
//! succeeds. Whoever knows the numbers in advance may hand over several creations without waiting for each answer, if
//! the store [keeps the order](Store::keeps_order): what arrives in order shares one commit.

#[cfg(any(feature = "sled", feature = "sqlite"))]
mod acknowledged;
mod changes;
#[cfg(feature = "testing")]
pub mod contract;
mod engine;
mod error;
#[cfg(any(feature = "sled", feature = "sqlite"))]
mod keys;
mod memory;
mod queries;
#[cfg_attr(
    not(any(feature = "sled", feature = "sqlite")),
    expect(dead_code, unused_imports, reason = "without an engine, only the form of a plan is used")
)]
mod record;
#[cfg(feature = "sled")]
mod sled;
#[cfg(feature = "sqlite")]
mod sqlite;

use async_trait::async_trait;
use jiff::Timestamp;

pub use error::StoreError;
pub use memory::MemoryStore;
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

/// Whether a store may be made where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Opens the store, or makes an empty one if there is none.
    Create,
    /// Opens the store that is known to be there. An empty or missing one is damaged.
    Existing,
}

/// So many records are few: reading them takes less time than the way to another thread.
pub const FEW: usize = 32;

/// What can be done about a damaged store.
const RESTORE_ADVICE: &str = "stop, keep a copy of the data folder, and restore the store from a backup";

/// Jobs, studies, trials and measurements, durably. See the module documentation for the contract.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Whether changes take effect in the order in which their futures are polled for the first time.
    fn keeps_order(&self) -> bool;

    /// Adds a job, and the study it owns.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if there is a job or a study of that ID; then neither was added.
    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError>;

    /// The job `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn job(&self, id: &JobId) -> Result<Job, StoreError>;

    /// Up to `limit` jobs in the order of their IDs, starting after `after`.
    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError>;

    /// Applies `change` and returns the job as it is afterwards.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError>;

    /// Adds a study that belongs to no job.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`].
    async fn create_study(&self, study: Study) -> Result<(), StoreError>;

    /// Up to `limit` studies of `project` at `location` in the order of their IDs, starting after `after`. Those of
    /// jobs are not among them.
    async fn studies(
        &self,
        project: &str,
        location: &str,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError>;

    /// Removes a study with its trials and their measurements. Its ID may be used again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError>;

    /// The study `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn study(&self, id: &StudyId) -> Result<Study, StoreError>;

    /// Applies `change` and returns the study as it is afterwards.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError>;

    /// Adds a trial to an active study and returns it, with its revision.
    ///
    /// # Errors
    /// [`StoreError::TrialIdTaken`] if `trial.id` is not the study's next number: somebody else was faster, and the
    /// suggestion should be made again with that trial pending. [`StoreError::NotFound`]. [`StoreError::Refused`] if
    /// the study is not active.
    async fn create_trial(&self, study: &StudyId, trial: NewTrial) -> Result<Trial, StoreError> {
        let id = trial.id;
        let created = self.create_trials(study, vec![trial]).await?;
        let created = created.into_iter().next();
        created.ok_or_else(|| StoreError::NotFound { resource: format!("trial {id} of study {study}") })
    }

    /// As [`Self::create_trial`] for any number of trials, all or none; their numbers follow each other.
    ///
    /// # Errors
    /// As [`Self::create_trial`].
    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError>;

    /// Up to `limit` trials of `study` that are not final, in the order of their numbers, starting after `after`. The
    /// cost does not grow with the number of final ones.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError>;

    /// Up to `limit` trials of all studies whose leases end at `at` or before, the earliest first. The cost does not
    /// grow with the number of others.
    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError>;

    /// The trial `id` of `study`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StoreError>;

    /// Up to `limit` trials of `study` in the order of their numbers, starting after `after`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError>;

    /// Up to `limit` trials whose latest change has a revision above `revision`, in the order of revisions. What has
    /// changed since a former call can so be learned without reading everything again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such study.
    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError>;

    /// Applies `change`, stores the measurements it brings, and returns the trial as it is afterwards.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError>;

    /// Up to `limit` measurements of a trial in the order of their arrival, starting with number `from`, where the
    /// first is 0.
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
