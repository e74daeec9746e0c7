//! Keys of records, as sled orders them and checksums cover them. IDs contain no zero byte; numbers are big-endian.

use tunesmith_domain::{StudyId, TrialId};

/// The prefix of the keys of all parts of `study`.
pub(super) fn study_prefix(study: &StudyId) -> Vec<u8> {
    let mut key = study.as_str().as_bytes().to_vec();
    key.push(0);
    key
}

/// The prefix of the IDs of the studies of `project` at `location`.
pub(super) fn studies_prefix(project: &str, location: &str) -> String {
    format!("{project}/{location}/")
}

/// The part of the ID of a study of a job that no other ID has, unless the job is of the local project: then its ID has no
/// slash.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn jobs_part() -> String {
    format!("/{}/", StudyId::JOBS_LOCATION)
}

/// The index key of a lease of trial `id` by its end, in microseconds since 1970.
#[cfg(feature = "sled")]
pub(super) fn deadline(microsecond: i64, study: &StudyId, id: TrialId) -> Vec<u8> {
    // With the sign bit flipped, the order of the bytes is the order of the numbers.
    let mut key = (microsecond.cast_unsigned() ^ (1 << 63)).to_be_bytes().to_vec();
    key.extend_from_slice(&trial(study, id));
    key
}

/// The key of a numbered part of `study`: a trial or a revision.
pub(super) fn numbered(study: &StudyId, number: u64) -> Vec<u8> {
    let mut key = study_prefix(study);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The key of a trial.
pub(super) fn trial(study: &StudyId, trial: TrialId) -> Vec<u8> {
    numbered(study, trial.0)
}

/// The key of the chunk of measurements whose first number is `first`.
pub(super) fn chunk(study: &StudyId, trial_id: TrialId, first: u64) -> Vec<u8> {
    let mut key = trial(study, trial_id);
    key.extend_from_slice(&first.to_be_bytes());
    key
}

/// The number at the end of a key.
#[cfg(feature = "sled")]
pub(super) fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
