//! SQLite databases of the service of OSS Vizier.

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message;
use tunesmith_vizier::messages::oss;

use super::VizierStudy;
use crate::sqlite::{self, each};

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error("it cannot be read as a SQLite database of OSS Vizier")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{name}: its message cannot be decoded")]
    Message { name: String, source: prost::DecodeError },
}

/// Reads the studies of the database at `path`, which OSS Vizier 0.1.24 has written, without changing it.
///
/// # Errors
/// [`DatabaseError`].
pub fn database(path: &Path) -> Result<Vec<VizierStudy>, DatabaseError> {
    let connection = sqlite::open(path)?;
    // One state of the database, though the service may write to it.
    let connection = &connection.unchecked_transaction()?;
    let mut rows: Vec<(String, Vec<u8>)> = Vec::new();
    each(connection, "SELECT study_name, serialized_study FROM studies ORDER BY study_name", |row| {
        rows.push((row.get(0)?, row.get(1)?));
        Ok(())
    })?;
    let mut studies = BTreeMap::new();
    for (name, bytes) in rows.drain(..) {
        let study: oss::Study = decode(&name, &bytes)?;
        studies.insert(name, VizierStudy { study, trials: Vec::new() });
    }
    each(connection, "SELECT trial_name, serialized_trial FROM trials ORDER BY trial_id", |row| {
        rows.push((row.get(0)?, row.get(1)?));
        Ok(())
    })?;
    for (name, bytes) in rows {
        let study = name.split_once("/trials/").and_then(|(study, _)| studies.get_mut(study));
        if let Some(study) = study {
            study.trials.push(decode(&name, &bytes)?);
        }
    }
    Ok(studies.into_values().collect())
}

fn decode<M: Message + Default>(name: &str, bytes: &[u8]) -> Result<M, DatabaseError> {
    M::decode(bytes).map_err(|source| DatabaseError::Message { name: name.to_owned(), source })
}
