//! The search space of a CSV that has no config.

use std::collections::BTreeSet;
use std::io::Read;

use tunesmith_algorithms::problem::{
    MetricSpec, ParameterKind, ParameterSpec, ParameterSpecError, ProblemStatement, ScaleType, SearchSpace,
};

use super::columns::{Columns, EXPORT_COLUMNS};
use super::{Place, RecordedError};

/// The problem that the CSV in `reader` seems to be of: each column that is no metric, duration, curve or bookkeeping
/// is a parameter. Columns of whole numbers are integers, other columns of finite numbers doubles, on an even scale
/// between the least and the greatest value that occur; columns with any text are categorical, with the levels that
/// occur.
///
/// # Errors
/// [`RecordedError`] if the CSV cannot be read, has no column for `metric` or none for a parameter, or a parameter has
/// an empty cell.
pub fn infer_statement(reader: impl Read, metric: MetricSpec) -> Result<ProblemStatement, RecordedError> {
    let mut reader = csv::Reader::from_reader(reader);
    let header = reader.headers()?.clone();
    let metrics = [metric];
    let columns = Columns::new(&header, &metrics, &[])?;
    // Behind the fixed columns of an exported study every name is a parameter's.
    let is_parameter = |name: &str| columns.exported || !EXPORT_COLUMNS.contains(&name);
    let mut observed: Vec<(&str, usize, Observed)> = Vec::new();
    for (name, place) in columns.others.iter().filter(|(name, _)| is_parameter(name)) {
        observed.push((name, *place, Observed::default()));
    }
    if observed.is_empty() {
        return Err(RecordedError::NoParameters { columns: header.iter().map(str::to_owned).collect() });
    }
    let mut rows = 0_usize;
    for record in reader.records() {
        let record = record?;
        rows += 1;
        for (name, place, observed) in &mut observed {
            let text = &record[*place];
            if text.trim().is_empty() {
                return Err(RecordedError::Value {
                    place: Place::Line(record.position().map_or(0, csv::Position::line)),
                    column: (*name).to_owned(),
                    value: text.to_owned(),
                    allowed: "a value of a parameter, which every trial needs".to_owned(),
                });
            }
            observed.add(text);
        }
    }
    if rows == 0 {
        return Err(tunesmith_benchmark::problems::table::TableError::NoRows.into());
    }
    let mut parameters = Vec::with_capacity(observed.len());
    for (name, _, observed) in observed {
        let unusable = |source: ParameterSpecError| RecordedError::Inferred { column: name.to_owned(), source };
        parameters.push(ParameterSpec::new(name, observed.kind()).map_err(unusable)?);
    }
    // Names of columns are different from one another, and there is one metric.
    let space = SearchSpace::new(parameters).expect("columns have different names");
    Ok(ProblemStatement::new(space, metrics.to_vec()).expect("there is one metric"))
}

/// What was seen in a column.
struct Observed {
    integers: Option<(i64, i64)>,
    numbers: Option<(f64, f64)>,
    levels: BTreeSet<String>,
    all_integers: bool,
    all_numbers: bool,
}

impl Default for Observed {
    fn default() -> Self {
        Self { integers: None, numbers: None, levels: BTreeSet::new(), all_integers: true, all_numbers: true }
    }
}

impl Observed {
    fn add(&mut self, text: &str) {
        match text.trim().parse::<i64>() {
            Ok(value) => {
                let (min, max) = self.integers.unwrap_or((value, value));
                self.integers = Some((min.min(value), max.max(value)));
            }
            Err(_) => self.all_integers = false,
        }
        match text.trim().parse::<f64>().ok().filter(|value| value.is_finite()) {
            Some(value) => {
                let (min, max) = self.numbers.unwrap_or((value, value));
                self.numbers = Some((min.min(value), max.max(value)));
            }
            None => self.all_numbers = false,
        }
        self.levels.insert(text.to_owned());
    }

    fn kind(self) -> ParameterKind {
        let scale = ScaleType::UnitLinear;
        match (self.integers, self.numbers) {
            (Some((min, max)), _) if self.all_integers => ParameterKind::Integer { min, max, scale },
            (_, Some((min, max))) if self.all_numbers => ParameterKind::Double { min, max, scale },
            _ => ParameterKind::Categorical { values: self.levels.into_iter().collect() },
        }
    }
}
