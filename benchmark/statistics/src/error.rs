/// Input for which a statistic is undefined.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatisticsError {
    /// Too little data: collect more, or omit the statistic.
    #[error("{what}: found {found}, at least {required} are needed")]
    TooFew { what: &'static str, found: usize, required: usize },
    /// An invalid value: remove or replace it.
    #[error("{what} contains {value} at index {index}; allowed: {allowed}")]
    NotANumber { what: &'static str, index: usize, value: f64, allowed: &'static str },
    #[error("row {row} has {found} values where row 0 has {expected}")]
    Ragged { row: usize, found: usize, expected: usize },
    #[error("{name} is {value}; allowed: {allowed}")]
    OutOfRange { name: &'static str, value: f64, allowed: &'static str },
}

pub(crate) fn require_count(what: &'static str, found: usize, required: usize) -> Result<(), StatisticsError> {
    if found < required {
        return Err(StatisticsError::TooFew { what, found, required });
    }
    Ok(())
}

pub(crate) fn require_finite(what: &'static str, values: &[f64]) -> Result<(), StatisticsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => {
            Err(StatisticsError::NotANumber { what, index, value: values[index], allowed: "finite numbers" })
        }
        None => Ok(()),
    }
}

/// Common length of `rows`; 0 without rows.
pub(crate) fn require_rectangle<Row: AsRef<[f64]>>(rows: &[Row]) -> Result<usize, StatisticsError> {
    let expected = rows.first().map_or(0, |row| row.as_ref().len());
    for (row, values) in rows.iter().enumerate() {
        let found = values.as_ref().len();
        if found != expected {
            return Err(StatisticsError::Ragged { row, found, expected });
        }
    }
    Ok(expected)
}

/// Checks that `value` is strictly between 0 and 1.
pub(crate) fn require_open_unit(name: &'static str, value: f64) -> Result<(), StatisticsError> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(StatisticsError::OutOfRange { name, value, allowed: "0 < value < 1" })
}
