//! Complete tables of finite spaces with several measurements of every configuration, such as HPOBench (Eggensperger et
//! al. 2021, arXiv 2109.06716) and NAS-Bench-201 (Dong and Yang 2020, arXiv 2001.00326).
//!
//! A trial observes a random measurement of its configuration, like training with another seed. The quality of a
//! configuration is the percentage of the table with a better mean, which is the gap of the reports: 0 is the best
//! configuration, 50 the median one.

use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;
use tunesmith_algorithms::problem::{
    Goal, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, TrialId,
};
use tunesmith_algorithms::rng;

use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};
use tunesmith_statistics::summary::mean;

const MOST_CONFIGURATIONS: usize = 10_000_000;

/// A problem whose evaluations are measurements of a complete table.
///
/// Values of the quality are in the sign of the metric: the share of the table that is better for a metric to minimise, 100
/// minus that share for one to maximise.
///
/// ```
/// use tunesmith_algorithms::problem::{
///     Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, SearchSpace, TrialId,
/// };
/// use tunesmith_benchmark::problem::{Draw, EvaluationOutcome, Problem};
/// use tunesmith_benchmark::problems::measured_table::MeasuredTable;
///
/// let kind = ParameterKind::Categorical { values: vec!["adam".into(), "sgd".into()] };
/// let space = SearchSpace::new(vec![ParameterSpec::new("optimizer", kind)?])?;
/// let statement = ProblemStatement::new(space, vec![MetricSpec { name: "loss".into(), goal: Goal::Minimize }])?;
/// let point = |name: &str| ParameterValues::from([("optimizer".to_owned(), ParameterValue::Categorical(name.to_owned()))]);
/// let measurements = [("adam", 0.25), ("sgd", 0.5), ("adam", 0.5)].map(|(name, loss)| (point(name), loss));
/// let table = MeasuredTable::new("optimizers", statement, measurements)?;
/// let evaluation = table.evaluate(&point("sgd"), Draw { seed: 1, trial: TrialId::FIRST });
/// let EvaluationOutcome::Measured { observed, noiseless, .. } = evaluation.outcome else { panic!() };
/// assert_eq!((observed, noiseless), (vec![0.5], vec![50.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct MeasuredTable {
    profile: Profile,
    table: Arc<Table>,
    /// For each parameter, the level behind each of its values.
    levels: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Table {
    /// Measurements of each configuration; the last parameter varies fastest.
    measurements: Vec<Vec<f64>>,
    /// Percentage of the table with a better mean.
    better: Vec<f64>,
}

/// Reason why measurements are not a complete table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MeasuredTableError {
    #[error("the problem has {metrics} metrics, but a table has one")]
    SeveralMetrics { metrics: usize },
    /// A parameter has infinitely many values, or a condition.
    #[error(
        "parameter {parameter:?} is {kind}; a table needs INTEGER, DISCRETE or CATEGORICAL parameters without conditions"
    )]
    Parameter { parameter: String, kind: &'static str },
    #[error("the space has more than {MOST_CONFIGURATIONS} configurations")]
    TooLarge,
    /// A point is outside the space, or its value is not finite.
    #[error("measurement {index} (from 0): {reason}")]
    Measurement { index: usize, reason: String },
    #[error("{missing} of {configurations} configurations have no measurement, the first of them is {first}")]
    Incomplete { missing: usize, configurations: usize, first: String },
}

impl MeasuredTable {
    /// Creates a problem named `name` from any number of measurements of each configuration, in any order.
    ///
    /// # Errors
    /// [`MeasuredTableError`].
    pub fn new(
        name: impl Into<String>,
        statement: ProblemStatement,
        measurements: impl IntoIterator<Item = (ParameterValues, f64)>,
    ) -> Result<Self, MeasuredTableError> {
        let [metric] = statement.metrics() else {
            return Err(MeasuredTableError::SeveralMetrics { metrics: statement.metrics().len() });
        };
        let goal = metric.goal;
        let specs = statement.search_space().parameters();
        let counts = specs.iter().map(count).collect::<Result<Vec<usize>, _>>()?;
        let size = counts.iter().try_fold(1_usize, |size, count| size.checked_mul(*count));
        let size = size.filter(|size| *size <= MOST_CONFIGURATIONS).ok_or(MeasuredTableError::TooLarge)?;
        let levels: Vec<Vec<usize>> = counts.iter().map(|count| (0..*count).collect()).collect();
        let mut table = vec![Vec::new(); size];
        for (index, (point, value)) in measurements.into_iter().enumerate() {
            let wrong = |reason: String| MeasuredTableError::Measurement { index, reason };
            statement.search_space().check(&point).map_err(|error| wrong(error.to_string()))?;
            if !value.is_finite() {
                return Err(wrong(format!("{value} is not a finite number")));
            }
            table[configuration(specs, &levels, &point)].push(value);
        }
        if let Some(first) = table.iter().position(Vec::is_empty) {
            let missing = table.iter().filter(|measurements| measurements.is_empty()).count();
            let first = described(specs, first);
            return Err(MeasuredTableError::Incomplete { missing, configurations: size, first });
        }
        let best = if goal == Goal::Maximize { 100.0 } else { 0.0 };
        let profile = Profile {
            resolution: Some(100.0 / size as f64),
            is_noisy: true,
            ..Profile::new(name, statement, Quality::Value { best_known: Some(best) })
        };
        let better = shares(&table, goal);
        Ok(Self { profile, table: Arc::new(Table { measurements: table, better }), levels })
    }

    /// Permutes the level names of each categorical parameter by `seed`: `adam` then means another level. An optimizer
    /// must not profit from the order of names.
    #[must_use]
    pub fn with_exchanged_levels(&self, seed: u64) -> Self {
        let mut exchanged = self.clone();
        let specs = self.profile.statement.search_space().parameters();
        for (spec, levels) in specs.iter().zip(&mut exchanged.levels) {
            if matches!(spec.kind(), ParameterKind::Categorical { .. }) {
                levels.shuffle(&mut rng::stream(seed, TrialId(0), &format!("levels of {}", spec.name())));
            }
        }
        exchanged
    }

    /// Number of configurations, at least 1.
    pub fn configurations(&self) -> usize {
        self.table.better.len()
    }
}

impl Problem for MeasuredTable {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        let Profile { name, statement, .. } = &self.profile;
        let index = configuration(statement.search_space().parameters(), &self.levels, point);
        let measurements = &self.table.measurements[index];
        let mut rng = rng::stream(draw.seed, draw.trial, &format!("measurement of {name}"));
        let observed = measurements[rng.random_range(0..measurements.len())];
        let better = self.table.better[index];
        let quality = if statement.metrics()[0].goal == Goal::Maximize { 100.0 - better } else { better };
        Evaluation::measured(vec![observed], vec![quality], Vec::new())
    }
}

fn count(spec: &ParameterSpec) -> Result<usize, MeasuredTableError> {
    let refused = |kind| Err(MeasuredTableError::Parameter { parameter: spec.name().to_owned(), kind });
    if spec.condition().is_some() {
        return refused("conditional");
    }
    match spec.kind() {
        ParameterKind::Double { .. } => refused("DOUBLE"),
        ParameterKind::Integer { min, max, .. } => usize::try_from(max.abs_diff(*min))
            .ok()
            .and_then(|steps| steps.checked_add(1))
            .ok_or(MeasuredTableError::TooLarge),
        ParameterKind::Discrete { values, .. } => Ok(values.len()),
        ParameterKind::Categorical { values } => Ok(values.len()),
    }
}

/// Index of the configuration of `point`, a point of the space, after mapping each value to its level.
fn configuration(specs: &[ParameterSpec], levels: &[Vec<usize>], point: &ParameterValues) -> usize {
    specs.iter().zip(levels).fold(0, |place, (spec, levels)| {
        let value = match (spec.kind(), point.get(spec.name())) {
            (ParameterKind::Integer { min, .. }, Some(ParameterValue::Integer(value))) => value.abs_diff(*min) as usize,
            (ParameterKind::Discrete { values, .. }, Some(ParameterValue::Discrete(value))) => {
                values.iter().position(|other| other == value).unwrap_or(0)
            }
            (ParameterKind::Categorical { values }, Some(ParameterValue::Categorical(value))) => {
                values.iter().position(|other| other == value).unwrap_or(0)
            }
            _ => 0,
        };
        place * levels.len() + levels[value]
    })
}

/// Values of the configuration at `place`, for messages.
fn described(specs: &[ParameterSpec], mut place: usize) -> String {
    let mut texts = Vec::with_capacity(specs.len());
    for spec in specs.iter().rev() {
        let values: Vec<String> = match spec.kind() {
            ParameterKind::Integer { min, max, .. } => (*min..=*max).map(|value| value.to_string()).collect(),
            ParameterKind::Discrete { values, .. } => {
                values.iter().map(|value| ParameterValue::Discrete(*value).to_string()).collect()
            }
            ParameterKind::Categorical { values } => values.clone(),
            ParameterKind::Double { .. } => Vec::new(),
        };
        let value = values.get(place % values.len().max(1)).map(String::as_str).unwrap_or_default();
        texts.push(format!("{}={value}", spec.name()));
        place /= values.len().max(1);
    }
    texts.reverse();
    texts.join(", ")
}

/// Percentage of the table with a better mean, for each configuration.
fn shares(table: &[Vec<f64>], goal: Goal) -> Vec<f64> {
    let losses: Vec<f64> = table.iter().map(|measurements| goal.loss(mean(measurements))).collect();
    let mut sorted = losses.clone();
    sorted.sort_by(f64::total_cmp);
    let share = |loss: &f64| 100.0 * sorted.partition_point(|other| other < loss) as f64 / sorted.len() as f64;
    losses.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tunesmith_algorithms::problem::{Condition, MetricSpec, ScaleType, SearchSpace};

    use super::*;
    use crate::problem::EvaluationOutcome;

    fn statement(goal: Goal, parameters: Vec<ParameterSpec>) -> ProblemStatement {
        let metric = MetricSpec { name: "metric".into(), goal };
        ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
    }

    fn parameters() -> Vec<ParameterSpec> {
        let values = ["a", "b", "c"].map(str::to_owned).to_vec();
        let discrete = ParameterKind::Discrete { values: vec![0.5, 2.0], scale: ScaleType::UnitLinear };
        vec![
            ParameterSpec::new("kind", ParameterKind::Categorical { values }).unwrap(),
            ParameterSpec::new("rate", discrete).unwrap(),
        ]
    }

    fn point(kind: &str, rate: f64) -> ParameterValues {
        [
            ("kind".to_owned(), ParameterValue::Categorical(kind.to_owned())),
            ("rate".to_owned(), ParameterValue::Discrete(rate)),
        ]
        .into()
    }

    /// The mean of (a, 0.5) is 1, of (a, 2) 2, of (b, 0.5) 3 and so on; two measurements at 0.25 around it.
    fn measurements() -> Vec<(ParameterValues, f64)> {
        let places = ["a", "b", "c"].into_iter().flat_map(|kind| [0.5, 2.0].map(|rate| (kind, rate)));
        let both = |(mean, (kind, rate)): (usize, (&str, f64))| {
            [-0.25, 0.25].map(|noise| (point(kind, rate), mean as f64 + 1.0 + noise))
        };
        places.enumerate().flat_map(both).collect()
    }

    fn table(goal: Goal) -> MeasuredTable {
        MeasuredTable::new("t", statement(goal, parameters()), measurements()).unwrap()
    }

    fn values(table: &MeasuredTable, point: &ParameterValues, trial: u64) -> (f64, f64) {
        let draw = Draw { seed: 3, trial: TrialId(trial) };
        let EvaluationOutcome::Measured { observed, noiseless, .. } = table.evaluate(point, draw).outcome else {
            panic!("no values")
        };
        (observed[0], noiseless[0])
    }

    #[test]
    fn trials_observe_measurements_and_the_quality_is_the_share_that_is_better() {
        let table = table(Goal::Minimize);
        let observed: BTreeSet<String> =
            (1..=20).map(|trial| values(&table, &point("b", 0.5), trial).0.to_string()).collect();
        assert_eq!(observed, BTreeSet::from(["2.75".to_owned(), "3.25".to_owned()]));
        assert_eq!(values(&table, &point("b", 0.5), 7), values(&table, &point("b", 0.5), 7));
        let qualities =
            [("a", 0.5), ("a", 2.0), ("c", 2.0)].map(|(kind, rate)| values(&table, &point(kind, rate), 1).1);
        assert_eq!(qualities, [0.0, 100.0 / 6.0, 500.0 / 6.0]);
        assert_eq!(table.quality(), &Quality::Value { best_known: Some(0.0) });
        assert_eq!((table.profile().resolution, table.configurations()), (Some(100.0 / 6.0), 6));
        // Maximisation reverses the order.
        let table = self::table(Goal::Maximize);
        assert_eq!(values(&table, &point("c", 2.0), 1).1, 100.0);
        assert_eq!(values(&table, &point("a", 0.5), 1).1, 100.0 - 500.0 / 6.0);
        assert_eq!(table.quality(), &Quality::Value { best_known: Some(100.0) });
    }

    #[test]
    fn exchanged_levels_are_another_order_of_the_same_values() {
        let table = table(Goal::Minimize);
        let shares = |table: &MeasuredTable| ["a", "b", "c"].map(|kind| values(table, &point(kind, 0.5), 1).1);
        let orders: BTreeSet<String> =
            (1..=40).map(|seed| format!("{:?}", shares(&table.with_exchanged_levels(seed)))).collect();
        // All six orders of three levels occur, and ordered parameters keep theirs.
        assert_eq!(orders.len(), 6);
        let exchanged = table.with_exchanged_levels(5);
        let mut sorted = shares(&exchanged);
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, shares(&table));
        for kind in ["a", "b", "c"] {
            assert!(values(&exchanged, &point(kind, 0.5), 1).1 < values(&exchanged, &point(kind, 2.0), 1).1);
        }
        assert_eq!(shares(&exchanged), shares(&table.with_exchanged_levels(5)));
    }

    #[test]
    fn what_is_no_complete_table_is_refused() {
        let refused = |parameters: Vec<ParameterSpec>, measurements: Vec<(ParameterValues, f64)>| {
            MeasuredTable::new("t", statement(Goal::Minimize, parameters), measurements).unwrap_err().to_string()
        };
        let mut few = measurements();
        few.drain(4..8);
        let message = "2 of 6 configurations have no measurement, the first of them is kind=b, rate=0.5";
        assert_eq!(refused(parameters(), few), message);
        let mut wrong = measurements();
        wrong[3].1 = f64::NAN;
        assert_eq!(refused(parameters(), wrong), "measurement 3 (from 0): NaN is not a finite number");
        let mut outside = measurements();
        outside[1].0 = point("d", 0.5);
        assert!(refused(parameters(), outside).starts_with("measurement 1 (from 0): "));
        let allowed = "a table needs INTEGER, DISCRETE or CATEGORICAL parameters without conditions";
        let double = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let double = ParameterSpec::new("x", double).unwrap();
        assert_eq!(refused(vec![double], vec![]), format!("parameter \"x\" is DOUBLE; {allowed}"));
        let mut conditional = parameters();
        let on_a = Condition::new("kind", vec![ParameterValue::Categorical("a".to_owned())]);
        conditional[1] = conditional[1].clone().with_condition(on_a);
        assert_eq!(refused(conditional, vec![]), format!("parameter \"rate\" is conditional; {allowed}"));
        let integer = |name: &str| {
            let kind = ParameterKind::Integer { min: i64::MIN, max: i64::MAX, scale: ScaleType::UnitLinear };
            ParameterSpec::new(name, kind)
        };
        if let Ok(integer) = integer("n") {
            assert_eq!(refused(vec![integer], vec![]), "the space has more than 10000000 configurations");
        }
    }
}
