//! Ordered access to the rows of tables.

use jiff::Timestamp;
use sqlx::Row;

use super::records::{PostgresRecords, crc_of, job_row, number, trial_row};
use crate::engine::{Lookups, Ranges};
use crate::record::{self, Progress, RecordError, decode_chunk};
use crate::{StoreError, keys};
use tunesmith_domain::{IdError, Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// Number of chunks of measurements that are read at once: about a page of a long curve.
const CHUNKS_AT_ONCE: i64 = 16;

impl PostgresRecords<'_> {
    fn parse_study(&self, study: &str) -> Result<StudyId, StoreError> {
        study.parse().map_err(|error: IdError| {
            RecordError::Malformed { detail: error.to_string() }.of(self.place(), &format!("study {study}"))
        })
    }

    /// The studies with these IDs.
    fn named_studies(&self, ids: &[String]) -> Result<Vec<Study>, StoreError> {
        ids.iter().filter_map(|id| self.parse_study(id).and_then(|id| self.study(&id)).transpose()).collect()
    }
}

impl Ranges for PostgresRecords<'_> {
    fn deleted_studies(&self) -> Result<Vec<StudyId>, StoreError> {
        let deleted = Progress::of_deleted(TrialId::FIRST).revision;
        let statement = sqlx::query("SELECT study FROM progress WHERE revision = $1").bind(number(deleted));
        let studies = self.list(statement, |row| row.try_get::<String, _>(0))?;
        studies.iter().map(|study| self.parse_study(study)).collect()
    }

    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let sql = "SELECT id, body, crc FROM jobs WHERE id > $1 ORDER BY id LIMIT $2";
        let after = after.map_or("", JobId::as_str).to_owned();
        let rows = self.list(sqlx::query(sql).bind(after).bind(number(limit as u64)), job_row)?;
        rows.iter().map(|row| self.decode_job(row)).collect()
    }

    fn studies(
        &self,
        project: &str,
        location: &str,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        let prefix = keys::studies_prefix(project, location);
        // The character after '/' is '0', so all IDs with the prefix are below `end`.
        let end = format!("{project}/{location}0");
        let after = after.map_or(prefix.clone(), |after| after.as_str().to_owned());
        let sql = "SELECT id FROM studies WHERE id > $1 AND id > $2 AND id < $3 ORDER BY id LIMIT $4";
        let statement = sqlx::query(sql).bind(after).bind(prefix).bind(end).bind(number(limit as u64));
        self.named_studies(&self.list(statement, |row| row.try_get(0))?)
    }

    fn all_studies(&self, after: Option<&StudyId>, limit: usize) -> Result<Vec<Study>, StoreError> {
        let sql = "SELECT id FROM studies WHERE id > $1 AND strpos(id, '/') > 0 AND strpos(id, $2) = 0
                   ORDER BY id LIMIT $3";
        let after = after.map_or("", StudyId::as_str).to_owned();
        let statement = sqlx::query(sql).bind(after).bind(keys::jobs_part()).bind(number(limit as u64));
        self.named_studies(&self.list(statement, |row| row.try_get(0))?)
    }

    fn open_trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = $1 AND open AND id > $2
                   ORDER BY id LIMIT $3";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(after.0));
        let rows = self.list(statement.bind(number(limit as u64)), |row| trial_row(row, 0))?;
        rows.iter().map(|row| self.decode_trial(study, row)).collect()
    }

    fn study_and_open_trials(&self, study: &StudyId, limit: usize) -> Result<(Option<Study>, Vec<Trial>), StoreError> {
        match self.read_study_and_open_trials(study, limit)? {
            Some((study, trials)) => Ok((Some(study), trials)),
            None => Ok((self.study(study)?, Vec::new())),
        }
    }

    fn changed_trials_of_study(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Option<Vec<Trial>>, StoreError> {
        self.read_changed_trials_of_study(study, revision, limit)
    }

    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        let sql = "SELECT id, revision, body, crc, study FROM trials WHERE deadline IS NOT NULL AND deadline <= $1
                   ORDER BY deadline LIMIT $2";
        let statement = sqlx::query(sql).bind(at.as_microsecond()).bind(number(limit as u64));
        let rows = self.list(statement, |row| Ok((row.try_get::<String, _>(4)?, trial_row(row, 0)?)))?;
        let trials = rows.iter().map(|(study, row)| {
            let study = self.parse_study(study)?;
            let trial = self.decode_trial(&study, row)?;
            Ok((study, trial))
        });
        trials.collect()
    }

    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = $1 AND id > $2 ORDER BY id LIMIT $3";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(after.0));
        let rows = self.list(statement.bind(number(limit as u64)), |row| trial_row(row, 0))?;
        rows.iter().map(|row| self.decode_trial(study, row)).collect()
    }

    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = $1 AND revision > $2
                   ORDER BY revision LIMIT $3";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(revision));
        let rows = self.list(statement.bind(number(limit as u64)), |row| trial_row(row, 0))?;
        rows.iter().map(|row| self.decode_trial(study, row)).collect()
    }

    fn summary(&self, study: &StudyId) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body, crc FROM summaries WHERE study = $1";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned());
        let row = self.get(statement, |row| Ok((row.try_get::<Vec<u8>, _>(0)?, crc_of(row, 1)?)))?;
        let verified = row.map(|(body, crc)| record::verify(study.as_str().as_bytes(), &body, crc).map(|()| body));
        verified.transpose().map_err(|error| error.of(self.path(), &format!("the summary of study {study}")))
    }

    fn chunks(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<Measurement>)>, StoreError> {
        let sql = "SELECT coalesce(max(first), 0) FROM measurements WHERE study = $1 AND trial = $2 AND first <= $3";
        let of_trial = |sql: &'static str| sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(trial.0));
        let begin = self.get(of_trial(sql).bind(number(from)), |row| row.try_get::<i64, _>(0))?;
        let mut next = begin.unwrap_or(0);
        let mut chunks = Vec::new();
        loop {
            let sql = "SELECT first, body, crc FROM measurements WHERE study = $1 AND trial = $2 AND first >= $3
                       ORDER BY first LIMIT $4";
            let rows = self.list(of_trial(sql).bind(next).bind(CHUNKS_AT_ONCE), |row| {
                Ok((row.try_get::<i64, _>(0)?, row.try_get::<Vec<u8>, _>(1)?, crc_of(row, 2)?))
            })?;
            let is_last = rows.len() < CHUNKS_AT_ONCE as usize;
            for (first, body, crc) in rows {
                next = first.saturating_add(1);
                let first = first.cast_unsigned();
                let decoded =
                    record::verify(&keys::chunk(study, trial, first), &body, crc).and_then(|()| decode_chunk(&body));
                let chunk = decoded.map_err(|error| {
                    error.of(self.place(), &format!("measurement {first} of trial {trial} of study {study}"))
                })?;
                let end = first.saturating_add(chunk.len() as u64);
                chunks.push((first, chunk));
                if end >= from.saturating_add(limit as u64) {
                    return Ok(chunks);
                }
            }
            if is_last {
                return Ok(chunks);
            }
        }
    }
}
