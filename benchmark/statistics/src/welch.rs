//! Difference of the means of two samples with unequal variances.
//!
//! B. L. Welch, "The generalization of 'Student's' problem when several different population variances are involved",
//! Biometrika 34, 1947, with the degrees of freedom of F. E. Satterthwaite, "An approximate distribution of estimates of
//! variance components", Biometrics Bulletin 2, 1946, equation 17.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::summary::{mean, standard_error};

/// Estimate of `mean(b) - mean(a)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanDifference {
    pub estimate: f64,
    /// Lower end of the confidence interval.
    pub low: f64,
    /// Upper end of the confidence interval.
    pub high: f64,
}

/// Difference of the means of `b` and `a` with its interval of the given `confidence`, between 0 and 1. Without any variation
/// in both samples, the interval has no width.
///
/// `None` if a sample has fewer than two values or one that is not finite, or `confidence` is out of range.
pub fn mean_difference(a: &[f64], b: &[f64], confidence: f64) -> Option<MeanDifference> {
    let (error_a, error_b) = (standard_error(a)?, standard_error(b)?);
    if !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let estimate = mean(b) - mean(a);
    let (variance_a, variance_b) = (error_a.powi(2), error_b.powi(2));
    let variance = variance_a + variance_b;
    if variance == 0.0 {
        return Some(MeanDifference { estimate, low: estimate, high: estimate });
    }
    let part = |variance: f64, sample: &[f64]| variance.powi(2) / (sample.len() as f64 - 1.0);
    let freedom = variance.powi(2) / (part(variance_a, a) + part(variance_b, b));
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let half = distribution.inverse_cdf(0.5 + confidence / 2.0) * variance.sqrt();
    (estimate.is_finite() && half.is_finite()).then_some(MeanDifference {
        estimate,
        low: estimate - half,
        high: estimate + half,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_equals_that_of_scipy() {
        // scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95) of scipy 1.17.
        let (a, b) = ([0.81, 0.84, 0.79, 0.86, 0.82], [0.88, 0.91, 0.87, 0.95]);
        let found = mean_difference(&a, &b, 0.95).unwrap();
        for (value, expected) in [(found.estimate, 0.0785), (found.low, 0.024283966), (found.high, 0.132716034)] {
            assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        }
    }

    #[test]
    fn undefined_intervals_are_absent() {
        assert_eq!(mean_difference(&[1.0], &[1.0, 2.0], 0.95), None);
        assert_eq!(mean_difference(&[1.0, f64::NAN], &[1.0, 2.0], 0.95), None);
        assert_eq!(mean_difference(&[1.0, 2.0], &[1.0, 2.0], 1.0), None);
        let exact = MeanDifference { estimate: 1.0, low: 1.0, high: 1.0 };
        assert_eq!(mean_difference(&[1.0, 1.0], &[2.0, 2.0], 0.95), Some(exact));
    }
}
