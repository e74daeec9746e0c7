use super::{Connection, SqlRecords, Value, values};
use crate::engine::Changes;
use crate::record::{Progress, checksum, encode_chunks, encode_job, encode_study, encode_trial};
use crate::{StoreError, SummaryKind, keys};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

pub(crate) fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).expect("JSON is UTF-8")
}

/// Lease end in microseconds since 1970, rounded up so that no lease counts as expired early.
pub(crate) fn deadline(trial: &Trial) -> Option<i64> {
    trial.lease.map(|lease| lease.deadline.as_microsecond().saturating_add(1))
}

impl<C: Connection> SqlRecords<C> {
    /// Executes `insert` if a lookup has not found `resource`, else `update`.
    fn put(&self, resource: &str, insert: &str, update: &str, values: Vec<Value>) -> Result<(), StoreError> {
        let is_new = self.absent.borrow_mut().remove(resource);
        self.execute(if is_new { insert } else { update }, values)
    }

    fn write_progress(&self, study: &StudyId, progress: Progress) -> Result<(), StoreError> {
        let crc = checksum(study.as_str().as_bytes(), &progress.encode());
        let sql = "INSERT INTO progress (study, next_trial_id, revision, crc) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (study) DO UPDATE
                   SET next_trial_id = excluded.next_trial_id, revision = excluded.revision, crc = excluded.crc";
        self.execute(sql, values![study, progress.next_trial_id, progress.revision, crc])
    }
}

impl<C: Connection> Changes for SqlRecords<C> {
    #[cfg(feature = "postgres")]
    fn check_claim(&self, job: &JobId, fence: u64) -> Result<(), StoreError> {
        self.connection.check_claim(job, fence)
    }

    fn put_job(&self, job: &Job) -> Result<(), StoreError> {
        let body = encode_job(job);
        let crc = checksum(job.id.as_str().as_bytes(), &body);
        self.put(
            &format!("job {}", job.id),
            "INSERT INTO jobs (id, state, body, crc) VALUES (?1, ?2, ?3, ?4)",
            "UPDATE jobs SET state = ?2, body = ?3, crc = ?4 WHERE id = ?1",
            values![&job.id, job.state.to_string(), text(body), crc],
        )
    }

    fn remove_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.execute("DELETE FROM jobs WHERE id = ?1", values![id])?;
        self.connection.remove_shared(id)
    }

    fn put_study(&self, study: &Study) -> Result<(), StoreError> {
        let (body, _) = encode_study(study);
        let crc = checksum(study.id.as_str().as_bytes(), &body);
        self.put(
            &format!("study {}", study.id),
            "INSERT INTO studies (id, body, crc) VALUES (?1, ?2, ?3)",
            "UPDATE studies SET body = ?2, crc = ?3 WHERE id = ?1",
            values![&study.id, text(body), crc],
        )?;
        self.put_progress(study)
    }

    fn put_progress(&self, study: &Study) -> Result<(), StoreError> {
        self.write_progress(&study.id, Progress { next_trial_id: study.next_trial_id, revision: study.revision })
    }

    fn put_summary(&self, study: &StudyId, kind: SummaryKind, body: &[u8]) -> Result<(), StoreError> {
        let key = keys::summary(study, kind);
        let crc = checksum(key.as_bytes(), body);
        let sql = "INSERT INTO summaries (study, body, crc) VALUES (?1, ?2, ?3)
                   ON CONFLICT (study) DO UPDATE SET body = excluded.body, crc = excluded.crc";
        self.execute(sql, values![key.as_str(), body.to_vec(), crc])
    }

    fn put_remains(&self, study: &StudyId, next: Option<TrialId>) -> Result<(), StoreError> {
        self.execute("DELETE FROM studies WHERE id = ?1", values![study])?;
        for key in keys::summaries(study) {
            self.execute("DELETE FROM summaries WHERE study = ?1", values![key.as_str()])?;
        }
        match next {
            Some(next) => self.write_progress(study, Progress::of_deleted(next)),
            None => self.execute("DELETE FROM progress WHERE study = ?1", values![study]),
        }
    }

    fn remove_trials(&self, study: &StudyId, first: TrialId, end: TrialId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM measurements WHERE study = ?1 AND trial >= ?2 AND trial < ?3",
            "DELETE FROM trials WHERE study = ?1 AND id >= ?2 AND id < ?3",
        ] {
            self.execute(sql, values![study, first, end])?;
        }
        Ok(())
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, replaces: Option<&Trial>) -> Result<(), StoreError> {
        let body = encode_trial(trial);
        let crc = checksum(&keys::trial(study, trial.id), &body);
        let sql = match replaces {
            None => {
                "INSERT INTO trials (study, id, revision, body, crc, open, deadline)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
            }
            Some(_) => {
                "UPDATE trials SET revision = ?3, body = ?4, crc = ?5, open = ?6, deadline = ?7
                 WHERE study = ?1 AND id = ?2"
            }
        };
        let is_open = !trial.state.is_final();
        self.execute(sql, values![study, trial.id, trial.revision, text(body), crc, is_open, deadline(trial)])
    }

    fn add_measurements(
        &self,
        study: &StudyId,
        trial: TrialId,
        first: u64,
        measurements: &[Measurement],
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO measurements (study, trial, first, body, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
        for (first, body) in encode_chunks(first, measurements) {
            let crc = checksum(&keys::chunk(study, trial, first), &body);
            self.execute(sql, values![study, trial, first, body, crc])?;
        }
        Ok(())
    }
}
