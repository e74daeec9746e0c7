//! Store in memory, for searches within one process and for tests. Its content is lost with the process.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

use crate::engine::{Changes, Engine, Lookups, Ranges, Scope};
use crate::{Condition, StoreError, SummaryKind};

/// A [`Store`](crate::Store) in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: Mutex<Records>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `change` on the records.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&dyn Changes) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        change(&*self.records.lock())
    }
}

impl Engine for MemoryStore {
    const KEEPS_ORDER: bool = true;

    fn condition(&self) -> watch::Receiver<Condition> {
        watch::channel(Condition::Working).1
    }

    async fn write<T: Send + 'static>(
        &self,
        _scope: Scope,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Changes check everything before they write, and writing to memory does not fail, so no rollback is needed.
        self.change(change)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        query(&*self.records.lock())
    }
}

#[derive(Debug, Default)]
struct Records {
    jobs: RefCell<BTreeMap<JobId, Job>>,
    studies: RefCell<BTreeMap<StudyId, StudyRecords>>,
    deadlines: RefCell<BTreeSet<(Timestamp, StudyId, TrialId)>>,
}

#[derive(Debug)]
struct StudyRecords {
    study: Study,
    open: BTreeSet<TrialId>,
    trials: BTreeMap<TrialId, Trial>,
    by_revision: BTreeMap<u64, TrialId>,
    measurements: BTreeMap<TrialId, Vec<Measurement>>,
    summaries: BTreeMap<SummaryKind, Vec<u8>>,
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

    fn remains(&self, _id: &StudyId) -> Result<Option<TrialId>, StoreError> {
        Ok(None)
    }
}

impl Ranges for Records {
    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.jobs.borrow().range((start, Bound::Unbounded)).take(limit).map(|(_, job)| job.clone()).collect())
    }

    fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let studies = self.studies.borrow();
        let is_there = |id: &StudyId| parent.is_none_or(|parent| (id.parts().0, id.parts().1) == parent);
        let found = studies.range((start, Bound::Unbounded)).filter(|(id, _)| !id.is_of_job() && is_there(id));
        Ok(found.take(limit).map(|(_, records)| records.study.clone()).collect())
    }

    fn deleted_studies(&self) -> Result<Vec<StudyId>, StoreError> {
        Ok(Vec::new())
    }

    fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: TrialId,
        limit: usize,
    ) -> Result<(Option<Study>, Vec<Trial>), StoreError> {
        let read = |records: &StudyRecords| {
            let range = records.open.range((Bound::Excluded(after), Bound::Unbounded));
            let trials = range.take(limit).filter_map(|id| records.trials.get(id).cloned()).collect();
            (Some(records.study.clone()), trials)
        };
        Ok(self.in_study(study, read).unwrap_or_default())
    }

    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        let deadlines = self.deadlines.borrow();
        let overdue = deadlines.iter().take_while(|(deadline, _, _)| *deadline <= at).take(limit);
        let trials = overdue.filter_map(|(_, study, id)| Some((study.clone(), self.trial(study, *id).ok()??)));
        Ok(trials.collect())
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

    fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.in_study(study, |records| records.summaries.get(&kind).cloned()).flatten())
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

    fn remove_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.jobs.borrow_mut().remove(id);
        Ok(())
    }

    fn put_study(&self, study: &Study) -> Result<(), StoreError> {
        let mut studies = self.studies.borrow_mut();
        match studies.get_mut(&study.id) {
            Some(records) => records.study = study.clone(),
            None => {
                let records = StudyRecords {
                    study: study.clone(),
                    open: BTreeSet::new(),
                    trials: BTreeMap::new(),
                    by_revision: BTreeMap::new(),
                    measurements: BTreeMap::new(),
                    summaries: BTreeMap::new(),
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

    fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: &[u8]) -> Result<(), StoreError> {
        self.change_study(study, |records| drop(records.summaries.insert(kind, body.to_vec())));
        Ok(())
    }

    fn remove_trials(&self, study: &StudyId, first: TrialId, end: TrialId) -> Result<(), StoreError> {
        self.change_study(study, |records| {
            for id in (first.0..end.0).map(TrialId) {
                records.trials.remove(&id);
                records.measurements.remove(&id);
            }
        });
        Ok(())
    }

    fn put_remains(&self, study: &StudyId, _next: Option<TrialId>) -> Result<(), StoreError> {
        // The whole study is removed at once.
        self.studies.borrow_mut().remove(study);
        self.deadlines.borrow_mut().retain(|(_, of, _)| of != study);
        Ok(())
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError> {
        let key = |trial: &Trial| trial.lease.map(|lease| (lease.deadline, study.clone(), trial.id));
        let mut deadlines = self.deadlines.borrow_mut();
        if let Some(former) = replaces.and_then(key) {
            deadlines.remove(&former);
        }
        deadlines.extend(key(trial));
        self.change_study(study, |records| {
            if let Some(former) = replaces {
                records.by_revision.remove(&former.revision);
            }
            if trial.state.is_final() {
                records.open.remove(&trial.id);
            } else {
                records.open.insert(trial.id);
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
