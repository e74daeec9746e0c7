//! Fixed-target distribution functions and expected running times, as in COCO.
//!
//! Source: Hansen, Auger, Brockhoff, Tušar, Tušar, "COCO: performance assessment", 2016. The gap of a
//! run is its best value so far less the optimum, 0 or more; a target is a gap to reach. COCO adds runs that it
//! simulates by restarts after unsuccessful ones; we do not: a pair that is not reached stays so.

use super::StatisticsError;
use super::error::require_count;

/// One run as it is judged by targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run<'a> {
    /// Number of parameters of its problem, at least 1.
    pub dimension: usize,
    /// The gap after each evaluation, from the first; not increasing. Infinite as long as there is no feasible result.
    pub gaps: &'a [f64],
}

impl Run<'_> {
    /// The number of the first evaluation, from 1, with which the gap is at most `target`.
    pub fn evaluations_to(&self, target: f64) -> Option<usize> {
        self.gaps.iter().position(|&gap| gap <= target).map(|index| index + 1)
    }
}

/// COCO's 51 targets: 10^2, 10^1.8, ... 10^−8, decreasing.
pub fn coco_targets() -> Vec<f64> {
    (0..=50).map(|index| 10_f64.powf(f64::from(10 - index) / 5.0)).collect()
}

/// The share of pairs of a run and a target that are reached, by evaluations over dimension: a step function.
#[derive(Debug, Clone, PartialEq)]
pub struct Ecdf {
    /// Where it rises, by increasing effort.
    pub steps: Vec<EcdfStep>,
}

/// One step of an [`Ecdf`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EcdfStep {
    /// Evaluations divided by the dimension of the problem.
    pub evaluations_per_dimension: f64,
    /// Share of pairs that are reached with that many, or fewer; above 0, at most 1.
    pub share: f64,
}

impl Ecdf {
    /// The share reached with `evaluations_per_dimension`; 0 before the first step and for NaN.
    pub fn share_at(&self, evaluations_per_dimension: f64) -> f64 {
        let count = self.steps.partition_point(|step| step.evaluations_per_dimension <= evaluations_per_dimension);
        if count == 0 { 0.0 } else { self.steps[count - 1].share }
    }

    /// The mean share over the logarithm of evaluations per dimension from `low` to `high`: the area under the curve as
    /// it is drawn, 0 to 1, larger is better. A run that reaches all targets twice as fast gains ln 2 / ln(high / low).
    ///
    /// # Errors
    /// [`StatisticsError::OutOfRange`] unless 0 < `low` < `high`, both finite.
    pub fn area(&self, low: f64, high: f64) -> Result<f64, StatisticsError> {
        if !(low > 0.0 && low.is_finite()) {
            return Err(StatisticsError::OutOfRange { name: "low", value: low, allowed: "a positive number" });
        }
        if !(high > low && high.is_finite()) {
            return Err(StatisticsError::OutOfRange { name: "high", value: high, allowed: "a number above low" });
        }
        let mut area = 0.0;
        let mut share = 0.0;
        let mut from = low;
        for step in &self.steps {
            let to = step.evaluations_per_dimension.clamp(low, high);
            area += share * (to / from).ln();
            (share, from) = (step.share, to);
        }
        area += share * (high / from).ln();
        Ok(area / (high / low).ln())
    }
}

/// The distribution function of `runs` over `targets`. Runs of several problems and dimensions may be mixed; each pair
/// weighs the same.
///
/// # Errors
/// [`StatisticsError::TooFew`] without runs or targets or with a run of dimension 0, [`StatisticsError::NotANumber`] if
/// a target or a gap is NaN.
pub fn ecdf(runs: &[Run<'_>], targets: &[f64]) -> Result<Ecdf, StatisticsError> {
    check(runs, targets)?;
    require_count("targets", targets.len(), 1)?;
    let mut efforts = Vec::with_capacity(runs.len() * targets.len());
    for run in runs {
        for &target in targets {
            if let Some(evaluations) = run.evaluations_to(target) {
                efforts.push(evaluations as f64 / run.dimension as f64);
            }
        }
    }
    efforts.sort_by(f64::total_cmp);
    let pairs = (runs.len() * targets.len()) as f64;
    let mut reached = 0;
    let mut steps = Vec::new();
    for equal in efforts.chunk_by(|first, second| first == second) {
        reached += equal.len();
        steps.push(EcdfStep { evaluations_per_dimension: equal[0], share: reached as f64 / pairs });
    }
    Ok(Ecdf { steps })
}

/// How long it takes to reach one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedRunningTime {
    /// Number of runs that reach it.
    pub successes: usize,
    /// Evaluations of all runs until they reach it or end.
    pub evaluations: usize,
    /// `evaluations` over `successes`: the expected number of evaluations if runs are restarted until one succeeds.
    /// `None` without success.
    pub expected: Option<f64>,
}

/// The expected running time to `target` from `runs` of one problem, in evaluations.
///
/// # Errors
/// As [`ecdf`].
pub fn expected_running_time(runs: &[Run<'_>], target: f64) -> Result<ExpectedRunningTime, StatisticsError> {
    check(runs, &[target])?;
    let mut successes = 0;
    let mut evaluations = 0;
    for run in runs {
        match run.evaluations_to(target) {
            Some(needed) => {
                successes += 1;
                evaluations += needed;
            }
            None => evaluations += run.gaps.len(),
        }
    }
    let expected = (successes > 0).then(|| evaluations as f64 / successes as f64);
    Ok(ExpectedRunningTime { successes, evaluations, expected })
}

fn check(runs: &[Run<'_>], targets: &[f64]) -> Result<(), StatisticsError> {
    require_count("runs", runs.len(), 1)?;
    let nan = |what, values: &[f64]| match values.iter().position(|value| value.is_nan()) {
        Some(index) => Err(StatisticsError::NotANumber {
            what,
            index,
            value: f64::NAN,
            allowed: "numbers, infinite ones included",
        }),
        None => Ok(()),
    };
    nan("targets", targets)?;
    for run in runs {
        require_count("dimensions of a run", run.dimension, 1)?;
        nan("gaps of a run", run.gaps)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Run<'static> = Run { dimension: 2, gaps: &[5.0, 0.5, 0.5, 0.01] };
    const SLOW: Run<'static> = Run { dimension: 1, gaps: &[f64::INFINITY, 2.0, 1.0] };

    #[test]
    fn coco_targets_go_from_a_hundred_to_1e_minus_8() {
        let targets = coco_targets();
        assert_eq!((targets.len(), targets[0], targets[10]), (51, 100.0, 1.0));
        assert!((targets[50] / 1e-8 - 1.0).abs() < 1e-12);
        assert!(targets.windows(2).all(|pair| (pair[1] / pair[0] - 10_f64.powf(-0.2)).abs() < 1e-12));
    }

    #[test]
    fn shares_count_pairs_of_run_and_target() {
        // FAST reaches 1 at 2/2 and 0.1 at 4/2; SLOW reaches 1 (equal) at 3/1 and never 0.1.
        let found = ecdf(&[FAST, SLOW], &[1.0, 0.1]).unwrap();
        let steps: Vec<_> = found.steps.iter().map(|step| (step.evaluations_per_dimension, step.share)).collect();
        assert_eq!(steps, [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75)]);
        assert_eq!([0.5, 1.0, 2.9, 1e9, f64::NAN].map(|x| found.share_at(x)), [0.0, 0.25, 0.5, 0.75, 0.0]);
    }

    #[test]
    fn area_is_the_mean_share_over_the_logarithm() {
        let curve = Ecdf {
            steps: vec![
                EcdfStep { evaluations_per_dimension: 0.5, share: 0.2 },
                EcdfStep { evaluations_per_dimension: 10.0, share: 0.6 },
                EcdfStep { evaluations_per_dimension: 1000.0, share: 1.0 },
            ],
        };
        assert!((curve.area(1.0, 100.0).unwrap() - 0.4).abs() < 1e-15);
        assert!((curve.area(1.0, 10_000.0).unwrap() - (0.2 + 2.0 * 0.6 + 1.0) / 4.0).abs() < 1e-15);
        assert_eq!(Ecdf { steps: vec![] }.area(1.0, 2.0), Ok(0.0));
        for (low, high) in [(0.0, 1.0), (1.0, 1.0), (1.0, f64::INFINITY), (f64::NAN, 1.0), (1.0, f64::NAN)] {
            assert!(matches!(curve.area(low, high), Err(StatisticsError::OutOfRange { .. })), "{low} to {high}");
        }
    }

    #[test]
    fn expected_running_time_counts_the_evaluations_of_failures() {
        let found = expected_running_time(&[FAST, SLOW, FAST], 0.1).unwrap();
        assert_eq!(found, ExpectedRunningTime { successes: 2, evaluations: 11, expected: Some(5.5) });
        let never = expected_running_time(&[FAST, SLOW], 1e-8).unwrap();
        assert_eq!(never, ExpectedRunningTime { successes: 0, evaluations: 7, expected: None });
    }

    #[test]
    fn bad_input_is_an_error_and_a_run_without_evaluations_reaches_nothing() {
        assert!(matches!(ecdf(&[], &[1.0]), Err(StatisticsError::TooFew { what: "runs", .. })));
        assert!(matches!(ecdf(&[FAST], &[]), Err(StatisticsError::TooFew { what: "targets", .. })));
        assert!(matches!(ecdf(&[FAST], &[f64::NAN]), Err(StatisticsError::NotANumber { what: "targets", .. })));
        let nan = Run { dimension: 1, gaps: &[1.0, f64::NAN] };
        assert!(matches!(ecdf(&[nan], &[1.0]), Err(StatisticsError::NotANumber { index: 1, .. })));
        let flat = Run { dimension: 0, gaps: &[1.0] };
        assert!(matches!(expected_running_time(&[flat], 1.0), Err(StatisticsError::TooFew { .. })));
        assert_eq!(ecdf(&[Run { dimension: 1, gaps: &[] }], &[1.0]), Ok(Ecdf { steps: vec![] }));
    }
}
