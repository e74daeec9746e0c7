//! Recommendation among repeated points.

use super::*;
use crate::problem::Repeats;

#[test]
fn best_mean_of_the_repeated_points_is_recommended_with_its_standard_error() {
    let seed = ParameterSpec::new("seed", ParameterKind::Integer { min: 1, max: 4, scale: ScaleType::UnitLinear });
    let plain = problem(vec![double("x", 0.0, 1.0), seed.unwrap()], Goal::Minimize);
    let repeats = Repeats { parameter: "seed".into(), leaders: 2, trials_per_leader: 3, search_trials: 4 };
    let problem = plain.with_repeats(Some(repeats)).unwrap();
    let trial = |id: u64, x: f64, seed: i64, loss: f64| {
        let parameters = [("x", ParameterValue::Double(x)), ("seed", ParameterValue::Integer(seed))];
        let outcome = TrialOutcome::measured(vec![loss]);
        CompletedTrial {
            id: TrialId(id),
            parameters: parameters.map(|(name, value)| (name.into(), value)).into(),
            outcome,
        }
    };
    // Trial 2 is lucky, and trial 5 is better than all means but was not repeated.
    let mut trials = vec![
        trial(1, 0.1, 1, 0.9),
        trial(2, 0.4, 1, 0.1),
        trial(3, 0.5, 1, 0.3),
        trial(4, 0.8, 1, 0.7),
        trial(5, 0.9, 1, 0.2),
        trial(6, 0.4, 2, 0.5),
        trial(7, 0.5, 2, 0.2),
        trial(8, 0.4, 3, 0.6),
    ];
    let recommended = |trials: &[CompletedTrial]| {
        InsightModel::new(&problem, history(trials), "loss").unwrap().recommendation().unwrap().point
    };
    // Of the repeated ones, only trial 2 has three results.
    assert_eq!(recommended(&trials).trial, Some(TrialId(2)));
    trials.push(trial(9, 0.5, 3, 0.4));
    let point = recommended(&trials);
    assert_eq!((point.trial, point.trials), (Some(TrialId(3)), 3));
    assert!((point.observed.unwrap() - 0.3).abs() < 1e-12, "{point:?}");
    // Deviation 0.1 of three results.
    assert!((point.standard_error.unwrap() - 0.1 / 3.0_f64.sqrt()).abs() < 1e-12, "{point:?}");
    assert_eq!(point.parameters.keys().collect::<Vec<_>>(), ["x"], "the seed is no part of the point");
    let insight = explain(&problem, history(&trials), "loss").unwrap();
    assert_eq!((insight.points, insight.importance.parameters.len()), (5, 1));
    assert!(insight.optimum.is_recommended);
    assert_eq!(insight.optimum.best_measured_by_model, point);
}
