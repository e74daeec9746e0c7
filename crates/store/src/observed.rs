//! Notifications of changes that this process makes in a store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use super::{
    Claim, Condition, CopiedRecords, JobClaims, JobOwner, Notice, QueuedJobs, Renewal, Store, StoreError, SummaryKind,
};
use tunesmith_domain::{
    Job, JobChange, JobId, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange, TrialId,
};

/// Record that may have changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Changed {
    Job(JobId),
    /// The study or its trials.
    Study(StudyId),
}

/// Callback after a change, also after one that failed: it may have been applied. It must return immediately.
pub type Observer = Arc<dyn Fn(Changed) + Send + Sync>;

/// Calls `observer` after each change through the returned store.
pub fn observed(store: Arc<dyn Store>, observer: Observer) -> Arc<dyn Store> {
    Arc::new(ObservedStore { store, observer })
}

/// Like [`observed`], for the stores of `claims`.
pub fn observed_claims(claims: Arc<dyn JobClaims>, observer: Observer) -> Arc<dyn JobClaims> {
    Arc::new(ObservedClaims { claims, observer })
}

struct ObservedStore {
    store: Arc<dyn Store>,
    observer: Observer,
}

impl ObservedStore {
    fn changed<T>(&self, changed: Changed, result: T) -> T {
        (self.observer)(changed);
        result
    }
}

#[async_trait]
impl Store for ObservedStore {
    fn keeps_order(&self) -> bool {
        self.store.keeps_order()
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.store.condition()
    }

    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError> {
        let id = job.id.clone();
        self.changed(Changed::Job(id), self.store.create_job(job, study).await)
    }

    async fn job(&self, id: &JobId) -> Result<Job, StoreError> {
        self.store.job(id).await
    }

    async fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.store.jobs(after, limit).await
    }

    async fn change_job(&self, id: &JobId, change: JobChange) -> Result<Job, StoreError> {
        self.changed(Changed::Job(id.clone()), self.store.change_job(id, change).await)
    }

    async fn delete_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.changed(Changed::Job(id.clone()), self.store.delete_job(id).await)
    }

    async fn create_study(&self, study: Study) -> Result<(), StoreError> {
        let id = study.id.clone();
        self.changed(Changed::Study(id), self.store.create_study(study).await)
    }

    async fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        self.store.studies(parent, after, limit).await
    }

    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError> {
        self.changed(Changed::Study(id.clone()), self.store.delete_study(id).await)
    }

    async fn finish_deletions(&self) -> Result<(), StoreError> {
        self.store.finish_deletions().await
    }

    async fn study(&self, id: &StudyId) -> Result<Study, StoreError> {
        self.store.study(id).await
    }

    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError> {
        self.changed(Changed::Study(id.clone()), self.store.change_study(id, change).await)
    }

    async fn create_trial(&self, study: &StudyId, trial: NewTrial) -> Result<Trial, StoreError> {
        self.changed(Changed::Study(study.clone()), self.store.create_trial(study, trial).await)
    }

    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError> {
        self.changed(Changed::Study(study.clone()), self.store.create_trials(study, trials).await)
    }

    async fn open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.store.open_trials(study, after, limit).await
    }

    async fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<(Study, Vec<Trial>), StoreError> {
        self.store.study_and_open_trials(study, after, limit).await
    }

    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        self.store.overdue_trials(at, limit).await
    }

    async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StoreError> {
        self.store.trial(study, id).await
    }

    async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<(Study, Trial), StoreError> {
        self.store.trial_of_study(study, id).await
    }

    async fn trials(&self, study: &StudyId, after: Option<TrialId>, limit: usize) -> Result<Vec<Trial>, StoreError> {
        self.store.trials(study, after, limit).await
    }

    async fn trials_changed_since(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Trial>, StoreError> {
        self.store.trials_changed_since(study, revision, limit).await
    }

    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError> {
        let changed = self.store.change_trial(study, id, change).await;
        // Reports of running trials are frequent, and no event.
        if changed.as_ref().is_ok_and(|trial| !trial.state.is_final()) {
            return changed;
        }
        self.changed(Changed::Study(study.clone()), changed)
    }

    async fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.summary(study, kind).await
    }

    async fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: Vec<u8>) -> Result<(), StoreError> {
        self.store.put_summary(study, kind, body).await
    }

    async fn add_copied(&self, records: CopiedRecords) -> Result<(), StoreError> {
        self.store.add_copied(records).await
    }

    async fn measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Measurement>, StoreError> {
        self.store.measurements(study, trial, from, limit).await
    }
}

struct ObservedClaims {
    claims: Arc<dyn JobClaims>,
    observer: Observer,
}

#[async_trait]
impl JobClaims for ObservedClaims {
    fn interval(&self) -> Option<Duration> {
        self.claims.interval()
    }

    async fn claim(&self, id: &JobId) -> Result<Option<Claim>, StoreError> {
        self.claims.claim(id).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>, StoreError> {
        self.claims.renew(claims).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.claims.release(claim).await
    }

    async fn available(&self) -> Result<Vec<JobId>, StoreError> {
        self.claims.available().await
    }

    async fn owner(&self, id: &JobId) -> Result<Option<JobOwner>, StoreError> {
        self.claims.owner(id).await
    }

    async fn deleted(&self) -> Result<Vec<JobId>, StoreError> {
        self.claims.deleted().await
    }

    async fn removed(&self, id: &JobId) -> Result<(), StoreError> {
        self.claims.removed(id).await
    }

    fn store_of(&self, claim: &Claim) -> Arc<dyn Store> {
        observed(self.claims.store_of(claim), Arc::clone(&self.observer))
    }

    async fn announce(&self) {
        self.claims.announce().await;
    }

    fn announcements(&self) -> watch::Receiver<u64> {
        self.claims.announcements()
    }

    async fn queued(&self) -> Result<Option<QueuedJobs>, StoreError> {
        self.claims.queued().await
    }

    async fn announce_measurements(&self, study: &StudyId, trial: TrialId) {
        self.claims.announce_measurements(study, trial).await;
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.claims.notices()
    }
}
