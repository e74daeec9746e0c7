//! The [`Store`] implementation of every engine, based on [`super::changes`] and [`super::queries`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use super::engine::{Changes, Engine, Ranges, Scope};
use super::{Condition, CopiedRecords, FEW, Store, StoreError, SummaryKind, changes, queries};
use tunesmith_domain::{
    Job, JobChange, JobId, Measurement, NewTrial, Study, StudyChange, StudyId, Trial, TrialChange, TrialId,
};
use tunesmith_telemetry::telemetry;

/// Removes the remains of the deleted `study` stepwise. After a failure, [`Store::finish_deletions`] removes the rest.
async fn remove_remains(engine: &impl Engine, study: &StudyId) {
    loop {
        let id = study.clone();
        match engine.write(Scope::Study(study.clone()), move |records| changes::remove_remains(records, &id)).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(study.name = %study, error, "trials of a deleted study are left until the next start");
                return;
            }
        }
    }
}

#[async_trait]
impl<E: Engine> Store for E {
    fn keeps_order(&self) -> bool {
        E::KEEPS_ORDER
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        Engine::condition(self)
    }

    async fn create_job(&self, job: Job, study: Option<Study>) -> Result<(), StoreError> {
        let state = job.state;
        self.write(Scope::Job(job.id.clone()), move |records| changes::create_job(records, &job, study.as_ref()))
            .await?;
        // Outside the change, which may run more than once.
        telemetry().job(state.as_str());
        Ok(())
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
        let (scope, id) = (Scope::Job(id.clone()), id.clone());
        let change = move |records: &dyn Changes| changes::change_job(records, &id, change.clone());
        let (job, is_new_state) = self.write(scope, change).await?;
        if is_new_state {
            telemetry().job(job.state.as_str());
        }
        Ok(job)
    }

    async fn delete_job(&self, id: &JobId) -> Result<(), StoreError> {
        let id = id.clone();
        if let Some(study) =
            self.write(Scope::Job(id.clone()), move |records| changes::delete_job(records, &id)).await?
        {
            remove_remains(self, &study).await;
        }
        Ok(())
    }

    async fn create_study(&self, study: Study) -> Result<(), StoreError> {
        self.write(Scope::Study(study.id.clone()), move |records| changes::create_study(records, &study)).await
    }

    async fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        let parent = parent.map(|(project, location)| (project.to_owned(), location.to_owned()));
        let after = after.cloned();
        let query = move |records: &dyn Ranges| {
            let parent = parent.as_ref().map(|(project, location)| (project.as_str(), location.as_str()));
            records.studies(parent, after.as_ref(), limit)
        };
        self.read(query).await
    }

    async fn delete_study(&self, id: &StudyId) -> Result<(), StoreError> {
        let study = id.clone();
        if self.write(Scope::Study(id.clone()), move |records| changes::delete_study(records, &study)).await? {
            remove_remains(self, id).await;
        }
        Ok(())
    }

    async fn finish_deletions(&self) -> Result<(), StoreError> {
        for study in self.read(|records| records.deleted_studies()).await? {
            remove_remains(self, &study).await;
        }
        Ok(())
    }

    async fn study(&self, id: &StudyId) -> Result<Study, StoreError> {
        let id = id.clone();
        self.lookup(move |records| queries::study(records, &id)).await
    }

    async fn change_study(&self, id: &StudyId, change: StudyChange) -> Result<Study, StoreError> {
        let id = id.clone();
        self.write(Scope::Study(id.clone()), move |records| changes::change_study(records, &id, change.clone())).await
    }

    async fn create_trials(&self, study: &StudyId, trials: Vec<NewTrial>) -> Result<Vec<Trial>, StoreError> {
        let (scope, study) = (Scope::Study(study.clone()), study.clone());
        let create = move |records: &dyn Changes| changes::create_trials(records, &study, &trials);
        let created = self.write(scope, create).await?;
        // Outside the change, which may run more than once.
        created.iter().for_each(|trial| telemetry().trials(trial.state.as_str(), 1));
        Ok(created)
    }

    async fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: Option<TrialId>,
        limit: usize,
    ) -> Result<(Study, Vec<Trial>), StoreError> {
        let study = study.clone();
        let query = move |records: &dyn Ranges| {
            let (found, trials) = records.study_and_open_trials(&study, after.unwrap_or(TrialId(0)), limit)?;
            Ok((found.ok_or_else(|| queries::not_found(&study))?, trials))
        };
        if limit <= FEW { self.lookup(query).await } else { self.read(query).await }
    }

    async fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        let query = move |records: &dyn Ranges| {
            let mut overdue = records.overdue_trials(at, limit)?;
            let mut deleted = BTreeMap::new();
            for (study, _) in &overdue {
                if !deleted.contains_key(study) {
                    deleted.insert(study.clone(), records.remains(study)?.is_some());
                }
            }
            overdue.retain(|(study, _)| deleted.get(study) == Some(&false));
            Ok(overdue)
        };
        self.read(query).await
    }

    async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<(Study, Trial), StoreError> {
        let study = study.clone();
        self.lookup(move |records| queries::trial_of_study(records, &study, id)).await
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
        let query = move |records: &dyn Ranges| queries::changed_trials(records, &study, revision, limit);
        if limit <= FEW { self.lookup(query).await } else { self.read(query).await }
    }

    async fn change_trial(&self, study: &StudyId, id: TrialId, change: TrialChange) -> Result<Trial, StoreError> {
        let (scope, study) = (Scope::Study(study.clone()), study.clone());
        let change = move |records: &dyn Changes| changes::change_trial(records, &study, id, change.clone());
        let (trial, is_new_state) = self.write(scope, change).await?;
        if is_new_state {
            telemetry().trials(trial.state.as_str(), 1);
        }
        Ok(trial)
    }

    async fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError> {
        let study = study.clone();
        self.read(move |records| match records.summary(&study, kind)? {
            Some(body) => Ok(Some(body)),
            None => queries::study(records, &study).map(|_| None),
        })
        .await
    }

    async fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: Vec<u8>) -> Result<(), StoreError> {
        let (scope, study) = (Scope::Study(study.clone()), study.clone());
        let put = move |records: &dyn Changes| {
            queries::study(records, &study)?;
            records.put_summary(&study, kind, &body)
        };
        self.write(scope, put).await
    }

    async fn add_copied(&self, records: CopiedRecords) -> Result<(), StoreError> {
        let scope = match &records {
            CopiedRecords::Job(job) => Scope::Job(job.id.clone()),
            CopiedRecords::Study { study, .. } => Scope::Study(study.id.clone()),
            CopiedRecords::Trials { study, .. } | CopiedRecords::Measurements { study, .. } => {
                Scope::Study(study.clone())
            }
        };
        self.write(scope, move |changes| changes::add_copied(changes, &records)).await
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
