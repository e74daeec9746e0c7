//! Problems from tables of recorded trials, evaluated by the nearest recorded trial or a smooth mean of its neighbours.
//!
//! Distances are Euclidean between points encoded by [`Encoding`], so on the scale of each parameter: an ordered
//! feature adds the squared difference of its coordinates, a categorical one adds 1 if the levels differ. Of equally
//! near rows, the first counts.
//!
//! With the nearest row a problem is piecewise constant. For dense records, [`TableProblem::interpolated`] removes the
//! steps between rows, which are artefacts of the record.

mod interpolation;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::encoding::{Encoding, EncodingError};
use tunesmith_algorithms::problem::{ConstraintSpec, ParameterValues, ProblemStatement};

use crate::problem::{CurvePoint, Draw, Evaluation, EvaluationOutcome, Problem, Profile, Quality};
use tunesmith_statistics::summary::median;

/// Simulated seconds of a trial if no row has a duration.
const UNKNOWN_DURATION_SECS: f64 = 1.0;
/// Resolution as a share of the difference between the best and the median row (a guess). Below it, the best row is
/// found by chance.
const RESOLUTION_SHARE: f64 = 0.01;

#[derive(Debug, Clone, PartialEq)]
pub struct TableRow {
    pub parameters: ParameterValues,
    /// One finite value per metric of the problem, then one per constraint, both in its order; `None` for an infeasible
    /// trial.
    pub values: Option<Vec<f64>>,
    /// Positive and finite. `None` stands for the mean of the known durations, or one second if there are none.
    pub duration_secs: Option<f64>,
    /// Intermediate values of the first metric: steps from 1, strictly increasing, with finite values. A report comes
    /// at its share of the last step, times the duration. May be empty.
    pub curve: Vec<(u64, f64)>,
}

/// A problem that looks up evaluations among recorded trials: that of the nearest one, unless
/// [`TableProblem::interpolated`]. The module documentation defines the distance.
///
/// The quality with one metric is relative to the best row. With several it is the volume between the front and the
/// worst value of each metric among the rows; the largest volume is not known.
///
/// ```
/// use tunesmith_algorithms::problem::{
///     Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, ScaleType,
///     SearchSpace, TrialId,
/// };
/// use tunesmith_benchmark::problem::{Draw, Evaluation, Problem};
/// use tunesmith_benchmark::problems::table::{TableProblem, TableRow};
///
/// let kind = ParameterKind::Integer { min: 1, max: 9, scale: ScaleType::UnitLinear };
/// let space = SearchSpace::new(vec![ParameterSpec::new("depth", kind)?])?;
/// let metric = MetricSpec { name: "loss".into(), goal: Goal::Minimize };
/// let point = |depth| ParameterValues::from([("depth".to_owned(), ParameterValue::Integer(depth))]);
/// let row = |depth, loss| TableRow {
///     parameters: point(depth),
///     values: Some(vec![loss]),
///     duration_secs: None,
///     curve: Vec::new(),
/// };
/// let statement = ProblemStatement::new(space, vec![metric])?;
/// let problem = TableProblem::new("trees", statement, vec![row(2, 0.5), row(7, 0.25)])?;
/// assert_eq!(problem.evaluate(&point(5), Draw { seed: 0, trial: TrialId::FIRST }), Evaluation::exact(0.25));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct TableProblem {
    profile: Profile,
    encoding: Encoding,
    /// Shape `[dimensions]`.
    categorical: Vec<bool>,
    /// Encoded points of the rows, concatenated; shape `[rows * dimensions]`.
    coordinates: Vec<f64>,
    /// One per row.
    evaluations: Vec<Evaluation>,
    lookup: Lookup,
}

/// Evaluation of points between rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    Nearest,
    Interpolation,
}

impl TableProblem {
    /// Creates a problem named `name` from at least one row. A row that violates a constraint is neither the best one
    /// nor part of the front.
    ///
    /// # Errors
    /// [`TableError`] for the first row that violates a requirement of [`TableRow`], counted from 0.
    pub fn new(name: impl Into<String>, statement: ProblemStatement, rows: Vec<TableRow>) -> Result<Self, TableError> {
        if rows.is_empty() {
            return Err(TableError::NoRows);
        }
        let encoding = Encoding::new(statement.search_space());
        let mut coordinates = Vec::with_capacity(rows.len() * encoding.dimensions());
        for (index, row) in rows.iter().enumerate() {
            let point = encoding.encode(&row.parameters);
            coordinates.extend(point.map_err(|source| TableError::Point { row: index, source })?);
            check_row(index, row, &statement)?;
        }
        let quality = quality(&statement, &rows);
        let resolution = resolution(&quality, &rows);
        let otherwise_secs = mean_duration_secs(&rows);
        let constraints = statement.constraints();
        let evaluations = rows
            .into_iter()
            .enumerate()
            .map(|(index, row)| evaluation(index, row, constraints, otherwise_secs))
            .collect();
        let unconstrained = statement.clone().with_constraints(Vec::new()).expect("nothing is added");
        Ok(Self {
            profile: Profile {
                resolution,
                constraints: constraints.len(),
                ..Profile::new(name, unconstrained, quality)
            },
            categorical: encoding.categorical(),
            evaluations,
            encoding,
            coordinates,
            lookup: Lookup::Nearest,
        })
    }

    /// Interpolates: a point between rows gets the mean of the nearest four rows per dimension, weighted by inverse
    /// squared distance, for values, durations and curves. It is infeasible if infeasible rows have more than half of
    /// the weight. Recorded points keep their own evaluations, and no mean is better than the best row.
    ///
    /// For dense records only: a few dozen trials say too little about the points between them.
    #[must_use]
    pub fn interpolated(self) -> Self {
        Self { lookup: Lookup::Interpolation, ..self }
    }

    /// Whether a trial reports intermediate values.
    pub fn has_curves(&self) -> bool {
        self.evaluations.iter().any(|evaluation| !evaluation.curve.is_empty())
    }

    /// Number of recorded trials, at least 1.
    pub fn rows(&self) -> usize {
        self.evaluations.len()
    }

    /// Index of the row nearest to `point`, from 0.
    ///
    /// # Errors
    /// [`EncodingError`] for the first parameter with a value outside the search space.
    pub fn nearest(&self, point: &ParameterValues) -> Result<usize, EncodingError> {
        Ok(self.nearest_to(&self.encoding.encode(point)?))
    }

    fn nearest_to(&self, wanted: &[f64]) -> usize {
        let mut nearest = 0;
        let mut smallest = f64::INFINITY;
        for (index, squared) in self.squared_distances(wanted).enumerate() {
            if squared < smallest {
                (nearest, smallest) = (index, squared);
            }
        }
        nearest
    }

    /// Squared distance of each row to the encoded point `wanted`, shape `[rows]`; empty in a space of one point, which
    /// has no coordinate.
    fn squared_distances(&self, wanted: &[f64]) -> impl Iterator<Item = f64> {
        self.coordinates.chunks_exact(wanted.len().max(1)).map(move |row| {
            let pairs = row.iter().zip(wanted).zip(&self.categorical);
            pairs.map(|((a, b), categorical)| if *categorical { f64::from(a != b) } else { (a - b).powi(2) }).sum()
        })
    }
}

impl Problem for TableProblem {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _draw: Draw) -> Evaluation {
        let wanted = self.encoding.encode(point).expect("the trait requires points of the search space");
        // A space of one point uses the first row.
        if self.lookup == Lookup::Nearest || wanted.is_empty() {
            return self.evaluations[self.nearest_to(&wanted)].clone();
        }
        let shares = interpolation::shares(self.squared_distances(&wanted), wanted.len());
        let parts: Vec<(&Evaluation, f64)> =
            shares.into_iter().map(|(row, share)| (&self.evaluations[row], share)).collect();
        interpolation::blend(&parts)
    }
}

/// Invalid rows. Row indices start at 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    #[error("a table needs at least one row")]
    NoRows,
    #[error("row {row} is not a point of the search space")]
    Point {
        row: usize,
        #[source]
        source: EncodingError,
    },
    #[error("row {row} has {count} values, but the problem has {metrics} metrics and constraints")]
    ValueCount { row: usize, count: usize, metrics: usize },
    /// A metric is NaN or infinite.
    #[error("row {row} has {value} for metric {metric:?}; a finite number is needed, or none for an infeasible trial")]
    NotFinite { row: usize, metric: String, value: f64 },
    /// A duration is not positive and finite.
    #[error("the duration of row {row} is {duration_secs} s; a finite number above 0 is needed")]
    Duration { row: usize, duration_secs: f64 },
    #[error("row {row} reports step {step} after step {before}; steps start at 1 and increase")]
    Step { row: usize, step: u64, before: u64 },
}

fn check_row(index: usize, row: &TableRow, statement: &ProblemStatement) -> Result<(), TableError> {
    let names: Vec<&str> = statement.value_names().collect();
    if let Some(values) = &row.values
        && values.len() != names.len()
    {
        return Err(TableError::ValueCount { row: index, count: values.len(), metrics: names.len() });
    }
    let reported = row.curve.iter().map(|(_, value)| (names[0], *value));
    for (name, value) in names.iter().copied().zip(row.values.iter().flatten().copied()).chain(reported) {
        if !value.is_finite() {
            return Err(TableError::NotFinite { row: index, metric: name.to_owned(), value });
        }
    }
    if let Some(duration_secs) = row.duration_secs
        && !(duration_secs > 0.0 && duration_secs.is_finite())
    {
        return Err(TableError::Duration { row: index, duration_secs });
    }
    let mut before = 0;
    for &(step, _) in &row.curve {
        if step <= before {
            return Err(TableError::Step { row: index, step, before });
        }
        before = step;
    }
    Ok(())
}

/// Quality relative to the best and worst of the feasible `rows`.
fn quality(statement: &ProblemStatement, rows: &[TableRow]) -> Quality {
    let metrics = statement.metrics();
    let holds = |values: &&Vec<f64>| {
        let constraints = statement.constraints().iter().zip(&values[metrics.len()..]);
        constraints.into_iter().all(|(constraint, value)| constraint.holds(*value))
    };
    let extreme = |metric: usize, best: bool| {
        let goal = metrics[metric].goal;
        let values = rows.iter().filter_map(|row| row.values.as_ref()).filter(holds).map(|values| values[metric]);
        values.reduce(|a, b| if goal.is_better(b, a) == best { b } else { a })
    };
    if metrics.len() == 1 {
        return Quality::Value { best_known: extreme(0, true) };
    }
    let worst = (0..metrics.len()).filter_map(|metric| extreme(metric, false)).collect::<Vec<_>>();
    // Without a feasible row there is no front, and any reference point is valid.
    let reference_point = if worst.is_empty() { vec![0.0; metrics.len()] } else { worst };
    Quality::Hypervolume { reference_point, best_known: None }
}

/// Resolution of a table with one metric; `None` for other tables, and if the median equals the best value.
fn resolution(quality: &Quality, rows: &[TableRow]) -> Option<f64> {
    let Quality::Value { best_known: Some(best) } = quality else { return None };
    let values: Vec<f64> = rows.iter().filter_map(|row| row.values.as_ref()?.first().copied()).collect();
    let resolution = RESOLUTION_SHARE * (median(&values) - best).abs();
    (resolution > 0.0 && resolution.is_finite()).then_some(resolution)
}

fn mean_duration_secs(rows: &[TableRow]) -> f64 {
    let known: Vec<f64> = rows.iter().filter_map(|row| row.duration_secs).collect();
    if known.is_empty() {
        return UNKNOWN_DURATION_SECS;
    }
    // Dividing first prevents overflow of the sum.
    known.iter().map(|duration| duration / known.len() as f64).sum()
}

/// Evaluation of the row `index`. Constraints of a problem hold up to 0.
fn evaluation(index: usize, row: TableRow, constraints: &[ConstraintSpec], otherwise_secs: f64) -> Evaluation {
    let duration_secs = row.duration_secs.unwrap_or(otherwise_secs);
    let last_step = row.curve.last().map_or(1, |(step, _)| *step) as f64;
    let curve = row.curve.into_iter().map(|(step, value)| CurvePoint {
        step,
        elapsed_secs: duration_secs * (step as f64 / last_step),
        value,
    });
    Evaluation {
        outcome: match row.values {
            Some(mut values) => {
                let limited = values.split_off(values.len() - constraints.len());
                let excess = constraints.iter().zip(limited).map(|(constraint, value)| -constraint.slack(value));
                EvaluationOutcome::Measured {
                    observed: values.clone(),
                    noiseless: values,
                    constraints: excess.collect(),
                }
            }
            None => EvaluationOutcome::Infeasible { reason: format!("recorded trial {} was infeasible", index + 1) },
        },
        duration_secs,
        curve: curve.collect(),
    }
}
