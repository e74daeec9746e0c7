//! Record keys, as ordered by sled and covered by checksums. IDs contain no zero byte; numbers are big-endian.

use crate::SummaryKind;
use tunesmith_domain::{StudyId, TrialId};

/// Key prefix of all parts of `study`.
pub(super) fn study_prefix(study: &StudyId) -> Vec<u8> {
    let mut key = study.as_str().as_bytes().to_vec();
    key.push(0);
    key
}

/// Key of a summary of `study`. IDs contain no `#`.
pub(super) fn summary(study: &StudyId, kind: SummaryKind) -> String {
    match kind {
        SummaryKind::Figures => study.to_string(),
        SummaryKind::Columns => format!("{study}#columns"),
    }
}

/// Keys of all summaries of `study`.
pub(super) fn summaries(study: &StudyId) -> [String; 2] {
    [SummaryKind::Figures, SummaryKind::Columns].map(|kind| summary(study, kind))
}

/// ID prefix of the studies of `project` at `location`.
pub(super) fn studies_prefix(project: &str, location: &str) -> String {
    format!("{project}/{location}/")
}

/// ID component unique to studies of jobs, except in the local project, where their IDs have no slash.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn jobs_part() -> String {
    format!("/{}/", StudyId::JOBS_LOCATION)
}

/// Index key of a lease by its end, in microseconds since 1970.
#[cfg(feature = "sled")]
pub(super) fn deadline(microsecond: i64, study: &StudyId, id: TrialId) -> Vec<u8> {
    // Flipping the sign bit makes byte order numeric order.
    let mut key = (microsecond.cast_unsigned() ^ (1 << 63)).to_be_bytes().to_vec();
    key.extend_from_slice(&trial(study, id));
    key
}

/// Key of a numbered part of `study`: a trial or a revision.
pub(super) fn numbered(study: &StudyId, number: u64) -> Vec<u8> {
    let mut key = study_prefix(study);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(super) fn trial(study: &StudyId, trial: TrialId) -> Vec<u8> {
    numbered(study, trial.0)
}

/// Key of the measurement chunk that starts at number `first`.
pub(super) fn chunk(study: &StudyId, trial_id: TrialId, first: u64) -> Vec<u8> {
    let mut key = trial(study, trial_id);
    key.extend_from_slice(&first.to_be_bytes());
    key
}

#[cfg(feature = "sled")]
pub(super) fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
