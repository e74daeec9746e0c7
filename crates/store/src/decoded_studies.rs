//! Cache of decoded studies.
//!
//! Nearly every call reads its study, whose record changes only with its state. A cached study is valid if its stored
//! bytes are unchanged.

use std::collections::HashMap;

use crate::record::{Progress, RecordError, decode_study};
use parking_lot::Mutex;
use tunesmith_domain::{Study, StudyFields, StudyId};

/// Maximum number of entries; a full cache is cleared.
const CAPACITY: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct DecodedStudies(Mutex<HashMap<StudyId, (String, Study)>>);

impl DecodedStudies {
    pub(crate) fn decode(&self, id: &StudyId, body: String, progress: Progress) -> Result<Study, RecordError> {
        if let Some((known, study)) = self.0.lock().get(id)
            && *known == body
        {
            let Progress { next_trial_id, revision } = progress;
            return Ok(Study::restore(StudyFields { next_trial_id, revision, ..(**study).clone() }));
        }
        let study = decode_study(body.as_bytes(), progress)?;
        let mut known = self.0.lock();
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(id.clone(), (body, study.clone()));
        Ok(study)
    }
}
