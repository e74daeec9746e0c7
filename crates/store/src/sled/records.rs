//! Records as keys and values: a kind letter precedes each key, a checksum each body.

use std::cell::Cell;
use std::path::Path;

use jiff::Timestamp;
use sled::transaction::{ConflictableTransactionError, TransactionalTree, UnabortableTransactionError};
use sled::{Db, IVec};

use super::{Abort, not_applied};
use crate::engine::{Changes, Lookups, Ranges};
use crate::record::{
    self, Progress, RecordError, checksum, decode_chunk, decode_job, decode_study, decode_trial, encode_chunks,
    encode_job, encode_study, encode_trial,
};
use crate::{StoreError, SummaryKind, keys};
use tunesmith_domain::{Job, JobId, Lease, Measurement, Study, StudyId, Trial, TrialId};

const JOB: u8 = b'j';
const STUDY: u8 = b's';
const PROGRESS: u8 = b'p';
const TRIAL: u8 = b't';
const REVISION: u8 = b'r';
const MEASUREMENTS: u8 = b'm';
/// Non-final trial, by number.
const OPEN: u8 = b'o';
/// Leased trial, by the end of the lease.
const DEADLINE: u8 = b'd';
const SUMMARY: u8 = b'y';
const META: u8 = b'!';

const CHANGES_KEY: &[u8] = b"changes";

/// All records, outside any transaction.
#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a>(pub(super) &'a Db);

pub(super) trait Values {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, UnabortableTransactionError>;
}

impl Values for Snapshot<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, UnabortableTransactionError> {
        self.0.get(key).map_err(UnabortableTransactionError::Storage)
    }
}

impl Values for &TransactionalTree {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, UnabortableTransactionError> {
        TransactionalTree::get(self, key)
    }
}

pub(super) struct SledRecords<'a, V> {
    values: V,
    path: &'a Path,
    /// Set if sled must rerun the transaction; a subsequent error is then ignored.
    conflict: Cell<bool>,
}

impl<'a, V: Values> SledRecords<'a, V> {
    pub(super) fn new(values: V, path: &'a Path) -> Self {
        Self { values, path, conflict: Cell::new(false) }
    }

    fn study_of_key(&self, key: &[u8]) -> Result<StudyId, StoreError> {
        let name = String::from_utf8_lossy(key);
        name.parse().map_err(|_| malformed("its key is not a study ID").of(self.path, &format!("study {name}")))
    }

    pub(super) fn change_count(&self) -> Result<u64, StoreError> {
        Ok(self.number(CHANGES_KEY)?.unwrap_or(0))
    }

    fn number(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.get(
            META,
            key,
            || "the store itself".to_owned(),
            |body| keys::last_number(body).ok_or_else(|| malformed("it is not a number")),
        )
    }

    fn get<T>(
        &self,
        kind: u8,
        key: &[u8],
        resource: impl Fn() -> String,
        decode: impl FnOnce(&[u8]) -> Result<T, RecordError>,
    ) -> Result<Option<T>, StoreError> {
        let value = self.values.get(&prefixed(kind, key)).map_err(|error| self.failed("read", error))?;
        let Some(value) = value else { return Ok(None) };
        let decoded = unseal(key, &value).and_then(decode);
        decoded.map(Some).map_err(|error| error.of(self.path, &resource()))
    }

    fn failed(&self, operation: &'static str, error: UnabortableTransactionError) -> StoreError {
        match error {
            UnabortableTransactionError::Storage(error) => not_applied(self.path, operation, error),
            UnabortableTransactionError::Conflict => {
                self.conflict.set(true);
                StoreError::NotApplied { operation, source: Box::new(error) }
            }
        }
    }
}

impl SledRecords<'_, &TransactionalTree> {
    /// Transaction result after its closure failed with `error`.
    pub(super) fn conflict_or(&self, error: StoreError) -> Abort {
        if self.conflict.get() {
            ConflictableTransactionError::Conflict
        } else {
            ConflictableTransactionError::Abort(error)
        }
    }

    /// Counts the change of this transaction, and returns the count.
    pub(super) fn count_change(&self) -> Result<u64, StoreError> {
        let count = self.change_count()? + 1;
        self.put(META, CHANGES_KEY, &count.to_be_bytes())?;
        Ok(count)
    }

    /// Removes `trial` with its measurements and index entries.
    fn remove_trial(&self, study: &StudyId, trial: &Trial) -> Result<(), StoreError> {
        let mut first = 0;
        while first < trial.measurement_count {
            let key = keys::chunk(study, trial.id, first);
            let resource = || format!("measurements of trial {} of study {study}", trial.id);
            let chunk = self.get(MEASUREMENTS, &key, resource, decode_chunk)?.unwrap_or_default();
            self.remove(prefixed(MEASUREMENTS, &key))?;
            if chunk.is_empty() {
                break;
            }
            first += chunk.len() as u64;
        }
        let key = keys::trial(study, trial.id);
        self.remove(prefixed(REVISION, &keys::numbered(study, trial.revision)))?;
        self.remove(prefixed(OPEN, &key))?;
        if let Some(lease) = trial.lease {
            self.remove(prefixed(DEADLINE, &deadline_key(&lease, study, trial.id)))?;
        }
        self.remove(prefixed(TRIAL, &key))
    }

    fn remove(&self, key: Vec<u8>) -> Result<(), StoreError> {
        self.values.remove(key).map(|_| ()).map_err(|error| self.failed("write", error))
    }

    fn put(&self, kind: u8, key: &[u8], body: &[u8]) -> Result<(), StoreError> {
        let mut value = checksum(key, body).to_be_bytes().to_vec();
        value.extend_from_slice(body);
        let put = self.values.insert(prefixed(kind, key), value);
        put.map(|_| ()).map_err(|error| self.failed("write", error))
    }
}

impl SledRecords<'_, Snapshot<'_>> {
    fn indexed_trial(&self, study: &StudyId, id: Option<TrialId>) -> Result<Trial, StoreError> {
        let trial = id.map(|id| self.trial(study, id)).transpose()?.flatten();
        trial.ok_or_else(|| malformed("its trial is missing").of(self.path, &format!("an index of study {study}")))
    }

    /// Up to `limit` entries of `kind` with keys from `first` that start with `prefix`; strips the kind letter.
    fn range<'b>(
        &'b self,
        kind: u8,
        prefix: &[u8],
        first: &[u8],
    ) -> impl Iterator<Item = Result<(Vec<u8>, IVec), StoreError>> + 'b {
        let prefix = prefixed(kind, prefix);
        self.values
            .0
            .range(prefixed(kind, first)..)
            .map(|entry| {
                let (key, value) = entry.map_err(|error| not_applied(self.path, "read", error))?;
                Ok((key.to_vec(), value))
            })
            .take_while(move |entry| entry.as_ref().map_or(true, |(key, _)| key.starts_with(&prefix)))
            .map(|entry| entry.map(|(key, value)| (key[1..].to_vec(), value)))
    }
}

/// Index key of a lease: its end, rounded down to the microsecond.
fn deadline_key(lease: &Lease, study: &StudyId, id: TrialId) -> Vec<u8> {
    keys::deadline(lease.deadline.as_microsecond(), study, id)
}

fn prefixed(kind: u8, key: &[u8]) -> Vec<u8> {
    let mut prefixed = Vec::with_capacity(key.len() + 1);
    prefixed.push(kind);
    prefixed.extend_from_slice(key);
    prefixed
}

fn unseal<'v>(key: &[u8], value: &'v [u8]) -> Result<&'v [u8], RecordError> {
    let (crc, body) = value.split_first_chunk::<4>().ok_or_else(|| malformed("it has no checksum"))?;
    record::verify(key, body, u32::from_be_bytes(*crc))?;
    Ok(body)
}

fn malformed(detail: &str) -> RecordError {
    RecordError::Malformed { detail: detail.to_owned() }
}

impl<V: Values> Lookups for SledRecords<'_, V> {
    fn path(&self) -> &Path {
        self.path
    }

    fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        self.get(JOB, id.as_str().as_bytes(), || format!("job {id}"), decode_job)
    }

    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError> {
        let key = id.as_str().as_bytes();
        let progress = self.get(PROGRESS, key, || format!("the progress of study {id}"), Progress::decode)?;
        self.get(
            STUDY,
            key,
            || format!("study {id}"),
            |body| decode_study(body, progress.ok_or_else(|| malformed("its progress is missing"))?),
        )
    }

    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError> {
        self.get(TRIAL, &keys::trial(study, id), || format!("trial {id} of study {study}"), decode_trial)
    }

    fn remains(&self, id: &StudyId) -> Result<Option<TrialId>, StoreError> {
        let resource = || format!("the progress of study {id}");
        let progress = self.get(PROGRESS, id.as_str().as_bytes(), resource, Progress::decode)?;
        Ok(progress.and_then(Progress::remains))
    }
}

impl Ranges for SledRecords<'_, Snapshot<'_>> {
    fn deleted_studies(&self) -> Result<Vec<StudyId>, StoreError> {
        let mut deleted = Vec::new();
        for entry in self.range(PROGRESS, b"", b"") {
            let (key, value) = entry?;
            let resource = "the progress of a study";
            let progress = unseal(&key, &value).and_then(Progress::decode);
            if progress.map_err(|error| error.of(self.path, resource))?.remains().is_some() {
                let id = std::str::from_utf8(&key).ok().and_then(|id| id.parse().ok());
                deleted.push(id.ok_or_else(|| malformed("its key is not an ID").of(self.path, resource))?);
            }
        }
        Ok(deleted)
    }

    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let after = after.map_or(&[][..], |id| id.as_str().as_bytes());
        let entries = self.range(JOB, b"", after).filter(|entry| entry.as_ref().map_or(true, |(key, _)| key != after));
        let mut jobs = Vec::new();
        for entry in entries.take(limit) {
            let (key, value) = entry?;
            let decoded = unseal(&key, &value).and_then(decode_job);
            jobs.push(decoded.map_err(|error| error.of(self.path, &format!("job {}", String::from_utf8_lossy(&key))))?);
        }
        Ok(jobs)
    }

    fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        let prefix = parent.map_or(String::new(), |(project, location)| keys::studies_prefix(project, location));
        let after = after.map_or(&[][..], |id| id.as_str().as_bytes());
        let mut studies = Vec::new();
        for entry in self.range(STUDY, prefix.as_bytes(), after.max(prefix.as_bytes())) {
            if studies.len() == limit {
                break;
            }
            let (key, _) = entry?;
            let id = self.study_of_key(&key)?;
            if key != after && (parent.is_some() || !id.is_of_job()) {
                studies.extend(self.study(&id)?);
            }
        }
        Ok(studies)
    }

    fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: TrialId,
        limit: usize,
    ) -> Result<(Option<Study>, Vec<Trial>), StoreError> {
        let mut trials = Vec::new();
        let first = keys::numbered(study, after.0.saturating_add(1));
        for entry in self.range(OPEN, &keys::study_prefix(study), &first).take(limit) {
            let (key, _) = entry?;
            trials.push(self.indexed_trial(study, keys::last_number(&key).map(TrialId))?);
        }
        Ok((self.study(study)?, trials))
    }

    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        let mut trials = Vec::new();
        for entry in self.range(DEADLINE, b"", b"").take(limit) {
            let (key, value) = entry?;
            let study = unseal(&key, &value).ok().and_then(|body| std::str::from_utf8(body).ok()?.parse().ok());
            let study: StudyId =
                study.ok_or_else(|| malformed("its value is not a study ID").of(self.path, "the end of a lease"))?;
            let trial = self.indexed_trial(&study, keys::last_number(&key).map(TrialId))?;
            if trial.lease.is_none_or(|lease| lease.deadline > at) {
                break;
            }
            trials.push((study, trial));
        }
        Ok(trials)
    }

    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let Some(first) = after.0.checked_add(1) else { return Ok(Vec::new()) };
        let mut trials = Vec::new();
        for entry in self.range(TRIAL, &keys::study_prefix(study), &keys::numbered(study, first)).take(limit) {
            let (key, value) = entry?;
            let decoded = unseal(&key, &value).and_then(decode_trial);
            trials.push(decoded.map_err(|error| error.of(self.path, &format!("a trial of study {study}")))?);
        }
        Ok(trials)
    }

    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let Some(first) = revision.checked_add(1) else { return Ok(Vec::new()) };
        let mut trials = Vec::new();
        for entry in self.range(REVISION, &keys::study_prefix(study), &keys::numbered(study, first)).take(limit) {
            let (key, value) = entry?;
            let resource = || format!("a revision of study {study}");
            let id = unseal(&key, &value)
                .and_then(|body| keys::last_number(body).ok_or_else(|| malformed("it is not a trial number")))
                .map_err(|error| error.of(self.path, &resource()))?;
            let trial = self.trial(study, TrialId(id))?.filter(|trial| keys::last_number(&key) == Some(trial.revision));
            trials.push(trial.ok_or_else(|| malformed("its trial has another revision").of(self.path, &resource()))?);
        }
        Ok(trials)
    }

    fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError> {
        let resource = || format!("the summary of study {study}");
        self.get(SUMMARY, keys::summary(study, kind).as_bytes(), resource, |body| Ok(body.to_vec()))
    }

    fn chunks(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<Measurement>)>, StoreError> {
        let prefix = keys::trial(study, trial);
        // The chunk containing `from` is the last one starting at or before it.
        let upto = prefixed(MEASUREMENTS, &keys::chunk(study, trial, from));
        let start = self.values.0.range(prefixed(MEASUREMENTS, &prefix)..=upto).next_back();
        let Some(start) = start else { return Ok(Vec::new()) };
        let (start, _) = start.map_err(|error| not_applied(self.path, "read", error))?;
        let mut chunks = Vec::new();
        for entry in self.range(MEASUREMENTS, &prefix, &start[1..]) {
            let (key, value) = entry?;
            let resource = || format!("measurements of trial {trial} of study {study}");
            let first = keys::last_number(&key)
                .ok_or_else(|| malformed("its key is too short"))
                .map_err(|error| error.of(self.path, &resource()))?;
            let decoded = unseal(&key, &value).and_then(decode_chunk);
            let chunk = decoded.map_err(|error| error.of(self.path, &resource()))?;
            let end = first.saturating_add(chunk.len() as u64);
            chunks.push((first, chunk));
            if end >= from.saturating_add(limit as u64) {
                break;
            }
        }
        Ok(chunks)
    }
}

impl Changes for SledRecords<'_, &TransactionalTree> {
    fn put_job(&self, job: &Job) -> Result<(), StoreError> {
        self.put(JOB, job.id.as_str().as_bytes(), &encode_job(job))
    }

    fn remove_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.remove(prefixed(JOB, id.as_str().as_bytes()))
    }

    fn put_study(&self, study: &Study) -> Result<(), StoreError> {
        let (body, _) = encode_study(study);
        self.put(STUDY, study.id.as_str().as_bytes(), &body)?;
        self.put_progress(study)
    }

    fn put_progress(&self, study: &Study) -> Result<(), StoreError> {
        let progress = Progress { next_trial_id: study.next_trial_id, revision: study.revision };
        self.put(PROGRESS, study.id.as_str().as_bytes(), &progress.encode())
    }

    fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: &[u8]) -> Result<(), StoreError> {
        self.put(SUMMARY, keys::summary(study, kind).as_bytes(), body)
    }

    fn put_remains(&self, study: &StudyId, next: Option<TrialId>) -> Result<(), StoreError> {
        let key = study.as_str().as_bytes();
        self.remove(prefixed(STUDY, key))?;
        for summary in keys::summaries(study) {
            self.remove(prefixed(SUMMARY, summary.as_bytes()))?;
        }
        match next {
            Some(next) => self.put(PROGRESS, key, &Progress::of_deleted(next).encode()),
            None => self.remove(prefixed(PROGRESS, key)),
        }
    }

    fn remove_trials(&self, study: &StudyId, first: TrialId, end: TrialId) -> Result<(), StoreError> {
        // Transactions have no range scans and exclude outside reads, hence one computed key at a time.
        for id in (first.0..end.0).map(TrialId) {
            if let Some(trial) = self.trial(study, id)? {
                self.remove_trial(study, &trial)?;
            }
        }
        Ok(())
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError> {
        let key = keys::trial(study, trial.id);
        if let Some(former) = replaces {
            self.remove(prefixed(REVISION, &keys::numbered(study, former.revision)))?;
            if let Some(lease) = former.lease {
                self.remove(prefixed(DEADLINE, &deadline_key(&lease, study, trial.id)))?;
            }
        }
        if trial.state.is_final() {
            self.remove(prefixed(OPEN, &key))?;
        } else {
            self.put(OPEN, &key, b"")?;
        }
        if let Some(lease) = trial.lease {
            self.put(DEADLINE, &deadline_key(&lease, study, trial.id), study.as_str().as_bytes())?;
        }
        self.put(REVISION, &keys::numbered(study, trial.revision), &trial.id.0.to_be_bytes())?;
        self.put(TRIAL, &key, &encode_trial(trial))
    }

    fn add_measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        first: u64,
        measurements: &[Measurement],
    ) -> Result<(), StoreError> {
        for (first, body) in encode_chunks(first, measurements) {
            self.put(MEASUREMENTS, &keys::chunk(study, trial, first), &body)?;
        }
        Ok(())
    }
}
