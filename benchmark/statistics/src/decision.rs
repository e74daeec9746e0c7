//! Decisions whether one optimizer is better than another.
//!
//! An optimizer is better (or worse) than a reference if all three conditions hold for its paired differences, one per
//! problem:
//! 1. The two-sided p value of the signed-rank test ([`super::wilcoxon`]), corrected by [`super::holm`] for all
//!    comparisons made together, is below α.
//! 2. The percentile bootstrap interval of the mean difference ([`super::bootstrap`]) does not contain 0.
//! 3. Test and interval have the same direction.
//!
//! Each alone is misleading. The test uses only ranks, so many tiny gains outweigh one large loss. The interval follows
//! the mean, which one outlier can dominate, and is too narrow for few problems. The differences are means per problem,
//! because the runs of one problem are not independent evidence about problems.

use serde::Serialize;

use super::StatisticsError;
use super::bootstrap::{Interval, bootstrap_interval};
use super::holm::holm_adjust;
use super::summary::mean;
use super::wilcoxon::{WilcoxonTest, wilcoxon};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Better,
    Worse,
    /// No significant difference, which does not prove equality.
    #[serde(rename = "none")]
    NoDifference,
}

/// Options of [`assess`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecisionOptions {
    /// Level α of the adjusted p value, and 1 minus the coverage of the interval; between 0 and 1, exclusive. Default
    /// 0.05.
    pub alpha: f64,
    /// Number of bootstrap resamples. Default 10,000.
    pub resamples: usize,
    /// Seed of the bootstrap. Default 0.
    pub seed: u64,
}

impl Default for DecisionOptions {
    fn default() -> Self {
        Self { alpha: 0.05, resamples: 10_000, seed: 0 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    pub decision: Decision,
    /// Mean difference over problems.
    pub mean_difference: f64,
    /// Bootstrap interval of `mean_difference`.
    pub interval: Interval,
    /// Signed-rank test, with its uncorrected p value and the effect size.
    pub wilcoxon: WilcoxonTest,
    /// p value corrected for all comparisons made together.
    pub adjusted_p: f64,
}

/// Assesses simultaneous comparisons, for instance of one optimizer with each other one.
///
/// Each comparison contains the differences optimizer − reference, one per problem, of a number that is *smaller when
/// better* (log10 simple regret, loss, rank): negative differences favour the optimizer. Negate those of a score. With
/// five problems or fewer the decision at level 0.05 is always [`Decision::NoDifference`], since no p value is small
/// enough. Empty without comparisons.
///
/// # Errors
/// [`StatisticsError::TooFew`] if a comparison has no differences, [`StatisticsError::NotANumber`] if a difference is
/// not finite, [`StatisticsError::OutOfRange`] if α is not between 0 and 1.
pub fn assess<Row: AsRef<[f64]>>(
    comparisons: &[Row],
    options: DecisionOptions,
) -> Result<Vec<Assessment>, StatisticsError> {
    let mut tests = Vec::with_capacity(comparisons.len());
    for differences in comparisons {
        tests.push(wilcoxon(differences.as_ref())?);
    }
    let p_values: Vec<f64> = tests.iter().map(|test| test.p).collect();
    let adjusted = holm_adjust(&p_values)?;
    let mut assessments = Vec::with_capacity(comparisons.len());
    for ((differences, wilcoxon), adjusted_p) in comparisons.iter().zip(tests).zip(adjusted) {
        let differences = differences.as_ref();
        let interval = bootstrap_interval(differences, mean, 1.0 - options.alpha, options.resamples, options.seed)?;
        let significant = adjusted_p < options.alpha;
        let decision = if significant && interval.high < 0.0 && wilcoxon.rank_biserial < 0.0 {
            Decision::Better
        } else if significant && interval.low > 0.0 && wilcoxon.rank_biserial > 0.0 {
            Decision::Worse
        } else {
            Decision::NoDifference
        };
        let mean_difference = mean(differences);
        assessments.push(Assessment { decision, mean_difference, interval, wilcoxon, adjusted_p });
    }
    Ok(assessments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions(comparisons: &[Vec<f64>]) -> Vec<Decision> {
        let assessments =
            assess(comparisons, DecisionOptions { resamples: 500, ..DecisionOptions::default() }).unwrap();
        assessments.iter().map(|assessment| assessment.decision).collect()
    }

    fn gains(count: usize) -> Vec<f64> {
        (1..=count).map(|index| -0.1 * index as f64).collect()
    }

    #[test]
    fn a_clear_difference_is_better_or_worse() {
        let losses = gains(10).iter().map(|difference| -difference).collect();
        assert_eq!(decisions(&[gains(10), losses]), [Decision::Better, Decision::Worse]);
    }

    #[test]
    fn noise_too_few_problems_and_equality_are_no_difference() {
        let noise = vec![0.3, -0.2, 0.1, -0.4, 0.25, -0.15, 0.05, -0.1];
        assert_eq!(decisions(&[noise]), [Decision::NoDifference]);
        assert_eq!(decisions(&[gains(5)]), [Decision::NoDifference]);
        assert_eq!(decisions(&[vec![0.0; 20]]), [Decision::NoDifference]);
        assert_eq!(decisions(&[]), []);
    }

    #[test]
    fn more_comparisons_need_smaller_p_values() {
        // Six gains have p = 2/64 = 0.03125: significant alone, not among three comparisons.
        assert_eq!(decisions(&[gains(6)]), [Decision::Better]);
        assert_eq!(decisions(&[gains(6), gains(6), gains(6)]), [Decision::NoDifference; 3]);
    }

    #[test]
    fn one_large_loss_among_many_small_gains_is_no_difference() {
        let mut differences = gains(20);
        differences.push(60.0);
        let assessment = &assess(&[differences], DecisionOptions::default()).unwrap()[0];
        assert!(assessment.adjusted_p < 0.05 && assessment.interval.contains(0.0), "{assessment:?}");
        assert_eq!(assessment.decision, Decision::NoDifference);
    }

    #[test]
    fn bad_input_is_an_error() {
        let options = DecisionOptions::default();
        assert!(matches!(assess(&[vec![]], options), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(assess(&[[f64::NAN]], options), Err(StatisticsError::NotANumber { .. })));
        let level = assess(&[[1.0]], DecisionOptions { alpha: 0.0, ..options });
        assert!(matches!(level, Err(StatisticsError::OutOfRange { .. })));
    }
}
