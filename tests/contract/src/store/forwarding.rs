//! Stores that pass every call on to another store.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use tunesmith_domain::{
    Job, JobChange, JobId, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange, TrialId,
};
use tunesmith_store::{Condition, CopiedRecords, Store, StoreError, SummaryKind};

/// The choice of the store that a call is passed on to.
pub trait Forward: Send + Sync + 'static {
    /// The store of the next call.
    fn store(&self) -> &dyn Store;

    /// Takes note of the trials that a list has returned.
    fn listed(&self, trials: &[Trial]) {
        let _ = trials;
    }
}

/// The store that `F` chooses for each call.
#[derive(Debug, Default)]
pub struct Forwarding<F>(pub F);

impl<F> Deref for Forwarding<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.0
    }
}

/// Another store, with a count of the trials that its lists have returned.
pub type CountingStore<S> = Forwarding<Counting<S>>;

/// Counts the trials that lists of `inner` have returned.
#[derive(Debug, Default)]
pub struct Counting<S> {
    /// The store.
    pub inner: S,
    listed: AtomicU64,
}

impl<S> CountingStore<S> {
    /// Counts what is read from `inner`.
    pub fn new(inner: S) -> Self {
        Self(Counting { inner, listed: AtomicU64::new(0) })
    }
}

impl<S> Counting<S> {
    /// The number of trials that lists have returned since the last call.
    pub fn take_listed(&self) -> u64 {
        self.listed.swap(0, Ordering::Relaxed)
    }
}

impl<S: Store> Forward for Counting<S> {
    fn store(&self) -> &dyn Store {
        &self.inner
    }

    fn listed(&self, trials: &[Trial]) {
        self.listed.fetch_add(trials.len() as u64, Ordering::Relaxed);
    }
}

#[async_trait]
impl<F: Forward> Store for Forwarding<F> {
    fn keeps_order(&self) -> bool {
        self.store().keeps_order()
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.store().condition()
    }

    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError> {
        self.store().create_job(job, study).await
    }

    async fn job(&self, id: &JobId) -> Result<Job, StoreError> {
        self.store().job(id).await
    }

    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.store().jobs(after, limit).await
    }

    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError> {
        self.store().change_job(id, change).await
    }

    async fn delete_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.store().delete_job(id).await
    }

    async fn create_study(&self, study: Study) -> Result<(), StoreError> {
        self.store().create_study(study).await
    }

    async fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        self.store().studies(parent, after, limit).await
    }

    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError> {
        self.store().delete_study(id).await
    }

    async fn finish_deletions(&self) -> Result<(), StoreError> {
        self.store().finish_deletions().await
    }

    async fn study(&self, id: &StudyId) -> Result<Study, StoreError> {
        self.store().study(id).await
    }

    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError> {
        self.store().change_study(id, change).await
    }

    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError> {
        self.store().create_trials(study, trials).await
    }

    async fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<(Study, Vec<Trial>), StoreError> {
        self.store().study_and_open_trials(study, after, limit).await.inspect(|(_, trials)| self.listed(trials))
    }

    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        self.store().overdue_trials(at, limit).await
    }

    async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<(Study, Trial), StoreError> {
        self.store().trial_of_study(study, id).await
    }

    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError> {
        self.store().trials(study, after, limit).await.inspect(|trials| self.listed(trials))
    }

    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.store().trials_changed_since(study, revision, limit).await.inspect(|trials| self.listed(trials))
    }

    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError> {
        self.store().change_trial(study, id, change).await
    }

    async fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError> {
        self.store().summary(study, kind).await
    }

    async fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: Vec<u8>) -> Result<(), StoreError> {
        self.store().put_summary(study, kind, body).await
    }

    async fn add_copied(&self, records: CopiedRecords) -> Result<(), StoreError> {
        self.store().add_copied(records).await
    }

    async fn measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Measurement>, StoreError> {
        self.store().measurements(study, trial, from, limit).await
    }
}
