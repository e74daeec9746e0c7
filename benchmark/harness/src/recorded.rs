//! Problems from recorded studies: a CSV file of trials, or the resource of a finished job.
//!
//! A point is evaluated by [`tunesmith_benchmark::problems::table`]: its result is that of the nearest recorded trial.
//!
//! | column of a CSV file | meaning |
//! |---|---|
//! | name of a parameter | its value; required for every parameter |
//! | name of a metric or a constraint | its final value; all of them empty: an infeasible trial |
//! | `objective_value` | the metric, if there is one, no constraint, and no column of its name |
//! | `METRIC@STEP` | the first metric at a step, from 1; optional, fields may be empty |
//! | `seconds` | duration of the trial; optional, fields may be empty |
//! | another column of `tunesmith run --export` | ignored, unless the file has all columns of such a file first |
//!
//! A file whose first columns are those of an exported study is read as one: `objective_value` is the metric of any
//! name if there is one and no constraint, and trials last from `start_time` to `end_time`. Trials without a result are skipped, and infeasible trials have no
//! value even if they reported one. The value of a trial that was stopped early is its last measurement.

mod columns;
mod csv_file;
mod infer;
mod job;
#[cfg(test)]
mod tests;

use std::fmt;

use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterSpecError, ParameterValue};
use tunesmith_benchmark::problems::table::TableError;

pub use csv_file::{read_csv, read_rows};
pub use infer::infer_statement;
pub use job::read_job;

/// The reason why a recorded study is not a valid problem.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The text is not valid CSV: not UTF-8, or rows of different lengths.
    #[error("the trials cannot be read as CSV")]
    Csv(#[from] csv::Error),
    /// The text is not the resource of a job.
    #[error("the job cannot be read as JSON")]
    Json(#[from] serde_json::Error),
    /// A job resource has one value of each trial.
    #[error("job {job:?} has several metrics or constraints; replay the CSV file of its trials")]
    SeveralValues {
        /// ID of the job.
        job: String,
    },
    /// An exported study has a column of its first metric, as only those with several metrics or constraints have.
    #[error(
        "column {column:?} repeats objective_value, so the study has several metrics or constraints; give its configuration \
         with --config"
    )]
    SeveralColumns {
        /// The column of the first metric.
        column: String,
    },
    /// The file has no header.
    #[error("the file is empty; a header with the names of the columns is needed")]
    Empty,
    /// Two columns have the same name.
    #[error("line 1: column {column:?} occurs twice, as columns {first} and {second}")]
    RepeatedColumn {
        /// Name of the column.
        column: String,
        /// Number of the first of them, from 1.
        first: usize,
        /// Number of the second.
        second: usize,
    },
    /// A parameter or a metric has no column.
    #[error("line 1: column {column:?} is missing; the columns are {}", .columns.join(", "))]
    MissingColumn {
        /// The parameter or metric.
        column: String,
        /// The columns of the file.
        columns: Vec<String>,
    },
    /// A column has an unknown name.
    #[error("line 1: column {column:?} is unknown; allowed are {}", .allowed.join(", "))]
    UnknownColumn {
        /// Name of the column.
        column: String,
        /// The allowed values.
        allowed: Vec<String>,
    },
    /// A value is invalid in its column.
    #[error("{place}, column {column:?}: {value:?} is not {allowed}")]
    Value {
        /// Place of the value.
        place: Place,
        /// The column or parameter.
        column: String,
        /// The value.
        value: String,
        /// The allowed values.
        allowed: String,
    },
    /// No column is a parameter.
    #[error("none of the columns {} can be a parameter", .columns.join(", "))]
    NoParameters {
        /// The columns of the file.
        columns: Vec<String>,
    },
    /// An inferred parameter is invalid: its range is too wide.
    #[error("column {column:?} is not a valid parameter")]
    Inferred {
        /// The column.
        column: String,
        /// The violated rule.
        #[source]
        source: ParameterSpecError,
    },
    /// The job has no hyperparameters.
    #[error("job {job:?} has no trainingInput.hyperparameters, so there is no search space")]
    NotTuning {
        /// ID of the job.
        job: String,
    },
    /// The search space of the job is invalid.
    #[error("job {job:?} has no search space")]
    Study {
        /// ID of the job.
        job: String,
        /// The violated rule.
        #[source]
        source: tunesmith_api::ai_platform::StudySpecError,
    },
    /// The trials are not a valid table: there are none, or their curves have no order.
    #[error("the trials are not a valid table")]
    Table(#[from] TableError),
}

/// A place in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of a file, from 1.
    Line(u64),
    /// A trial of a job, by its ID.
    Trial(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Trial(trial) => write!(f, "trial {trial}"),
        }
    }
}

/// Parses the value `text` of `parameter` at `place`. Integers may be written as `3.0`.
pub(super) fn parameter_value(
    parameter: &ParameterSpec,
    text: &str,
    place: &Place,
) -> Result<ParameterValue, RecordedError> {
    let value = match parameter.kind() {
        ParameterKind::Double { .. } => text.trim().parse().ok().map(ParameterValue::Double),
        ParameterKind::Integer { .. } => whole_number(text.trim()).map(ParameterValue::Integer),
        ParameterKind::Discrete { .. } => text.trim().parse().ok().map(ParameterValue::Discrete),
        ParameterKind::Categorical { .. } => Some(ParameterValue::Categorical(text.to_owned())),
    };
    value.filter(|value| parameter.contains(value)).ok_or_else(|| RecordedError::Value {
        place: place.clone(),
        column: parameter.name().to_owned(),
        value: text.to_owned(),
        allowed: allowed_values(parameter.kind()),
    })
}

fn whole_number(text: &str) -> Option<i64> {
    /// The largest integer up to which every integer is a distinct double.
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() <= LARGEST_EXACT).then_some(number as i64)
    })
}

fn allowed_values(kind: &ParameterKind) -> String {
    match kind {
        ParameterKind::Double { min, max, .. } => format!("a number from {min:?} to {max:?}"),
        ParameterKind::Integer { min, max, .. } => format!("a whole number from {min} to {max}"),
        ParameterKind::Discrete { values, .. } => {
            let texts: Vec<String> = values.iter().map(|value| ParameterValue::Discrete(*value).to_string()).collect();
            format!("one of {}", texts.join(", "))
        }
        ParameterKind::Categorical { values } => {
            let texts: Vec<String> = values.iter().map(|level| format!("{level:?}")).collect();
            format!("one of {}", texts.join(", "))
        }
    }
}
