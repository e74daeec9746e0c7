//! Studies and their attributes.

use std::collections::BTreeMap;

use prost::Message;
use rusqlite::{Connection, OptionalExtension, params};

use super::{AttributeKind, Extent, Storage, StorageError};
use crate::limits::{ENTRY_BYTES, MESSAGE_BYTES, RECORD_BYTES};
use crate::wire::{Study, StudyDirection};

impl Storage {
    /// Creates a study and returns its ID.
    ///
    /// # Errors
    /// [`StorageError::NameTaken`].
    pub(crate) async fn create_study(
        &self,
        directions: Vec<StudyDirection>,
        name: String,
    ) -> Result<i64, StorageError> {
        let directions: Vec<u8> = directions.into_iter().map(|direction| direction as u8).collect();
        self.write(move |connection| {
            if id_of(connection, &name)?.is_some() {
                return Err(StorageError::NameTaken { name });
            }
            let mut insert = connection.prepare_cached("INSERT INTO studies (name, directions) VALUES (?1, ?2)")?;
            Ok(insert.insert(params![name, directions])?)
        })
        .await
    }

    /// Deletes a study. Its trials are invisible immediately, and removed in the background.
    pub(crate) async fn delete_study(&self, id: i64) -> Result<(), StorageError> {
        self.write(move |connection| {
            if connection.prepare_cached("DELETE FROM studies WHERE study_id = ?1")?.execute([id])? == 0 {
                return Err(StorageError::NoStudy { id });
            }
            for sql in [
                "DELETE FROM study_attributes WHERE study_id = ?1",
                "DELETE FROM study_parameters WHERE study_id = ?1",
                "INSERT INTO deletions (study_id) VALUES (?1)",
            ] {
                connection.prepare_cached(sql)?.execute([id])?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn set_study_attribute(
        &self,
        id: i64,
        kind: AttributeKind,
        key: String,
        value: String,
    ) -> Result<(), StorageError> {
        self.write(move |connection| {
            let size_bytes: Option<i64> = connection
                .prepare_cached("SELECT size_bytes FROM studies WHERE study_id = ?1")?
                .query_row([id], |row| row.get(0))
                .optional()?;
            let size_bytes = size_bytes.ok_or(StorageError::NoStudy { id })?;
            let sql = "SELECT octet_length(value) FROM study_attributes WHERE study_id = ?1 AND kind = ?2 AND key = ?3";
            let replaced: Option<i64> = connection
                .prepare_cached(sql)?
                .query_row(params![id, kind as i64, key], |row| row.get(0))
                .optional()?;
            let size_bytes = size_bytes + added_bytes(&key, &value, replaced);
            check_size("study", id, size_bytes)?;
            let sql = "INSERT INTO study_attributes (study_id, kind, key, value) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT DO UPDATE SET value = excluded.value";
            connection.prepare_cached(sql)?.execute(params![id, kind as i64, key, value])?;
            let sql = "UPDATE studies SET size_bytes = ?2 WHERE study_id = ?1";
            connection.prepare_cached(sql)?.execute([id, size_bytes])?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn study_id(&self, name: String) -> Result<i64, StorageError> {
        self.read(Extent::Record, move |connection| {
            id_of(connection, &name)?.ok_or(StorageError::NoStudyOfName { name })
        })
        .await
    }

    pub(crate) async fn study_name(&self, id: i64) -> Result<String, StorageError> {
        self.read(Extent::Record, move |connection| Ok(study(connection, id)?.study_name)).await
    }

    /// Directions, as numbers of [`StudyDirection`].
    pub(crate) async fn study_directions(&self, id: i64) -> Result<Vec<i32>, StorageError> {
        self.read(Extent::Record, move |connection| Ok(study(connection, id)?.directions)).await
    }

    pub(crate) async fn study_attributes(
        &self,
        id: i64,
        kind: AttributeKind,
    ) -> Result<BTreeMap<String, String>, StorageError> {
        self.read(Extent::Record, move |connection| {
            study(connection, id)?;
            attributes(connection, id, kind)
        })
        .await
    }

    /// All studies with their attributes, in the order of their creation.
    ///
    /// # Errors
    /// [`StorageError::ResponseTooLarge`].
    pub(crate) async fn studies(&self) -> Result<Vec<Study>, StorageError> {
        self.read(Extent::List, |connection| {
            let sql = "SELECT study_id, name, directions FROM studies ORDER BY study_id";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            let (mut studies, mut size_bytes) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let mut study = study_of(row)?;
                study.user_attributes = attributes(connection, study.study_id, AttributeKind::User)?;
                study.system_attributes = attributes(connection, study.study_id, AttributeKind::System)?;
                add_to_response(&mut size_bytes, &study, "delete studies, or remove large attributes")?;
                studies.push(study);
            }
            Ok(studies)
        })
        .await
    }
}

/// Checks that a record may have `size_bytes`.
pub(super) fn check_size(what: &'static str, id: i64, size_bytes: i64) -> Result<(), StorageError> {
    let maximum = RECORD_BYTES;
    if size_bytes > maximum {
        return Err(StorageError::RecordTooLarge { what, id, size_bytes, maximum });
    }
    Ok(())
}

/// Growth of a record by an entry whose former value has `replaced` bytes, if there is one.
pub(super) fn added_bytes(key: &str, value: &str, replaced: Option<i64>) -> i64 {
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    match replaced {
        Some(former) => length(value) - former,
        None => length(key) + length(value) + ENTRY_BYTES,
    }
}

/// Counts `message` as a part of a response of `size_bytes`.
pub(super) fn add_to_response(
    size_bytes: &mut usize,
    message: &impl Message,
    advice: &'static str,
) -> Result<(), StorageError> {
    // Tag and length of the part.
    const FRAME_BYTES: usize = 6;
    *size_bytes += message.encoded_len() + FRAME_BYTES;
    if *size_bytes > MESSAGE_BYTES {
        return Err(StorageError::ResponseTooLarge { maximum: MESSAGE_BYTES, advice });
    }
    Ok(())
}

fn id_of(connection: &Connection, name: &str) -> Result<Option<i64>, StorageError> {
    let mut query = connection.prepare_cached("SELECT study_id FROM studies WHERE name = ?1")?;
    Ok(query.query_row([name], |row| row.get(0)).optional()?)
}

/// Study without its attributes.
pub(super) fn study(connection: &Connection, id: i64) -> Result<Study, StorageError> {
    let mut query = connection.prepare_cached("SELECT study_id, name, directions FROM studies WHERE study_id = ?1")?;
    query.query_row([id], study_of).optional()?.ok_or(StorageError::NoStudy { id })
}

fn study_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Study> {
    let directions: Vec<u8> = row.get(2)?;
    let directions = directions.into_iter().map(i32::from).collect();
    Ok(Study { study_id: row.get(0)?, study_name: row.get(1)?, directions, ..Study::default() })
}

fn attributes(connection: &Connection, id: i64, kind: AttributeKind) -> Result<BTreeMap<String, String>, StorageError> {
    let sql = "SELECT key, value FROM study_attributes WHERE study_id = ?1 AND kind = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([id, kind as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
