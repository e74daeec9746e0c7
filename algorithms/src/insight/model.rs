//! Gaussian process model of one metric.

use std::collections::BTreeMap;

use nalgebra::DMatrix;
use rand::RngExt;

use super::suspicious::{SuspiciousTrial, explained_rows, set_aside_suspects};
use crate::designer::History;
use crate::encoding::{Encoding, Key};
use crate::gp::{Hyperparameters, Posterior, TrainingSet, fit, representative_subset};
use crate::output_warp::Warp;
use crate::problem::{CompletedTrial, Goal, ParameterValues, ProblemStatement, TrialId, TrialOutcome};
use crate::rng::stream;
use crate::stopped_early::{ADDED_NOISE, NOISE_FACTOR};

/// Maximum number of points of the model.
const EXACT_SIZE: usize = 512;
/// Maximum number of points of resampled models.
const RESAMPLED_SIZE: usize = 256;

/// Number of distinct measured points required by a model of `dimensions` parameters: two more than there are slopes,
/// and at least 5. A guess at where predictions become better than the mean.
pub fn fewest_points(dimensions: usize) -> usize {
    (dimensions + 2).max(5)
}

/// Reason why a metric cannot be analysed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InsightError {
    /// The problem does not have this metric.
    #[error("there is no metric {metric:?}")]
    UnknownMetric {
        /// Requested metric.
        metric: String,
    },
    /// All trials are at the same point.
    #[error("no parameter has more than one value")]
    NothingVaries,
    /// Too few points; retry with more trials.
    #[error("{metric:?} was measured at {points} different points, and {needed} are needed")]
    TooFewPoints {
        /// Name of the metric.
        metric: String,
        /// Number of distinct points with a usable value.
        points: usize,
        /// Required number of points.
        needed: usize,
    },
    /// All values are equal, so no parameter has an effect.
    #[error("{metric:?} has the same value at all {points} points")]
    AllEqual {
        /// Name of the metric.
        metric: String,
        /// Number of distinct points with a usable value.
        points: usize,
    },
    /// The history does not belong to the problem, an error of the caller.
    #[error("trial {trial} does not fit the problem: {reason}")]
    ForeignTrial {
        /// Trial that does not fit.
        trial: TrialId,
        /// Mismatch between trial and problem.
        reason: String,
    },
    /// The covariance of the observations cannot be inverted, even with jitter.
    #[error("the model of {metric:?} cannot be computed from {points} points")]
    Numerical {
        /// Name of the metric.
        metric: String,
        /// Number of distinct points with a usable value.
        points: usize,
    },
}

/// A measured point; all trials at the same point share a row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// First trial that counts at this point.
    pub(super) trial: TrialId,
    pub(super) point: Vec<f64>,
    /// Mean over its trials, maximised.
    pub(super) value: f64,
    /// Whether any trial at this point was finished.
    pub(super) finished: bool,
    /// Whether the first trial that counts at this point satisfies every constraint.
    pub(super) feasible: bool,
    /// Number of trials in the mean.
    pub(super) count: usize,
    /// Sample standard deviation of the values; `None` of a single value.
    pub(super) deviation: Option<f64>,
    noise_weight: f64,
    added_noise: f64,
}

/// Fitted model of one metric, the source of all results.
#[derive(Debug, Clone)]
pub struct InsightModel {
    pub(super) metric: String,
    pub(super) goal: Goal,
    pub(super) is_constrained: bool,
    pub(super) encoding: Encoding,
    /// Points in trial order; at most [`EXACT_SIZE`].
    pub(super) rows: Vec<Row>,
    suspicious: Vec<SuspiciousTrial>,
    /// Number of trials of each leader, if the best points are repeated.
    pub(super) trials_per_leader: Option<usize>,
    pub(super) warp: Warp,
    pub(super) data: TrainingSet,
    pub(super) posterior: Posterior,
}

impl InsightModel {
    /// Fits the metric named `metric`, to a representative subset if there are more than 512 distinct points.
    ///
    /// # Errors
    /// [`InsightError`]; with too few trials, it states how many are required.
    pub fn new(problem: &ProblemStatement, history: History<'_>, metric: &str) -> Result<Self, InsightError> {
        if let (Some(repeats), Some(searched)) = (problem.repeats(), problem.without_repeated_parameter()) {
            let completed: Vec<CompletedTrial> =
                history.completed.iter().map(|trial| repeats.without_parameter_of(trial)).collect();
            let model = Self::new(&searched, History { completed: &completed, pending: &[] }, metric)?;
            return Ok(Self { trials_per_leader: Some(repeats.trials_per_leader as usize), ..model });
        }
        let unknown = || InsightError::UnknownMetric { metric: metric.to_owned() };
        let index = problem.metrics().iter().position(|spec| spec.name == metric).ok_or_else(unknown)?;
        let goal = problem.metrics()[index].goal;
        let encoding = Encoding::new(problem.search_space());
        if encoding.dimensions() == 0 {
            return Err(InsightError::NothingVaries);
        }
        let mut rows = rows(&encoding, problem, index, history)?;
        let (points, needed) = (rows.len(), fewest_points(encoding.dimensions()));
        let metric = metric.to_owned();
        if points < needed {
            return Err(InsightError::TooFewPoints { metric, points, needed });
        }
        let is_alone = problem.metrics().len() == 1;
        let suspicious = if is_alone { set_aside_suspects(&encoding, &mut rows) } else { Vec::new() };
        let (mut warp, mut all) = training_set(&encoding, problem, &rows);
        if is_alone {
            let explained = explained_rows(&all, &rows.iter().map(|row| row.value).collect::<Vec<_>>());
            if explained.len() < rows.len() {
                rows = explained.iter().map(|&row| rows[row].clone()).collect();
                (warp, all) = training_set(&encoding, problem, &rows);
            }
        }
        if all.values.iter().all(|target| *target == 0.0) {
            return Err(InsightError::AllEqual { metric, points });
        }
        let kept = representative_subset(&all, EXACT_SIZE, None);
        let data = all.select(&kept);
        rows = kept.iter().map(|&row| rows[row].clone()).collect();
        let posterior = condition(&data).ok_or_else(|| InsightError::Numerical { metric: metric.clone(), points })?;
        let is_constrained = !problem.constraints().is_empty();
        let suspicious = suspicious.into_iter().map(|(row, ranges)| SuspiciousTrial {
            trial: row.trial,
            value: goal.to_maximized(row.value),
            ranges,
        });
        let suspicious = suspicious.collect();
        let trials_per_leader = None;
        Ok(Self { metric, goal, is_constrained, encoding, rows, suspicious, trials_per_leader, warp, data, posterior })
    }

    /// Trials whose results are too good to be true, best first. The model is without them.
    pub fn suspicious_trials(&self) -> &[SuspiciousTrial] {
        &self.suspicious
    }

    /// Direction in which the metric improves.
    pub fn goal(&self) -> Goal {
        self.goal
    }

    /// Number of distinct points of the model.
    pub fn points(&self) -> usize {
        self.rows.len()
    }

    /// Number of points with a finished trial.
    pub fn finished_points(&self) -> usize {
        self.rows.iter().filter(|row| row.finished).count()
    }

    /// See [`MetricInsight::noise_to_signal`](super::MetricInsight::noise_to_signal).
    pub fn noise_to_signal(&self) -> f64 {
        let model = self.posterior.hyperparameters();
        let variances = model.kernel.variances(&self.data.points);
        let signal = variances.iter().sum::<f64>() / variances.len() as f64;
        model.noise_variance / signal
    }

    /// Model fitted to bootstrap sample number `draw` of its points. Points are drawn with replacement; a point drawn k
    /// times counts as the mean of k trials. `None` if the fit fails.
    pub(super) fn resampled(&self, draw: u64) -> Option<Posterior> {
        let n = self.data.values.len();
        let size = n.min(RESAMPLED_SIZE);
        let mut rng = stream(0, TrialId(draw), "insight/bootstrap");
        let mut drawn: BTreeMap<usize, u32> = BTreeMap::new();
        for _ in 0..size {
            *drawn.entry(rng.random_range(0..n)).or_default() += 1;
        }
        let indices: Vec<usize> = drawn.keys().copied().collect();
        let mut data = self.data.select(&indices);
        for (weight, count) in data.noise_weights.iter_mut().zip(drawn.values()) {
            *weight /= f64::from(*count);
        }
        condition(&data)
    }

    /// Candidate rows for the best: those that satisfy every constraint, or all if none does; of these the finished
    /// ones, or all if none is finished.
    pub(super) fn eligible_rows(&self) -> Vec<usize> {
        let narrowed = |rows: Vec<usize>, test: fn(&Row) -> bool| -> Vec<usize> {
            let kept: Vec<usize> = rows.iter().copied().filter(|&row| test(&self.rows[row])).collect();
            if kept.is_empty() { rows } else { kept }
        };
        let feasible = narrowed((0..self.rows.len()).collect(), |row| row.feasible);
        narrowed(feasible, |row| row.finished)
    }

    /// Candidate row with the best value.
    pub(super) fn best_row(&self) -> usize {
        // The first of equal values; `max_by` returns the last.
        let rows = self.eligible_rows().into_iter().rev();
        rows.max_by(|&a, &b| self.rows[a].value.total_cmp(&self.rows[b].value)).unwrap_or(0)
    }

    pub(super) fn parameters(&self, point: &[f64]) -> ParameterValues {
        self.encoding.decode(point)
    }
}

/// Warped values of `rows`.
fn training_set(encoding: &Encoding, problem: &ProblemStatement, rows: &[Row]) -> (Warp, TrainingSet) {
    let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let (warp, targets) = Warp::fit(&values, false);
    let data = TrainingSet {
        points: DMatrix::from_fn(rows.len(), encoding.dimensions(), |row, j| rows[row].point[j]),
        values: targets,
        noise_weights: rows.iter().map(|row| row.noise_weight).collect(),
        added_noise: rows.iter().map(|row| row.added_noise).collect(),
        noise: problem.observation_noise(),
        categorical: encoding.categorical(),
    };
    (warp, data)
}

fn condition(data: &TrainingSet) -> Option<Posterior> {
    Posterior::new(fit(data), data).or_else(|| Posterior::new(Hyperparameters::default_for(&data.categorical), data))
}

/// Measured points, in the order of their first trials. At each point, finished trials are averaged; trials that were
/// stopped early count only if none is finished.
fn rows(
    encoding: &Encoding,
    problem: &ProblemStatement,
    index: usize,
    history: History<'_>,
) -> Result<Vec<Row>, InsightError> {
    let goal = problem.metrics()[index].goal;
    let (objectives, metrics) = (problem.metrics().len(), problem.value_names().count());
    let mut trials: Vec<_> = history.completed.iter().collect();
    trials.sort_by_key(|trial| trial.id);
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    let mut groups: Vec<(Row, Vec<f64>)> = Vec::new();
    for trial in trials {
        let foreign = |reason| InsightError::ForeignTrial { trial: trial.id, reason };
        let TrialOutcome::Measured { values, fidelity } = &trial.outcome else { continue };
        if values.len() != metrics {
            return Err(foreign(format!("it has {} values for {metrics} metrics and constraints", values.len())));
        }
        let value = goal.to_maximized(values[index]);
        if !value.is_finite() {
            continue;
        }
        let key = encoding.key(&trial.parameters).map_err(|error| foreign(error.to_string()))?;
        let point = encoding.encode(&trial.parameters).map_err(|error| foreign(error.to_string()))?;
        let finished = fidelity.is_full();
        let mut constraints = problem.constraints().iter().zip(&values[objectives..]);
        let feasible = constraints.all(|(constraint, value)| constraint.holds(*value));
        let row = Row {
            trial: trial.id,
            point,
            value,
            finished,
            feasible,
            count: 1,
            deviation: None,
            noise_weight: 1.0,
            added_noise: 0.0,
        };
        match places.get(&key) {
            None => {
                places.insert(key, groups.len());
                groups.push((row, vec![value]));
            }
            Some(&place) => {
                let (first, values) = &mut groups[place];
                if finished && !first.finished {
                    (*first, *values) = (row, vec![value]);
                } else if finished == first.finished {
                    values.push(value);
                }
            }
        }
    }
    let merged = groups.into_iter().map(|(mut row, values)| {
        let count = values.len() as f64;
        // Dividing before summing keeps huge values finite.
        row.value = values.iter().map(|value| value / count).sum();
        row.count = values.len();
        row.deviation = (row.count > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - row.value).powi(2) / (count - 1.0)).sum();
            squares.sqrt()
        });
        let (factor, added) = if row.finished { (1.0, 0.0) } else { (NOISE_FACTOR, ADDED_NOISE) };
        row.noise_weight = factor / count;
        // The same rule stopped all trials of the point, so their mean is as far from a final value as each of them.
        row.added_noise = added;
        row
    });
    let mut rows: Vec<Row> = merged.collect();
    rows.sort_by_key(|row| row.trial);
    Ok(rows)
}
