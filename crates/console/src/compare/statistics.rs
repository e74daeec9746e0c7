//! Statistical comparison of jobs or studies: pairwise tests over repetitions with other seeds, as in `bench compare`.
//!
//! Jobs whose configurations differ only in seed, number of trials and job-dir are repetitions of one setting. Two
//! settings of the same problem are compared by pairs of jobs with the same seed, after the same number of trials.

use serde_json::{Map, Value};

use tunesmith_algorithms::problem::{Goal, ProblemStatement};
use tunesmith_domain::JobPlan;
use tunesmith_statistics::decision::{Assessment, Decision, DecisionOptions, assess};

/// Minimum number of pairs for a signed-rank test to reach the level 0.05 (two-sided: 2 / 2⁶).
pub(super) const FEWEST_PAIRS: usize = 6;

pub(super) struct Run<'a> {
    pub(super) input: &'a Value,
    /// Plan, which includes command-line settings.
    pub(super) plan: Option<&'a JobPlan>,
    pub(super) problem: &'a ProblemStatement,
    pub(super) seed: u64,
    /// Best result after the number of trials that all compared jobs have.
    pub(super) best: Option<f64>,
}

/// Repetitions of one setting, as indices of jobs.
#[derive(Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) runs: Vec<usize>,
}

/// Comparison of a setting with the first one.
#[derive(Debug, PartialEq)]
pub(super) struct Against {
    pub(super) setting: usize,
    pub(super) pairs: usize,
    /// Mean difference over the pairs, this setting minus the first; `None` without pairs.
    pub(super) difference: Option<f64>,
    pub(super) outcome: Outcome,
}

#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The search spaces or metrics differ.
    OtherProblem,
    /// Fewer than [`FEWEST_PAIRS`] pairs.
    TooFewPairs,
    /// The statistic is undefined for these results.
    Undefined(String),
    Tested {
        decision: Decision,
        low: f64,
        high: f64,
        /// P value, Holm-corrected for the number of tests.
        p: f64,
    },
}

/// Settings of `runs`, in order of their first jobs.
pub(super) fn settings(runs: &[Run<'_>]) -> Vec<Setting> {
    let mut known: Vec<(_, Setting)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let programs = run.plan.map(|plan| (&plan.program, &plan.args, &plan.replicas));
        let key = (repeated(run.input), programs);
        match known.iter_mut().find(|(other, _)| *other == key) {
            Some((_, setting)) => setting.runs.push(index),
            None => known.push((key, Setting { runs: vec![index] })),
        }
    }
    known.into_iter().map(|(_, setting)| setting).collect()
}

/// Removes from `input` the fields that differ between repetitions.
fn repeated(input: &Value) -> Value {
    let mut input = input.clone();
    remove(&mut input, "", "jobDir");
    remove(&mut input, "/tunesmith", "seed");
    // Location in a study's configuration.
    remove(&mut input, "/tunesmith", "maxTrials");
    remove(&mut input, "/hyperparameters", "maxTrials");
    if input.get("tunesmith").and_then(Value::as_object).is_some_and(Map::is_empty) {
        remove(&mut input, "", "tunesmith");
    }
    input
}

fn remove(input: &mut Value, parent: &str, field: &str) {
    if let Some(Value::Object(fields)) = input.pointer_mut(parent) {
        fields.remove(field);
    }
}

/// Compares each setting with the first one, corrected for multiple testing.
pub(super) fn against_first(runs: &[Run<'_>], settings: &[Setting], goal: Goal) -> Vec<Against> {
    let Some((first, others)) = settings.split_first() else { return Vec::new() };
    let mut compared: Vec<(Against, Vec<f64>)> = Vec::new();
    for (index, setting) in others.iter().enumerate() {
        let is_same = runs[first.runs[0]].problem == runs[setting.runs[0]].problem;
        let pairs = if is_same { pairs(runs, first, setting) } else { Vec::new() };
        let differences: Vec<f64> = pairs.iter().map(|[first, other]| other - first).collect();
        let mean = differences.iter().map(|difference| difference / differences.len() as f64).sum::<f64>();
        let against = Against {
            setting: index + 1,
            pairs: pairs.len(),
            difference: (!differences.is_empty()).then_some(mean),
            outcome: if is_same { Outcome::TooFewPairs } else { Outcome::OtherProblem },
        };
        // Tests treat smaller as better.
        compared.push((against, pairs.iter().map(|[first, other]| goal.loss(*other) - goal.loss(*first)).collect()));
    }
    let is_tested = |losses: &Vec<f64>| losses.len() >= FEWEST_PAIRS;
    let tested: Vec<&Vec<f64>> = compared.iter().map(|(_, losses)| losses).filter(|losses| is_tested(losses)).collect();
    let mut outcomes = match assess(&tested, DecisionOptions::default()) {
        Ok(assessments) => assessments.iter().map(|assessment| outcome(assessment, goal)).collect(),
        Err(error) => tested.iter().map(|_| Outcome::Undefined(error.to_string())).collect::<Vec<_>>(),
    }
    .into_iter();
    let with_outcome = |(against, losses): (Against, Vec<f64>)| match is_tested(&losses) {
        true => Against { outcome: outcomes.next().unwrap_or(Outcome::TooFewPairs), ..against },
        false => against,
    };
    compared.into_iter().map(with_outcome).collect()
}

fn outcome(assessment: &Assessment, goal: Goal) -> Outcome {
    // From losses back to results.
    let ends = [goal.loss(assessment.interval.low), goal.loss(assessment.interval.high)];
    Outcome::Tested {
        decision: assessment.decision,
        low: ends[0].min(ends[1]),
        high: ends[0].max(ends[1]),
        p: assessment.adjusted_p,
    }
}

/// Results of the jobs of `first` and `other` with the same seed. Among jobs with equal seeds, the first with a result
/// counts.
fn pairs(runs: &[Run<'_>], first: &Setting, other: &Setting) -> Vec<[f64; 2]> {
    let mut seeds = Vec::new();
    let result = |setting: &Setting, seed: u64| {
        let with_seed = setting.runs.iter().map(|index| &runs[*index]).filter(|run| run.seed == seed);
        with_seed.filter_map(|run| run.best).find(|best| best.is_finite())
    };
    let mut pairs = Vec::new();
    for index in &first.runs {
        let seed = runs[*index].seed;
        if seeds.contains(&seed) {
            continue;
        }
        seeds.push(seed);
        if let (Some(a), Some(b)) = (result(first, seed), result(other, seed)) {
            pairs.push([a, b]);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use tunesmith_algorithms::problem::{MetricSpec, ParameterKind, ParameterSpec, ScaleType, SearchSpace};

    fn problem(max: f64, goal: Goal) -> ProblemStatement {
        let kind = ParameterKind::Double { min: 0.0, max, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        ProblemStatement::new(space, vec![MetricSpec { name: "score".to_owned(), goal }]).unwrap()
    }

    fn input(algorithm: &str, seed: u64) -> Value {
        json!({
            "jobDir": format!("models/{algorithm}_{seed}"),
            "hyperparameters": {"algorithm": algorithm, "maxTrials": 10 + seed},
            "tunesmith": {"seed": seed},
        })
    }

    /// Compares settings by the `differences` between jobs with equal seeds.
    fn against(differences: &[f64], goal: Goal) -> Against {
        let problem = problem(1.0, goal);
        let seeds: Vec<u64> = (0..differences.len() as u64).collect();
        let inputs: Vec<[Value; 2]> = seeds.iter().map(|seed| [input("A", *seed), input("B", *seed)]).collect();
        let mut runs = Vec::new();
        for (seed, [a, b]) in seeds.iter().zip(&inputs) {
            let run = |input, best| Run { input, plan: None, problem: &problem, seed: *seed, best: Some(best) };
            runs.extend([run(a, 5.0), run(b, 5.0 + differences[*seed as usize])]);
        }
        let settings = settings(&runs);
        assert_eq!(settings.len(), 2, "jobs that differ in seed, number of trials and job-dir are repetitions");
        let mut found = against_first(&runs, &settings, goal);
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    #[test]
    fn six_pairs_are_tested_and_five_are_not() {
        let differences = [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0];
        let found = against(&differences, Goal::Minimize);
        assert_eq!((found.pairs, found.difference), (6, Some(-3.5)));
        let Outcome::Tested { decision, low, high, p } = found.outcome else { panic!("{:?}", found.outcome) };
        // All six have one sign: 2 of 64 patterns are as extreme.
        assert_eq!((decision, p), (Decision::Better, 0.031_25));
        assert!(low < -3.5 && -3.5 < high && high < 0.0, "{low} {high}");
        let maximized = against(&differences, Goal::Maximize).outcome;
        assert!(
            matches!(maximized, Outcome::Tested { decision: Decision::Worse, low, high, .. } if low < high && high < 0.0)
        );
        let few = against(&differences[1..], Goal::Minimize);
        assert_eq!((few.pairs, few.difference, few.outcome), (5, Some(-4.0), Outcome::TooFewPairs));
    }

    #[test]
    fn differences_of_both_signs_are_no_finding() {
        let found = against(&[-1.0, 2.0, -3.0, 4.0, -5.0, 6.0, 0.0], Goal::Minimize);
        assert!(
            matches!(found.outcome, Outcome::Tested { decision: Decision::NoDifference, p, .. } if p > 0.5),
            "{found:?}"
        );
    }

    #[test]
    fn jobs_with_other_seeds_or_problems_are_not_paired() {
        let (here, there) = (problem(1.0, Goal::Minimize), problem(2.0, Goal::Minimize));
        let inputs = [input("A", 1), input("B", 2), input("C", 1), input("D", 1)];
        let run = |index: usize, problem, seed, best| Run { input: &inputs[index], plan: None, problem, seed, best };
        let runs = [
            run(0, &here, 1, Some(1.0)),
            run(1, &here, 2, Some(0.5)),
            run(2, &there, 1, Some(0.1)),
            run(3, &here, 1, None),
        ];
        let found = against_first(&runs, &settings(&runs), Goal::Minimize);
        let outcomes: Vec<_> = found.into_iter().map(|against| (against.pairs, against.outcome)).collect();
        let expected = [(0, Outcome::TooFewPairs), (0, Outcome::OtherProblem), (0, Outcome::TooFewPairs)];
        assert_eq!(outcomes, expected);
        assert_eq!(against_first(&[], &[], Goal::Minimize), []);
    }
}
