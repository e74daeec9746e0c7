//! The interface of storage engines: records, and closures that run in transactions.
//!
//! [`super::store_of_engine`] makes every engine a [`super::Store`].

use std::path::Path;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Condition, StoreError};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// What a change affects. Changes of one scope wait for each other; an engine may commit them together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// A job, and its study.
    Job(JobId),
    /// A study and its trials.
    Study(StudyId),
}

/// Runs closures in transactions. Every engine is a [`super::Store`].
pub(super) trait Engine: Send + Sync + 'static {
    /// Whether changes take effect in the order in which the futures of [`Self::write`] are polled for the first time.
    const KEEPS_ORDER: bool;

    /// Whether the engine takes changes.
    fn condition(&self) -> watch::Receiver<Condition>;

    /// Runs `change` in a transaction and returns once it is durable. If `change` returns an error, the transaction is
    /// rolled back. `change` may run more than once, but only one run is committed.
    fn write<T: Send + 'static>(
        &self,
        scope: Scope,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `query` on a consistent state, without partial transactions. `query` may run more than once.
    fn read<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`Self::read`], for a query of at most [`super::FEW`] records.
    fn lookup<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        self.read(query)
    }
}

/// Access to single records.
pub(super) trait Lookups {
    /// The file or folder, for messages.
    fn path(&self) -> &Path;
    /// The job `id`, if there is one.
    fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError>;
    /// The study `id`, if there is one.
    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError>;
    /// The trial `id` of `study`, if there is one.
    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError>;
    /// The study `study` and its trial `id`, which an engine may read at once.
    fn study_and_trial(&self, study: &StudyId, id: TrialId) -> Result<(Option<Study>, Option<Trial>), StoreError> {
        Ok((self.study(study)?, self.trial(study, id)?))
    }
    /// The number after those of the trials that remain of the deleted study `id`; `None` if none remain.
    fn remains(&self, id: &StudyId) -> Result<Option<TrialId>, StoreError>;
}

/// Ordered access to records.
pub(super) trait Ranges: Lookups {
    /// Up to `limit` jobs after `after`, by ID.
    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError>;
    /// Up to `limit` studies of `project` at `location` with an ID after `after`, by ID.
    fn studies(
        &self,
        project: &str,
        location: &str,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError>;
    /// Up to `limit` studies that belong to no job with an ID after `after`, by ID.
    fn all_studies(&self, after: Option<&StudyId>, limit: usize) -> Result<Vec<Study>, StoreError>;
    /// The deleted studies of which trials remain.
    fn deleted_studies(&self) -> Result<Vec<StudyId>, StoreError>;
    /// Up to `limit` trials that are not final with a number above `after`, by number.
    fn open_trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError>;
    /// The study `study`, and up to `limit` of its trials that are not final, by number. An engine may read both at once.
    fn study_and_open_trials(&self, study: &StudyId, limit: usize) -> Result<(Option<Study>, Vec<Trial>), StoreError> {
        Ok((self.study(study)?, self.open_trials(study, TrialId(0), limit)?))
    }
    /// Up to `limit` trials whose leases end at `at` or before, earliest first.
    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError>;
    /// Up to `limit` trials with a number above `after`, by number.
    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError>;
    /// Up to `limit` trials with a revision above `revision`, by revision.
    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError>;
    /// As [`Self::changed_trials`], of a study that is known to exist; `None` if that has to be checked. An engine may read
    /// and check at once.
    fn changed_trials_of_study(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Option<Vec<Trial>>, StoreError> {
        let _ = (study, revision, limit);
        Ok(None)
    }
    /// The summary of `study`, if there is one.
    fn summary(&self, study: &StudyId) -> Result<Option<Vec<u8>>, StoreError>;
    /// Stored chunks of measurements in order, starting with the one that contains number `from`, each with the number of
    /// its first measurement. They contain at least `limit` measurements if the trial has so many.
    fn chunks(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<Measurement>)>, StoreError>;
}

/// Writing records within a transaction.
pub(super) trait Changes: Lookups {
    /// Checks that `fence` is the number of the latest claim of `job`, and keeps it so until the end of the transaction.
    #[cfg(feature = "postgres")]
    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        let _ = (job, fence);
        Ok(())
    }

    /// Adds or replaces a job.
    fn put_job(&self, job: &Job) -> Result<(), StoreError>;
    /// Removes a job. Its study is not affected.
    fn remove_job(&self, id: &JobId) -> Result<(), StoreError>;
    /// Adds or replaces a study, its progress included.
    fn put_study(&self, study: &Study) -> Result<(), StoreError>;
    /// Replaces the next trial number and the revision of a study.
    fn put_progress(&self, study: &Study) -> Result<(), StoreError>;
    /// Adds or replaces the summary of a study.
    fn put_summary(&self, study: &StudyId, body: &[u8]) -> Result<(), StoreError>;
    /// Replaces the records of a study itself, its summary included, by the mark that its trials below `next` are to be
    /// removed; `None` removes the mark as well.
    fn put_remains(&self, study: &StudyId, next: Option<TrialId>) -> Result<(), StoreError>;
    /// Removes the trials of a study from `first` up to, but not including, `end`, with their measurements.
    fn remove_trials(&self, study: &StudyId, first: TrialId, end: TrialId) -> Result<(), StoreError>;
    /// Adds a trial, or replaces the version `replaces` of it.
    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError>;
    /// Appends measurements, the first of which has number `first`.
    fn add_measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        first: u64,
        measurements: &[Measurement],
    ) -> Result<(), StoreError>;
}
