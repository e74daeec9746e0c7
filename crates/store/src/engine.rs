//! Storage engine interface: records, and closures that run in transactions.
//!
//! `store_of_engine` makes every engine a [`super::Store`].

use std::path::Path;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Condition, StoreError, SummaryKind};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// Scope of a change. Changes with the same scope are serialized; an engine may commit them together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    Job(JobId),
    Study(StudyId),
}

pub trait Engine: Send + Sync + 'static {
    /// Whether changes take effect in the order in which the futures of [`Self::write`] are first polled.
    const KEEPS_ORDER: bool;

    /// Whether the engine accepts changes.
    fn condition(&self) -> watch::Receiver<Condition>;

    /// Runs `change` in a transaction and returns once it is durable; an error rolls it back. `change` may run several
    /// times, but only one run is committed.
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

pub trait Lookups {
    /// File or folder, for messages.
    fn path(&self) -> &Path;
    fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError>;
    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError>;
    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError>;
    /// A study and one of its trials; an engine may combine the reads.
    fn study_and_trial(&self, study: &StudyId, id: TrialId) -> Result<(Option<Study>, Option<Trial>), StoreError> {
        Ok((self.study(study)?, self.trial(study, id)?))
    }
    /// End (exclusive) of the remaining trial numbers of the deleted study `id`; `None` if none remain.
    fn remains(&self, id: &StudyId) -> Result<Option<TrialId>, StoreError>;
}

pub trait Ranges: Lookups {
    /// Up to `limit` jobs after `after`, by ID.
    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError>;
    /// Up to `limit` studies after `after`, by ID: those of a project at a location, or with `None` all that belong to
    /// no job.
    fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError>;
    /// Deleted studies with remaining trials.
    fn deleted_studies(&self) -> Result<Vec<StudyId>, StoreError>;
    /// A study, and up to `limit` of its non-final trials with numbers above `after`, by number. An engine may combine
    /// the reads.
    fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: TrialId,
        limit: usize,
    ) -> Result<(Option<Study>, Vec<Trial>), StoreError>;
    /// Up to `limit` trials with leases that end at or before `at`, earliest first.
    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError>;
    /// Up to `limit` trials with numbers above `after`, by number.
    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError>;
    /// Up to `limit` trials with revisions above `revision`, by revision.
    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError>;
    /// As [`Self::changed_trials`], for a study whose existence the engine checks in the same read; `None` if it
    /// cannot.
    fn changed_trials_of_study(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Option<Vec<Trial>>, StoreError> {
        let _ = (study, revision, limit);
        Ok(None)
    }
    fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError>;
    /// Chunks of measurements in order, starting with the one containing number `from`, each with the number of its
    /// first measurement. Holds at least `limit` measurements if the trial has that many.
    fn chunks(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<Measurement>)>, StoreError>;
}

pub trait Changes: Lookups {
    /// Checks that `fence` is the latest claim of `job`, and pins it until the end of the transaction.
    #[cfg(feature = "postgres")]
    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        let _ = (job, fence);
        Ok(())
    }

    fn put_job(&self, job: &Job) -> Result<(), StoreError>;
    /// Removes a job, but not its study.
    fn remove_job(&self, id: &JobId) -> Result<(), StoreError>;
    /// Adds or replaces a study, including its progress.
    fn put_study(&self, study: &Study) -> Result<(), StoreError>;
    /// Replaces the next trial number and the revision of a study.
    fn put_progress(&self, study: &Study) -> Result<(), StoreError>;
    fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: &[u8]) -> Result<(), StoreError>;
    /// Replaces the study's own records, including its summaries, by a tombstone for its trials below `next`; `None`
    /// removes the tombstone too.
    fn put_remains(&self, study: &StudyId, next: Option<TrialId>) -> Result<(), StoreError>;
    /// Removes the trials in `first..end` with their measurements.
    fn remove_trials(&self, study: &StudyId, first: TrialId, end: TrialId) -> Result<(), StoreError>;
    /// Adds a trial, or replaces its version `replaces`.
    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError>;
    /// Appends measurements, numbered from `first`.
    fn add_measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        first: u64,
        measurements: &[Measurement],
    ) -> Result<(), StoreError>;
}
