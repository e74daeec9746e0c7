//! The interface of storage engines, and the [`Store`] on top of it.
//!
//! An engine stores records and runs closures in transactions. The calls of a store are implemented once for all engines,
//! in [`super::changes`] and [`super::queries`].

use std::path::Path;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{FEW, Store, StoreError, changes, queries};
use tunesmith_domain::{
    Job, JobChange, JobId, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange, TrialId,
};

/// Runs closures in transactions. Every engine is a [`Store`].
pub(super) trait Engine: Send + Sync + 'static {
    /// Whether changes take effect in the order in which the futures of [`Self::write`] are polled for the first time.
    const KEEPS_ORDER: bool;

    /// Runs `change` in a transaction and returns once it is durable. If `change` returns an error, the transaction is
    /// rolled back. `change` may run more than once, but only one run is committed.
    fn write<T: Send + 'static>(
        &self,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `query` on a consistent state, without partial transactions.
    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// As [`Self::read`], for a query of at most [`FEW`] records.
    fn lookup<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
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
    /// Up to `limit` trials that are not final with a number above `after`, by number.
    fn open_trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError>;
    /// Up to `limit` trials whose leases end at `at` or before, earliest first.
    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError>;
    /// Up to `limit` trials with a number above `after`, by number.
    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError>;
    /// Up to `limit` trials with a revision above `revision`, by revision.
    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError>;
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
    /// Adds or replaces a job.
    fn put_job(&self, job: &Job) -> Result<(), StoreError>;
    /// Adds or replaces a study, its progress included.
    fn put_study(&self, study: &Study) -> Result<(), StoreError>;
    /// Replaces the next trial number and the revision of a study.
    fn put_progress(&self, study: &Study) -> Result<(), StoreError>;
    /// Removes a study with its trials and measurements.
    fn remove_study(&self, study: &StudyId) -> Result<(), StoreError>;
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

#[async_trait]
impl<E: Engine> Store for E {
    fn keeps_order(&self) -> bool {
        E::KEEPS_ORDER
    }

    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError> {
        self.write(move |records| changes::create_job(records, &job, study.as_ref())).await
    }

    async fn job(&self, id: &JobId) -> Result<Job, StoreError> {
        let id = id.clone();
        self.lookup(move |records| queries::job(records, &id)).await
    }

    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let after = after.cloned();
        self.read(move |records| records.jobs(after.as_ref(), limit)).await
    }

    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError> {
        let id = id.clone();
        self.write(move |records| changes::change_job(records, &id, change.clone())).await
    }

    async fn create_study(&self, study: Study) -> Result<(), StoreError> {
        self.write(move |records| changes::create_study(records, &study)).await
    }

    async fn studies(
        &self,
        project: &str,
        location: &str,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        let (project, location, after) = (project.to_owned(), location.to_owned(), after.cloned());
        self.read(move |records| records.studies(&project, &location, after.as_ref(), limit)).await
    }

    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |records| changes::delete_study(records, &id)).await
    }

    async fn study(&self, id: &StudyId) -> Result<Study, StoreError> {
        let id = id.clone();
        self.lookup(move |records| queries::study(records, &id)).await
    }

    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError> {
        let id = id.clone();
        self.write(move |records| changes::change_study(records, &id, change.clone())).await
    }

    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError> {
        let study = study.clone();
        self.write(move |records| changes::create_trials(records, &study, &trials)).await
    }

    async fn open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        let study = study.clone();
        let query = move |records: &dyn Ranges| {
            queries::study(records, &study)?;
            records.open_trials(&study, after.unwrap_or(TrialId(0)), limit)
        };
        if limit <= FEW { self.lookup(query).await } else { self.read(query).await }
    }

    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        self.read(move |records| records.overdue_trials(at, limit)).await
    }

    async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StoreError> {
        let study = study.clone();
        self.lookup(move |records| queries::trial(records, &study, id)).await
    }

    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let study = study.clone();
        self.read(move |records| queries::trials(records, &study, after, limit)).await
    }

    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        let study = study.clone();
        let query = move |records: &dyn Ranges| {
            queries::study(records, &study)?;
            records.changed_trials(&study, revision, limit)
        };
        if limit <= FEW { self.lookup(query).await } else { self.read(query).await }
    }

    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError> {
        let study = study.clone();
        self.write(move |records| changes::change_trial(records, &study, id, change.clone())).await
    }

    async fn measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Measurement>, StoreError> {
        let study = study.clone();
        self.read(move |records| queries::measurements(records, &study, trial, from, limit)).await
    }
}
