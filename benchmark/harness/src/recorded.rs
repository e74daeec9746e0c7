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

/// Reason why a recorded study is not a valid problem.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    #[error("the trials cannot be read as CSV")]
    Csv(#[from] csv::Error),
    #[error("the job cannot be read as JSON")]
    Json(#[from] serde_json::Error),
    /// A job resource has only one value per trial.
    #[error("job {job:?} has several metrics or constraints; replay the CSV file of its trials")]
    SeveralValues { job: String },
    #[error(
        "column {column:?} repeats objective_value, so the study has several metrics or constraints; give its configuration \
         with --config"
    )]
    SeveralColumns { column: String },
    #[error("the file is empty; a header with the names of the columns is needed")]
    Empty,
    #[error("line 1: column {column:?} occurs twice, as columns {first} and {second}")]
    RepeatedColumn {
        column: String,
        /// First of the two columns, from 1.
        first: usize,
        second: usize,
    },
    #[error("line 1: column {column:?} is missing; the columns are {}", .columns.join(", "))]
    MissingColumn { column: String, columns: Vec<String> },
    #[error("line 1: column {column:?} is unknown; allowed are {}", .allowed.join(", "))]
    UnknownColumn { column: String, allowed: Vec<String> },
    #[error("{place}, column {column:?}: {value:?} is not {allowed}")]
    Value { place: RecordPosition, column: String, value: String, allowed: String },
    #[error("none of the columns {} can be a parameter", .columns.join(", "))]
    NoParameters { columns: Vec<String> },
    #[error("column {column:?} is not a valid parameter")]
    Inferred {
        column: String,
        #[source]
        source: ParameterSpecError,
    },
    #[error("job {job:?} has no trainingInput.hyperparameters, so there is no search space")]
    NotTuning { job: String },
    #[error("job {job:?} has no search space")]
    Study {
        job: String,
        #[source]
        source: tunesmith_api::ai_platform::StudySpecError,
    },
    /// Invalid table: no trials, or unordered curves.
    #[error("the trials are not a valid table")]
    Table(#[from] TableError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordPosition {
    /// Line of a file, from 1.
    Line(u64),
    /// Trial id in a job.
    Trial(String),
}

impl fmt::Display for RecordPosition {
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
    place: &RecordPosition,
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
    /// 2^53: largest integer up to which every integer is a distinct double.
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
