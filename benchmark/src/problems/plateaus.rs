//! Functions that are flat over nine tenths of the space, as a metric at chance level or with a timeout is.

use tunesmith_algorithms::designer::{Designer, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use super::bbob::{bbob, bbob_mixint};
use super::tiny::tiny;
use crate::problem::{Draw, Evaluation, EvaluationOutcome, Problem, Profile};

/// Number of random points that determine the level of a plateau.
const LEVEL_POINTS: u64 = 400;
/// Share of those points below the plateau, one in this many.
const BELOW: usize = 10;
/// Constructors of the problems, by instance number: sphere, Rosenbrock's, a multimodal function and Gallagher's peaks of three
/// to six doubles, a sphere of integers and a double, and nine parameters of few levels.
pub fn plateaus() -> [fn(u64) -> WithPlateau; 6] {
    [
        |instance| continuous(1, 3, instance),
        |instance| continuous(8, 5, instance),
        |instance| continuous(15, 5, instance),
        |instance| continuous(21, 6, instance),
        |instance| WithPlateau::new("plateau_mixint_", bbob_mixint(1, 5, instance).expect(VALID)),
        |instance| WithPlateau::new("plateau_", tiny()[0](instance)),
    ]
}

const VALID: &str = "functions, dimensions and instances from 1 exist";

fn continuous(function: u8, dimensions: usize, instance: u64) -> WithPlateau {
    WithPlateau::new("plateau_", bbob(function, dimensions, instance).expect(VALID))
}

/// A problem with one metric whose values worse than those of its best tenth are all equal.
pub struct WithPlateau {
    profile: Profile,
    problem: Box<dyn Problem>,
    /// Value of the plateau, minimised.
    level: f64,
}

impl WithPlateau {
    /// Cuts `problem`, which has one metric without noise, and prefixes its name.
    fn new(prefix: &str, problem: impl Problem + 'static) -> Self {
        let profile = Profile { name: format!("{prefix}{}", problem.name()), ..problem.profile().clone() };
        let level = level(&problem);
        Self { profile, problem: Box::new(problem), level }
    }
}

impl Problem for WithPlateau {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _draw: Draw) -> Evaluation {
        Evaluation::exact(loss(&*self.problem, point).min(self.level))
    }
}

fn loss(problem: &dyn Problem, point: &ParameterValues) -> f64 {
    match problem.evaluate(point, Draw { seed: 1, trial: TrialId::FIRST }).outcome {
        EvaluationOutcome::Measured { noiseless, .. } => noiseless[0],
        _ => panic!("{} has no value", problem.name()),
    }
}

/// Value below which a tenth of the space is, by random points.
fn level(problem: &impl Problem) -> f64 {
    let designer = RandomSearch::new(problem.statement(), 1);
    let point = |id: u64| {
        let request = SuggestRequest::one(TrialId(id));
        designer.suggest(History::default(), request).expect("random search has a point").remove(0).parameters
    };
    let mut losses: Vec<f64> = (1..=LEVEL_POINTS).map(|id| loss(problem, &point(id))).collect();
    losses.sort_by(f64::total_cmp);
    losses[losses.len() / BELOW]
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::encoding::Encoding;
    use tunesmith_algorithms::sampling::sobol_point;

    use super::*;
    use crate::problem::Quality;

    #[test]
    fn about_a_tenth_of_the_points_is_below_the_plateau_and_none_above() {
        for problem in plateaus().map(|make| make(2)) {
            let encoding = Encoding::new(problem.statement().search_space());
            let value = |id: u64| loss(&problem, &encoding.decode(&sobol_point(&encoding, 3, TrialId(id))));
            let values: Vec<f64> = (1..=1000).map(value).collect();
            assert!(values.iter().all(|value| *value <= problem.level));
            let below = values.iter().filter(|value| **value < problem.level).count();
            assert!((50..=160).contains(&below), "{}: {below}", problem.name());
        }
    }

    #[test]
    fn the_optimum_is_that_of_the_whole_function() {
        let names: Vec<String> = plateaus().iter().map(|make| make(1).name().to_owned()).collect();
        let expected = ["f01/d03", "f08/d05", "f15/d05", "f21/d06", "mixint_f01/d05", "network/d09"];
        assert_eq!(names, expected.map(|name| format!("plateau_{name}")));
        for problem in plateaus().map(|make| make(1)) {
            let Quality::Value { best_known: Some(best) } = problem.quality() else { panic!("no optimum") };
            assert!(*best < problem.level);
        }
    }
}
