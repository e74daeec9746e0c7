//! Reads of a study together with trials of it, by one statement: one round trip, and no transaction.

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::records::{PostgresRecords, StudyRow, TrialRow, crc_of, number, progress_of, study_row, trial_row};
use crate::StoreError;
use tunesmith_domain::{Study, StudyId, Trial, TrialId};

impl PostgresRecords<'_> {
    /// The study `study` and its trial `id`; `None` if there is no study, or no progress of it.
    pub(super) fn read_study_and_trial(
        &self,
        study: &StudyId,
        id: TrialId,
    ) -> Result<Option<(Study, Option<Trial>)>, StoreError> {
        let sql = "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc, t.id, t.revision, t.body, t.crc
                   FROM studies s JOIN progress p ON p.study = s.id LEFT JOIN trials t ON t.study = s.id AND t.id = $2
                   WHERE s.id = $1";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(id.0));
        let Some((row, trial)) = self.get(statement, |row| Ok((study_row(row)?, trial_of(row, 5)?)))? else {
            return Ok(None);
        };
        let trial = trial.map(|row| self.decode_trial(study, &row)).transpose()?;
        Ok(Some((self.decode_study(study, row)?, trial)))
    }

    /// The study `study` and up to `limit` of its trials that are not final, by number; `None` if there is no study, or
    /// no progress of it.
    pub(super) fn read_study_and_open_trials(
        &self,
        study: &StudyId,
        limit: usize,
    ) -> Result<Option<(Study, Vec<Trial>)>, StoreError> {
        // The study is in the first row only.
        let sql = "SELECT CASE WHEN t.place IS NULL OR t.place = 1 THEN s.body END, s.crc, p.next_trial_id, p.revision,
                       p.crc, t.id, t.revision, t.body, t.crc
                   FROM studies s JOIN progress p ON p.study = s.id LEFT JOIN LATERAL (
                       SELECT id, revision, body, crc, row_number() OVER (ORDER BY id) AS place FROM trials
                       WHERE study = $1 AND open ORDER BY id LIMIT $2
                   ) t ON true
                   WHERE s.id = $1 ORDER BY t.id";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(limit as u64));
        let mut found: Option<StudyRow> = None;
        let rows = self.list(statement, |row| {
            if found.is_none() {
                found = Some(study_row(row)?);
            }
            trial_of(row, 5)
        })?;
        let Some(row) = found else { return Ok(None) };
        let trials = rows.iter().flatten().map(|row| self.decode_trial(study, row)).collect::<Result<_, _>>()?;
        Ok(Some((self.decode_study(study, row)?, trials)))
    }

    /// Up to `limit` trials of `study` with a revision above `revision`, by revision; `None` if it has to be checked
    /// whether the study exists.
    pub(super) fn read_changed_trials_of_study(
        &self,
        study: &StudyId,
        revision: u64,
        limit: usize,
    ) -> Result<Option<Vec<Trial>>, StoreError> {
        let sql = "SELECT p.next_trial_id, p.revision, p.crc, t.id, t.revision, t.body, t.crc
                   FROM studies s JOIN progress p ON p.study = s.id LEFT JOIN LATERAL (
                       SELECT id, revision, body, crc FROM trials
                       WHERE study = $1 AND revision > $2 ORDER BY revision LIMIT $3
                   ) t ON true
                   WHERE s.id = $1 ORDER BY t.revision";
        let statement = sqlx::query(sql).bind(study.as_str().to_owned()).bind(number(revision));
        let mut found = None;
        let rows = self.list(statement.bind(number(limit as u64)), |row| {
            if found.is_none() {
                found = Some((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?, crc_of(row, 2)?));
            }
            trial_of(row, 3)
        })?;
        let Some((next, revision, crc)) = found else { return Ok(None) };
        progress_of(study, next, revision, crc)
            .map_err(|error| error.of(self.place(), &format!("the progress of study {study}")))?;
        rows.iter().flatten().map(|row| self.decode_trial(study, row)).collect::<Result<_, _>>().map(Some)
    }
}

/// The trial in the columns from `first`, if there is one.
fn trial_of(row: &PgRow, first: usize) -> Result<Option<TrialRow>, sqlx::Error> {
    match row.try_get::<Option<i64>, _>(first)? {
        Some(_) => trial_row(row, first).map(Some),
        None => Ok(None),
    }
}
