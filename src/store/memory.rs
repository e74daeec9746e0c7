//! A store in memory, for simulation, benchmarks and tests: it forgets everything with the process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::StoreError;
use super::engine::{Changes, Engine, Lookups, Ranges};
use crate::domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// A [`super::Store`] in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: Mutex<Records>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Engine for MemoryStore {
    async fn write<T: Send + 'static>(
        &self,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Changes check everything before they write, and writing to memory does not fail: there is nothing to undo.
        change(&*self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        query(&*self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug, Default)]
struct Records {
    jobs: RefCell<BTreeMap<JobId, Job>>,
    studies: RefCell<BTreeMap<StudyId, StudyRecords>>,
}

#[derive(Debug)]
struct StudyRecords {
    study: Study,
    trials: BTreeMap<TrialId, Trial>,
    by_revision: BTreeMap<u64, TrialId>,
    measurements: BTreeMap<TrialId, Vec<Measurement>>,
}

impl Records {
    fn in_study<T>(&self, study: &StudyId, read: impl FnOnce(&StudyRecords) -> T) -> Option<T> {
        self.studies.borrow().get(study).map(read)
    }

    fn change_study(&self, study: &StudyId, change: impl FnOnce(&mut StudyRecords)) {
        if let Some(records) = self.studies.borrow_mut().get_mut(study) {
            change(records);
        }
    }
}

impl Lookups for Records {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.jobs.borrow().get(id).cloned())
    }

    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError> {
        Ok(self.in_study(id, |records| records.study.clone()))
    }

    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError> {
        Ok(self.in_study(study, |records| records.trials.get(&id).cloned()).flatten())
    }
}

impl Ranges for Records {
    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.jobs.borrow().range((start, Bound::Unbounded)).take(limit).map(|(_, job)| job.clone()).collect())
    }

    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let read = |records: &StudyRecords| {
            let range = records.trials.range((Bound::Excluded(after), Bound::Unbounded));
            range.take(limit).map(|(_, trial)| trial.clone()).collect()
        };
        Ok(self.in_study(study, read).unwrap_or_default())
    }

    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let read = |records: &StudyRecords| {
            let range = records.by_revision.range((Bound::Excluded(revision), Bound::Unbounded));
            range.take(limit).filter_map(|(_, id)| records.trials.get(id).cloned()).collect()
        };
        Ok(self.in_study(study, read).unwrap_or_default())
    }

    fn chunks(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<Measurement>)>, StoreError> {
        let read = |records: &StudyRecords| {
            let curve = records.measurements.get(&trial)?;
            Some(vec![(from, curve.iter().skip(from as usize).take(limit).cloned().collect())])
        };
        Ok(self.in_study(study, read).flatten().unwrap_or_default())
    }
}

impl Changes for Records {
    fn put_job(&self, job: &Job) -> Result<(), StoreError> {
        self.jobs.borrow_mut().insert(job.id.clone(), job.clone());
        Ok(())
    }

    fn put_study(&self, study: &Study) -> Result<(), StoreError> {
        let mut studies = self.studies.borrow_mut();
        match studies.get_mut(&study.id) {
            Some(records) => records.study = study.clone(),
            None => {
                let records = StudyRecords {
                    study: study.clone(),
                    trials: BTreeMap::new(),
                    by_revision: BTreeMap::new(),
                    measurements: BTreeMap::new(),
                };
                studies.insert(study.id.clone(), records);
            }
        }
        Ok(())
    }

    fn put_progress(&self, study: &Study) -> Result<(), StoreError> {
        self.change_study(&study.id, |records| records.study = study.clone());
        Ok(())
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<u64>) -> Result<(), StoreError> {
        self.change_study(study, |records| {
            if let Some(revision) = replaces {
                records.by_revision.remove(&revision);
            }
            records.by_revision.insert(trial.revision, trial.id);
            records.trials.insert(trial.id, trial.clone());
        });
        Ok(())
    }

    fn add_measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        _first: u64,
        measurements: &[Measurement],
    ) -> Result<(), StoreError> {
        self.change_study(study, |records| {
            records.measurements.entry(trial).or_default().extend_from_slice(measurements);
        });
        Ok(())
    }
}
