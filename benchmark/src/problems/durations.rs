use std::sync::Arc;

use rand_distr::{Distribution, LogNormal};
use tunesmith_algorithms::problem::{ParameterValues, TrialId};
use tunesmith_algorithms::rng;
use tunesmith_algorithms::transfer::SourceStudy;

use crate::problem::{Draw, Evaluation, Problem, Profile};

/// Median of the durations of [`WithDurations`], in simulated seconds (a guess for a small training).
const MEDIAN_SECS: f64 = 60.0;

/// Standard deviation of the logarithm of a duration (a guess): 95 % lie between 22 and 160 seconds.
const SIGMA: f64 = 0.5;

/// A problem with log-normal durations: median 60 simulated seconds and sigma 0.5.
///
/// A duration depends on the point and the seed of the run, not on the trial or the metrics: with equal seeds, the same
/// point takes equally long for all optimizers. Curves are scaled to the duration.
#[derive(Debug, Clone)]
pub struct WithDurations<P> {
    problem: P,
}

impl<P: Problem> WithDurations<P> {
    /// Adds durations to `problem`, which keeps its name.
    pub fn new(problem: P) -> Self {
        Self { problem }
    }
}

impl<P: Problem> Problem for WithDurations<P> {
    fn profile(&self) -> &Profile {
        self.problem.profile()
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        let mut evaluation = self.problem.evaluate(point, draw);
        let duration_secs = duration_secs(point, draw.seed);
        for report in &mut evaluation.curve {
            // Rounding must not move a report beyond the end.
            report.elapsed_secs = (report.elapsed_secs / evaluation.duration_secs * duration_secs).min(duration_secs);
        }
        evaluation.duration_secs = duration_secs;
        evaluation
    }

    fn sources(&self) -> Vec<SourceStudy> {
        self.problem.sources()
    }
}

/// Delegates, so that a problem of a suite can be wrapped.
impl<P: Problem + ?Sized> Problem for Arc<P> {
    fn profile(&self) -> &Profile {
        self.as_ref().profile()
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        self.as_ref().evaluate(point, draw)
    }

    fn sources(&self) -> Vec<SourceStudy> {
        self.as_ref().sources()
    }
}

fn duration_secs(point: &ParameterValues, seed: u64) -> f64 {
    // Values never contain the separator unescaped, so different points have different keys.
    let values: Vec<String> = point.iter().map(|(name, value)| format!("{name:?}={value:?}")).collect();
    let purpose = format!("duration of {}", values.join(","));
    // Trial 0 does not exist: the duration belongs to the point.
    let mut rng = rng::stream(seed, TrialId(0), &purpose);
    let distribution = LogNormal::new(MEDIAN_SECS.ln(), SIGMA).expect("sigma is finite and positive");
    distribution.sample(&mut rng)
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::Goal;

    use super::*;
    use crate::problem::{CurvePoint, Quality};
    use crate::problems::constrained::gramacy;
    use crate::problems::functions::branin;
    use crate::problems::functions::builders::{linear, parameter, point_of_doubles, statement};

    #[test]
    fn durations_have_the_stated_median_and_spread() {
        let problem = WithDurations::new(branin());
        let mut logs: Vec<f64> = (0..10_000)
            .map(|index| {
                let point = point_of_doubles(&[index as f64 / 1000.0, 1.0]);
                problem.evaluate(&point, Draw { seed: 3, trial: TrialId(1) }).duration_secs.ln()
            })
            .collect();
        logs.sort_by(f64::total_cmp);
        let mean = logs.iter().sum::<f64>() / 1e4;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 1e4).sqrt();
        // Four standard errors each.
        assert!((logs[5000] - 60.0_f64.ln()).abs() < 0.025, "median {}", logs[5000].exp());
        assert!((deviation - 0.5).abs() < 0.015, "{deviation}");
    }

    #[test]
    fn a_duration_depends_on_the_point_and_the_seed() {
        let problem = WithDurations::new(branin());
        let duration = |x: f64, seed, trial| {
            problem.evaluate(&point_of_doubles(&[x, 1.0]), Draw { seed, trial: TrialId(trial) }).duration_secs
        };
        assert_eq!(duration(2.0, 1, 1), duration(2.0, 1, 9));
        assert_ne!(duration(2.0, 1, 1), duration(2.0, 2, 1));
        assert_ne!(duration(2.0, 1, 1), duration(3.0, 1, 1));
        let shared: Arc<dyn Problem> = Arc::new(branin());
        let shared = WithDurations::new(shared);
        let (point, draw) = (point_of_doubles(&[2.0, 1.0]), Draw { seed: 1, trial: TrialId(1) });
        assert_eq!(shared.evaluate(&point, draw), problem.evaluate(&point, draw));
        assert_eq!((problem.name(), shared.name()), ("branin", "branin"));
        let constrained: Arc<dyn Problem> = Arc::new(gramacy());
        assert_eq!(WithDurations::new(constrained).profile().constraints, 2);
    }

    /// A problem whose trials take two seconds and report after one second and at the end.
    struct Slow(Profile);

    impl Problem for Slow {
        fn profile(&self) -> &Profile {
            &self.0
        }

        fn evaluate(&self, _point: &ParameterValues, _draw: Draw) -> Evaluation {
            let report = |step| CurvePoint { step, elapsed_secs: step as f64, value: 0.5 };
            Evaluation { duration_secs: 2.0, curve: vec![report(1), report(2)], ..Evaluation::exact(0.5) }
        }
    }

    #[test]
    fn a_curve_is_scaled_to_the_duration() {
        let statement = statement(vec![parameter("x01", linear(0.0, 1.0))], &[Goal::Minimize]);
        let slow = Slow(Profile::new("slow", statement, Quality::Value { best_known: None }));
        let evaluation =
            WithDurations::new(slow).evaluate(&point_of_doubles(&[0.25]), Draw { seed: 1, trial: TrialId(1) });
        let elapsed: Vec<f64> = evaluation.curve.iter().map(|report| report.elapsed_secs).collect();
        assert_eq!(elapsed, [evaluation.duration_secs / 2.0, evaluation.duration_secs]);
        assert_ne!(evaluation.duration_secs, 2.0);
    }
}
