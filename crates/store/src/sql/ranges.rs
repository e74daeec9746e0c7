//! Ordered access to rows.

use jiff::Timestamp;

use super::{Connection, SqlRecords, Value, values};
use crate::engine::{Lookups, Ranges};
use crate::record::{self, Progress, decode_chunk};
use crate::{StoreError, SummaryKind, keys};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// Chunks of measurements per read: about a page of a long curve.
const CHUNKS_AT_ONCE: usize = 16;

impl<C: Connection> SqlRecords<C> {
    fn named_studies(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Study>, StoreError> {
        let ids = self.list(sql, values, |row| self.parse_study(&row.text(0)?))?;
        ids.iter().filter_map(|id| self.study(id).transpose()).collect()
    }

    fn trials_of(&self, study: &StudyId, sql: &str, values: Vec<Value>) -> Result<Vec<Trial>, StoreError> {
        self.list(sql, values, |row| self.trial_of(study, row, 0))
    }
}

impl<C: Connection> Ranges for SqlRecords<C> {
    fn deleted_studies(&self) -> Result<Vec<StudyId>, StoreError> {
        let deleted = Progress::of_deleted(TrialId::FIRST).revision;
        let sql = "SELECT study FROM progress WHERE revision = ?1";
        self.list(sql, values![deleted], |row| self.parse_study(&row.text(0)?))
    }

    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let sql = "SELECT id, body, crc FROM jobs WHERE id > ?1 ORDER BY id LIMIT ?2";
        self.list(sql, values![after.map_or("", JobId::as_str), limit], |row| self.job_of(row))
    }

    fn studies(
        &self,
        parent: Option<(&str, &str)>,
        after: Option<&StudyId>,
        limit: usize,
    ) -> Result<Vec<Study>, StoreError> {
        let after = after.map_or("", StudyId::as_str);
        match parent {
            Some((project, location)) => {
                let prefix = keys::studies_prefix(project, location);
                // '0' follows '/', so all IDs with the prefix are below `end`.
                let end = format!("{project}/{location}0");
                let sql = "SELECT id FROM studies WHERE id > ?1 AND id > ?2 AND id < ?3 ORDER BY id LIMIT ?4";
                self.named_studies(sql, values![after, prefix, end, limit])
            }
            None => {
                let sql = "SELECT id FROM studies
                           WHERE id > ?1 AND replace(id, '/', '') <> id AND replace(id, ?2, '') = id
                           ORDER BY id LIMIT ?3";
                self.named_studies(sql, values![after, keys::jobs_part(), limit])
            }
        }
    }

    fn study_and_open_trials(
        &self,
        study: &StudyId,
        after: TrialId,
        limit: usize,
    ) -> Result<(Option<Study>, Vec<Trial>), StoreError> {
        if !self.connection.combines() {
            let sql = "SELECT id, revision, body, crc FROM trials INDEXED BY open_trials
                       WHERE study = ?1 AND open AND id > ?2 ORDER BY id LIMIT ?3";
            return Ok((self.study(study)?, self.trials_of(study, sql, values![study, after, limit])?));
        }
        // Only the first row contains the study.
        let sql = "SELECT CASE WHEN t.place IS NULL OR t.place = 1 THEN s.body END, s.crc, p.next_trial_id, p.revision,
                       p.crc, t.id, t.revision, t.body, t.crc
                   FROM studies s JOIN progress p ON p.study = s.id LEFT JOIN LATERAL (
                       SELECT id, revision, body, crc, row_number() OVER (ORDER BY id) AS place FROM trials
                       WHERE study = ?1 AND open AND id > ?2 ORDER BY id LIMIT ?3
                   ) t ON true
                   WHERE s.id = ?1 ORDER BY t.id";
        let mut found = None;
        let trials = self.list(sql, values![study, after, limit], |row| {
            if found.is_none() {
                found = Some(self.study_of(study, row)?);
            }
            self.optional_trial_of(study, row, 5)
        })?;
        match found {
            Some(found) => Ok((Some(found), trials.into_iter().flatten().collect())),
            None => Ok((self.study(study)?, Vec::new())),
        }
    }

    fn changed_trials_of_study(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Option<Vec<Trial>>, StoreError> {
        if !self.connection.combines() {
            return Ok(None);
        }
        let sql = "SELECT p.next_trial_id, p.revision, p.crc, t.id, t.revision, t.body, t.crc
                   FROM studies s JOIN progress p ON p.study = s.id LEFT JOIN LATERAL (
                       SELECT id, revision, body, crc FROM trials
                       WHERE study = ?1 AND revision > ?2 ORDER BY revision LIMIT ?3
                   ) t ON true
                   WHERE s.id = ?1 ORDER BY t.revision";
        let mut progress = None;
        let trials = self.list(sql, values![study, revision, limit], |row| {
            if progress.is_none() {
                progress = Some(self.progress_of(study, row, 0)?);
            }
            self.optional_trial_of(study, row, 3)
        })?;
        Ok(progress.map(|_| trials.into_iter().flatten().collect()))
    }

    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        let sql = "SELECT id, revision, body, crc, study FROM trials INDEXED BY trials_by_deadline
                   WHERE deadline IS NOT NULL AND deadline <= ?1 ORDER BY deadline LIMIT ?2";
        self.list(sql, values![at.as_microsecond(), limit], |row| {
            let study = self.parse_study(&row.text(4)?)?;
            let trial = self.trial_of(&study, row, 0)?;
            Ok((study, trial))
        })
    }

    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        self.trials_of(study, sql, values![study, after, limit])
    }

    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials INDEXED BY trials_by_revision
                   WHERE study = ?1 AND revision > ?2 ORDER BY revision LIMIT ?3";
        self.trials_of(study, sql, values![study, revision, limit])
    }

    fn summary(&self, study: &StudyId, kind: SummaryKind) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body, crc FROM summaries WHERE study = ?1";
        let key = keys::summary(study, kind);
        self.get(sql, values![key.as_str()], |row| {
            let (body, crc) = (row.bytes(0)?, row.checksum(1)?);
            record::verify(key.as_bytes(), &body, crc)
                .map_err(|error| self.error(error, format_args!("the summary of study {study}")))?;
            Ok(body)
        })
    }

    fn chunks(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<Measurement>)>, StoreError> {
        let sql = "SELECT coalesce(max(first), 0) FROM measurements WHERE study = ?1 AND trial = ?2 AND first <= ?3";
        let mut next = self.get(sql, values![study, trial, from], |row| row.number(0))?.unwrap_or(0);
        let mut chunks = Vec::new();
        loop {
            let sql = "SELECT first, body, crc FROM measurements WHERE study = ?1 AND trial = ?2 AND first >= ?3
                       ORDER BY first LIMIT ?4";
            let rows = self.list(sql, values![study, trial, next, CHUNKS_AT_ONCE], |row| {
                let (first, body) = (row.number(0)?.cast_unsigned(), row.bytes(1)?);
                let key = keys::chunk(study, trial, first);
                let decoded = record::verify(&key, &body, row.checksum(2)?).and_then(|()| decode_chunk(&body));
                let of = format_args!("measurement {first} of trial {trial} of study {study}").to_string();
                Ok((first, decoded.map_err(|error| self.error(error, of))?))
            })?;
            let is_last = rows.len() < CHUNKS_AT_ONCE;
            chunks.extend(rows);
            let end = chunks.last().map_or(0, |(first, chunk)| first.saturating_add(chunk.len() as u64));
            if is_last || end >= from.saturating_add(limit as u64) {
                return Ok(chunks);
            }
            next = chunks.last().map_or(0, |(first, _)| i64::try_from(*first).unwrap_or(i64::MAX).saturating_add(1));
        }
    }
}
