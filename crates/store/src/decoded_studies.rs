//! A cache of decoded studies.
//!
//! Nearly every call reads its study, whose record changes only with its state. A cached study is used if its stored bytes
//! are unchanged.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::record::{Progress, RecordError, decode_study};
use tunesmith_domain::{Study, StudyFields, StudyId};

/// Maximal number of cached studies; a full cache is cleared.
const CAPACITY: usize = 1024;

/// Decoded studies by ID, with the stored bytes of each.
#[derive(Debug, Default)]
pub(crate) struct DecodedStudies(Mutex<HashMap<StudyId, (String, Study)>>);

impl DecodedStudies {
    /// The study `id` with the record `body` and `progress`.
    pub(crate) fn decode(&self, id: &StudyId, body: String, progress: Progress) -> Result<Study, RecordError> {
        if let Some((known, study)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id)
            && *known == body
        {
            let Progress { next_trial_id, revision } = progress;
            return Ok(Study::restore(StudyFields { next_trial_id, revision, ..(**study).clone() }));
        }
        let study = decode_study(body.as_bytes(), progress)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(id.clone(), (body, study.clone()));
        Ok(study)
    }
}
