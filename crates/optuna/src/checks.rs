//! Checks of what clients send: everything stored must be readable for every other client.

use jiff::civil::DateTime;

use crate::distribution::Distribution;
use crate::json::Json;
use crate::limits::{NAME_CHARACTERS, OBJECTIVES, VALUE_BYTES};
use crate::storage::StorageError;
use crate::wire::{StudyDirection, Trial, TrialState};

/// Form of times, with six digits after the point.
pub(crate) const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.6f";

const TIME_LENGTH: usize = "YYYY-MM-DD HH:MM:SS.ffffff".len();

pub(crate) fn check_name(field: &'static str, name: &str) -> Result<(), StorageError> {
    // Most names are too short to be counted.
    if name.len() > NAME_CHARACTERS {
        let characters = name.chars().count();
        if characters > NAME_CHARACTERS {
            let reason = format!("{characters} characters; the maximum is {NAME_CHARACTERS}");
            return Err(StorageError::invalid(field, reason));
        }
    }
    Ok(())
}

pub(crate) fn check_attribute(key: &str, value: &str) -> Result<(), StorageError> {
    check_name("key", key)?;
    check_size("value", value)?;
    Json::parse(value).map(|_| ()).map_err(|error| StorageError::invalid("value", error))
}

pub(crate) fn check_parameter(name: &str, distribution: &str) -> Result<(), StorageError> {
    check_name("param_name", name)?;
    check_size("distribution", distribution)?;
    Distribution::parse(distribution).map(|_| ()).map_err(|error| StorageError::invalid("distribution", error))
}

pub(crate) fn check_values(values: &[f64]) -> Result<(), StorageError> {
    if values.len() > OBJECTIVES {
        return Err(StorageError::invalid("values", format!("{} values; the maximum is {OBJECTIVES}", values.len())));
    }
    Ok(())
}

/// Directions of a new study.
pub(crate) fn directions(numbers: &[i32]) -> Result<Vec<StudyDirection>, StorageError> {
    if !(1..=OBJECTIVES).contains(&numbers.len()) {
        let reason = format!("{} directions; a study has 1 to {OBJECTIVES}", numbers.len());
        return Err(StorageError::invalid("directions", reason));
    }
    let unknown = |number| StorageError::invalid("directions", format!("unknown direction {number}; expected 0 or 1"));
    numbers.iter().map(|number| StudyDirection::try_from(*number).map_err(|_| unknown(number))).collect()
}

pub(crate) fn state(number: i32) -> Result<TrialState, StorageError> {
    let unknown = |_| StorageError::invalid("state", format!("unknown state {number}; expected 0 to 4"));
    TrialState::try_from(number).map_err(unknown)
}

/// Checks a trial that a client adds with its content.
pub(crate) fn check_template(trial: &Trial) -> Result<(), StorageError> {
    state(trial.state)?;
    check_values(&trial.values)?;
    check_time("datetime_start", &trial.datetime_start)?;
    check_time("datetime_complete", &trial.datetime_complete)?;
    for (name, distribution) in &trial.distributions {
        check_parameter(name, distribution)?;
    }
    let has_pairs = trial.params.len() == trial.distributions.len()
        && trial.params.keys().all(|name| trial.distributions.contains_key(name));
    if !has_pairs {
        return Err(StorageError::invalid("params", "each parameter needs a value and a distribution"));
    }
    let attributes = trial.user_attributes.iter().chain(&trial.system_attributes);
    attributes.into_iter().try_for_each(|(key, value)| check_attribute(key, value))
}

fn check_size(field: &'static str, text: &str) -> Result<(), StorageError> {
    if text.len() > VALUE_BYTES {
        return Err(StorageError::invalid(field, format!("{} bytes; the maximum is {VALUE_BYTES}", text.len())));
    }
    Ok(())
}

fn check_time(field: &'static str, text: &str) -> Result<(), StorageError> {
    let is_time = || text.len() == TIME_LENGTH && DateTime::strptime(TIME_FORMAT, text).is_ok();
    if text.is_empty() || is_time() {
        return Ok(());
    }
    Err(StorageError::invalid(field, format!("{text:?} is no time of the form YYYY-MM-DD HH:MM:SS.ffffff")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: &str =
        r#"{"name": "FloatDistribution", "attributes": {"low": 0.0, "high": 1.0, "log": false, "step": null}}"#;

    #[test]
    fn names_are_limited_in_characters() {
        assert!(check_name("study_name", "").is_ok());
        assert!(check_name("study_name", &"é".repeat(512)).is_ok());
        let refused = check_name("study_name", &"é".repeat(513)).unwrap_err().to_string();
        assert_eq!(refused, "study_name: 513 characters; the maximum is 512");
    }

    #[test]
    fn what_other_clients_could_not_read_is_refused() {
        let valid = Trial {
            datetime_start: "2026-02-28 23:59:59.000001".to_owned(),
            params: [("x".to_owned(), 0.5)].into(),
            distributions: [("x".to_owned(), FLOAT.to_owned())].into(),
            user_attributes: [("k".to_owned(), "NaN".to_owned())].into(),
            ..Trial::default()
        };
        assert!(check_template(&valid).is_ok());
        let refused = |trial: Trial| check_template(&trial).unwrap_err().to_string();
        for time in ["2026-02-30 00:00:00.000000", "2026-02-28T00:00:00.000000", "2026-02-28 00:00:00", "now"] {
            let message = refused(Trial { datetime_start: time.to_owned(), ..valid.clone() });
            assert_eq!(message, format!("datetime_start: {time:?} is no time of the form YYYY-MM-DD HH:MM:SS.ffffff"));
        }
        let other = Trial { params: [("y".to_owned(), 0.5)].into(), ..valid.clone() };
        assert_eq!(refused(other), "params: each parameter needs a value and a distribution");
        let attribute = Trial { system_attributes: [("k".to_owned(), "nan".to_owned())].into(), ..valid.clone() };
        assert!(refused(attribute).starts_with("value: not JSON: "));
        assert_eq!(refused(Trial { state: 5, ..valid }), "state: unknown state 5; expected 0 to 4");
        assert_eq!(directions(&[]).unwrap_err().to_string(), "directions: 0 directions; a study has 1 to 1000");
        assert_eq!(directions(&[2]).unwrap_err().to_string(), "directions: unknown direction 2; expected 0 or 1");
    }
}
