//! How records are written: versioned JSON for jobs, studies and trials, compact chunks for measurements.
//!
//! The types here are the stored format and nothing else, so that a rename in the domain cannot change what old
//! stores hold: the compiler asks for the conversion instead. Every body is sealed with a checksum over its key and
//! its bytes, because neither engine notices a flipped bit inside a value. Not here: tables and keys of an engine.

mod chunk;
mod float;
mod job;
mod measurement;
mod origin;
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
use serde::de::DeserializeOwned;

use super::StoreError;
use tunesmith_domain::TrialId;

/// What changes with every trial of a study; stored apart from the study, so that a change costs the same however
/// large the search space is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// The number that the next trial must bear.
    pub(super) next_trial_id: TrialId,
    /// The latest revision.
    pub(super) revision: u64,
}

impl Progress {
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
    /// The bytes are not what this program writes.
    Malformed {
        /// What is wrong with them.
        detail: String,
    },
    /// A later version wrote them.
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

    /// The error of a store that keeps the record of `resource` at `path`.
    pub(super) fn of(self, path: &Path, resource: &str) -> StoreError {
        match self {
            Self::Malformed { detail } => {
                StoreError::Damaged { path: path.to_owned(), detail: format!("the record of {resource}: {detail}") }
            }
            Self::TooNew { found, known } => StoreError::TooNew { path: path.to_owned(), found, known },
        }
    }
}

/// CRC-32C over the key and the body of a record. The key is part of it so that a record cannot stand in for another.
pub(super) fn checksum(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

/// Compares a stored checksum with that of the bytes read.
pub(super) fn verify(key: &[u8], body: &[u8], stored: u32) -> Result<(), RecordError> {
    let computed = checksum(key, body);
    if computed == stored {
        return Ok(());
    }
    Err(RecordError::malformed(format!("its checksum is {computed:08x}, stored is {stored:08x}")))
}

/// Serialises a record. The types of this module have text keys and no fallible parts, so this cannot fail on them.
fn to_json(record: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have only text keys and serialise to memory")
}

/// Parses a record with a `v` field of at most `known`.
fn from_json<T: DeserializeOwned>(bytes: &[u8], known: u32) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    // The version is looked at first: a later one may have other fields, and shall not be called damaged for it.
    let Version { v } = serde_json::from_slice(bytes).map_err(RecordError::malformed)?;
    if v > known {
        return Err(RecordError::TooNew { found: v, known });
    }
    serde_json::from_slice(bytes).map_err(RecordError::malformed)
}

#[cfg(test)]
mod tests;
