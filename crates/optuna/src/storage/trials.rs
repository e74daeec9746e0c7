//! Trials: changes of unfinished ones, and reading.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::studies::{add_to_response, added_bytes, check_size, study};
use super::{AttributeKind, Extent, Storage, StorageError};
use crate::distribution::Distribution;
use crate::limits::ENTRY_BYTES;
use crate::wire::{Trial, TrialState};

/// A parameter's value in Optuna's internal form, and its distribution as JSON.
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) distribution: String,
}

impl Storage {
    /// Creates a trial with the next number of its study and returns its ID. The ID and number of `trial` are ignored.
    pub(crate) async fn create_trial(&self, study: i64, trial: Trial) -> Result<i64, StorageError> {
        self.write(move |connection| create(connection, study, trial)).await
    }

    pub(crate) async fn set_parameter(&self, id: i64, parameter: Parameter) -> Result<(), StorageError> {
        self.write(move |connection| {
            let Unfinished { study, size_bytes, .. } = unfinished(connection, id)?;
            let Parameter { name, value, distribution } = parameter;
            check_distribution(connection, study, &name, &distribution)?;
            let sql = "SELECT octet_length(distribution) FROM parameters WHERE trial_id = ?1 AND name = ?2";
            let mut query = connection.prepare_cached(sql)?;
            let replaced = query.query_row(params![id, name], |row| row.get(0)).optional()?;
            set_size(connection, id, size_bytes + added_bytes(&name, &distribution, replaced))?;
            insert_parameter(connection, id, &name, value, &distribution)
        })
        .await
    }

    /// Changes the state, and the values unless `values` is empty. Returns false, without effect, if a trial that
    /// already runs is to run: of several clients, one takes a waiting trial.
    pub(crate) async fn set_state(
        &self,
        id: i64,
        state: TrialState,
        values: Vec<f64>,
        now: String,
    ) -> Result<bool, StorageError> {
        self.write(move |connection| {
            let trial = unfinished(connection, id)?;
            if state == TrialState::Running && trial.state != TrialState::Waiting {
                return Ok(false);
            }
            let time = match state {
                TrialState::Running => Some("UPDATE trials SET datetime_start = ?2 WHERE trial_id = ?1"),
                TrialState::Waiting => None,
                TrialState::Complete | TrialState::Pruned | TrialState::Fail => {
                    Some("UPDATE trials SET datetime_complete = ?2 WHERE trial_id = ?1")
                }
            };
            if let Some(sql) = time {
                connection.prepare_cached(sql)?.execute(params![id, now])?;
            }
            let sql = "UPDATE trials SET state = ?2 WHERE trial_id = ?1";
            connection.prepare_cached(sql)?.execute([id, state as i64])?;
            if !values.is_empty() {
                let sql = "UPDATE trials SET objectives = ?2 WHERE trial_id = ?1";
                connection.prepare_cached(sql)?.execute(params![id, bytes_of(&values)])?;
            }
            Ok(true)
        })
        .await
    }

    /// IDs of all running trials.
    pub(crate) async fn running_trials(&self) -> Result<Vec<i64>, StorageError> {
        self.read(Extent::List, |connection| {
            let sql = "SELECT trial_id FROM trials JOIN studies USING (study_id) WHERE state = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let ids = statement.query_map([TrialState::Running as i64], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Ends a trial as failed if it runs and `is_abandoned` still holds. Returns whether it did.
    pub(crate) async fn fail_abandoned(
        &self,
        id: i64,
        now: String,
        is_abandoned: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<bool, StorageError> {
        self.write(move |connection| {
            if !is_abandoned() {
                return Ok(false);
            }
            let sql = "UPDATE trials SET state = ?2, datetime_complete = ?3 WHERE trial_id = ?1 AND state = ?4";
            let values = params![id, TrialState::Fail as i64, now, TrialState::Running as i64];
            Ok(connection.prepare_cached(sql)?.execute(values)? > 0)
        })
        .await
    }

    pub(crate) async fn set_intermediate_value(&self, id: i64, step: i64, value: f64) -> Result<(), StorageError> {
        self.write(move |connection| {
            let Unfinished { size_bytes, .. } = unfinished(connection, id)?;
            let sql = "SELECT EXISTS (SELECT 1 FROM intermediate_values WHERE trial_id = ?1 AND step = ?2)";
            let is_replaced: bool = connection.prepare_cached(sql)?.query_row([id, step], |row| row.get(0))?;
            if !is_replaced {
                set_size(connection, id, size_bytes + ENTRY_BYTES)?;
            }
            insert_intermediate_value(connection, id, step, value)
        })
        .await
    }

    pub(crate) async fn set_trial_attribute(
        &self,
        id: i64,
        kind: AttributeKind,
        key: String,
        value: String,
    ) -> Result<(), StorageError> {
        self.write(move |connection| {
            let Unfinished { size_bytes, .. } = unfinished(connection, id)?;
            let sql = "SELECT octet_length(value) FROM trial_attributes WHERE trial_id = ?1 AND kind = ?2 AND key = ?3";
            let mut query = connection.prepare_cached(sql)?;
            let replaced = query.query_row(params![id, kind as i64, key], |row| row.get(0)).optional()?;
            set_size(connection, id, size_bytes + added_bytes(&key, &value, replaced))?;
            insert_attribute(connection, id, kind, &key, &value)
        })
        .await
    }

    pub(crate) async fn trial_id(&self, study: i64, number: i64) -> Result<i64, StorageError> {
        self.read(Extent::Record, move |connection| {
            super::studies::study(connection, study)?;
            let sql = "SELECT trial_id FROM trials WHERE study_id = ?1 AND number = ?2";
            let id = connection.prepare_cached(sql)?.query_row([study, number], |row| row.get(0)).optional()?;
            id.ok_or(StorageError::NoTrialOfNumber { study, number })
        })
        .await
    }

    pub(crate) async fn trial(&self, id: i64) -> Result<Trial, StorageError> {
        self.read(Extent::Record, move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM trials JOIN studies USING (study_id) WHERE trial_id = ?1");
            let mut query = connection.prepare_cached(&sql)?;
            let mut trial = query.query_row([id], trial_of).optional()?.ok_or(StorageError::NoTrial { id })?;
            Contents::prepare(connection)?.add_to(&mut trial)?;
            Ok(trial)
        })
        .await
    }

    /// Trials of a study whose ID is above `above` or in `included`, by ID.
    ///
    /// # Errors
    /// [`StorageError::ResponseTooLarge`].
    pub(crate) async fn trials(&self, id: i64, mut included: Vec<i64>, above: i64) -> Result<Vec<Trial>, StorageError> {
        self.read(Extent::List, move |connection| {
            const ADVICE: &str = "divide the trials among several studies";
            study(connection, id)?;
            included.retain(|trial| *trial <= above);
            included.sort_unstable();
            included.dedup();
            let mut contents = Contents::prepare(connection)?;
            let (mut trials, mut size_bytes) = (Vec::new(), 0);
            let sql = format!("SELECT {COLUMNS} FROM trials WHERE trial_id = ?1 AND study_id = ?2");
            let mut one = connection.prepare_cached(&sql)?;
            for trial in included {
                let Some(mut trial) = one.query_row([trial, id], trial_of).optional()? else { continue };
                contents.add_to(&mut trial)?;
                add_to_response(&mut size_bytes, &trial, ADVICE)?;
                trials.push(trial);
            }
            let sql = format!("SELECT {COLUMNS} FROM trials WHERE study_id = ?1 AND trial_id > ?2 ORDER BY trial_id");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([id, above])?;
            while let Some(row) = rows.next()? {
                let mut trial = trial_of(row)?;
                contents.add_to(&mut trial)?;
                add_to_response(&mut size_bytes, &trial, ADVICE)?;
                trials.push(trial);
            }
            Ok(trials)
        })
        .await
    }
}

fn create(connection: &Connection, study: i64, trial: Trial) -> Result<i64, StorageError> {
    let sql = "UPDATE studies SET trials = trials + 1 WHERE study_id = ?1 RETURNING trials - 1";
    let number = connection.prepare_cached(sql)?.query_row([study], |row| row.get::<_, i64>(0)).optional()?;
    let number = number.ok_or(StorageError::NoStudy { id: study })?;
    let sql = "INSERT INTO trials (study_id, number, state, objectives, datetime_start, datetime_complete) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let Trial { state, datetime_start, datetime_complete, .. } = &trial;
    let values = params![study, number, state, bytes_of(&trial.values), datetime_start, datetime_complete];
    let id = connection.prepare_cached(sql)?.insert(values)?;
    let mut size_bytes = 0;
    for (name, value) in &trial.params {
        let distribution = trial.distributions.get(name).map_or("", String::as_str);
        check_distribution(connection, study, name, distribution)?;
        insert_parameter(connection, id, name, *value, distribution)?;
        size_bytes += added_bytes(name, distribution, None);
    }
    let user = trial.user_attributes.iter().map(|entry| (AttributeKind::User, entry));
    let system = trial.system_attributes.iter().map(|entry| (AttributeKind::System, entry));
    for (kind, (key, value)) in user.chain(system) {
        insert_attribute(connection, id, kind, key, value)?;
        size_bytes += added_bytes(key, value, None);
    }
    for (step, value) in &trial.intermediate_values {
        insert_intermediate_value(connection, id, *step, *value)?;
        size_bytes += ENTRY_BYTES;
    }
    if size_bytes > 0 {
        set_size(connection, id, size_bytes)?;
    }
    Ok(id)
}

struct Unfinished {
    study: i64,
    state: TrialState,
    size_bytes: i64,
}

/// The trial `id`, which may be changed.
fn unfinished(connection: &Connection, id: i64) -> Result<Unfinished, StorageError> {
    let sql = "SELECT study_id, state, trials.size_bytes FROM trials JOIN studies USING (study_id) WHERE trial_id = ?1";
    let mut query = connection.prepare_cached(sql)?;
    let found = query.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let (study, state, size_bytes): (_, i32, _) = found.ok_or(StorageError::NoTrial { id })?;
    match crate::checks::state(state)? {
        state @ (TrialState::Running | TrialState::Waiting) => Ok(Unfinished { study, state, size_bytes }),
        state => Err(StorageError::Finished { id, state }),
    }
}

/// Checks a distribution against the first one of the parameter in the study, which it becomes if there is none.
fn check_distribution(connection: &Connection, study: i64, name: &str, distribution: &str) -> Result<(), StorageError> {
    let sql = "SELECT distribution FROM study_parameters WHERE study_id = ?1 AND name = ?2";
    let mut query = connection.prepare_cached(sql)?;
    let first: Option<String> = query.query_row(params![study, name], |row| row.get(0)).optional()?;
    let Some(first) = first else {
        let sql = "INSERT INTO study_parameters (study_id, name, distribution) VALUES (?1, ?2, ?3)";
        connection.prepare_cached(sql)?.execute(params![study, name, distribution])?;
        return Ok(());
    };
    if first == distribution {
        return Ok(());
    }
    let parse = |text| Distribution::parse(text).map_err(|error| StorageError::of_distribution(&error));
    match parse(&first)?.difference(&parse(distribution)?) {
        None => Ok(()),
        Some(difference) => {
            // Enough to recognise it; a list of choices can be long.
            let first = first.chars().take(200).collect();
            Err(StorageError::OtherDistribution { name: name.to_owned(), difference: difference.text(), first })
        }
    }
}

fn set_size(connection: &Connection, id: i64, size_bytes: i64) -> Result<(), StorageError> {
    check_size("trial", id, size_bytes)?;
    connection.prepare_cached("UPDATE trials SET size_bytes = ?2 WHERE trial_id = ?1")?.execute([id, size_bytes])?;
    Ok(())
}

fn insert_parameter(
    connection: &Connection,
    id: i64,
    name: &str,
    value: f64,
    distribution: &str,
) -> Result<(), StorageError> {
    let sql = "INSERT INTO parameters (trial_id, name, value, distribution) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT DO UPDATE SET value = excluded.value, distribution = excluded.distribution";
    connection.prepare_cached(sql)?.execute(params![id, name, bits(value), distribution])?;
    Ok(())
}

fn insert_attribute(
    connection: &Connection,
    id: i64,
    kind: AttributeKind,
    key: &str,
    value: &str,
) -> Result<(), StorageError> {
    let sql = "INSERT INTO trial_attributes (trial_id, kind, key, value) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute(params![id, kind as i64, key, value])?;
    Ok(())
}

fn insert_intermediate_value(connection: &Connection, id: i64, step: i64, value: f64) -> Result<(), StorageError> {
    let sql = "INSERT INTO intermediate_values (trial_id, step, value) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([id, step, bits(value)])?;
    Ok(())
}

/// Columns for [`trial_of`].
const COLUMNS: &str = "trial_id, number, state, objectives, datetime_start, datetime_complete";

/// Trial without its [`Contents`].
fn trial_of(row: &Row<'_>) -> rusqlite::Result<Trial> {
    let objectives = row.get_ref(3)?.as_blob()?;
    let (values, _) = objectives.as_chunks();
    Ok(Trial {
        trial_id: row.get(0)?,
        number: row.get(1)?,
        state: row.get(2)?,
        values: values.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        datetime_start: row.get(4)?,
        datetime_complete: row.get(5)?,
        ..Trial::default()
    })
}

/// Queries for the entries of trials, prepared once.
struct Contents<'a> {
    parameters: CachedStatement<'a>,
    attributes: CachedStatement<'a>,
    intermediate_values: CachedStatement<'a>,
}

impl<'a> Contents<'a> {
    fn prepare(connection: &'a Connection) -> rusqlite::Result<Self> {
        let query = |sql| connection.prepare_cached(sql);
        Ok(Self {
            parameters: query("SELECT name, value, distribution FROM parameters WHERE trial_id = ?1")?,
            attributes: query("SELECT kind, key, value FROM trial_attributes WHERE trial_id = ?1")?,
            intermediate_values: query("SELECT step, value FROM intermediate_values WHERE trial_id = ?1")?,
        })
    }

    fn add_to(&mut self, trial: &mut Trial) -> rusqlite::Result<()> {
        let id = [trial.trial_id];
        let mut rows = self.parameters.query(id)?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            trial.distributions.insert(name.clone(), row.get(2)?);
            trial.params.insert(name, double(row.get(1)?));
        }
        let mut rows = self.attributes.query(id)?;
        while let Some(row) = rows.next()? {
            let is_of_user = row.get::<_, i64>(0)? == AttributeKind::User as i64;
            let attributes = if is_of_user { &mut trial.user_attributes } else { &mut trial.system_attributes };
            attributes.insert(row.get(1)?, row.get(2)?);
        }
        let mut rows = self.intermediate_values.query(id)?;
        while let Some(row) = rows.next()? {
            trial.intermediate_values.insert(row.get(0)?, double(row.get(1)?));
        }
        Ok(())
    }
}

fn bits(value: f64) -> i64 {
    value.to_bits().cast_signed()
}

fn double(bits: i64) -> f64 {
    f64::from_bits(bits.cast_unsigned())
}

fn bytes_of(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
