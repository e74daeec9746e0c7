//! Translation of the trials of a source study to a new space, by the rules in [`crate::transfer`].

use nalgebra::DMatrix;

use super::source_study::SourceStudy;
use crate::encoding::Encoding;
use crate::gp::{TrainingSet, representative_subset};
use crate::output_warp::Warp;
use crate::prior::{PriorDensity, middle};
use crate::problem::{
    CompletedTrial, Fidelity, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, SearchSpace, TrialOutcome,
};
use crate::stopped_early::{NOISE_FACTOR, prediction_noise};

/// Maximum number of trials per study (chosen for time, since every suggestion evaluates the models of all studies).
const LARGEST_STUDY: usize = 400;
/// Noise variance of a trial that lacks a parameter, relative to others (a guess).
const IMPUTED_NOISE: f64 = 4.0;

/// Trials of `study` as observations of `problem` with `encoding`; `None` if there are fewer than two values or all are
/// equal.
pub(super) fn translate(
    problem: &ProblemStatement,
    encoding: &Encoding,
    prior: Option<&PriorDensity>,
    study: &SourceStudy,
) -> Option<TrainingSet> {
    let [metric] = problem.metrics() else { return None };
    let place = study.problem.metrics().iter().position(|other| other.name == metric.name)?;
    let axes: Vec<Axis> = encoding.features().iter().map(|feature| Axis::new(problem, &feature.name)).collect();
    let middles: Vec<f64> = (0..axes.len()).map(|feature| middle(prior, encoding, feature)).collect();
    let mut trials: Vec<&CompletedTrial> = study.completed.iter().collect();
    trials.sort_by_key(|trial| trial.id);
    let (mut points, mut values) = (Vec::new(), Vec::new());
    let (mut noise_weights, mut deviations) = (Vec::new(), Vec::new());
    for trial in trials {
        let TrialOutcome::Measured { values: measured, fidelity } = &trial.outcome else { continue };
        let Some(value) = measured.get(place).filter(|value| value.is_finite()) else { continue };
        let Some((point, imputed)) = translated_point(encoding, &axes, &middles, trial) else { continue };
        points.push(point);
        values.push(metric.goal.to_maximized(*value));
        deviations.push(match fidelity {
            Fidelity::Predicted { deviation } if place == 0 => *deviation,
            _ => 0.0,
        });
        let factor = |when: bool, factor: f64| if when { factor } else { 1.0 };
        noise_weights.push(factor(imputed, IMPUTED_NOISE) * factor(!fidelity.is_full(), NOISE_FACTOR));
    }
    let (warp, targets) = Warp::fit(&values, false);
    let first = *targets.first()?;
    if targets.iter().all(|target| *target == first) {
        return None;
    }
    let noise = |(value, deviation): (&f64, &f64)| prediction_noise(&warp, *value, *deviation);
    let added_noise = values.iter().zip(&deviations).map(noise).collect();
    let data = TrainingSet {
        points: DMatrix::from_fn(points.len(), encoding.dimensions(), |row, j| points[row][j]),
        values: targets,
        added_noise,
        noise_weights,
        noise: Default::default(),
        categorical: encoding.categorical(),
    };
    Some(data.select(&representative_subset(&data, LARGEST_STUDY, None)))
}

/// Canonical vector of a trial, not snapped to grids, and whether a value of an active feature is imputed; `None` if a
/// value of an active feature is outside the new space.
fn translated_point(
    encoding: &Encoding,
    axes: &[Axis],
    middles: &[f64],
    trial: &CompletedTrial,
) -> Option<(Vec<f64>, bool)> {
    let mut point = middles.to_vec();
    let mut given = vec![false; axes.len()];
    let mut foreign = vec![false; axes.len()];
    for (j, feature) in encoding.features().iter().enumerate() {
        if let Some(value) = trial.parameters.get(&feature.name) {
            given[j] = true;
            match axes[j].coordinate(&feature.name, value) {
                Some(u) => point[j] = u,
                None => foreign[j] = true,
            }
        }
    }
    encoding.canonicalize(&mut point);
    let active = encoding.active(&point);
    if (0..axes.len()).any(|j| active[j] && foreign[j]) {
        return None;
    }
    Some((point, (0..axes.len()).any(|j| active[j] && !given[j])))
}

/// Map from values of a source parameter to coordinates of the new parameter with the same name.
enum Axis {
    Numbers(Encoding),
    Levels(Encoding),
    /// Never occurs: the name is not a parameter of the problem.
    Nothing,
}

impl Axis {
    fn new(problem: &ProblemStatement, name: &str) -> Self {
        let Some(spec) = problem.search_space().parameters().iter().find(|spec| spec.name() == name) else {
            return Self::Nothing;
        };
        let alone = |kind| {
            let spec = ParameterSpec::new(name, kind).ok()?;
            Some(Encoding::new(&SearchSpace::new(vec![spec]).ok()?))
        };
        // As a double, every number of the range has a coordinate, even if it is infeasible.
        let continuous = match spec.kind().clone() {
            ParameterKind::Categorical { values } => {
                return alone(ParameterKind::Categorical { values }).map_or(Self::Nothing, Self::Levels);
            }
            ParameterKind::Double { min, max, scale } => ParameterKind::Double { min, max, scale },
            ParameterKind::Integer { min, max, scale } => {
                ParameterKind::Double { min: min as f64, max: max as f64, scale }
            }
            ParameterKind::Discrete { values, scale } => {
                ParameterKind::Double { min: values[0], max: values[values.len() - 1], scale }
            }
        };
        alone(continuous).map_or(Self::Nothing, Self::Numbers)
    }

    fn coordinate(&self, name: &str, value: &ParameterValue) -> Option<f64> {
        let (encoding, value) = match self {
            Self::Nothing => return None,
            Self::Levels(encoding) => (encoding, ParameterValue::Categorical(value.to_string())),
            Self::Numbers(encoding) => {
                let number = match value {
                    ParameterValue::Double(number) | ParameterValue::Discrete(number) => *number,
                    ParameterValue::Integer(number) => *number as f64,
                    ParameterValue::Categorical(text) => text.trim().parse().ok()?,
                };
                (encoding, ParameterValue::Double(number))
            }
        };
        encoding.encode(&[(name.to_owned(), value)].into()).ok()?.first().copied()
    }
}
