//! Evidence of noise, and the recommended point without it.

use super::*;

#[test]
fn best_measured_point_is_recommended_if_results_are_exact() {
    let (problem, trials) = additive(Goal::Maximize);
    for noise in [ObservationNoise::Low, ObservationNoise::Auto] {
        let problem = problem.clone().with_observation_noise(noise);
        let insight = explain(&problem, history(&trials), "loss").unwrap();
        assert!(!insight.is_noisy);
        assert_eq!(insight.optimum.best_measured_by_model, insight.optimum.best_observed);
    }
}

#[test]
fn narrow_valley_that_the_model_takes_for_noise_is_exact() {
    let problem = problem(vec![double("x", -5.0, 10.0), double("y", -5.0, 10.0)], Goal::Minimize);
    let trial = |(point, id): (&[f64; 2], u64)| {
        let [x, y] = *point;
        let parameters = [("x", x), ("y", y)].map(|(name, value)| (name.to_owned(), ParameterValue::Double(value)));
        let outcome = TrialOutcome::measured(vec![rosenbrock(x, y)]);
        CompletedTrial { id: TrialId(id), parameters: parameters.into(), outcome }
    };
    let trials: Vec<CompletedTrial> = VALLEY.iter().zip(1..).map(trial).collect();
    let insight = explain(&problem, history(&trials), "loss").unwrap();
    assert!(insight.noise_to_signal > 0.25, "{}", insight.noise_to_signal);
    assert!(!insight.is_noisy);
    assert_eq!(insight.optimum.best_measured_by_model, insight.optimum.best_observed);
}

/// Trials of a search for the minimum of Rosenbrock's function.
const VALLEY: [[f64; 2]; 50] = [
    [2.5, 2.5],
    [5.0, 2.5],
    [2.5, 5.0],
    [-4.81587, -3.88169],
    [0.90611, 10.0],
    [1.67552, 3.8622],
    [2.86735, 10.0],
    [2.24481, 7.92017],
    [0.62489, -2.13396],
    [1.44829, 4.62058],
    [2.27241, 4.10098],
    [2.97073, 4.63455],
    [2.12566, 4.66735],
    [1.94919, 3.94467],
    [1.68736, 2.6869],
    [1.8165, 3.17601],
    [1.67542, 1.72724],
    [2.0221, 4.54319],
    [1.95302, 3.51071],
    [1.79646, 2.77138],
    [1.70905, 2.98311],
    [1.59929, 2.75396],
    [1.66811, 2.82421],
    [1.76237, 3.14223],
    [1.55863, 2.50309],
    [1.62972, 2.66318],
    [1.60429, 2.51221],
    [1.61219, 2.5914],
    [1.56492, 2.46278],
    [1.49959, 2.32823],
    [1.59553, 2.36903],
    [7.56492, -3.53722],
    [-4.43508, 8.46278],
    [2.17491, 5.06062],
    [1.6021, 3.1741],
    [1.14576, 1.42406],
    [1.26634, 0.62421],
    [1.057, 1.89984],
    [1.32787, 1.53179],
    [1.39106, 1.98721],
    [1.39781, 2.40016],
    [1.61064, 2.46142],
    [1.60583, 2.47151],
    [1.59223, 2.48054],
    [1.59073, 2.47417],
    [1.58576, 2.46466],
    [1.56001, 2.50251],
    [1.53628, 2.52443],
    [1.52752, 2.52564],
    [1.4569, 2.5947],
];

fn rosenbrock(x: f64, y: f64) -> f64 {
    100.0 * (y - x * x).powi(2) + (1.0 - x).powi(2)
}

#[test]
fn repeated_points_decide_whether_results_are_noisy() {
    // An arbitrary value at each point: all noise, or none.
    let (problem, mut trials) = noisy_bowl(50.0, 40);
    let is_noisy = |trials: &[CompletedTrial]| explain(&problem, history(trials), "loss").unwrap().is_noisy;
    trials.push(CompletedTrial { id: TrialId(41), ..trials[3].clone() });
    assert!(!is_noisy(&trials), "trials 4 and 41 have the same result");
    let other = value(&trials[40]) + 0.25;
    set(&mut trials[40], other, false);
    assert!(is_noisy(&trials));
    let (problem, mut trials) = additive(Goal::Minimize);
    let mut again = CompletedTrial { id: TrialId(25), ..trials[3].clone() };
    let other = value(&again) + 0.25;
    set(&mut again, other, false);
    trials.push(again);
    assert!(explain(&problem, history(&trials), "loss").unwrap().is_noisy);
}
