//! Expected improvement of a study from its next trial, as a criterion for ending the study.
//!
//! A Gaussian process is fitted to all results of the first metric. The expected improvement over the best posterior
//! mean of a finished trial is maximised over the whole space, and converted to the units of the user.
//!
//! Source: Nguyen, Gupta, Rana, Li & Venkatesh 2017, Regret for expected improvement over the best-observed value and
//! stopping condition, ACML. Departures: the threshold is the best posterior mean instead of the best value, which with
//! noise is the luckiest one, and the improvement is in the units of the user.

use nalgebra::DMatrix;

use crate::acquisition::{AcquisitionFunction, Criterion, maximum_of_space};
use crate::designer::History;
use crate::encoding::Encoding;
use crate::gp::{Posterior, TrainingSet, fit, representative_subset};
use crate::insight::fewest_points;
use crate::numerics::normal::quantile;
use crate::output_warp::Warp;
use crate::problem::{ProblemStatement, TrialOutcome};
use crate::stopped_early::{ADDED_NOISE, NOISE_FACTOR};

/// Maximum number of points of the model, as in the analysis of a study.
const MODEL_SIZE: usize = 512;
/// Number of best points near which the search starts. A guess.
const ANCHORS: usize = 5;
/// Number of equally probable values of a prediction for averaging its improvement. A guess.
const QUANTILES: usize = 64;

/// Expected improvement of the first metric, at least 0 and in its units, from the best further trial of `problem`.
/// `None` with too few results for a model: fewer than two more than there are parameters, or than 5.
pub fn expected_gain(problem: &ProblemStatement, history: History<'_>) -> Option<f64> {
    let goal = problem.metrics().first()?.goal;
    let encoding = Encoding::new(problem.search_space());
    let mut trials: Vec<_> = history.completed.iter().collect();
    trials.sort_by_key(|trial| trial.id);
    let (mut points, mut values, mut finished) = (Vec::new(), Vec::new(), Vec::new());
    for trial in trials {
        let TrialOutcome::Measured { values: measured, fidelity } = &trial.outcome else { continue };
        let value = goal.to_maximized(*measured.first()?);
        if value.is_finite() {
            points.push(encoding.encode(&trial.parameters).ok()?);
            values.push(value);
            finished.push(fidelity.is_full());
        }
    }
    if encoding.dimensions() == 0 || values.len() < fewest_points(encoding.dimensions()) {
        return None;
    }
    let (warp, targets) = Warp::fit(&values, false);
    let all = TrainingSet {
        points: DMatrix::from_fn(points.len(), encoding.dimensions(), |row, j| points[row][j]),
        values: targets,
        noise_weights: finished.iter().map(|finished| if *finished { 1.0 } else { NOISE_FACTOR }).collect(),
        added_noise: finished.iter().map(|finished| if *finished { 0.0 } else { ADDED_NOISE }).collect(),
        noise: problem.observation_noise(),
        categorical: encoding.categorical(),
    };
    let kept = representative_subset(&all, MODEL_SIZE, None);
    let data = all.select(&kept);
    let posterior = Posterior::new(fit(&data), &data)?;
    let means = posterior.predict(&data.points).means;
    // A trial that was stopped early has not reached its value for certain.
    let mut rows: Vec<usize> = (0..kept.len()).filter(|&row| finished[kept[row]]).collect();
    if rows.is_empty() {
        rows = (0..kept.len()).collect();
    }
    rows.sort_by(|&a, &b| means[(0, b)].total_cmp(&means[(0, a)]).then(a.cmp(&b)));
    let threshold = means[(0, *rows.first()?)];

    let point = |row: &usize| data.points.row(*row).iter().copied().collect();
    let anchors: Vec<Vec<f64>> = rows.iter().take(ANCHORS).map(point).collect();
    let improvement = AcquisitionFunction::new(posterior.clone(), Criterion::ExpectedImprovement, threshold, None);
    let lengthscales = posterior.hyperparameters().lengthscales();
    let Some(best) = maximum_of_space(&improvement, &encoding, &lengthscales, &anchors) else { return Some(0.0) };
    let prediction = posterior.predict(&DMatrix::from_row_slice(1, best.len(), &best));
    let (mean, deviation) = (prediction.means[(0, 0)], prediction.deviations[0]);
    let reached = warp.inverse(threshold);
    let gain = |number: usize| {
        let probability = (number as f64 + 0.5) / QUANTILES as f64;
        (warp.inverse(mean + deviation * quantile(probability)) - reached).max(0.0)
    };
    let mean_gain = (0..QUANTILES).map(gain).sum::<f64>() / QUANTILES as f64;
    mean_gain.is_finite().then_some(mean_gain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{
        CompletedTrial, Fidelity, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ScaleType,
        SearchSpace, TrialId,
    };

    fn problem(goal: Goal) -> ProblemStatement {
        let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        ProblemStatement::new(space, vec![MetricSpec { name: "m".to_owned(), goal }]).unwrap()
    }

    fn trials(points: &[f64], value: impl Fn(f64) -> f64) -> Vec<CompletedTrial> {
        let trial = |(number, &x): (u64, &f64)| CompletedTrial {
            id: TrialId(number),
            parameters: [("x".to_owned(), ParameterValue::Double(x))].into(),
            outcome: TrialOutcome::measured(vec![value(x)]),
        };
        (1..).zip(points).map(trial).collect()
    }

    fn gain(goal: Goal, completed: &[CompletedTrial]) -> Option<f64> {
        expected_gain(&problem(goal), History { completed, pending: &[] })
    }

    #[test]
    fn gain_decreases_as_the_optimum_is_found() {
        let parabola = |x: f64| 10.0 * (x - 0.37) * (x - 0.37);
        let early = gain(Goal::Minimize, &trials(&[0.0, 0.1, 0.8, 0.9, 1.0], parabola)).unwrap();
        // The best point is 0.73 above the optimum.
        assert!((0.1..2.0).contains(&early), "{early}");
        let late: Vec<f64> =
            (0..12).map(|index| f64::from(index) / 11.0).chain([0.35, 0.36, 0.37, 0.38, 0.39]).collect();
        let late = gain(Goal::Minimize, &trials(&late, parabola)).unwrap();
        assert!(late < 0.005, "{late}");
        let maximized = gain(Goal::Maximize, &trials(&[0.0, 0.1, 0.8, 0.9, 1.0], |x| -parabola(x))).unwrap();
        assert!((maximized - early).abs() <= 1e-9 * early, "{maximized} {early}");
    }

    #[test]
    fn too_few_results_give_no_gain() {
        assert_eq!(gain(Goal::Minimize, &[]), None);
        let mut five = trials(&[0.0, 0.2, 0.5, 0.7, 1.0], |x| x);
        assert!(gain(Goal::Minimize, &five).is_some());
        five[2].outcome = TrialOutcome::Infeasible;
        assert_eq!(gain(Goal::Minimize, &five), None);
        five[2].outcome = TrialOutcome::measured(vec![f64::NAN]);
        assert_eq!(gain(Goal::Minimize, &five), None);
    }

    #[test]
    fn early_value_is_no_threshold() {
        let points: Vec<f64> = (0..12).map(|index| f64::from(index) / 11.0).collect();
        let mut trials = trials(&points, |x| 10.0 * (x - 0.37) * (x - 0.37));
        let before = gain(Goal::Minimize, &trials).unwrap();
        // A curve below all results when its trial was stopped.
        trials[11].outcome = TrialOutcome::Measured { values: vec![-5.0], fidelity: Fidelity::Partial };
        let after = gain(Goal::Minimize, &trials).unwrap();
        assert!(after > before, "{after} {before}");
    }
}
