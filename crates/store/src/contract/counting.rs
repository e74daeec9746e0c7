//! A store that counts the trials that are read from it.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::{Condition, Store, StoreError};
use tunesmith_domain::{
    Job, JobChange, JobId, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange, TrialId,
};

/// Another store, with a count of the trials that its lists have returned.
#[derive(Debug, Default)]
pub struct CountingStore<S> {
    /// The store.
    pub inner: S,
    listed: AtomicU64,
}

impl<S> CountingStore<S> {
    /// Counts what is read from `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner, listed: AtomicU64::new(0) }
    }

    /// The number of trials that lists have returned since the last call.
    pub fn take_listed(&self) -> u64 {
        self.listed.swap(0, Ordering::Relaxed)
    }

    fn count(&self, trials: &[Trial]) {
        self.listed.fetch_add(trials.len() as u64, Ordering::Relaxed);
    }
}

#[async_trait]
impl<S: Store> Store for CountingStore<S> {
    fn keeps_order(&self) -> bool {
        self.inner.keeps_order()
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.inner.condition()
    }

    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError> {
        self.inner.create_job(job, study).await
    }

    async fn job(&self, id: &JobId) -> Result<Job, StoreError> {
        self.inner.job(id).await
    }

    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.inner.jobs(after, limit).await
    }

    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError> {
        self.inner.change_job(id, change).await
    }

    async fn delete_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.inner.delete_job(id).await
    }

    async fn create_study(&self, study: Study) -> Result<(), StoreError> {
        self.inner.create_study(study).await
    }

    async fn studies(
        &self,
        project: &str,
        location: &str,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        self.inner.studies(project, location, after, limit).await
    }

    async fn all_studies(&self, after: Option<&StudyId>, limit: usize) -> Result<Vec<Study>, StoreError> {
        self.inner.all_studies(after, limit).await
    }

    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError> {
        self.inner.delete_study(id).await
    }

    async fn finish_deletions(&self) -> Result<(), StoreError> {
        self.inner.finish_deletions().await
    }

    async fn study(&self, id: &StudyId) -> Result<Study, StoreError> {
        self.inner.study(id).await
    }

    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError> {
        self.inner.change_study(id, change).await
    }

    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError> {
        self.inner.create_trials(study, trials).await
    }

    async fn open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.inner.open_trials(study, after, limit).await.inspect(|trials| self.count(trials))
    }

    async fn study_and_open_trials(&self, study: &StudyId, limit: usize) -> Result<(Study, Vec<Trial>), StoreError> {
        self.inner.study_and_open_trials(study, limit).await.inspect(|(_, trials)| self.count(trials))
    }

    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        self.inner.overdue_trials(at, limit).await
    }

    async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StoreError> {
        self.inner.trial(study, id).await
    }

    async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<(Study, Trial), StoreError> {
        self.inner.trial_of_study(study, id).await
    }

    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError> {
        self.inner.trials(study, after, limit).await.inspect(|trials| self.count(trials))
    }

    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.inner.trials_changed_since(study, revision, limit).await.inspect(|trials| self.count(trials))
    }

    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError> {
        self.inner.change_trial(study, id, change).await
    }

    async fn summary(&self, study: &StudyId) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.summary(study).await
    }

    async fn put_summary(&self, study: &StudyId, body: Vec<u8>) -> Result<(), StoreError> {
        self.inner.put_summary(study, body).await
    }

    async fn measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Measurement>, StoreError> {
        self.inner.measurements(study, trial, from, limit).await
    }
}
