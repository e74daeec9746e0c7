//! BBOB functions of five variables after a source study of 40 trials: of the same function in another unit, of a related
//! function, or of a misleading one. Optimizers without source studies ignore it.

use std::fmt;

use rand::RngExt;
use tunesmith_algorithms::problem::{
    CompletedTrial, ParameterSpec, ParameterValue, ParameterValues, TrialId, TrialOutcome,
};
use tunesmith_algorithms::rng;
use tunesmith_algorithms::transfer::SourceStudy;

use super::bbob::{BbobProblem, bbob};
use crate::problem::{Draw, Evaluation, Problem, Profile};

const DIMENSIONS: usize = 5;
/// Functions of the suite: separable, ill-conditioned, curved, ridged and multimodal ones.
const FUNCTIONS: [u8; 4] = [2, 8, 13, 17];
/// Number of trials of a source study.
const SOURCE_TRIALS: u64 = 40;
/// Number of them at random points; the others approach the optimum of the source study, as those of a search.
const RANDOM_TRIALS: u64 = 15;
/// Largest distance of the last of them from that optimum along each axis, as a share of the range.
const LAST_DISTANCE: f64 = 0.01;
/// Factor and offset of the unit of a scaled source study.
const UNIT: (f64, f64) = (1000.0, 1e5);
/// Shift of the optimum of a related source study along each axis, as a share of the range (as in docs/experiments/003).
const SHIFT: f64 = 0.07;
/// Range of each variable.
const RANGE: (f64, f64) = (-5.0, 5.0);

/// Relation of a source study to the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The same function, 1000 times as large and with an offset.
    Scaled,
    /// The same function with its optimum shifted by 7% of each range.
    Related,
    /// Another function with another optimum.
    Misleading,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scaled => "scaled",
            Self::Related => "related",
            Self::Misleading => "misleading",
        })
    }
}

/// Constructors of the problems, by instance number: each function alone, and after each kind of source study.
pub fn transfer() -> Vec<impl Fn(u64) -> WithSource + Send + Sync> {
    let sources = [None, Some(Source::Scaled), Some(Source::Related), Some(Source::Misleading)];
    let pairs = sources.into_iter().flat_map(|source| FUNCTIONS.map(|function| (source, function)));
    pairs.map(|(source, function)| move |instance| WithSource::new(function, source, instance)).collect()
}

/// A function with a source study.
#[derive(Debug)]
pub struct WithSource {
    profile: Profile,
    problem: BbobProblem,
    studies: Vec<SourceStudy>,
}

impl WithSource {
    /// `function` of BBOB with a study of the kind `source`, named `scaled/f02` and so on, or `alone/f02` without one.
    fn new(function: u8, source: Option<Source>, instance: u64) -> Self {
        let problem = instance_of(function, instance);
        let kind = source.map_or("alone".to_owned(), |source| source.to_string());
        let profile = Profile { name: format!("{kind}/f{function:02}"), ..problem.profile().clone() };
        let studies = source.map(|source| source_study(&problem, function, source, instance)).into_iter().collect();
        Self { profile, problem, studies }
    }
}

impl Problem for WithSource {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        self.problem.evaluate(point, draw)
    }

    fn sources(&self) -> Vec<SourceStudy> {
        self.studies.clone()
    }
}

fn instance_of(function: u8, instance: u64) -> BbobProblem {
    bbob(function, DIMENSIONS, instance).expect("functions, dimensions and instances of the suite exist")
}

fn source_study(problem: &BbobProblem, function: u8, source: Source, instance: u64) -> SourceStudy {
    let shift = SHIFT * (RANGE.1 - RANGE.0);
    // The shifted optimum is inside of the range.
    let shifts: Vec<f64> = problem.minimizer().iter().map(|at| if *at < 0.0 { shift } else { -shift }).collect();
    let place = FUNCTIONS.iter().position(|other| *other == function).unwrap_or_default();
    let other = instance_of(FUNCTIONS[(place + 1) % FUNCTIONS.len()], instance + 100);
    let optimum: Vec<f64> = match source {
        Source::Scaled => problem.minimizer().to_vec(),
        Source::Related => problem.minimizer().iter().zip(&shifts).map(|(at, shift)| at + shift).collect(),
        Source::Misleading => other.minimizer().to_vec(),
    };
    let value = |point: &[f64]| match source {
        Source::Scaled => UNIT.0 * problem.value(point) + UNIT.1,
        Source::Related => {
            let before: Vec<f64> = point.iter().zip(&shifts).map(|(at, shift)| at - shift).collect();
            problem.value(&before)
        }
        Source::Misleading => other.value(point),
    };
    let names: Vec<&str> = problem.statement().search_space().parameters().iter().map(ParameterSpec::name).collect();
    let trial = |id: u64| {
        let mut rng = rng::stream(instance, TrialId(id), &format!("source study of f{function:02}"));
        let uniform: Vec<f64> = (0..DIMENSIONS).map(|_| rng.random()).collect();
        let point: Vec<f64> = match id.checked_sub(RANDOM_TRIALS + 1) {
            None => uniform.iter().map(|u| RANGE.0 + u * (RANGE.1 - RANGE.0)).collect(),
            Some(step) => {
                let progress = (step + 1) as f64 / (SOURCE_TRIALS - RANDOM_TRIALS) as f64;
                let distance = LAST_DISTANCE.powf(progress) * (RANGE.1 - RANGE.0);
                let near = uniform.iter().zip(&optimum).map(|(u, at)| at + (2.0 * u - 1.0) * distance);
                near.map(|at| at.clamp(RANGE.0, RANGE.1)).collect()
            }
        };
        let values = vec![value(&point)];
        let parameters = names.iter().zip(&point).map(|(name, at)| ((*name).to_owned(), ParameterValue::Double(*at)));
        CompletedTrial { id: TrialId(id), parameters: parameters.collect(), outcome: TrialOutcome::measured(values) }
    };
    SourceStudy { problem: problem.statement().clone(), completed: (1..=SOURCE_TRIALS).map(trial).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(problem: &WithSource) -> (Vec<f64>, f64) {
        let study = problem.sources().remove(0);
        let results = study.completed.iter().map(|trial| {
            assert_eq!(problem.statement().search_space().check(&trial.parameters), Ok(()));
            let TrialOutcome::Measured { values, .. } = &trial.outcome else { panic!("{trial:?}") };
            let point = trial.parameters.values().map(|value| match value {
                ParameterValue::Double(at) => *at,
                other => panic!("{other:?}"),
            });
            (point.collect::<Vec<f64>>(), values[0])
        });
        results.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    fn distance(one: &[f64], other: &[f64]) -> f64 {
        one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn each_function_is_alone_and_with_three_source_studies() {
        let problems: Vec<WithSource> = transfer().iter().map(|make| make(1)).collect();
        let names: Vec<&str> = problems.iter().map(Problem::name).collect();
        assert_eq!(names.len(), 16);
        assert_eq!(
            [names[0], names[4], names[8], names[15]],
            ["alone/f02", "scaled/f02", "related/f02", "misleading/f17"]
        );
        let counts: Vec<usize> =
            problems.iter().map(|problem| problem.sources().iter().map(|study| study.completed.len()).sum()).collect();
        assert_eq!(counts, [[0; 4], [40; 4], [40; 4], [40; 4]].concat());
        assert_eq!(problems[0].problem.minimizer(), problems[12].problem.minimizer());
    }

    #[test]
    fn best_trial_of_a_source_study_is_near_its_optimum() {
        for function in FUNCTIONS {
            for instance in 1..=3 {
                let problem = |source| WithSource::new(function, Some(source), instance);
                let minimizer = instance_of(function, instance).minimizer().to_vec();
                let (scaled, value) = best(&problem(Source::Scaled));
                assert!(distance(&scaled, &minimizer) < 1.0, "f{function} {scaled:?} {minimizer:?}");
                assert!(value > UNIT.1 - 1000.0 * UNIT.0, "{value}");
                let (related, _) = best(&problem(Source::Related));
                let moved = distance(&related, &minimizer);
                assert!(moved > 0.2 && moved < 1.7, "f{function} {related:?} {minimizer:?}");
                let (misleading, _) = best(&problem(Source::Misleading));
                assert!(distance(&misleading, &minimizer) > 1.0, "f{function} {misleading:?} {minimizer:?}");
                assert_eq!(best(&problem(Source::Misleading)).0, misleading);
            }
        }
    }
}
