//! The error of a statistic that is not defined for its input.

/// Input for which a statistic is not defined.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatisticsError {
    /// There is too little data: collect more, or omit the statistic.
    #[error("{what}: found {found}, at least {required} are needed")]
    TooFew {
        /// Name of the input.
        what: &'static str,
        /// Number of values.
        found: usize,
        /// Required number of values.
        required: usize,
    },
    /// A value is not allowed: remove or replace it.
    #[error("{what} contains {value} at index {index}; allowed: {allowed}")]
    NotANumber {
        /// Name of the input.
        what: &'static str,
        /// Its index.
        index: usize,
        /// The value.
        value: f64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// Rows of a table differ in length.
    #[error("row {row} has {found} values where row 0 has {expected}")]
    Ragged {
        /// The first row that differs.
        row: usize,
        /// Its length.
        found: usize,
        /// The length of row 0.
        expected: usize,
    },
    /// A parameter of the statistic is outside its range.
    #[error("{name} is {value}; allowed: {allowed}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The allowed range.
        allowed: &'static str,
    },
}

/// Checks that `found` is at least `required`.
pub(super) fn require_count(what: &'static str, found: usize, required: usize) -> Result<(), StatisticsError> {
    if found < required {
        return Err(StatisticsError::TooFew { what, found, required });
    }
    Ok(())
}

/// Checks that all `values` are finite.
pub(super) fn require_finite(what: &'static str, values: &[f64]) -> Result<(), StatisticsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => {
            Err(StatisticsError::NotANumber { what, index, value: values[index], allowed: "finite numbers" })
        }
        None => Ok(()),
    }
}

/// Checks that all `rows` have the same length, and returns it; 0 without rows.
pub(super) fn require_rectangle<Row: AsRef<[f64]>>(rows: &[Row]) -> Result<usize, StatisticsError> {
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
pub(super) fn require_open_unit(name: &'static str, value: f64) -> Result<(), StatisticsError> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(StatisticsError::OutOfRange { name, value, allowed: "0 < value < 1" })
}
