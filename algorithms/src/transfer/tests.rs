use super::*;
use crate::designer::{Designer, DesignerError, History, SuggestRequest};
use crate::designers::{Automatic, GpBandit};
use crate::encoding::Encoding;
use crate::interruption::Interruption;
use crate::problem::{
    AlgorithmName, CompletedTrial, Fidelity, Goal, MetricSpec, Origin, ParameterKind, ParameterSpec, ParameterValue,
    ProblemStatement, ScaleType, SearchSpace, Step, TrialId, TrialOutcome,
};
use crate::testing::designer_contract;

fn problem(parameters: Vec<(&str, ParameterKind)>, goal: Goal) -> ProblemStatement {
    let specs = parameters.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
    let metric = MetricSpec { name: "objective".to_owned(), goal };
    ProblemStatement::new(SearchSpace::new(specs).unwrap(), vec![metric]).unwrap()
}

fn double(min: f64, max: f64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Double { min, max, scale }
}

fn levels(levels: &[&str]) -> ParameterKind {
    ParameterKind::Categorical { values: levels.iter().map(|&level| level.to_owned()).collect() }
}

fn trial(id: u64, parameters: &[(&str, ParameterValue)], value: f64) -> CompletedTrial {
    CompletedTrial {
        id: TrialId(id),
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        outcome: TrialOutcome::measured(vec![value]),
    }
}

#[test]
fn trials_are_translated_by_name_and_value() {
    let old = problem(
        vec![
            ("rate", double(0.0, 10.0, ScaleType::UnitLinear)),
            ("batch", levels(&["16", "32", "auto"])),
            ("gone", double(0.0, 1.0, ScaleType::UnitLinear)),
        ],
        Goal::Maximize,
    );
    let row = |id, rate, batch: &str, value| {
        let batch = ParameterValue::Categorical(batch.to_owned());
        trial(
            id,
            &[("rate", ParameterValue::Double(rate)), ("batch", batch), ("gone", ParameterValue::Double(0.3))],
            value,
        )
    };
    let mut stopped = row(5, 0.01, "32", 5.0);
    stopped.outcome = TrialOutcome::Measured { values: vec![2.0], fidelity: Fidelity::Partial };
    let mut failed = row(6, 0.01, "32", 0.0);
    failed.outcome = TrialOutcome::Infeasible;
    let completed = vec![
        row(1, 0.1, "16", 3.0),
        row(2, 0.01, "32", 1.0),
        row(3, 5.0, "16", 9.0),
        row(4, 0.1, "auto", 9.0),
        stopped,
        failed,
    ];
    let study = SourceStudy { problem: old, completed };
    // The range is narrower and logarithmic, levels become numbers, one parameter is new and one gone, the goal is reversed.
    let new = |extra: bool| {
        let mut parameters = vec![
            ("rate", double(1e-3, 1.0, ScaleType::UnitLog)),
            ("batch", ParameterKind::Integer { min: 0, max: 64, scale: ScaleType::UnitLinear }),
        ];
        if extra {
            parameters.push(("depth", double(0.0, 8.0, ScaleType::UnitLinear)));
        }
        problem(parameters, Goal::Minimize)
    };
    let read = |new: &ProblemStatement| {
        let encoding = Encoding::new(new.search_space());
        translation::translate(new, &encoding, None, &study).unwrap()
    };
    let data = read(&new(true));
    // Features by name: batch, depth, rate.
    let expected = [[0.25, 0.5, 2.0 / 3.0], [0.5, 0.5, 1.0 / 3.0], [0.5, 0.5, 1.0 / 3.0]];
    assert_eq!(data.points.nrows(), 3);
    for (row, expected) in expected.iter().enumerate() {
        for (j, u) in expected.iter().enumerate() {
            assert!((data.points[(row, j)] - u).abs() < 1e-12, "{:?}", data.points);
        }
    }
    assert_eq!(data.noise_weights, [4.0, 4.0, 16.0]);
    // The values 3, 1, 2 belong to a metric that is minimised now.
    assert!(data.values[1] > data.values[2] && data.values[2] > data.values[0], "{:?}", data.values);
    assert_eq!(read(&new(false)).noise_weights, [1.0, 1.0, 4.0]);
}

#[test]
fn study_of_another_metric_or_of_equal_values_is_dropped() {
    let unit = || vec![("x", double(0.0, 1.0, ScaleType::UnitLinear))];
    let new = problem(unit(), Goal::Maximize);
    let encoding = Encoding::new(new.search_space());
    let x = |u| [("x", ParameterValue::Double(u))];
    let equal = SourceStudy { problem: new.clone(), completed: vec![trial(1, &x(0.1), 2.0), trial(2, &x(0.9), 2.0)] };
    assert_eq!(translation::translate(&new, &encoding, None, &equal), None);
    let metric = MetricSpec { name: "other".to_owned(), goal: Goal::Maximize };
    let other = ProblemStatement::new(new.search_space().clone(), vec![metric]).unwrap();
    let other = SourceStudy { problem: other, completed: vec![trial(1, &x(0.1), 2.0), trial(2, &x(0.9), 3.0)] };
    assert_eq!(translation::translate(&new, &encoding, None, &other), None);
}

/// Random points of `problem` with a smooth value of their coordinates.
fn source_study(problem: &ProblemStatement, sign: f64) -> SourceStudy {
    let encoding = Encoding::new(problem.search_space());
    let points = crate::sampling::RandomPoints::new(&encoding, 5, TrialId(1), "earlier");
    let value = |point: &[f64]| sign * point.iter().map(|u| -(u - 0.3).powi(2)).sum::<f64>();
    let completed = (points.take(12).zip(1..)).map(|(point, id)| CompletedTrial {
        id: TrialId(id),
        outcome: TrialOutcome::measured(vec![value(&point)]),
        parameters: encoding.decode(&point),
    });
    SourceStudy { problem: problem.clone(), completed: completed.collect() }
}

/// Runs `trials` trials of `designer` on a peak at 0.3 of each parameter.
fn run(designer: &dyn Designer, trials: u64) -> Vec<CompletedTrial> {
    let mut completed = Vec::new();
    for id in (1..=trials).map(TrialId) {
        let suggested = designer.suggest(History { completed: &completed, pending: &[] }, SuggestRequest::one(id));
        let parameters = suggested.unwrap().remove(0).parameters;
        let distance = |value: &ParameterValue| match value {
            ParameterValue::Double(value) => (value - 0.3).powi(2),
            _ => f64::NAN,
        };
        let values = vec![-parameters.values().map(distance).sum::<f64>()];
        completed.push(CompletedTrial { id, parameters, outcome: TrialOutcome::measured(values) });
    }
    completed
}

fn square() -> ProblemStatement {
    let unit = || double(0.0, 1.0, ScaleType::UnitLinear);
    problem(vec![("x", unit()), ("y", unit())], Goal::Maximize)
}

#[test]
fn first_trials_are_near_the_best_of_the_source_study() {
    let problem = square();
    let study = source_study(&problem, 1.0);
    let designer = GpBandit::with_source_studies(problem.clone(), 3, &[study]).unwrap();
    let completed = run(&designer, 5);
    let best = completed.iter().filter_map(|trial| match &trial.outcome {
        TrialOutcome::Measured { values, .. } => Some(values[0]),
        TrialOutcome::Infeasible => None,
    });
    // The centre has the value -0.08.
    assert!(best.fold(f64::NEG_INFINITY, f64::max) > -0.02, "{completed:?}");
}

#[test]
fn misleading_source_study_costs_one_trial() {
    let problem = square();
    let misleading = source_study(&problem, -1.0);
    let designer = GpBandit::with_source_studies(problem.clone(), 3, &[misleading]).unwrap();
    let points = |trials: Vec<CompletedTrial>| trials.into_iter().map(|trial| trial.parameters).collect::<Vec<_>>();
    let (misled, alone) = (points(run(&designer, 4)), points(run(&GpBandit::new(problem, 3).unwrap(), 3)));
    // The first trial is at the best point of the source study, a corner; the initial design follows it.
    assert_eq!(misled[1..], alone);
    assert!(!alone.contains(&misled[0]));
}

#[test]
fn influence_states_which_source_studies_are_used() {
    let problem = square();
    let metric = MetricSpec { name: "other".to_owned(), goal: Goal::Maximize };
    let other = ProblemStatement::new(problem.search_space().clone(), vec![metric]).unwrap();
    let studies = [source_study(&other, 1.0), source_study(&problem, -1.0), source_study(&problem, 1.0)];
    let designer = Automatic::with_source_studies(problem.clone(), 3, &studies).unwrap();
    let after = |completed: &[CompletedTrial]| {
        let history = History { completed, pending: &[] };
        let influences = designer.source_influences(history, &Interruption::default()).unwrap();
        let [first, second] = influences[..] else { panic!("{influences:?}") };
        // The study of another metric is not usable.
        assert_eq!((first.study, second.study, first.trials, second.trials), (1, 2, 12, 12));
        (first, second)
    };
    let (first, second) = after(&[]);
    assert_eq!((first.rank_correlation, second.rank_correlation), (None, None));
    // The later study contradicts the earlier one.
    assert_eq!((first.share, second.share), (0.0, 1.0));
    let (misleading, good) = after(&run(&GpBandit::new(problem, 3).unwrap(), 6));
    assert!(misleading.rank_correlation.unwrap() < -0.5 && misleading.share == 0.0, "{misleading:?}");
    assert!(good.rank_correlation.unwrap() > 0.5, "{good:?}");
    assert!(good.share >= 0.0 && good.share < 1.0, "{good:?}");
}

#[test]
fn contract_holds_with_source_studies() {
    designer_contract(|problem, seed| {
        // The sign follows the goal, which differs between a problem and its mirror image.
        let sign = if problem.metrics()[0].goal == Goal::Maximize { 1.0 } else { -1.0 };
        let studies = [source_study(problem, sign), source_study(problem, -0.5 * sign)];
        Ok(Box::new(GpBandit::with_source_studies(problem.clone(), seed, &studies)?))
    });
}

#[test]
fn automatic_choice_uses_source_studies_before_the_parzen_estimator() {
    let levels: Vec<String> = (0..90).map(|level| level.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let kind = ParameterKind::Categorical { values: levels.iter().map(|&level| level.to_owned()).collect() };
    let problem = problem(vec![("c", kind), ("x", double(0.0, 1.0, ScaleType::UnitLinear))], Goal::Maximize);
    let study = [source_study(&problem, 1.0)];
    let automatic = Automatic::with_source_studies(problem.clone(), 3, &study).unwrap();
    let next = |designer: &dyn Designer, completed: &[CompletedTrial]| {
        let request = SuggestRequest::one(TrialId(completed.len() as u64 + 1));
        designer.suggest(History { completed, pending: &[] }, request).unwrap().remove(0)
    };
    let first = next(&automatic, &[]);
    assert_eq!(first.origin, Origin::with_step(AlgorithmName::GaussianProcessBandit, Step::SourceStudies));
    assert_eq!(first, next(&GpBandit::with_source_studies(problem.clone(), 3, &study).unwrap(), &[]));
    let completed = study[0].completed[..10].to_vec();
    assert_eq!(next(&automatic, &completed).origin.algorithm, AlgorithmName::TreeStructuredParzenEstimator);
    // Without source studies, the chosen algorithm proposes from the first trial on.
    let alone = next(&Automatic::new(problem, 3).unwrap(), &[]);
    assert_eq!(alone.origin.algorithm, AlgorithmName::TreeStructuredParzenEstimator);
}

#[test]
fn source_studies_are_rejected_with_several_metrics() {
    let unit = || vec![("x", double(0.0, 1.0, ScaleType::UnitLinear))];
    let one = problem(unit(), Goal::Maximize);
    let metric = |name: &str| MetricSpec { name: name.to_owned(), goal: Goal::Maximize };
    let several =
        ProblemStatement::new(one.search_space().clone(), vec![metric("objective"), metric("other")]).unwrap();
    let refused = |outcome: Result<(), DesignerError>| {
        assert!(matches!(outcome, Err(DesignerError::Unsupported { .. })), "{outcome:?}");
    };
    refused(GpBandit::with_source_studies(several.clone(), 1, &[source_study(&one, 1.0)]).map(drop));
    refused(Automatic::with_source_studies(several.clone(), 1, &[source_study(&one, 1.0)]).map(drop));
    assert!(Automatic::with_source_studies(several, 1, &[]).is_ok());
}
