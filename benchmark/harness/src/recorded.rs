//! Recorded studies as problems: a CSV of trials, or the resource of a finished job.
//!
//! Answers are those of [`tunesmith_benchmark::problems::table`]: what the nearest recorded trial gave. Not here:
//! opening files, and the tables that come with the program.
//!
//! | column of a CSV | what it is |
//! |---|---|
//! | name of a parameter | its value; every parameter needs its column |
//! | name of a metric | its final value; all metrics empty: an infeasible trial |
//! | `METRIC@STEP` | the first metric at a step, from 1; may be missing, cells may be empty |
//! | `seconds` | how long the trial took; may be missing, cells may be empty |
//! | a column of `tunesmith run --output-csv` | ignored, unless the file begins as such a file does |
//!
//! A file that begins with the columns of an exported study is read as one: `objective_value` is the metric, whatever
//! its name; trials last from `start_time` to `end_time`; trials that did not end are left out, and infeasible ones
//! have no value even if they reported one. The value of a trial that was stopped early is that of its last report.

mod columns;
mod csv_file;
mod infer;
mod job;
#[cfg(test)]
mod tests;

use std::fmt;

use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterSpecError, ParameterValue};
use tunesmith_benchmark::problems::table::TableError;

pub use csv_file::read_csv;
pub use infer::infer_statement;
pub use job::read_job;

/// Why a record is not a problem.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The text cannot be read, or is no CSV: not UTF-8, or rows of different lengths.
    #[error("the trials cannot be read as CSV")]
    Csv(#[from] csv::Error),
    /// The text is not the resource of a job.
    #[error("the job cannot be read as JSON")]
    Json(#[from] serde_json::Error),
    /// There is not even a header.
    #[error("the file is empty; a header with the names of the columns is needed")]
    Empty,
    /// Two columns have the same name.
    #[error("line 1: column {column:?} comes twice, as columns {first} and {second}")]
    RepeatedColumn {
        /// Its name.
        column: String,
        /// Where it comes first, from 1.
        first: usize,
        /// Where it comes again.
        second: usize,
    },
    /// A parameter or a metric has no column.
    #[error("line 1: column {column:?} is missing; there are {}", .columns.join(", "))]
    MissingColumn {
        /// The parameter or metric.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A column is neither parameter, metric, nor known.
    #[error("line 1: column {column:?} is none of {}", .allowed.join(", "))]
    UnknownColumn {
        /// Its name.
        column: String,
        /// What may stand there.
        allowed: Vec<String>,
    },
    /// A value does not fit its column.
    #[error("{place}, column {column:?}: {value:?} is not {allowed}")]
    Value {
        /// Where.
        place: Place,
        /// The column or parameter.
        column: String,
        /// The value.
        value: String,
        /// What may stand there.
        allowed: String,
    },
    /// There is no column that could be a parameter.
    #[error("none of the columns {} can be a parameter", .columns.join(", "))]
    NoParameters {
        /// The columns there are.
        columns: Vec<String>,
    },
    /// What a column seems to be is no parameter: its range is too wide.
    #[error("column {column:?} is no parameter")]
    Inferred {
        /// The column.
        column: String,
        /// The rule that it breaks.
        #[source]
        source: ParameterSpecError,
    },
    /// The job tunes nothing.
    #[error("job {job:?} has no trainingInput.hyperparameters, so there is no search space")]
    NotTuning {
        /// Its ID.
        job: String,
    },
    /// What the job tunes cannot be searched.
    #[error("job {job:?} has no search space")]
    Study {
        /// Its ID.
        job: String,
        /// The rule that its parameters break.
        #[source]
        source: tunesmith_api::ai_platform::StudySpecError,
    },
    /// The trials are not a table: there are none, or their curves have no order.
    #[error("the trials are no table")]
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

/// The value of `parameter` that `text` stands for, at `place`. Whole numbers may be written as `3.0`.
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
    /// Up to here each whole number is a double of its own.
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
