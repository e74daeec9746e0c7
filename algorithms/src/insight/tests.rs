mod noise;
mod repeats;

use std::f64::consts::PI;

use nalgebra::DMatrix;

use super::importance::sobol_indices;
use super::*;
use crate::designer::History;
use crate::encoding::Encoding;
use crate::gp::Posterior;
use crate::problem::{
    CompletedTrial, ConstraintSpec, Fidelity, MetricSpec, ObservationNoise, ParameterKind, ParameterSpec,
    ParameterValue, ParameterValues, ScaleType, SearchSpace, TrialId,
};
use crate::sampling::sobol_point;

fn double(name: &str, min: f64, max: f64) -> ParameterSpec {
    ParameterSpec::new(name, ParameterKind::Double { min, max, scale: ScaleType::UnitLinear }).unwrap()
}

fn problem(parameters: Vec<ParameterSpec>, goal: Goal) -> ProblemStatement {
    let metric = MetricSpec { name: "loss".into(), goal };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

fn number(values: &ParameterValues, name: &str) -> f64 {
    match &values[name] {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => *value,
        ParameterValue::Integer(value) => *value as f64,
        ParameterValue::Categorical(_) => panic!("{name} is not a number"),
    }
}

/// First `count` points of a Sobol sequence with their values.
fn trials(problem: &ProblemStatement, count: u64, f: impl Fn(&ParameterValues) -> f64) -> Vec<CompletedTrial> {
    let encoding = Encoding::new(problem.search_space());
    let trial = |id| {
        let parameters = encoding.decode(&sobol_point(&encoding, 5, TrialId(id)));
        let outcome = TrialOutcome::measured(vec![f(&parameters)]);
        CompletedTrial { id: TrialId(id), parameters, outcome }
    };
    (1..=count).map(trial).collect()
}

fn history(completed: &[CompletedTrial]) -> History<'_> {
    History { completed, pending: &[] }
}

fn index<'a>(insight: &'a Importance, name: &str) -> &'a ParameterImportance {
    insight.parameters.iter().find(|importance| importance.parameter == name).unwrap()
}

/// `a x + b y` on the unit square.
fn additive(goal: Goal) -> (ProblemStatement, Vec<CompletedTrial>) {
    let problem = problem(vec![double("x", 0.0, 1.0), double("y", 0.0, 1.0), double("z", -4.0, 4.0)], goal);
    let trials = trials(&problem, 24, |values| 3.0 * number(values, "x") + number(values, "y"));
    (problem, trials)
}

#[test]
fn estimators_match_the_known_indices_of_the_ishigami_function() {
    // Ishigami & Homma 1990 with a = 7, b = 0.1; closed forms by integration:
    // V = a^2/8 + b pi^4/5 + b^2 pi^8/18 + 1/2, V_1 = (1 + b pi^4/5)^2 / 2, V_2 = a^2/8, V_13 = b^2 pi^8 8/225.
    let (a, b) = (7.0, 0.1);
    let variance = a * a / 8.0 + b * PI.powi(4) / 5.0 + b * b * PI.powi(8) / 18.0 + 0.5;
    let first = [0.5 * (1.0 + b * PI.powi(4) / 5.0).powi(2), a * a / 8.0, 0.0].map(|part| part / variance);
    let shared = b * b * PI.powi(8) * 8.0 / 225.0 / variance;
    let total = [first[0] + shared, first[1], shared];
    assert!((first[0] - 0.3139).abs() < 1e-4 && (first[1] - 0.4424).abs() < 1e-4 && (shared - 0.2437).abs() < 1e-4);

    let problem = problem(vec![double("a", -PI, PI), double("b", -PI, PI), double("c", -PI, PI)], Goal::Minimize);
    let trials = trials(&problem, 8, |values| number(values, "a") + 2.0 * number(values, "b"));
    let model = InsightModel::new(&problem, history(&trials), "loss").unwrap();
    let angle = |u: f64| PI * (2.0 * u - 1.0);
    let f =
        |x: f64, y: f64, z: f64| angle(x).sin() + a * angle(y).sin().powi(2) + b * angle(z).powi(4) * angle(x).sin();
    let values = |points: &DMatrix<f64>| points.row_iter().map(|row| f(row[0], row[1], row[2])).collect::<Vec<_>>();
    let indices = sobol_indices(&model.point_sets().iter().map(values).collect::<Vec<_>>());
    assert!((indices.variance - variance).abs() < 0.02 * variance, "{} {variance}", indices.variance);
    for j in 0..3 {
        assert!((indices.first_order[j] - first[j]).abs() < 0.02, "{j}: {} {}", indices.first_order[j], first[j]);
        assert!((indices.total[j] - total[j]).abs() < 0.02, "{j}: {} {}", indices.total[j], total[j]);
    }
}

#[test]
fn importance_of_an_additive_function_is_the_share_of_its_terms() {
    for goal in [Goal::Maximize, Goal::Minimize] {
        let (problem, trials) = additive(goal);
        let insight = explain(&problem, history(&trials), "loss").unwrap();
        // Variances 9/12 and 1/12.
        assert_eq!(insight.importance.parameters[0].parameter, "x");
        for (name, share) in [("x", 0.9), ("y", 0.1), ("z", 0.0)] {
            let found = index(&insight.importance, name);
            assert!((found.first_order - share).abs() < 0.03, "{name} {found:?}");
            assert!((found.total - share).abs() < 0.03, "{name} {found:?}");
            let interval = found.total_interval;
            assert!(interval.lower <= found.total && found.total <= interval.upper, "{found:?}");
            assert!(interval.upper - interval.lower < 0.2, "{found:?}");
        }
        assert_eq!(insight.importance.refits, 8);
    }
}

#[test]
fn category_with_a_pure_interaction_has_no_first_order_index() {
    let level = |name: &str| ParameterKind::Categorical { values: vec![format!("{name}0"), format!("{name}1")] };
    let parameters = ["a", "b"].map(|name| ParameterSpec::new(name, level(name)).unwrap());
    let problem = problem([parameters.to_vec(), vec![double("x", 0.0, 1.0)]].concat(), Goal::Maximize);
    let trials = trials(&problem, 40, |values| {
        f64::from((values["a"].to_string() == "a1") != (values["b"].to_string() == "b1"))
    });
    let insight = explain(&problem, history(&trials), "loss").unwrap();
    for name in ["a", "b"] {
        let found = index(&insight.importance, name);
        assert!(found.first_order < 0.1 && found.total > 0.85, "{found:?}");
    }
    assert!(index(&insight.importance, "x").total < 0.05);
}

#[test]
fn slices_interpolate_data_without_noise() {
    let (problem, trials) = additive(Goal::Minimize);
    let insight = explain(&problem, history(&trials), "loss").unwrap();
    let best = &insight.optimum.best_observed;
    let observed = best.observed.unwrap();
    assert_eq!(insight.slices.iter().map(|slice| &slice.parameter).collect::<Vec<_>>(), ["x", "y", "z"]);
    for slice in &insight.slices {
        let at_best: Vec<_> = slice.points.iter().filter(|point| point.is_best).collect();
        assert_eq!(at_best.len(), 1);
        assert_eq!(at_best[0].value, best.parameters[&slice.parameter]);
        assert!((at_best[0].predicted.median - observed).abs() < 0.02, "{:?} {observed}", at_best[0]);
        assert!(at_best[0].predicted.lower <= observed && observed <= at_best[0].predicted.upper);
        let values: Vec<f64> = slice
            .points
            .iter()
            .map(|point| match point.value {
                ParameterValue::Double(value) => value,
                _ => panic!("expected a double"),
            })
            .collect();
        assert!(values.is_sorted() && (33..=34).contains(&values.len()));
    }
    // Along x, the loss increases by 3.
    let along_x = &insight.slices[0].points;
    let rise = along_x.last().unwrap().predicted.median - along_x[0].predicted.median;
    assert!((rise - 3.0).abs() < 0.3, "{rise}");
}

#[test]
fn optimum_of_a_bowl_is_predicted_between_the_trials() {
    let problem = problem(vec![double("x", -1.0, 1.0), double("y", -1.0, 1.0)], Goal::Minimize);
    let bowl =
        |values: &ParameterValues| 5.0 + (number(values, "x") - 0.3).powi(2) + (number(values, "y") + 0.2).powi(2);
    let trials = trials(&problem, 25, bowl);
    let optimum = explain(&problem, history(&trials), "loss").unwrap().optimum;
    let predicted = &optimum.predicted;
    assert!((number(&predicted.parameters, "x") - 0.3).abs() < 0.1, "{predicted:?}");
    assert!((number(&predicted.parameters, "y") + 0.2).abs() < 0.1, "{predicted:?}");
    let best = trials.iter().map(|trial| bowl(&trial.parameters)).fold(f64::INFINITY, f64::min);
    assert_eq!(optimum.best_observed.observed, Some(best));
    assert!(predicted.trial.is_none() && predicted.predicted.median <= best, "{predicted:?}");
    assert!(predicted.predicted.lower <= predicted.predicted.median);
}

#[test]
fn leave_one_out_equals_a_fit_without_the_point() {
    let problem = problem(vec![double("x", 0.0, 1.0), double("y", 0.0, 1.0)], Goal::Maximize);
    let mut trials = trials(&problem, 15, |values| (5.0 * number(values, "x")).sin() + number(values, "y").exp());
    // A repeated point and a trial that was stopped early have weights other than 1.
    let twice = CompletedTrial { id: TrialId(16), ..trials[3].clone() };
    trials.push(twice);
    if let TrialOutcome::Measured { fidelity, .. } = &mut trials[5].outcome {
        *fidelity = Fidelity::Partial;
    }
    let model = InsightModel::new(&problem, history(&trials), "loss").unwrap();
    assert_eq!((model.points(), model.data.noise_weights[3], model.data.noise_weights[5]), (15, 0.5, 4.0));
    assert_eq!((model.data.added_noise[3], model.data.added_noise[5]), (0.0, 0.25));
    let left_out = model.posterior.leave_one_out(&model.data.values);
    for (row, (mean, deviation)) in left_out.iter().enumerate() {
        let others: Vec<usize> = (0..15).filter(|other| *other != row).collect();
        let hyperparameters = model.posterior.hyperparameters().clone();
        let noise = model.data.noise_variances(hyperparameters.noise_variance)[row];
        let refit = Posterior::new(hyperparameters, &model.data.select(&others)).unwrap();
        let prediction = refit.predict(&model.data.points.rows(row, 1).clone_owned());
        let expected = (prediction.deviations[0].powi(2) + noise).sqrt();
        assert!((mean - prediction.means[(0, 0)]).abs() < 1e-5, "{row}: {mean} {}", prediction.means[(0, 0)]);
        assert!((deviation - expected).abs() < 1e-5, "{row}: {deviation} {expected}");
    }
    let calibration = model.calibration().unwrap();
    // The trial that was stopped early has no result.
    assert_eq!(calibration.points.len(), 14);
    assert!(calibration.rank_correlation.unwrap() > 0.8, "{calibration:?}");
    assert!(calibration.log_predictive_density > -1.0, "{calibration:?}");
    assert_eq!(calibration.coverage.iter().map(|band| band.nominal).collect::<Vec<_>>(), [0.5, 0.8, 0.95]);
    assert!(calibration.coverage[2].observed >= calibration.coverage[0].observed);
}

#[test]
fn pure_noise_is_recognised() {
    let problem = problem(vec![double("x", 0.0, 1.0), double("y", 0.0, 1.0)], Goal::Maximize);
    // A hash of the point, which cannot be learned.
    let noise = |values: &ParameterValues| (1e4 * number(values, "x") + 3e5 * number(values, "y")).sin();
    let insight = explain(&problem, history(&trials(&problem, 60, noise)), "loss").unwrap();
    let calibration = &insight.calibration;
    assert!(calibration.rank_correlation.unwrap_or(0.0).abs() < 0.4, "{:?}", calibration.rank_correlation);
    assert!((-1.7..-1.2).contains(&calibration.log_predictive_density), "{}", calibration.log_predictive_density);
    assert!(calibration.coverage[2].observed > 0.85, "{:?}", calibration.coverage);
    assert!(insight.importance.explained_variance < 0.3, "{:?}", insight.importance);
}

#[test]
fn order_and_units_have_no_effect() {
    let (problem_, mut trials) = additive(Goal::Minimize);
    trials.truncate(12);
    let plain = explain(&problem_, history(&trials), "loss").unwrap();
    trials.reverse();
    for trial in &mut trials {
        if let TrialOutcome::Measured { values, .. } = &mut trial.outcome {
            values[0] = -40.0 * values[0] + 7.0;
        }
    }
    let mut parameters = problem_.search_space().parameters().to_vec();
    parameters.reverse();
    let other = explain(&problem(parameters, Goal::Maximize), history(&trials), "loss").unwrap();
    for (one, two) in plain.importance.parameters.iter().zip(&other.importance.parameters) {
        assert_eq!(one.parameter, two.parameter);
        assert!((one.total - two.total).abs() < 1e-6 && (one.first_order - two.first_order).abs() < 1e-6);
        assert!((one.total_interval.upper - two.total_interval.upper).abs() < 1e-6, "{one:?} {two:?}");
    }
    let converted = |value: f64| -40.0 * value + 7.0;
    for (one, two) in plain.slices.iter().zip(&other.slices) {
        for (one, two) in one.points.iter().zip(&two.points) {
            assert_eq!(one.value, two.value);
            assert!((converted(one.predicted.median) - two.predicted.median).abs() < 1e-4);
            assert!((converted(one.predicted.lower) - two.predicted.upper).abs() < 1e-4);
        }
    }
    assert_eq!(plain.optimum.best_observed.trial, other.optimum.best_observed.trial);
    let (one, two) = (&plain.calibration, &other.calibration);
    assert!((one.log_predictive_density - two.log_predictive_density).abs() < 1e-6);
    assert_eq!(one.rank_correlation, two.rank_correlation);
}

#[test]
fn errors_state_what_is_missing() {
    let (problem_, trials) = additive(Goal::Minimize);
    let too_few = explain(&problem_, history(&trials[..4]), "loss").unwrap_err();
    assert_eq!(too_few.to_string(), "\"loss\" was measured at 4 different points, and 5 are needed");
    assert!(explain(&problem_, history(&trials[..5]), "loss").is_ok());
    let unknown = explain(&problem_, history(&trials), "accuracy").unwrap_err();
    assert_eq!(unknown, InsightError::UnknownMetric { metric: "accuracy".into() });
    let equal: Vec<_> = trials
        .iter()
        .cloned()
        .map(|trial| CompletedTrial { outcome: TrialOutcome::measured(vec![4.0]), ..trial })
        .collect();
    let equal = explain(&problem_, history(&equal), "loss").unwrap_err();
    assert_eq!(equal, InsightError::AllEqual { metric: "loss".into(), points: 24 });
    let one_point = problem(vec![double("x", 1.0, 1.0)], Goal::Minimize);
    assert_eq!(explain(&one_point, History::default(), "loss"), Err(InsightError::NothingVaries));
    let mut foreign = trials.clone();
    foreign[2].parameters.remove("x");
    let foreign = explain(&problem_, history(&foreign), "loss").unwrap_err();
    assert_eq!(foreign.to_string(), "trial 3 does not fit the problem: parameter \"x\" has no value");
}

#[test]
fn infeasible_trials_are_counted_but_not_modelled() {
    let (problem, mut trials) = additive(Goal::Minimize);
    let plain = explain(&problem, history(&trials[..12]), "loss").unwrap();
    for (place, trial) in trials[12..].iter_mut().enumerate() {
        trial.outcome = match place % 2 {
            0 => TrialOutcome::Infeasible,
            _ => TrialOutcome::Measured { values: vec![f64::NAN], fidelity: Fidelity::Partial },
        };
    }
    assert_eq!(explain(&problem, history(&trials), "loss").unwrap(), plain);
    let counts = TrialCounts::of(history(&trials));
    assert_eq!(counts, TrialCounts { measured: 18, stopped_early: 6, infeasible: 6, pending: 0 });
}

#[test]
fn metrics_are_analysed_separately() {
    let metric = |name: &str, goal| MetricSpec { name: name.into(), goal };
    let space = SearchSpace::new(vec![double("x", 0.0, 1.0), double("y", 0.0, 1.0)]).unwrap();
    let metrics = vec![metric("loss", Goal::Minimize), metric("speed", Goal::Maximize)];
    let problem = ProblemStatement::new(space, metrics).unwrap();
    let mut trials = trials(&problem, 20, |values| number(values, "x"));
    for trial in &mut trials {
        let y = number(&trial.parameters, "y");
        if let TrialOutcome::Measured { values, .. } = &mut trial.outcome {
            values.push(y);
        }
    }
    let most = |metric| explain(&problem, history(&trials), metric).unwrap().importance.parameters[0].parameter.clone();
    assert_eq!([most("loss"), most("speed")], ["x", "y"]);
}

#[test]
fn trials_that_violate_a_constraint_are_not_the_best() {
    let (problem, mut trials) = additive(Goal::Maximize);
    let limit = ConstraintSpec::new("x", Goal::Minimize, 0.5);
    let problem = problem.with_constraints(vec![limit]).unwrap();
    for trial in &mut trials {
        let TrialOutcome::Measured { values, .. } = &mut trial.outcome else { unreachable!("every trial is measured") };
        values.push(number(&trial.parameters, "x"));
    }
    let optimum = explain(&problem, history(&trials), "loss").unwrap().optimum;
    for best in [&optimum.best_observed, &optimum.best_measured_by_model, &optimum.predicted] {
        assert!(best.trial.is_some() && number(&best.parameters, "x") <= 0.5, "{best:?}");
    }
    let best = trials.iter().filter(|trial| number(&trial.parameters, "x") <= 0.5);
    let value = |trial: &CompletedTrial| 3.0 * number(&trial.parameters, "x") + number(&trial.parameters, "y");
    let best = best.max_by(|a, b| value(a).total_cmp(&value(b))).unwrap();
    assert_eq!(optimum.best_observed.trial, Some(best.id));
}

/// Bowl in two dimensions with the deviation `noise` from a hash of the point, at `count` points.
fn noisy_bowl(noise: f64, count: u64) -> (ProblemStatement, Vec<CompletedTrial>) {
    let problem = problem(vec![double("x", -1.0, 1.0), double("y", -1.0, 1.0)], Goal::Minimize);
    let trials = trials(&problem, count, |values| {
        let (x, y) = (number(values, "x"), number(values, "y"));
        (x - 0.3).powi(2) + (y + 0.2).powi(2) + noise * (1e4 * x + 3e5 * y).sin()
    });
    (problem, trials)
}

fn set(trial: &mut CompletedTrial, value: f64, stopped: bool) {
    let fidelity = if stopped { Fidelity::Partial } else { Fidelity::Full };
    trial.outcome = TrialOutcome::Measured { values: vec![value], fidelity };
}

fn value(trial: &CompletedTrial) -> f64 {
    match &trial.outcome {
        TrialOutcome::Measured { values, .. } => values[0],
        TrialOutcome::Infeasible => panic!("trial {} has no result", trial.id),
    }
}

#[test]
fn trial_stopped_early_is_neither_best_nor_recommended_while_one_is_finished() {
    let (problem, mut trials) = noisy_bowl(0.3, 40);
    // Every second trial was stopped with a value better than all results.
    for trial in trials.iter_mut().step_by(2) {
        let early = -3.0 + 0.1 * value(trial);
        set(trial, early, true);
    }
    let finished = |point: &PredictedPoint| point.trial.is_some_and(|trial| trial.0 % 2 == 0);
    let insight = explain(&problem, history(&trials), "loss").unwrap();
    let Optimum { best_observed, best_measured_by_model, .. } = &insight.optimum;
    assert!(finished(best_observed) && finished(best_measured_by_model), "{:?}", insight.optimum);
    let least = trials.iter().skip(1).step_by(2).map(value).fold(f64::INFINITY, f64::min);
    assert_eq!(best_observed.observed, Some(least));
    assert!(insight.calibration.points.iter().all(|point| point.trial.0 % 2 == 0), "{:?}", insight.calibration.points);
    let model = InsightModel::new(&problem, history(&trials), "loss").unwrap();
    assert_eq!(model.recommendation().map(|found| found.point), Some(best_measured_by_model.clone()));
    // With 9 finished points there is no choice by a model.
    for trial in &mut trials[18..] {
        let early = value(trial);
        set(trial, early, true);
    }
    let model = InsightModel::new(&problem, history(&trials), "loss").unwrap();
    assert_eq!((model.points(), model.finished_points(), model.recommendation()), (40, 9, None));
    assert!(!model.optimum().is_recommended);
    // If none is finished, the early values are all there is.
    for trial in &mut trials {
        let early = value(trial);
        set(trial, early, true);
    }
    let lowest = trials.iter().min_by(|a, b| value(a).total_cmp(&value(b))).unwrap().id;
    let model = InsightModel::new(&problem, history(&trials), "loss").unwrap();
    assert_eq!((model.optimum().best_observed.trial, model.recommendation()), (Some(lowest), None));
}

#[test]
fn early_values_do_not_blur_the_results() {
    let (problem, mut trials) = noisy_bowl(0.0, 24);
    // Two thirds were stopped at values that say little of the final ones.
    for (place, trial) in trials.iter_mut().enumerate().filter(|(place, _)| place % 3 > 0) {
        let early = 1.0 + 0.4 * value(trial) + 0.8 * (7.0 * place as f64).sin();
        set(trial, early, true);
    }
    let optimum = explain(&problem, history(&trials), "loss").unwrap().optimum;
    let best = optimum.best_observed;
    let (observed, predicted) = (best.observed.unwrap(), best.predicted);
    assert!((predicted.median - observed).abs() < 0.05, "{observed} {predicted:?}");
    assert!(predicted.upper - predicted.lower < 0.4, "{predicted:?}");
    assert!(optimum.predicted.predicted.median <= predicted.median, "{:?}", optimum.predicted);
}

#[test]
fn luck_is_claimed_beyond_the_uncertainty_of_the_difference_only() {
    let lucky = |problem: &ProblemStatement, trials: &[CompletedTrial]| {
        let model = InsightModel::new(problem, history(trials), "loss").unwrap();
        let found = model.recommendation().unwrap();
        assert_eq!(model.optimum().best_may_be_lucky, found.best_may_be_lucky);
        (found.best_may_be_lucky, found.point.trial != model.optimum().best_observed.trial)
    };
    // A nearly deterministic program.
    for count in [12, 16, 20, 30, 40] {
        for noise in [0.0, 0.0005, 0.002] {
            let (problem, trials) = noisy_bowl(noise, count);
            assert!(!lucky(&problem, &trials).0, "{count} trials, noise {noise}");
        }
    }
    // One trial at the border of a noisy parabola is far better than its neighbours.
    let problem_of_one = problem(vec![double("x", -1.0, 1.0)], Goal::Minimize);
    let mut trials = trials(&problem_of_one, 40, |values| {
        let x = number(values, "x");
        x * x + 0.1 * (1e4 * x).sin()
    });
    let outlier = trials.iter().position(|trial| number(&trial.parameters, "x") < -0.7).unwrap();
    set(&mut trials[outlier], -0.5, false);
    assert_eq!(lucky(&problem_of_one, &trials), (true, true));
    // A choice by the model within its uncertainty claims nothing.
    let unsure = (20..40).map(|count| noisy_bowl(0.2, count));
    let unsure =
        unsure.map(|(problem, trials)| lucky(&problem.with_observation_noise(ObservationNoise::High), &trials));
    assert!(unsure.clone().any(|(claimed, is_other)| is_other && !claimed), "{:?}", unsure.collect::<Vec<_>>());
}

#[test]
fn result_too_good_to_be_true_is_reported_and_not_recommended() {
    let (problem, mut trials) = additive(Goal::Maximize);
    trials[7].outcome = TrialOutcome::measured(vec![200.0]);
    let model = InsightModel::new(&problem, history(&trials), "loss").unwrap();
    let [suspicious] = model.suspicious_trials() else { panic!("{:?}", model.suspicious_trials()) };
    assert_eq!((suspicious.trial, suspicious.value), (TrialId(8), 200.0));
    assert!(suspicious.ranges > 40.0 && suspicious.ranges < 200.0, "{suspicious:?}");
    assert_ne!(model.recommendation().unwrap().point.trial, Some(TrialId(8)));
    let (_, trials) = additive(Goal::Maximize);
    assert_eq!(InsightModel::new(&problem, history(&trials), "loss").unwrap().suspicious_trials(), []);
}
