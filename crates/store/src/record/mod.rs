//! The stored forms: versioned JSON for jobs, studies and trials, compact chunks for measurements.
//!
//! The types of this module define the stored form only: a rename in the domain does not change it. Every body has a
//! checksum over its key and its bytes, because no engine detects a flipped bit inside a value. Not here: tables and keys of
//! an engine.

mod chunk;
mod form;
mod job;
mod metadata;
mod plan;
mod study;
mod trial;

pub(super) use chunk::{decode_chunk, encode_chunks};
pub(super) use job::{decode_job, encode_job};
pub(super) use plan::encode_plan;
pub(super) use study::{decode_study, encode_study};
pub(super) use trial::{decode_trial, encode_trial};

use std::path::Path;

use serde::Deserialize;

use super::StoreError;
use form::{Form, Read, Written};
use tunesmith_domain::TrialId;

/// The part of a study that changes with every trial. It is stored apart from the study, so that the cost of a change
/// does not depend on the size of the search space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// The number of the next trial.
    pub(super) next_trial_id: TrialId,
    /// The latest revision.
    pub(super) revision: u64,
}

/// The revision that marks a study as deleted. No study reaches it.
const DELETED: u64 = i64::MAX.cast_unsigned();

impl Progress {
    /// The mark of a deleted study whose trials below `next` are to be removed.
    pub(super) fn of_deleted(next: TrialId) -> Self {
        Self { next_trial_id: next, revision: DELETED }
    }

    /// The number after those of the trials that remain of a deleted study; `None` if the study is not deleted.
    pub(super) fn remains(self) -> Option<TrialId> {
        (self.revision == DELETED).then_some(self.next_trial_id)
    }

    /// The stored form.
    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_trial_id.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.revision.to_be_bytes());
        bytes
    }

    /// Reads the stored form.
    #[cfg(any(feature = "sled", test))]
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (Some(next), Some(revision), 16) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>(), bytes.len()) else {
            return Err(RecordError::malformed(format!("progress has {} bytes instead of 16", bytes.len())));
        };
        Ok(Self { next_trial_id: TrialId(u64::from_be_bytes(*next)), revision: u64::from_be_bytes(*revision) })
    }
}

/// Why stored bytes are not a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RecordError {
    /// The bytes do not have the format of this program.
    Malformed {
        /// The difference.
        detail: String,
    },
    /// The bytes have the format of a later version.
    TooNew {
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
}

impl RecordError {
    fn malformed(detail: impl ToString) -> Self {
        Self::Malformed { detail: detail.to_string() }
    }

    /// The error of the store at `path` that contains the record of `resource`.
    pub(super) fn of(self, path: &Path, resource: &str) -> StoreError {
        match self {
            Self::Malformed { detail } => {
                StoreError::Damaged { path: path.to_owned(), detail: format!("the record of {resource}: {detail}") }
            }
            Self::TooNew { found, known } => StoreError::TooNew { path: path.to_owned(), found, known },
        }
    }
}

/// CRC-32C over the key and the body of a record. It covers the key so that one record cannot replace another.
pub(super) fn checksum(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

/// Compares a stored checksum with that of the read bytes.
pub(super) fn verify(key: &[u8], body: &[u8], stored: u32) -> Result<(), RecordError> {
    let computed = checksum(key, body);
    if computed == stored {
        return Ok(());
    }
    Err(RecordError::malformed(format!("its checksum is {computed:08x}, stored is {stored:08x}")))
}

/// The start of the records of jobs, studies and trials: their version.
const VERSION_1: &[u8] = br#"{"v":1,"#;

/// Serialises `value` in the form `F`, a JSON object, with its version.
fn to_json<T, F: Form<T>>(value: &T) -> Vec<u8> {
    let record = serde_json::to_vec(&Written::<T, F>::new(value));
    let record = record.expect("records have only text keys and serialise to memory");
    [VERSION_1, &record[1..]].concat()
}

/// Parses the result of [`to_json`].
fn from_json<T, F: Form<T>>(bytes: &[u8]) -> Result<T, RecordError> {
    let Some(fields) = bytes.strip_prefix(VERSION_1) else { return Err(unknown_version(bytes)) };
    let record = serde_json::from_slice::<Read<T, F>>(&[b"{", fields].concat());
    record.map(|read| read.0).map_err(RecordError::malformed)
}

/// The error of a record that is not of version 1. One of a later version may have other fields, so it is not damaged.
fn unknown_version(bytes: &[u8]) -> RecordError {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    match serde_json::from_slice(bytes) {
        Ok(Version { v }) if v > 1 => RecordError::TooNew { found: v, known: 1 },
        Ok(Version { v }) => RecordError::malformed(format!("it does not start with its version {v}")),
        Err(error) => RecordError::malformed(error),
    }
}

#[cfg(test)]
mod tests;
