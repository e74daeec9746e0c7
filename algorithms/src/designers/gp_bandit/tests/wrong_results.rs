//! Results that are too good to be true or wildly bad.

use super::*;

/// Square with a bowl; trial 6 has the result `wrong`.
fn with_wrong_result(wrong: f64) -> Vec<CompletedTrial> {
    let mut completed = history(1.0, bowl);
    completed[5].outcome = TrialOutcome::measured(vec![wrong]);
    completed
}

fn distance(a: &ParameterValues, b: &ParameterValues) -> f64 {
    let pairs = coordinates(a).into_iter().zip(coordinates(b));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn origin_of_next(completed: &[CompletedTrial]) -> Origin {
    let request = SuggestRequest::one(TrialId(completed.len() as u64 + 1));
    let history = History { completed, pending: &[] };
    bandit(square(), Goal::Maximize).suggest(history, request).unwrap()[0].origin
}

#[test]
fn neighbour_of_a_result_too_good_to_be_true_is_suggested_once() {
    let completed = with_wrong_result(1e6);
    let suggested = suggest(&bandit(square(), Goal::Maximize), &completed, &[], 2);
    assert!(distance(&suggested[0], &completed[5].parameters) < 2e-3, "{suggested:?}");
    assert!(distance(&suggested[1], &completed[5].parameters) > 2e-3, "{suggested:?}");
    assert_eq!(origin_of_next(&completed), Origin::with_step(ALGORITHM, Step::Confirmation));
    assert_ne!(origin_of_next(&history(1.0, bowl)), Origin::with_step(ALGORITHM, Step::Confirmation));
}

#[test]
fn refuted_result_has_no_influence_and_a_confirmed_one_is_the_incumbent() {
    let bandit = bandit(square(), Goal::Maximize);
    let mut completed = with_wrong_result(1e6);
    let wrong = completed[5].parameters.clone();
    let point = next(&bandit, &completed);
    let neighbour = coordinates(&point);
    let neighbour = [("a", neighbour[0]), ("b", neighbour[1])];

    completed.push(trial(9, &neighbour, Some(bowl(neighbour[0].1, neighbour[1].1))));
    let after_refutation = next(&bandit, &completed);
    let mut far_worse = completed.clone();
    far_worse[5].outcome = TrialOutcome::measured(vec![1e9]);
    assert_eq!(after_refutation, next(&bandit, &far_worse));

    completed[8] = trial(9, &neighbour, Some(0.99e6));
    let best = completed.iter().map(|trial| distance(&trial.parameters, &wrong)).filter(|distance| *distance > 2e-3);
    let nearest = best.fold(f64::INFINITY, f64::min);
    assert!(distance(&next(&bandit, &completed), &wrong) < nearest);
}

/// Trials without an unexplained bad result; `None` if all are explained.
fn explained(completed: &[CompletedTrial]) -> Option<usize> {
    let problem = problem(square(), Goal::Maximize);
    let encoding = Encoding::new(problem.search_space());
    let history = History { completed, pending: &[] };
    let outcomes = Outcomes::new(&encoding, &Outputs::new(&problem), history).unwrap();
    let kept = outcomes.without_unexplained(&encoding, &Fits::default());
    kept.map(|outcomes| outcomes.objectives[0].completed())
}

/// Grid of 25 points of the square with `f(a, b)`.
fn grid(f: impl Fn(f64, f64) -> f64) -> Vec<CompletedTrial> {
    let point = |index: u64| ((index % 5) as f64 / 4.0, (index / 5) as f64 / 4.0);
    (0..25)
        .map(|index| (index + 1, point(index)))
        .map(|(id, (a, b))| trial(id, &[("a", a), ("b", b)], Some(f(a, b))))
        .collect()
}

#[test]
fn unexplained_bad_result_has_no_influence() {
    let with_wrong_result = |wrong: f64| grid(|a, b| if (a, b) == (0.25, 0.75) { wrong } else { bowl(a, b) });
    assert_eq!(explained(&with_wrong_result(-1e4)), Some(24));
    let bandit = bandit(square(), Goal::Maximize);
    assert_eq!(next(&bandit, &with_wrong_result(-1e4)), next(&bandit, &with_wrong_result(-1e9)));
    assert_eq!(explained(&grid(bowl)), None);
}

#[test]
fn bad_region_is_no_accident() {
    // Values fall by a factor of ten per step towards an edge.
    assert_eq!(explained(&grid(|a, b| bowl(a, b) - 10f64.powf(4.0 * a))), None);
}
