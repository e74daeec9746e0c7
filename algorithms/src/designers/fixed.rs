//! Suggestions with fixed parameters, by any algorithm.
//!
//! The points with the fixed values are a search space of their own, so every algorithm honours the values, avoids only
//! used points among them, and optimises the other parameters for these values. What the values change is learned from
//! the trials that have them. The other trials are a [source study](crate::transfer) of it, at their own values of the
//! other parameters: a start where they were good, which the trials with the fixed values correct.

use super::Algorithm;
use crate::designer::{DesignerError, History, SuggestRequest};
use crate::interruption::Interruption;
use crate::problem::{
    CompletedTrial, FixedParameters, ParameterKind, PendingTrial, ProblemStatement, TrialOutcome, TrialSuggestion,
    moved_to_part,
};
use crate::transfer::SourceStudy;

/// Proposes up to `request.count` points of `problem` that have the values of `fixed`; fewer mean that no other such
/// point is left. As of the designer of `algorithm`, the result is a function of the arguments.
///
/// # Errors
/// As [`Algorithm::designer`] and [`crate::designer::Designer::suggest_until`].
pub fn suggest_with_fixed(
    algorithm: &Algorithm,
    (problem, seed): (&ProblemStatement, u64),
    fixed: &FixedParameters,
    history: History<'_>,
    request: SuggestRequest,
    interruption: &Interruption,
) -> Result<Vec<TrialSuggestion>, DesignerError> {
    let part = fixed.part_of(problem);
    let space = part.search_space();
    for (trial, parameters) in history.points() {
        problem.search_space().check(parameters).map_err(DesignerError::foreign(trial))?;
    }
    let (own, others): (Vec<&CompletedTrial>, Vec<&CompletedTrial>) =
        history.completed.iter().partition(|trial| space.check(&trial.parameters).is_ok());
    let completed: Vec<CompletedTrial> = own.into_iter().cloned().collect();
    let pending = history.pending.iter().filter(|trial| space.check(&trial.parameters).is_ok());
    let pending: Vec<PendingTrial> = pending.cloned().collect();
    let mut sources = Vec::new();
    if algorithm.uses_source_studies() && part.metrics().len() == 1 {
        let measured = others.into_iter().filter(|trial| matches!(trial.outcome, TrialOutcome::Measured { .. }));
        let moved = measured.filter_map(|trial| {
            let parameters = moved_to_part(space, &trial.parameters)?;
            Some(CompletedTrial { id: trial.id, parameters, outcome: trial.outcome.clone() })
        });
        sources.push(SourceStudy { problem: part.clone(), completed: moved.collect() });
        sources.retain(|source| !source.completed.is_empty());
    }
    let designer = of_part(algorithm, &part).designer(&part, seed, &sources)?;
    designer.suggest_until(History { completed: &completed, pending: &pending }, request, interruption)
}

/// `algorithm` with the settings of the parameters that `part` has.
fn of_part(algorithm: &Algorithm, part: &ProblemStatement) -> Algorithm {
    let Algorithm::GridSearch { double_resolution } = algorithm else { return algorithm.clone() };
    let is_double = |name: &str| {
        let mut parameters = part.search_space().parameters().iter();
        parameters.any(|spec| spec.name() == name && matches!(spec.kind(), ParameterKind::Double { .. }))
    };
    let kept = double_resolution.iter().filter(|(name, _)| is_double(name));
    Algorithm::GridSearch { double_resolution: kept.map(|(name, count)| (name.clone(), *count)).collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroUsize;

    use super::*;
    use crate::problem::{
        Goal, MetricSpec, ParameterSpec, ParameterValue, ParameterValues, ScaleType, SearchSpace, TrialId,
    };
    use crate::testing::every_kind_and_scale;

    fn problem(parameters: Vec<ParameterSpec>) -> ProblemStatement {
        let metric = MetricSpec { name: "loss".into(), goal: Goal::Minimize };
        ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
    }

    fn double(name: &str) -> ParameterSpec {
        ParameterSpec::new(name, ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear }).unwrap()
    }

    fn level(name: &str, levels: &[&str]) -> ParameterSpec {
        let values = levels.iter().map(|&level| level.to_owned()).collect();
        ParameterSpec::new(name, ParameterKind::Categorical { values }).unwrap()
    }

    fn algorithms(problem: &ProblemStatement) -> Vec<Algorithm> {
        let is_double = |spec: &&ParameterSpec| matches!(spec.kind(), ParameterKind::Double { .. });
        let doubles = problem.search_space().parameters().iter().filter(is_double);
        let double_resolution = doubles.map(|spec| (spec.name().to_owned(), 3)).collect::<BTreeMap<_, _>>();
        vec![
            Algorithm::Automatic,
            Algorithm::GaussianProcessBandit,
            Algorithm::GridSearch { double_resolution },
            Algorithm::RandomSearch,
            Algorithm::QuasiRandomSearch,
            Algorithm::Tpe,
            Algorithm::CmaEs,
        ]
    }

    fn suggest(
        algorithm: &Algorithm,
        problem: &ProblemStatement,
        fixed: &FixedParameters,
        completed: &[CompletedTrial],
        count: usize,
    ) -> Result<Vec<ParameterValues>, DesignerError> {
        let request = SuggestRequest {
            first_trial_id: TrialId(completed.len() as u64 + 1),
            count: NonZeroUsize::new(count).unwrap(),
        };
        let history = History { completed, pending: &[] };
        let found = suggest_with_fixed(algorithm, (problem, 7), fixed, history, request, &Interruption::default())?;
        Ok(found.into_iter().map(|suggestion| suggestion.parameters).collect())
    }

    fn measured(id: usize, parameters: ParameterValues, loss: f64) -> CompletedTrial {
        let outcome = TrialOutcome::measured(vec![loss]);
        CompletedTrial { id: TrialId(id as u64), parameters, outcome }
    }

    fn number(point: &ParameterValues, name: &str) -> f64 {
        match point[name] {
            ParameterValue::Double(value) => value,
            ref other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn every_algorithm_honours_fixed_values_of_every_kind() {
        for (name, problem) in every_kind_and_scale() {
            let space = problem.search_space();
            let draw = |seed| Algorithm::RandomSearch.designer(&problem, seed, &[]).unwrap();
            let points = draw(3).suggest(History::default(), SuggestRequest::one(TrialId(1))).unwrap();
            let values: ParameterValues = points[0].parameters.clone().into_iter().take(1).collect();
            let fixed = FixedParameters::new(space, values).unwrap();
            let mut trials: Vec<CompletedTrial> = Vec::new();
            for id in 1..=4 {
                let point = draw(4).suggest(History::default(), SuggestRequest::one(TrialId(id))).unwrap();
                trials.push(measured(id as usize, point[0].parameters.clone(), id as f64));
            }
            for algorithm in algorithms(&problem) {
                let points = match suggest(&algorithm, &problem, &fixed, &trials, 2) {
                    Ok(points) => points,
                    Err(DesignerError::Unsupported { .. }) if algorithm == Algorithm::CmaEs => continue,
                    Err(error) => panic!("{name}, {algorithm:?}: {error}"),
                };
                for point in &points {
                    assert_eq!(space.check(point), Ok(()), "{name}, {algorithm:?}: {point:?}");
                    assert!(fixed.agrees_with(point), "{name}, {algorithm:?}: {point:?} has not {fixed:?}");
                }
                assert_eq!(suggest(&algorithm, &problem, &fixed, &trials, 2), Ok(points), "{name}, {algorithm:?}");
            }
        }
    }

    #[test]
    fn points_with_the_fixed_values_are_not_repeated_and_end() {
        let problem = problem(vec![level("a", &["p", "q"]), level("b", &["u", "v", "w"])]);
        let values = [("a".to_owned(), ParameterValue::Categorical("q".into()))].into();
        let fixed = FixedParameters::new(problem.search_space(), values).unwrap();
        for algorithm in algorithms(&problem).into_iter().filter(|algorithm| *algorithm != Algorithm::CmaEs) {
            let mut trials: Vec<CompletedTrial> = Vec::new();
            for expected in [1, 1, 1, 0] {
                let points = suggest(&algorithm, &problem, &fixed, &trials, 1).unwrap();
                assert_eq!(points.len(), expected, "{algorithm:?} after {} trials", trials.len());
                for point in points {
                    assert!(trials.iter().all(|trial| trial.parameters != point), "{algorithm:?}: {point:?}");
                    trials.push(measured(trials.len() + 1, point, trials.len() as f64));
                }
            }
        }
    }

    /// The best `x` and `y` follow the fixed level: two valleys a half of the range apart.
    #[test]
    fn other_parameters_are_optimised_for_the_fixed_value() {
        let problem = problem(vec![level("data", &["left", "right"]), double("x"), double("y")]);
        let best = |level: &str| if level == "left" { 0.25 } else { 0.75 };
        for algorithm in [Algorithm::Automatic, Algorithm::Tpe] {
            let mut trials: Vec<CompletedTrial> = Vec::new();
            let mut losses: BTreeMap<&str, f64> = BTreeMap::new();
            for place in 0..60 {
                let data = ["left", "right"][place % 2];
                let values = [("data".to_owned(), ParameterValue::Categorical(data.into()))].into();
                let fixed = FixedParameters::new(problem.search_space(), values).unwrap();
                let point = suggest(&algorithm, &problem, &fixed, &trials, 1).unwrap().remove(0);
                let (x, y) = (number(&point, "x"), number(&point, "y"));
                let loss = (x - best(data)).powi(2) + (y - x).powi(2);
                let least = losses.entry(data).or_insert(f64::INFINITY);
                *least = least.min(loss);
                trials.push(measured(place + 1, point, loss));
            }
            let most = if algorithm == Algorithm::Automatic { 1e-4 } else { 0.03 };
            assert!(losses.values().all(|loss| *loss < most), "{algorithm:?}: {losses:?}");
        }
    }
}
