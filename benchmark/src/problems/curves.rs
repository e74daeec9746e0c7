//! Learning curves at equal epochs: every trial takes ten seconds of simulated time and reports at equal distances, so that
//! simulated time counts epochs.
//!
//! [`WithReports`] does this to a problem with curves, such as a table of trained models; [`recipes`] are formulas with
//! known optima, whose instances are new problems: nothing can be tuned to them.

use std::sync::Arc;

use rand_distr::{Distribution, Normal};
use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::{ParameterValues, ScaleType};
use tunesmith_algorithms::rng;
use tunesmith_algorithms::transfer::SourceStudy;

use super::functions::TestFunction;
use super::functions::builders::{categorical, discrete, double, integer, parameter};
use super::tiny::recipe;
use crate::problem::{CurvePoint, Draw, Evaluation, EvaluationOutcome, Problem, Profile};

/// Numbers of reports of a trial in the suite `curves`, the last one at its end.
pub const REPORTS: [usize; 3] = [10, 5, 3];

/// Simulated seconds of a trial.
const TRIAL_SECS: f64 = 10.0;
/// Reports of a recipe.
const RECIPE_REPORTS: usize = 10;
/// Smallest meaningful gap of a recipe, a hundredth of that of a middling point.
const RECIPE_RESOLUTION: f64 = 0.003;

/// A problem whose trials take ten seconds, and of whose reports a part remains.
#[derive(Debug, Clone)]
pub struct WithReports<P> {
    profile: Profile,
    problem: P,
    reports: usize,
}

impl<P: Problem> WithReports<P> {
    /// Keeps `reports` of the reports of each trial, at equal distances and with the last one; trials with fewer keep them
    /// all. Steps count tenths of the trial. The number of reports becomes part of the name, and is at most ten.
    pub fn new(problem: P, reports: usize) -> Self {
        let profile = problem.profile().clone();
        let profile = Profile { name: format!("{}/r{reports:02}", profile.name), ..profile };
        Self { profile, problem, reports }
    }
}

impl<P: Problem> Problem for WithReports<P> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        let mut evaluation = self.problem.evaluate(point, draw);
        let curve = std::mem::take(&mut evaluation.curve);
        let kept = self.reports.min(curve.len());
        let report = |report: usize| {
            let index = report * curve.len() / kept;
            let epoch = (index as f64 / curve.len() as f64 * TRIAL_SECS).round();
            CurvePoint { step: epoch as u64, elapsed_secs: epoch, value: curve[index - 1].value }
        };
        evaluation.curve = (1..=kept).map(report).collect();
        evaluation.duration_secs = TRIAL_SECS;
        evaluation
    }

    fn sources(&self) -> Vec<SourceStudy> {
        self.problem.sources()
    }
}

/// Course of the curves of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// All curves fall alike, so the order of the first report is that of the last one.
    Parallel,
    /// Small learning rates are slow and networks of many units begin higher, so curves cross.
    Crossing,
    /// As crossing, with noise in the reports before the last one.
    Uneven,
}

/// Training recipe of six parameters with learning curves and a known optimum at a random place.
#[derive(Clone)]
pub struct CurveRecipe {
    profile: Profile,
    end: TestFunction,
    encoding: Arc<Encoding>,
    course: Course,
}

/// Constructors of the recipes, by instance number.
pub fn recipes() -> [fn(u64) -> CurveRecipe; 3] {
    [
        |instance| CurveRecipe::new("parallel", Course::Parallel, instance),
        |instance| CurveRecipe::new("crossing", Course::Crossing, instance),
        |instance| CurveRecipe::new("uneven", Course::Uneven, instance),
    ]
}

impl CurveRecipe {
    fn new(name: &str, course: Course, instance: u64) -> Self {
        let parameters = vec![
            parameter("rate", double(1e-4, 1.0, ScaleType::UnitLog)),
            parameter("units", integer(16, 512, ScaleType::UnitLog)),
            parameter("decay", double(1e-6, 0.1, ScaleType::UnitLog)),
            parameter("momentum", double(0.5, 0.99, ScaleType::UnitReverseLog)),
            parameter("batch", discrete(vec![16.0, 32.0, 64.0, 128.0], ScaleType::UnitLog)),
            parameter("activation", categorical(&["gelu", "relu", "tanh"])),
        ];
        let end = recipe(name, parameters, instance);
        let encoding = Arc::new(Encoding::new(end.statement().search_space()));
        let profile = Profile { resolution: Some(RECIPE_RESOLUTION), ..end.profile().clone() };
        Self { profile, end, encoding, course }
    }

    /// Value above the last one at `progress`, from 0 to 1, of the curve of `point`: `height (e^(-speed progress) -
    /// e^-speed)`.
    fn excess(&self, point: &ParameterValues, progress: f64) -> f64 {
        let (speed, height) = match self.course {
            Course::Parallel => (3.0, 0.5),
            Course::Crossing | Course::Uneven => {
                let at = self.encoding.encode(point).expect("a point of the space");
                (0.7 + 6.0 * at[0], 0.4 + 0.8 * at[1])
            }
        };
        height * ((-speed * progress).exp() - (-speed).exp())
    }
}

impl Problem for CurveRecipe {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        let mut evaluation = self.end.evaluate(point, draw);
        let EvaluationOutcome::Measured { noiseless, .. } = &evaluation.outcome else { return evaluation };
        let end = noiseless[0];
        let mut rng = rng::stream(draw.seed, draw.trial, &format!("reports of {}", self.profile.name));
        let noise = Normal::new(0.0, 0.02).expect("the deviation is finite");
        let report = |report: usize| {
            let progress = report as f64 / RECIPE_REPORTS as f64;
            let is_noisy = self.course == Course::Uneven && report < RECIPE_REPORTS;
            let value = end + self.excess(point, progress) + if is_noisy { noise.sample(&mut rng) } else { 0.0 };
            CurvePoint { step: report as u64, elapsed_secs: progress, value }
        };
        evaluation.curve = (1..=RECIPE_REPORTS).map(report).collect();
        evaluation
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::TrialId;
    use tunesmith_algorithms::sampling::sobol_point;

    use super::*;

    fn curve(problem: &impl Problem, trial: u64) -> (Vec<CurvePoint>, f64) {
        let encoding = Encoding::new(problem.statement().search_space());
        let point = encoding.decode(&sobol_point(&encoding, 1, TrialId(trial)));
        let evaluation = problem.evaluate(&point, Draw { seed: 1, trial: TrialId(trial) });
        let EvaluationOutcome::Measured { noiseless, .. } = evaluation.outcome else { panic!("no value") };
        assert_eq!(evaluation.duration_secs, TRIAL_SECS);
        (evaluation.curve, noiseless[0])
    }

    #[test]
    fn reports_are_at_equal_distances_and_end_with_the_result() {
        for (reports, expected) in
            [(10, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (5, vec![2, 4, 6, 8, 10]), (3, vec![3, 6, 10])]
        {
            for make in recipes() {
                let problem = WithReports::new(make(1), reports);
                let (curve, end) = curve(&problem, 1);
                assert_eq!(curve.iter().map(|point| point.step).collect::<Vec<_>>(), expected);
                assert!(curve.iter().all(|point| point.elapsed_secs == point.step as f64));
                assert_eq!(curve[reports - 1].value, end, "{}", problem.name());
                assert!(problem.name().ends_with(&format!("/r{reports:02}")), "{}", problem.name());
            }
        }
    }

    #[test]
    fn first_reports_have_the_order_of_the_results_where_curves_are_parallel_only() {
        let [parallel, crossing, uneven] = recipes().map(|make| {
            let problem = WithReports::new(make(1), 10);
            let mut exchanged = 0;
            let curves: Vec<(f64, f64)> =
                (1..=60).map(|trial| curve(&problem, trial)).map(|(curve, end)| (curve[0].value, end)).collect();
            for (index, one) in curves.iter().enumerate() {
                exchanged += curves[..index].iter().filter(|other| (one.0 < other.0) != (one.1 < other.1)).count();
            }
            exchanged
        });
        assert_eq!(parallel, 0);
        // Of 1770 pairs.
        assert!((200..900).contains(&crossing) && uneven >= 200, "{crossing} {uneven}");
    }
}
