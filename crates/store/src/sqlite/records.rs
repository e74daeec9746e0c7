//! Records as rows of tables.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};

use super::error;
use crate::decoded_studies::DecodedStudies;
use crate::engine::{Changes, Lookups, Ranges};
use crate::record::{
    self, Progress, RecordError, checksum, decode_chunk, decode_job, decode_trial, encode_chunks, encode_job,
    encode_study, encode_trial,
};
use crate::{StoreError, keys};
use tunesmith_domain::{IdError, Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

/// The records of one connection, within its open transaction.
pub(super) struct SqliteRecords<'a> {
    connection: &'a Connection,
    path: &'a Path,
    decoded: &'a DecodedStudies,
}

impl<'a> SqliteRecords<'a> {
    /// The records of `connection`; `path` is for messages.
    pub(super) fn new(connection: &'a Connection, path: &'a Path, decoded: &'a DecodedStudies) -> Self {
        Self { connection, path, decoded }
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>, StoreError> {
        self.connection
            .prepare_cached(sql)
            .map_err(|source| error::not_applied(self.path, "prepare a statement", source))
    }

    fn execute(&self, sql: &str, parameters: impl Params) -> Result<(), StoreError> {
        let done = self.prepare(sql)?.execute(parameters);
        done.map(|_| ()).map_err(|source| error::not_applied(self.path, "write", source))
    }

    fn write_progress(&self, study: &StudyId, progress: Progress) -> Result<(), StoreError> {
        let crc = checksum(study.as_str().as_bytes(), &progress.encode());
        let sql = "INSERT INTO progress (study, next_trial_id, revision, crc) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT DO UPDATE
                   SET next_trial_id = excluded.next_trial_id, revision = excluded.revision, crc = excluded.crc";
        let (next, revision) = (number(progress.next_trial_id.0), number(progress.revision));
        self.execute(sql, params![study.as_str(), next, revision, crc])
    }

    fn get<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let row = self.prepare(sql)?.query_row(parameters, read).optional();
        row.map_err(|source| error::not_applied(self.path, "read", source))
    }

    fn list<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare(sql)?;
        let rows = statement.query_map(parameters, read).and_then(Iterator::collect);
        rows.map_err(|source| error::not_applied(self.path, "read", source))
    }

    fn decode_trial(&self, study: &StudyId, row: TrialRow) -> Result<Trial, StoreError> {
        let TrialRow { id, revision, body, crc } = row;
        let key = keys::trial(study, TrialId(id.cast_unsigned()));
        let decoded = record::verify(&key, body.as_bytes(), crc).and_then(|()| decode_trial(body.as_bytes()));
        let trial = decoded.map_err(|error| error.of(self.path, &format!("trial {id} of study {study}")))?;
        if trial.revision == revision.cast_unsigned() {
            return Ok(trial);
        }
        let detail = format!("it has revision {}, its row has {revision}", trial.revision);
        Err(RecordError::Malformed { detail }.of(self.path, &format!("trial {id} of study {study}")))
    }

    fn decode_job(&self, (id, body, crc): (String, String, u32)) -> Result<Job, StoreError> {
        let decoded = record::verify(id.as_bytes(), body.as_bytes(), crc).and_then(|()| decode_job(body.as_bytes()));
        decoded.map_err(|error| error.of(self.path, &format!("job {id}")))
    }
}

struct TrialRow {
    id: i64,
    revision: i64,
    body: String,
    crc: u32,
}

fn trial_row(row: &Row<'_>) -> rusqlite::Result<TrialRow> {
    Ok(TrialRow { id: row.get(0)?, revision: row.get(1)?, body: row.get(2)?, crc: row.get(3)? })
}

fn job_row(row: &Row<'_>) -> rusqlite::Result<(String, String, u32)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

/// A number as an SQLite integer. Stored numbers are far below the limit; arguments of calls may exceed it.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Lookups for SqliteRecords<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        let row = self.get("SELECT id, body, crc FROM jobs WHERE id = ?1", [id.as_str()], job_row)?;
        row.map(|row| self.decode_job(row)).transpose()
    }

    fn study(&self, id: &StudyId) -> Result<Option<Study>, StoreError> {
        let sql = "SELECT s.body, s.crc, p.next_trial_id, p.revision, p.crc
                   FROM studies s LEFT JOIN progress p ON p.study = s.id WHERE s.id = ?1";
        let row = self.get(sql, [id.as_str()], |row| {
            let progress: (Option<i64>, Option<i64>, Option<u32>) = (row.get(2)?, row.get(3)?, row.get(4)?);
            Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?, progress))
        })?;
        let Some((body, crc, progress)) = row else { return Ok(None) };
        let decode = move || {
            record::verify(id.as_str().as_bytes(), body.as_bytes(), crc)?;
            let (Some(next), Some(revision), Some(crc)) = progress else {
                return Err(RecordError::Malformed { detail: "its progress is missing".into() });
            };
            self.decoded.decode(id, body, progress_of(id, next, revision, crc)?)
        };
        decode().map(Some).map_err(|error| error.of(self.path, &format!("study {id}")))
    }

    fn trial(&self, study: &StudyId, id: TrialId) -> Result<Option<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = ?1 AND id = ?2";
        let row = self.get(sql, params![study.as_str(), number(id.0)], trial_row)?;
        row.map(|row| self.decode_trial(study, row)).transpose()
    }

    fn remains(&self, id: &StudyId) -> Result<Option<TrialId>, StoreError> {
        let sql = "SELECT next_trial_id, revision, crc FROM progress WHERE study = ?1";
        let row = self.get(sql, [id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let Some((next, revision, crc)) = row else { return Ok(None) };
        let progress = progress_of(id, next, revision, crc);
        let progress = progress.map_err(|error| error.of(self.path, &format!("the progress of study {id}")))?;
        Ok(progress.remains())
    }
}

/// The progress of study `id` with these columns, if its checksum is right.
fn progress_of(id: &StudyId, next: i64, revision: i64, crc: u32) -> Result<Progress, RecordError> {
    let progress = Progress { next_trial_id: TrialId(next.cast_unsigned()), revision: revision.cast_unsigned() };
    record::verify(id.as_str().as_bytes(), &progress.encode(), crc)?;
    Ok(progress)
}

impl SqliteRecords<'_> {
    /// The studies with these IDs.
    fn named_studies(&self, ids: &[String]) -> Result<Vec<Study>, StoreError> {
        let studies = ids.iter().filter_map(|id| {
            let malformed = |error: IdError| {
                RecordError::Malformed { detail: error.to_string() }.of(self.path, &format!("study {id}"))
            };
            id.parse().map_err(malformed).and_then(|id| self.study(&id)).transpose()
        });
        studies.collect()
    }
}

impl Ranges for SqliteRecords<'_> {
    fn deleted_studies(&self) -> Result<Vec<StudyId>, StoreError> {
        let sql = "SELECT study FROM progress WHERE revision = ?1";
        let deleted = Progress::of_deleted(TrialId::FIRST).revision;
        let studies = self.list(sql, [number(deleted)], |row| row.get::<_, String>(0))?;
        let parse = |study: String| {
            study.parse().map_err(|error: IdError| {
                RecordError::Malformed { detail: error.to_string() }.of(self.path, &format!("the progress of {study}"))
            })
        };
        studies.into_iter().map(parse).collect()
    }

    fn jobs(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let sql = "SELECT id, body, crc FROM jobs WHERE id > ?1 ORDER BY id LIMIT ?2";
        let after = after.map_or("", JobId::as_str);
        let rows = self.list(sql, params![after, number(limit as u64)], job_row)?;
        rows.into_iter().map(|row| self.decode_job(row)).collect()
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
        let after = after.map_or(prefix.as_str(), StudyId::as_str);
        let sql = "SELECT id FROM studies WHERE id > ?1 AND id > ?2 AND id < ?3 ORDER BY id LIMIT ?4";
        let parameters = params![after, prefix, end, number(limit as u64)];
        self.named_studies(&self.list(sql, parameters, |row| row.get(0))?)
    }

    fn all_studies(&self, after: Option<&StudyId>, limit: usize) -> Result<Vec<Study>, StoreError> {
        let sql = "SELECT id FROM studies WHERE id > ?1 AND instr(id, '/') > 0 AND instr(id, ?2) = 0
                   ORDER BY id LIMIT ?3";
        let parameters = params![after.map_or("", StudyId::as_str), keys::jobs_part(), number(limit as u64)];
        self.named_studies(&self.list(sql, parameters, |row| row.get(0))?)
    }

    fn open_trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials INDEXED BY open_trials
                   WHERE study = ?1 AND open = 1 AND id > ?2 ORDER BY id LIMIT ?3";
        let rows = self.list(sql, params![study.as_str(), number(after.0), number(limit as u64)], trial_row)?;
        rows.into_iter().map(|row| self.decode_trial(study, row)).collect()
    }

    fn overdue_trials(&self, at: Timestamp, limit: usize) -> Result<Vec<(StudyId, Trial)>, StoreError> {
        let sql = "SELECT id, revision, body, crc, study FROM trials INDEXED BY trials_by_deadline
                   WHERE deadline IS NOT NULL AND deadline <= ?1 ORDER BY deadline LIMIT ?2";
        let rows = self.list(sql, params![at.as_microsecond(), number(limit as u64)], |row| {
            Ok((row.get::<_, String>(4)?, trial_row(row)?))
        })?;
        let trials = rows.into_iter().map(|(study, row)| {
            let study: StudyId = study.parse().map_err(|error: IdError| {
                RecordError::Malformed { detail: error.to_string() }.of(self.path, &format!("trials of {study}"))
            })?;
            let trial = self.decode_trial(&study, row)?;
            Ok((study, trial))
        });
        trials.collect()
    }

    fn trials(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials WHERE study = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        let rows = self.list(sql, params![study.as_str(), number(after.0), number(limit as u64)], trial_row)?;
        rows.into_iter().map(|row| self.decode_trial(study, row)).collect()
    }

    fn changed_trials(&self, study: &StudyId, revision: u64, limit: usize) -> Result<Vec<Trial>, StoreError> {
        let sql = "SELECT id, revision, body, crc FROM trials INDEXED BY trials_by_revision
                   WHERE study = ?1 AND revision > ?2 ORDER BY revision LIMIT ?3";
        let rows = self.list(sql, params![study.as_str(), number(revision), number(limit as u64)], trial_row)?;
        rows.into_iter().map(|row| self.decode_trial(study, row)).collect()
    }

    fn summary(&self, study: &StudyId) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body, crc FROM summaries WHERE study = ?1";
        let row = self.get(sql, [study.as_str()], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, u32>(1)?)))?;
        let verified = row.map(|(body, crc)| record::verify(study.as_str().as_bytes(), &body, crc).map(|()| body));
        verified.transpose().map_err(|error| error.of(self.path, &format!("the summary of study {study}")))
    }

    fn chunks(
        &self,
        study: &StudyId,
        trial: TrialId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<Measurement>)>, StoreError> {
        let sql = "SELECT first, body, crc FROM measurements WHERE study = ?1 AND trial = ?2 AND first >= (
                       SELECT coalesce(max(first), 0) FROM measurements
                       WHERE study = ?1 AND trial = ?2 AND first <= ?3
                   ) ORDER BY first";
        let failed = |source| error::not_applied(self.path, "read", source);
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params![study.as_str(), number(trial.0), number(from)]).map_err(failed)?;
        let mut chunks = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, u32>(2)?));
            let (first, body, crc) = read(row).map_err(failed)?;
            let first = first.cast_unsigned();
            let decoded =
                record::verify(&keys::chunk(study, trial, first), &body, crc).and_then(|()| decode_chunk(&body));
            let chunk = decoded.map_err(|error| {
                error.of(self.path, &format!("measurement {first} of trial {trial} of study {study}"))
            })?;
            let end = first.saturating_add(chunk.len() as u64);
            chunks.push((first, chunk));
            if end >= from.saturating_add(limit as u64) {
                break;
            }
        }
        Ok(chunks)
    }
}

impl Changes for SqliteRecords<'_> {
    fn put_job(&self, job: &Job) -> Result<(), StoreError> {
        let body = encode_job(job);
        let crc = checksum(job.id.as_str().as_bytes(), &body);
        let sql = "INSERT INTO jobs (id, body, crc) VALUES (?1, CAST(?2 AS TEXT), ?3)
                   ON CONFLICT DO UPDATE SET body = excluded.body, crc = excluded.crc";
        self.execute(sql, params![job.id.as_str(), body, crc])
    }

    fn remove_job(&self, id: &JobId) -> Result<(), StoreError> {
        self.execute("DELETE FROM jobs WHERE id = ?1", [id.as_str()])
    }

    fn put_study(&self, study: &Study) -> Result<(), StoreError> {
        let (body, _) = encode_study(study);
        let crc = checksum(study.id.as_str().as_bytes(), &body);
        let sql = "INSERT INTO studies (id, body, crc) VALUES (?1, CAST(?2 AS TEXT), ?3)
                   ON CONFLICT DO UPDATE SET body = excluded.body, crc = excluded.crc";
        self.execute(sql, params![study.id.as_str(), body, crc])?;
        self.put_progress(study)
    }

    fn put_progress(&self, study: &Study) -> Result<(), StoreError> {
        self.write_progress(&study.id, Progress { next_trial_id: study.next_trial_id, revision: study.revision })
    }

    fn put_summary(&self, study: &StudyId, body: &[u8]) -> Result<(), StoreError> {
        let crc = checksum(study.as_str().as_bytes(), body);
        let sql = "INSERT INTO summaries (study, body, crc) VALUES (?1, ?2, ?3)
                   ON CONFLICT DO UPDATE SET body = excluded.body, crc = excluded.crc";
        self.execute(sql, params![study.as_str(), body, crc])
    }

    fn put_remains(&self, study: &StudyId, next: Option<TrialId>) -> Result<(), StoreError> {
        self.execute("DELETE FROM studies WHERE id = ?1", [study.as_str()])?;
        self.execute("DELETE FROM summaries WHERE study = ?1", [study.as_str()])?;
        match next {
            Some(next) => self.write_progress(study, Progress::of_deleted(next)),
            None => self.execute("DELETE FROM progress WHERE study = ?1", [study.as_str()]),
        }
    }

    fn remove_trials(&self, study: &StudyId, first: TrialId, end: TrialId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM measurements WHERE study = ?1 AND trial >= ?2 AND trial < ?3",
            "DELETE FROM trials WHERE study = ?1 AND id >= ?2 AND id < ?3",
        ] {
            self.execute(sql, params![study.as_str(), number(first.0), number(end.0)])?;
        }
        Ok(())
    }

    fn put_trial(&self, study: &StudyId, trial: &Trial, _replaces: Option<&Trial>) -> Result<(), StoreError> {
        let body = encode_trial(trial);
        let crc = checksum(&keys::trial(study, trial.id), &body);
        let sql = "INSERT INTO trials (study, id, revision, body, crc, open, deadline)
                   VALUES (?1, ?2, ?3, CAST(?4 AS TEXT), ?5, ?6, ?7)
                   ON CONFLICT (study, id) DO UPDATE SET revision = excluded.revision, body = excluded.body,
                       crc = excluded.crc, open = excluded.open, deadline = excluded.deadline";
        // Rounded up, so that no lease is found before its end.
        let deadline = trial.lease.map(|lease| lease.deadline.as_microsecond().saturating_add(1));
        let open = i64::from(!trial.state.is_final());
        let (id, revision) = (number(trial.id.0), number(trial.revision));
        self.execute(sql, params![study.as_str(), id, revision, body, crc, open, deadline])
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
            self.execute(sql, params![study.as_str(), number(trial.0), number(first), body, crc])?;
        }
        Ok(())
    }
}
