//! Search space inferred from a CSV file without a configuration.

use std::collections::BTreeSet;
use std::io::Read;

use tunesmith_algorithms::problem::{
    MetricSpec, ParameterKind, ParameterSpec, ParameterSpecError, ProblemStatement, ScaleType, SearchSpace,
};

use super::columns::{Columns, EXPORT_COLUMNS, OBJECTIVE_VALUE};
use super::{RecordPosition, RecordedError};

/// Infers the problem statement from a CSV file. Each column that is not a metric, a duration, a curve point or a fixed
/// column of an exported study is a parameter: integers give an integer parameter, other finite numbers a double
/// parameter, both with a linear scale from the smallest to the largest value; other text gives a categorical one.
///
/// # Errors
/// [`RecordedError`] if the file is not valid CSV, has no column for `metric` or for any parameter, a parameter has an
/// empty field, or an exported study has several metrics or constraints, whose columns look like parameters.
pub fn infer_statement(reader: impl Read, metric: MetricSpec) -> Result<ProblemStatement, RecordedError> {
    let mut reader = csv::Reader::from_reader(reader);
    let header = reader.headers()?.clone();
    let metrics = [metric];
    let columns = Columns::new(&header, &[metrics[0].name.as_str()], &[])?;
    // In an exported study, every column after the fixed ones is a parameter.
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
            observed.is_objective &= columns.exported && text == &record[OBJECTIVE_VALUE];
            if text.trim().is_empty() {
                return Err(RecordedError::Value {
                    place: RecordPosition::Line(record.position().map_or(0, csv::Position::line)),
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
    if let Some((name, ..)) = observed.iter().find(|(.., observed)| observed.is_objective) {
        return Err(RecordedError::SeveralColumns { column: (*name).to_owned() });
    }
    let mut parameters = Vec::with_capacity(observed.len());
    for (name, _, observed) in observed {
        let unusable = |source: ParameterSpecError| RecordedError::Inferred { column: name.to_owned(), source };
        parameters.push(ParameterSpec::new(name, observed.kind()).map_err(unusable)?);
    }
    // The names of columns are unique, and there is one metric.
    let space = SearchSpace::new(parameters).expect("columns have different names");
    Ok(ProblemStatement::new(space, metrics.to_vec()).expect("there is one metric"))
}

struct Observed {
    integers: Option<(i64, i64)>,
    numbers: Option<(f64, f64)>,
    levels: BTreeSet<String>,
    all_integers: bool,
    all_numbers: bool,
    /// Whether every value equals the objective of an exported study.
    is_objective: bool,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            integers: None,
            numbers: None,
            levels: BTreeSet::new(),
            all_integers: true,
            all_numbers: true,
            is_objective: true,
        }
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
