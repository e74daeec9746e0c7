//! Studies as they were decoded last.
//!
//! Nearly every call reads its study, whose record changes only when its state does: what was decoded from the same bytes
//! before is taken again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::record::{Progress, RecordError, decode_study};
use tunesmith_domain::{Study, StudyFields, StudyId};

/// How many studies are kept. Beyond, all are forgotten: none is needed.
const KEPT: usize = 1024;

/// Decoded studies by their IDs, with the bytes that they were decoded from.
#[derive(Debug, Default)]
pub(super) struct DecodedStudies(Mutex<HashMap<StudyId, (String, Study)>>);

impl DecodedStudies {
    /// The study `id` that `body` is the record of, at `progress`.
    pub(super) fn decode(&self, id: &StudyId, body: String, progress: Progress) -> Result<Study, RecordError> {
        if let Some((known, study)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id)
            && *known == body
        {
            let Progress { next_trial_id, revision } = progress;
            return Ok(Study::restore(StudyFields { next_trial_id, revision, ..(**study).clone() }));
        }
        let study = decode_study(body.as_bytes(), progress)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(id.clone(), (body, study.clone()));
        Ok(study)
    }
}
