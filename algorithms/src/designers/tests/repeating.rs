//! Repetition of leaders.

use super::*;
use crate::problem::{ConstraintSpec, Fidelity, ParameterValues, Repeats, RepeatsError};

const SEEDS: [i64; 2] = [11, 15];

/// Minimises `loss` over the integer `x` from 0 to 19, with the seeds 11 to 15.
fn problem(leaders: u32, trials_per_leader: u32, search_trials: u64) -> ProblemStatement {
    let integer = |name: &str, min: i64, max: i64| {
        ParameterSpec::new(name, ParameterKind::Integer { min, max, scale: ScaleType::UnitLinear }).unwrap()
    };
    let space = SearchSpace::new(vec![integer("seed", SEEDS[0], SEEDS[1]), integer("x", 0, 19)]).unwrap();
    let metric = MetricSpec { name: "loss".into(), goal: Goal::Minimize };
    let repeats = Repeats { parameter: "seed".into(), leaders, trials_per_leader, search_trials };
    ProblemStatement::new(space, vec![metric]).unwrap().with_repeats(Some(repeats)).unwrap()
}

fn designer(problem: &ProblemStatement) -> Box<dyn Designer> {
    Algorithm::RandomSearch.designer(problem, 3, &[]).unwrap()
}

/// Value of `x` and seed of a point.
fn pair(parameters: &ParameterValues) -> (i64, i64) {
    match (&parameters["x"], &parameters["seed"]) {
        (ParameterValue::Integer(x), ParameterValue::Integer(seed)) => (*x, *seed),
        other => panic!("{other:?}"),
    }
}

fn point(x: i64, seed: i64) -> ParameterValues {
    [("x", x), ("seed", seed)].map(|(name, value)| (name.to_owned(), ParameterValue::Integer(value))).into()
}

fn trial(id: u64, x: i64, seed: i64, loss: f64) -> CompletedTrial {
    let outcome = TrialOutcome::measured(vec![loss]);
    CompletedTrial { id: TrialId(id), parameters: point(x, seed), outcome }
}

/// Pairs of all trials of a study with the loss of `x` and seed.
fn run(problem: &ProblemStatement, trials: u64, loss: impl Fn(i64, i64) -> f64) -> Vec<(i64, i64)> {
    let designer = designer(problem);
    let mut completed = Vec::new();
    for id in 1..=trials {
        let history = History { completed: &completed, pending: &[] };
        let Some(found) = designer.suggest(history, SuggestRequest::one(TrialId(id))).unwrap().pop() else { break };
        let (x, seed) = pair(&found.parameters);
        let is_repetition = found.origin == Origin::of(AlgorithmName::Repeats);
        assert_eq!(is_repetition, seed != SEEDS[0], "trial {id}");
        completed.push(trial(id, x, seed, loss(x, seed)));
    }
    completed.iter().map(|trial| pair(&trial.parameters)).collect()
}

#[test]
fn search_has_the_first_value_and_then_each_leader_gets_the_next_ones() {
    let pairs = run(&problem(2, 3, 6), 12, |x, _| x as f64);
    let plain = designer(&problem(2, 3, 6).without_repeated_parameter().unwrap());
    let searched = plain.suggest(
        History::default(),
        SuggestRequest { first_trial_id: TrialId(1), count: NonZeroUsize::new(6).unwrap() },
    );
    let searched: Vec<ParameterValue> =
        searched.unwrap().into_iter().map(|suggestion| suggestion.parameters["x"].clone()).collect();
    let found: Vec<ParameterValue> = pairs[..6].iter().map(|(x, _)| ParameterValue::Integer(*x)).collect();
    assert_eq!(found, searched, "the search knows nothing of the seed");
    assert!(pairs[..6].iter().all(|(_, seed)| *seed == 11), "{pairs:?}");
    let mut tried: Vec<i64> = pairs[..6].iter().map(|(x, _)| *x).collect();
    tried.sort_unstable();
    let (first, second) = (tried[0], tried[1]);
    assert_eq!(pairs[6..10], [(first, 12), (second, 12), (first, 13), (second, 13)]);
    // The leaders have their trials, and the search continues. A better point would become a leader.
    assert_eq!(pairs[10].1, 11);
}

#[test]
fn lucky_point_falls_behind_and_its_trials_go_to_another() {
    let problem = problem(1, 5, 3);
    let lucky = |x: i64, seed: i64| if (x, seed) == (4, 11) { -9.0 } else { x as f64 };
    let completed: Vec<CompletedTrial> =
        [4, 2, 3].into_iter().zip(1..).map(|(x, id)| trial(id, x, 11, lucky(x, 11))).collect();
    let next = |completed: &[CompletedTrial]| {
        let request = SuggestRequest::one(TrialId(completed.len() as u64 + 1));
        let found = designer(&problem).suggest(History { completed, pending: &[] }, request).unwrap();
        pair(&found[0].parameters)
    };
    assert_eq!(next(&completed), (4, 12));
    // Its mean is now -2.5, still the best.
    let completed = [completed, vec![trial(4, 4, 12, lucky(4, 12))]].concat();
    assert_eq!(next(&completed), (4, 13));
    let completed = [completed, vec![trial(5, 4, 13, 30.0)]].concat();
    assert_eq!(next(&completed), (2, 12));
}

#[test]
fn batch_crosses_from_search_to_repetition_and_pending_repetitions_are_not_given_again() {
    let problem = problem(2, 3, 4);
    let completed: Vec<CompletedTrial> =
        [7, 5, 9].into_iter().zip(1..).map(|(x, id)| trial(id, x, 11, x as f64)).collect();
    let pending = [PendingTrial { id: TrialId(9), parameters: point(5, 12) }];
    let request = SuggestRequest { first_trial_id: TrialId(10), count: NonZeroUsize::new(5).unwrap() };
    let ask = |pending: &[PendingTrial]| {
        let found = designer(&problem).suggest(History { completed: &completed, pending }, request).unwrap();
        found.iter().map(|suggestion| pair(&suggestion.parameters)).collect::<Vec<_>>()
    };
    let found = ask(&pending);
    assert_eq!(found[..3], [(7, 12), (5, 13), (7, 13)]);
    assert_eq!((found.len(), found[3].1, found[4].1), (5, 11, 11), "no leader is left");
    let found = ask(&[]);
    assert_eq!((found[0].1, &found[1..]), (11, &[(5, 12), (7, 12), (5, 13), (7, 13)][..]));
}

#[test]
fn failed_stopped_and_infeasible_points_are_no_leaders() {
    let limit = ConstraintSpec::new("size", Goal::Minimize, 1.0);
    let problem = problem(3, 2, 4).with_constraints(vec![limit]).unwrap();
    let measured = |id: u64, x: i64, size: f64, fidelity: Fidelity| {
        let outcome = TrialOutcome::Measured { values: vec![x as f64, size], fidelity };
        CompletedTrial { outcome, ..trial(id, x, 11, 0.0) }
    };
    let failed = CompletedTrial { outcome: TrialOutcome::Infeasible, ..trial(3, 2, 11, 0.0) };
    let stopped = measured(1, 0, 0.5, Fidelity::Partial);
    let (infeasible, good) = (measured(2, 1, 1.5, Fidelity::Full), measured(4, 8, 0.5, Fidelity::Full));
    let completed = [stopped, infeasible, failed, good];
    let request = SuggestRequest { first_trial_id: TrialId(5), count: NonZeroUsize::new(2).unwrap() };
    let found = designer(&problem).suggest(History { completed: &completed, pending: &[] }, request).unwrap();
    assert_eq!(pair(&found[0].parameters), (8, 12));
    assert_eq!(pair(&found[1].parameters).1, 11);
}

#[test]
fn exhausted_space_is_repeated_without_waiting_and_then_ends() {
    let small = problem(2, 2, 100);
    let pairs = run(&small, 100, |x, _| x as f64);
    assert_eq!(pairs.len(), 22, "20 points and 2 repetitions");
    assert_eq!(pairs[20..], [(0, 12), (1, 12)]);
}

#[test]
fn reserve_is_the_end_of_the_study_and_at_most_half_of_it() {
    let problem = problem(2, 2, 1);
    let seed = problem.repeated_parameter().unwrap();
    let settings = |leaders, max_trials| {
        let repeats = Repeats::new(seed, leaders, None, max_trials);
        (repeats.leaders, repeats.trials_per_leader, repeats.search_trials)
    };
    assert_eq!(settings(None, Some(50)), (5, 5, 30));
    assert_eq!(settings(None, Some(100)), (11, 5, 56));
    assert_eq!(settings(None, Some(3)), (1, 5, 2));
    assert_eq!(settings(Some(10), Some(40)), (10, 5, 20));
    assert_eq!(settings(None, None), (5, 5, 30));
    let few = ParameterSpec::new("fold", ParameterKind::Categorical { values: vec!["a".into(), "b".into()] }).unwrap();
    let repeats = Repeats::new(&few, Some(3), None, Some(50));
    assert_eq!((repeats.trials_per_leader, repeats.search_trials), (2, 47));
    let names = ["a", "b"].map(|name| ParameterValue::Categorical(name.into()));
    assert_eq!(repeats.values(&few), names);
}

#[test]
fn settings_that_do_not_fit_the_problem_are_rejected() {
    let double = ParameterSpec::new("x", ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear });
    let seed = problem(2, 2, 1).repeated_parameter().unwrap().clone();
    let of = |parameters: Vec<ParameterSpec>, change: fn(&mut Repeats)| {
        let metric = |name: &str| MetricSpec { name: name.into(), goal: Goal::Minimize };
        let plain = ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric("loss")]).unwrap();
        let mut repeats = problem(2, 2, 1).repeats().unwrap().clone();
        change(&mut repeats);
        plain.with_repeats(Some(repeats)).map(|_| ())
    };
    let both = || vec![double.clone().unwrap(), seed.clone()];
    assert_eq!(of(both(), |_| {}), Ok(()));
    let parameter = || "seed".to_owned();
    assert_eq!(of(vec![seed.clone()], |_| {}), Err(RepeatsError::NothingToSearch { parameter: parameter() }));
    assert_eq!(of(both(), |r| r.parameter = "x".into()), Err(RepeatsError::Double { parameter: "x".into() }));
    assert_eq!(of(both(), |r| r.parameter = "y".into()), Err(RepeatsError::UnknownParameter { parameter: "y".into() }));
    for trials in [1, 6] {
        let refused = Err(RepeatsError::TrialsPerLeader { parameter: parameter(), trials, values: 5 });
        let change: fn(&mut Repeats) =
            if trials == 1 { |r| r.trials_per_leader = 1 } else { |r| r.trials_per_leader = 6 };
        assert_eq!(of(both(), change), refused);
    }
    assert_eq!(of(both(), |r| r.leaders = 0), Err(RepeatsError::NoLeader));
}
