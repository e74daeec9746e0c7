//! Wrong results, as of a defect in the measured program: one that is falsely good, or a share that is wildly bad.

use rand::RngExt;
use tunesmith_algorithms::designer::{Designer, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::problem::{ParameterValues, TrialId};
use tunesmith_algorithms::rng;

use super::functions::{TestFunction, branin, hartmann6, levy, styblinski_tang};
use crate::problem::{Draw, Evaluation, EvaluationOutcome, Problem, Profile, Quality};

/// Number of random points that determine the spread of a problem.
const SCALE_POINTS: u64 = 201;
/// Range of trials of the falsely good result.
const FALSE_TRIALS: std::ops::RangeInclusive<u64> = 5..=12;
/// Decades of the error of a falsely good result, in spreads.
const FALSE_DECADES: (f64, f64) = (1.0, 3.0);
/// Share of the wildly bad results.
const BAD_SHARE: f64 = 0.1;
/// Decades of the error of a wildly bad result, in spreads.
const BAD_DECADES: (f64, f64) = (2.0, 4.0);

/// Problems of the suite `outliers`: four classic functions, each with one falsely good result and with a tenth of wildly
/// bad ones.
pub fn outliers() -> Vec<WithOutliers<TestFunction>> {
    let functions = || [branin(), hartmann6(), levy(6), styblinski_tang(2)];
    let good = functions().map(|function| WithOutliers::new(function, Fault::FalselyGood));
    let bad = functions().map(|function| WithOutliers::new(function, Fault::WildlyBad));
    good.into_iter().chain(bad).collect()
}

/// Kind of wrong results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One of the trials 5 to 12 is 10 to 1,000 spreads better than the optimum.
    FalselyGood,
    /// A tenth of the trials is 100 to 10,000 spreads worse than it should be.
    WildlyBad,
}

/// A problem with one metric of which some observed values are wrong; noiseless values are unchanged.
///
/// The spread is the interquartile range of the values at 201 random points. Trials and sizes of the errors are keyed by
/// the seed of the run, the trial and the problem, and are the same for all optimizers.
#[derive(Debug, Clone)]
pub struct WithOutliers<P> {
    profile: Profile,
    problem: P,
    fault: Fault,
    spread: f64,
    /// Best value of the problem, minimised.
    lowest: f64,
}

impl<P: Problem> WithOutliers<P> {
    /// Adds the results of `fault` to `problem`, which has one metric and a known optimum; prefixes its name with
    /// `falsely_good_` or `wildly_bad_`.
    pub fn new(problem: P, fault: Fault) -> Self {
        let prefix = match fault {
            Fault::FalselyGood => "falsely_good",
            Fault::WildlyBad => "wildly_bad",
        };
        let name = format!("{prefix}_{}", problem.name());
        let profile = Profile { name, is_noisy: true, ..problem.profile().clone() };
        let goal = profile.statement.metrics()[0].goal;
        let Quality::Value { best_known: Some(best_known) } = profile.quality else {
            panic!("{} has no known optimum", profile.name)
        };
        let spread = interquartile_range(&problem);
        Self { profile, problem, fault, spread, lowest: goal.loss(best_known) }
    }

    /// Observed value, minimised, of a trial with the true value `loss`.
    fn observed(&self, loss: f64, draw: Draw) -> f64 {
        let stream = |trial| rng::stream(draw.seed, trial, &format!("outliers of {}", self.profile.name));
        match self.fault {
            Fault::FalselyGood => {
                // Trial 0 does not exist: the draws belong to the run.
                let mut rng = stream(TrialId(0));
                let (trial, decades) =
                    (rng.random_range(FALSE_TRIALS), rng.random_range(FALSE_DECADES.0..FALSE_DECADES.1));
                if draw.trial.0 == trial { self.lowest - self.spread * 10f64.powf(decades) } else { loss }
            }
            Fault::WildlyBad => {
                let mut rng = stream(draw.trial);
                let (share, decades): (f64, f64) = (rng.random(), rng.random_range(BAD_DECADES.0..BAD_DECADES.1));
                if share < BAD_SHARE { loss + self.spread * 10f64.powf(decades) } else { loss }
            }
        }
    }
}

impl<P: Problem> Problem for WithOutliers<P> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        let mut evaluation = self.problem.evaluate(point, draw);
        let goal = self.profile.statement.metrics()[0].goal;
        if let EvaluationOutcome::Measured { observed, .. } = &mut evaluation.outcome {
            // The orientation is its own inverse.
            observed[0] = goal.loss(self.observed(goal.loss(observed[0]), draw));
        }
        evaluation
    }
}

fn interquartile_range(problem: &impl Problem) -> f64 {
    let random = RandomSearch::new(problem.statement(), 0);
    let mut losses: Vec<f64> = Vec::new();
    for trial in (1..=SCALE_POINTS).map(TrialId) {
        let found = random.suggest(History::default(), SuggestRequest::one(trial)).unwrap_or_default();
        for point in found {
            let outcome = problem.evaluate(&point.parameters, Draw { seed: 0, trial }).outcome;
            if let EvaluationOutcome::Measured { noiseless, .. } = outcome {
                losses.push(noiseless[0]);
            }
        }
    }
    losses.sort_by(f64::total_cmp);
    match losses.len() {
        0 => 0.0,
        count => losses[3 * count / 4] - losses[count / 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed_and_noiseless(problem: &dyn Problem, point: &ParameterValues, seed: u64, trial: u64) -> (f64, f64) {
        let outcome = problem.evaluate(point, Draw { seed, trial: TrialId(trial) }).outcome;
        let EvaluationOutcome::Measured { observed, noiseless, .. } = outcome else { panic!("no values") };
        (observed[0], noiseless[0])
    }

    #[test]
    fn one_trial_of_each_seed_is_10_to_1000_spreads_too_good() {
        let problem = WithOutliers::new(branin(), Fault::FalselyGood);
        let point = &branin().minimizers()[0].clone();
        let mut errors = Vec::new();
        for seed in 1..=50 {
            let results: Vec<(f64, f64)> =
                (1..=30).map(|trial| observed_and_noiseless(&problem, point, seed, trial)).collect();
            let wrong: Vec<usize> = (0..30).filter(|&index| results[index].0 != results[index].1).collect();
            assert!(wrong.len() == 1 && (4..12).contains(&wrong[0]), "{wrong:?}");
            errors.push((results[wrong[0]].1 - results[wrong[0]].0) / problem.spread);
        }
        assert!(errors.iter().all(|error| (10.0..1000.0).contains(error)), "{errors:?}");
        assert!(errors.iter().any(|error| *error < 50.0) && errors.iter().any(|error| *error > 200.0), "{errors:?}");
    }

    #[test]
    fn a_tenth_of_the_trials_is_at_least_100_spreads_too_bad() {
        let problem = WithOutliers::new(branin(), Fault::WildlyBad);
        let point = &branin().minimizers()[0].clone();
        let results = (1..=2000).map(|trial| observed_and_noiseless(&problem, point, 3, trial));
        let errors: Vec<f64> = results.map(|(observed, noiseless)| (observed - noiseless) / problem.spread).collect();
        let wrong: Vec<f64> = errors.into_iter().filter(|error| *error != 0.0).collect();
        // Four standard deviations of the count.
        assert!((146..=254).contains(&wrong.len()), "{}", wrong.len());
        assert!(wrong.iter().all(|error| (100.0..=10_000.0).contains(error)), "{wrong:?}");
    }

    #[test]
    fn spread_is_that_of_the_values() {
        // Half of the values of Branin lie between about 16 and 85 (10,000 random points).
        let spread = WithOutliers::new(branin(), Fault::WildlyBad).spread;
        assert!((50.0..90.0).contains(&spread), "{spread}");
        let names: Vec<String> = outliers().iter().map(|problem| problem.name().to_owned()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!((names[0].as_str(), names[4].as_str()), ("falsely_good_branin", "wildly_bad_branin"));
    }
}
