use std::io::Read;

use csv::StringRecord;
use jiff::Timestamp;
use tunesmith_algorithms::problem::{ParameterSpec, ParameterValues, ProblemStatement};
use tunesmith_benchmark::problems::table::{TableProblem, TableRow};

use super::columns::{Columns, END_TIME, EXPORT_COLUMNS, START_TIME, STATE};
use super::{RecordPosition, RecordedError, parameter_value};
use tunesmith_domain::TrialState;

/// Reads the problem `name` with the statement `statement` from a CSV file. [`super`] describes the columns.
///
/// # Errors
/// [`RecordedError`] for the first invalid value, with its line and column.
pub fn read_csv(
    name: impl Into<String>,
    reader: impl Read,
    statement: &ProblemStatement,
) -> Result<TableProblem, RecordedError> {
    Ok(TableProblem::new(name, statement.clone(), read_rows(reader, statement)?)?)
}

/// Reads the trials of a CSV file. [`super`] describes the columns.
///
/// # Errors
/// As [`read_csv`].
pub fn read_rows(reader: impl Read, statement: &ProblemStatement) -> Result<Vec<TableRow>, RecordedError> {
    let mut reader = csv::Reader::from_reader(reader);
    let layout = Layout::new(reader.headers()?, statement)?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        rows.extend(layout.row(&record, &RecordPosition::Line(line))?);
    }
    Ok(rows)
}

struct Layout<'a> {
    /// Names of the metrics and constraints.
    values: Vec<&'a str>,
    columns: Columns,
    parameters: Vec<(&'a ParameterSpec, usize)>,
}

impl<'a> Layout<'a> {
    fn new(header: &StringRecord, statement: &'a ProblemStatement) -> Result<Self, RecordedError> {
        let specs = statement.search_space().parameters();
        let names: Vec<&str> = specs.iter().map(ParameterSpec::name).collect();
        let values: Vec<&str> = statement.value_names().collect();
        let columns = Columns::new(header, &values, &names)?;
        let mut parameters = Vec::with_capacity(specs.len());
        for spec in specs {
            let found = columns.others.iter().find(|(name, _)| name == spec.name());
            let (_, place) = found.ok_or_else(|| RecordedError::MissingColumn {
                column: spec.name().to_owned(),
                columns: header.iter().map(str::to_owned).collect(),
            })?;
            parameters.push((spec, *place));
        }
        let known = |name: &str| names.contains(&name) || EXPORT_COLUMNS.contains(&name);
        if let Some((column, _)) = columns.others.iter().find(|(name, _)| !known(name)) {
            let allowed = Columns::allowed(&values, &names);
            return Err(RecordedError::UnknownColumn { column: column.clone(), allowed });
        }
        Ok(Self { values, columns, parameters })
    }

    /// Trial in `record`; `None` without a result.
    fn row(&self, record: &StringRecord, place: &RecordPosition) -> Result<Option<TableRow>, RecordedError> {
        let mut parameters = ParameterValues::new();
        for (spec, column) in &self.parameters {
            let text = &record[*column];
            // An inactive conditional parameter has an empty field. The table checks which parameters are active.
            if spec.condition().is_none() || !text.is_empty() {
                parameters.insert(spec.name().to_owned(), parameter_value(spec, text, place)?);
            }
        }
        let feasible = if self.columns.exported {
            let succeeded = TrialState::Succeeded.to_string();
            let infeasible = TrialState::Infeasible.to_string();
            match &record[STATE] {
                state if state == succeeded => true,
                state if state == infeasible => false,
                _ => return Ok(None),
            }
        } else {
            self.columns.values.iter().any(|column| !record[*column].trim().is_empty())
        };
        let mut values = None;
        if feasible {
            let mut measured = Vec::with_capacity(self.values.len());
            for (name, column) in self.values.iter().zip(&self.columns.values) {
                let header = EXPORT_COLUMNS.get(*column).filter(|_| self.columns.exported).unwrap_or(name);
                let allowed = "a finite number, or empty in all metrics for an infeasible trial";
                measured.push(number(&record[*column], header, allowed, f64::is_finite, place)?);
            }
            values = Some(measured);
        }
        let mut curve = Vec::with_capacity(self.columns.curve.len());
        for (step, column) in &self.columns.curve {
            let text = &record[*column];
            if !text.trim().is_empty() {
                let header = format!("{}@{step}", self.values[0]);
                curve.push((*step, number(text, &header, "a finite number, or empty", f64::is_finite, place)?));
            }
        }
        Ok(Some(TableRow { parameters, values, duration_secs: self.duration_secs(record, place)?, curve }))
    }

    fn duration_secs(&self, record: &StringRecord, place: &RecordPosition) -> Result<Option<f64>, RecordedError> {
        if let Some(column) = self.columns.seconds {
            let text = &record[column];
            let is_duration = |secs: f64| secs > 0.0 && secs.is_finite();
            let allowed = "a positive number of seconds, or empty";
            return (!text.trim().is_empty()).then(|| number(text, "seconds", allowed, is_duration, place)).transpose();
        }
        if !self.columns.exported {
            return Ok(None);
        }
        let start = timestamp(record, START_TIME, place)?;
        let end = timestamp(record, END_TIME, place)?;
        let duration = start.zip(end).map(|(start, end)| end.duration_since(start).as_secs_f64());
        // After a clock was set back, the difference is not a duration.
        Ok(duration.filter(|secs| *secs > 0.0))
    }
}

/// Parses a number that satisfies `valid`.
fn number(
    text: &str,
    column: &str,
    allowed: &str,
    valid: impl Fn(f64) -> bool,
    place: &RecordPosition,
) -> Result<f64, RecordedError> {
    text.trim().parse().ok().filter(|number| valid(*number)).ok_or_else(|| RecordedError::Value {
        place: place.clone(),
        column: column.to_owned(),
        value: text.to_owned(),
        allowed: allowed.to_owned(),
    })
}

fn timestamp(record: &StringRecord, column: usize, place: &RecordPosition) -> Result<Option<Timestamp>, RecordedError> {
    let text = &record[column];
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| RecordedError::Value {
        place: place.clone(),
        column: EXPORT_COLUMNS[column].to_owned(),
        value: text.to_owned(),
        allowed: "a time such as 2024-05-01T10:00:00Z, or empty".to_owned(),
    })
}
