//! SQLite databases of Optuna.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::distribution::Distribution;
use super::{FIXED, METRIC_NAMES, OptunaState, OptunaStudy, OptunaTrial, REASON};
use crate::sqlite::{self, each};

/// Versions of Optuna's tables that are read.
const VERSIONS: std::ops::RangeInclusive<i64> = 12..=12;

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error("it cannot be read as a SQLite database of Optuna")]
    Sqlite(#[from] rusqlite::Error),
    #[error("its tables have the version {0}; allowed: 12")]
    Version(i64),
}

/// Reads the studies of the database at `path`, without changing it.
///
/// # Errors
/// [`DatabaseError`].
pub fn database(path: &Path) -> Result<Vec<OptunaStudy>, DatabaseError> {
    let connection = sqlite::open(path)?;
    // One state of the database, though workers may write to it.
    let connection = &connection.unchecked_transaction()?;
    let version = connection.query_row("SELECT schema_version FROM version_info", [], |row| row.get(0))?;
    if !VERSIONS.contains(&version) {
        return Err(DatabaseError::Version(version));
    }
    let mut studies: BTreeMap<i64, OptunaStudy> = BTreeMap::new();
    each(connection, "SELECT study_id, study_name FROM studies", |row| {
        studies.insert(row.get(0)?, OptunaStudy { name: row.get(1)?, ..OptunaStudy::default() });
        Ok(())
    })?;
    each(connection, "SELECT study_id, direction FROM study_directions ORDER BY study_id, objective", |row| {
        let direction: String = row.get(1)?;
        if let Some(study) = studies.get_mut(&row.get(0)?) {
            study.maximizes.push(direction == "MAXIMIZE");
        }
        Ok(())
    })?;
    let names = format!("SELECT study_id, value_json FROM study_system_attributes WHERE key = '{METRIC_NAMES}'");
    each(connection, &names, |row| {
        let text: String = row.get(1)?;
        if let (Some(study), Ok(names)) = (studies.get_mut(&row.get(0)?), serde_json::from_str(&text)) {
            study.metric_names = names;
        }
        Ok(())
    })?;
    let mut trials: BTreeMap<i64, (i64, OptunaTrial)> = BTreeMap::new();
    each(connection, "SELECT trial_id, study_id, state FROM trials", |row| {
        let state: String = row.get(2)?;
        let state = match state.as_str() {
            "COMPLETE" => OptunaState::Complete,
            "PRUNED" => OptunaState::Pruned,
            "FAIL" => OptunaState::Failed,
            "WAITING" => OptunaState::Waiting,
            _ => OptunaState::Running,
        };
        trials.insert(row.get(0)?, (row.get(1)?, OptunaTrial { state, ..OptunaTrial::default() }));
        Ok(())
    })?;
    each(connection, "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params", |row| {
        let distribution: String = row.get(3)?;
        if let (Some((_, trial)), Some(distribution)) =
            (trials.get_mut(&row.get(0)?), Distribution::parse(&distribution))
        {
            trial.parameters.insert(row.get(1)?, (row.get(2)?, distribution));
        }
        Ok(())
    })?;
    let values = "SELECT trial_id, value, value_type FROM trial_values ORDER BY trial_id, objective";
    each(connection, values, |row| {
        let (value, kind): (Option<f64>, String) = (row.get(1)?, row.get(2)?);
        if let Some((_, trial)) = trials.get_mut(&row.get(0)?) {
            trial.values.push(number(value, &kind));
        }
        Ok(())
    })?;
    let curves = "SELECT trial_id, step, intermediate_value, intermediate_value_type FROM trial_intermediate_values";
    each(connection, curves, |row| {
        let (value, kind): (Option<f64>, String) = (row.get(2)?, row.get(3)?);
        if let Some((_, trial)) = trials.get_mut(&row.get(0)?) {
            trial.curve.insert(row.get(1)?, number(value, &kind));
        }
        Ok(())
    })?;
    let attributes = format!(
        "SELECT trial_id, value_json FROM trial_system_attributes WHERE key = '{FIXED}' \
         UNION ALL SELECT trial_id, value_json FROM trial_user_attributes WHERE key = '{REASON}'"
    );
    each(connection, &attributes, |row| {
        let text: String = row.get(1)?;
        if let Some((_, trial)) = trials.get_mut(&row.get(0)?) {
            match serde_json::from_str(&text) {
                Ok(Value::Object(fixed)) => trial.fixed = fixed,
                Ok(Value::String(reason)) => trial.reason = Some(reason),
                _ => {}
            }
        }
        Ok(())
    })?;
    for (study, trial) in trials.into_values() {
        if let Some(study) = studies.get_mut(&study) {
            study.trials.push(trial);
        }
    }
    Ok(studies.into_values().collect())
}

/// A number, which SQL has as a type where it is not finite.
fn number(value: Option<f64>, kind: &str) -> f64 {
    match kind {
        "INF_POS" => f64::INFINITY,
        "INF_NEG" => f64::NEG_INFINITY,
        _ => value.unwrap_or(f64::NAN),
    }
}
