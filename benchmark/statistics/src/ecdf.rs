//! Fixed-target distribution functions, as in COCO.
//!
//! Source: Hansen, Auger, Brockhoff, Tušar, Tušar, "COCO: performance assessment", 2016. The gap of a run is its best
//! value so far minus the optimum, at least 0; a target is a gap to reach. Departure: COCO simulates restarts after
//! unsuccessful runs; here a pair that is not reached stays unreached.

use super::StatisticsError;
use super::error::require_count;

/// Number of targets of a problem in COCO: five per power of ten from 10^2 to 10^-8, both ends included.
pub const TARGETS: usize = 51;

/// One run with its targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run<'a> {
    /// At least 1.
    pub dimension: usize,
    /// Gap after each evaluation, not increasing; infinite before the first feasible result.
    pub gaps: &'a [f64],
    /// Gaps to reach, at least one; they depend on the problem, like the scale of its gaps.
    pub targets: &'a [f64],
}

impl Run<'_> {
    /// Number of the first evaluation, from 1, with a gap of at most `target`.
    pub fn evaluations_to(&self, target: f64) -> Option<usize> {
        self.gaps.iter().position(|&gap| gap <= target).map(|index| index + 1)
    }
}

/// [`TARGETS`] gaps from `easiest` to `hardest`, both included and positive, evenly spaced in their logarithm. From 100
/// to 1e-8 they are the targets of COCO.
pub fn spaced_targets(easiest: f64, hardest: f64) -> Vec<f64> {
    let (first, last) = (easiest.log10(), hardest.log10());
    let step = (last - first) / (TARGETS - 1) as f64;
    (0..TARGETS).map(|index| 10_f64.powf(first + step * index as f64)).collect()
}

/// Share of reached (run, target) pairs as a step function of evaluations over dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Ecdf {
    /// By increasing evaluations.
    pub steps: Vec<EcdfStep>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EcdfStep {
    pub evaluations_per_dimension: f64,
    /// Share of pairs reached within that many evaluations; above 0, at most 1.
    pub share: f64,
}

impl Ecdf {
    /// Share reached within `evaluations_per_dimension`; 0 before the first step and for NaN.
    pub fn share_at(&self, evaluations_per_dimension: f64) -> f64 {
        let count = self.steps.partition_point(|step| step.evaluations_per_dimension <= evaluations_per_dimension);
        if count == 0 { 0.0 } else { self.steps[count - 1].share }
    }

    /// Mean share over the logarithm of evaluations per dimension from `low` to `high`: the area under the plotted
    /// curve, from 0 to 1, larger is better. A run that reaches all targets in half the evaluations gains ln 2 /
    /// ln(high / low).
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

/// Distribution function of `runs`, each over its own targets. Runs of several problems and dimensions may be combined;
/// all pairs have equal weight.
///
/// # Errors
/// [`StatisticsError::TooFew`] without runs, or for a run without targets or of dimension 0;
/// [`StatisticsError::NotANumber`] if a target or a gap is NaN.
pub fn ecdf(runs: &[Run<'_>]) -> Result<Ecdf, StatisticsError> {
    require_count("runs", runs.len(), 1)?;
    let mut efforts = Vec::new();
    let mut pairs = 0;
    for run in runs {
        check(run)?;
        pairs += run.targets.len();
        for &target in run.targets {
            if let Some(evaluations) = run.evaluations_to(target) {
                efforts.push(evaluations as f64 / run.dimension as f64);
            }
        }
    }
    efforts.sort_by(f64::total_cmp);
    let mut reached = 0;
    let mut steps = Vec::new();
    for equal in efforts.chunk_by(|first, second| first == second) {
        reached += equal.len();
        steps.push(EcdfStep { evaluations_per_dimension: equal[0], share: reached as f64 / pairs as f64 });
    }
    Ok(Ecdf { steps })
}

fn check(run: &Run<'_>) -> Result<(), StatisticsError> {
    require_count("dimensions of a run", run.dimension, 1)?;
    require_count("targets of a run", run.targets.len(), 1)?;
    for (what, values) in [("targets of a run", run.targets), ("gaps of a run", run.gaps)] {
        if let Some(index) = values.iter().position(|value| value.is_nan()) {
            let allowed = "numbers, infinite ones included";
            return Err(StatisticsError::NotANumber { what, index, value: f64::NAN, allowed });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Run<'static> = Run { dimension: 2, gaps: &[5.0, 0.5, 0.5, 0.01], targets: &[1.0, 0.1] };
    const SLOW: Run<'static> = Run { dimension: 1, gaps: &[f64::INFINITY, 2.0, 1.0], targets: &[1.0, 0.1] };

    #[test]
    fn the_targets_of_coco_are_five_per_power_of_ten() {
        let targets = spaced_targets(100.0, 1e-8);
        assert_eq!((targets.len(), targets[0], targets[10]), (51, 100.0, 1.0));
        assert!((targets[50] / 1e-8 - 1.0).abs() < 1e-12);
        assert!(targets.windows(2).all(|pair| (pair[1] / pair[0] - 10_f64.powf(-0.2)).abs() < 1e-12));
    }

    #[test]
    fn shares_count_pairs_of_run_and_target() {
        // FAST reaches 1 at 2/2 and 0.1 at 4/2; SLOW reaches 1 (equal) at 3/1 and never 0.1.
        let found = ecdf(&[FAST, SLOW]).unwrap();
        let steps: Vec<_> = found.steps.iter().map(|step| (step.evaluations_per_dimension, step.share)).collect();
        assert_eq!(steps, [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75)]);
        assert_eq!([0.5, 1.0, 2.9, 1e9, f64::NAN].map(|x| found.share_at(x)), [0.0, 0.25, 0.5, 0.75, 0.0]);
    }

    #[test]
    fn each_run_has_its_own_targets_and_all_pairs_have_equal_weight() {
        // FAST reaches 0.02 at 4/2; SLOW reaches 2 at 2/1 and 1 at 3/1, and not 0.5.
        let fast = Run { targets: &[0.02], ..FAST };
        let found = ecdf(&[fast, Run { targets: &[2.0, 1.0, 0.5], ..SLOW }]).unwrap();
        let steps: Vec<_> = found.steps.iter().map(|step| (step.evaluations_per_dimension, step.share)).collect();
        assert_eq!(steps, [(2.0, 0.5), (3.0, 0.75)]);
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
    fn bad_input_is_an_error_and_a_run_without_evaluations_reaches_no_target() {
        assert!(matches!(ecdf(&[]), Err(StatisticsError::TooFew { what: "runs", .. })));
        let without = Run { targets: &[], ..SLOW };
        assert!(matches!(ecdf(&[FAST, without]), Err(StatisticsError::TooFew { what: "targets of a run", .. })));
        let nan = Run { targets: &[1.0, f64::NAN], ..FAST };
        assert!(matches!(ecdf(&[nan]), Err(StatisticsError::NotANumber { what: "targets of a run", index: 1, .. })));
        let nan = Run { gaps: &[1.0, f64::NAN], ..FAST };
        assert!(matches!(ecdf(&[nan]), Err(StatisticsError::NotANumber { what: "gaps of a run", index: 1, .. })));
        assert!(matches!(ecdf(&[Run { dimension: 0, ..FAST }]), Err(StatisticsError::TooFew { .. })));
        assert_eq!(ecdf(&[Run { gaps: &[], ..FAST }]), Ok(Ecdf { steps: vec![] }));
    }
}
