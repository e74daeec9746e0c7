//! Several stores of one database as one: each call goes to the next of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::watch;
use tunesmith_domain::{
    Job, JobChange, JobId, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange, TrialId,
};
use tunesmith_store::{Condition, PostgresStore, Store, StoreError};

pub(super) struct Several {
    stores: Vec<PostgresStore>,
    next: AtomicUsize,
}

impl Several {
    pub(super) fn new(stores: Vec<PostgresStore>) -> Self {
        Self { stores, next: AtomicUsize::new(0) }
    }

    fn next(&self) -> &PostgresStore {
        &self.stores[self.next.fetch_add(1, Ordering::Relaxed) % self.stores.len()]
    }
}

#[async_trait]
impl Store for Several {
    fn keeps_order(&self) -> bool {
        false
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        Store::condition(self.next())
    }

    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError> {
        self.next().create_job(job, study).await
    }

    async fn job(&self, id: &JobId) -> Result<Job, StoreError> {
        self.next().job(id).await
    }

    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.next().jobs(after, limit).await
    }

    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError> {
        self.next().change_job(id, change).await
    }

    async fn delete_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.next().delete_job(id).await
    }

    async fn create_study(&self, study: Study) -> Result<(), StoreError> {
        self.next().create_study(study).await
    }

    async fn studies(
        &self,
        project: &str,
        location: &str,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        self.next().studies(project, location, after, limit).await
    }

    async fn all_studies(&self, after: Option<&StudyId>, limit: usize) -> Result<Vec<Study>, StoreError> {
        self.next().all_studies(after, limit).await
    }

    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError> {
        self.next().delete_study(id).await
    }

    async fn finish_deletions(&self) -> Result<(), StoreError> {
        self.next().finish_deletions().await
    }

    async fn study(&self, id: &StudyId) -> Result<Study, StoreError> {
        self.next().study(id).await
    }

    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError> {
        self.next().change_study(id, change).await
    }

    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError> {
        self.next().create_trials(study, trials).await
    }

    async fn open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.next().open_trials(study, after, limit).await
    }

    async fn study_and_open_trials(&self, study: &StudyId, limit: usize) -> Result<(Study, Vec<Trial>), StoreError> {
        self.next().study_and_open_trials(study, limit).await
    }

    async fn overdue_trials(&self, at: jiff::Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        self.next().overdue_trials(at, limit).await
    }

    async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StoreError> {
        self.next().trial(study, id).await
    }

    async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<(Study, Trial), StoreError> {
        self.next().trial_of_study(study, id).await
    }

    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError> {
        self.next().trials(study, after, limit).await
    }

    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.next().trials_changed_since(study, revision, limit).await
    }

    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError> {
        self.next().change_trial(study, id, change).await
    }

    async fn summary(&self, study: &StudyId) -> Result<Option<Vec<u8>>, StoreError> {
        self.next().summary(study).await
    }

    async fn put_summary(&self, study: &StudyId, body: Vec<u8>) -> Result<(), StoreError> {
        self.next().put_summary(study, body).await
    }

    async fn measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Measurement>, StoreError> {
        self.next().measurements(study, trial, from, limit).await
    }
}
