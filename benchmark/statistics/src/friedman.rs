//! The Friedman test of differences between optimizers, from their ranks on each problem.
//!
//! Sources: Friedman, "The use of ranks to avoid the assumption of normality implicit in the analysis of variance",
//! 1937; tie correction as in `scipy.stats.friedmanchisquare`; use as in Demšar, "Statistical comparisons of
//! classifiers over multiple data sets", 2006, section 3.2. [`super::nemenyi`] finds the optimizers that differ.
//!
//! Notation: n blocks (problems), k treatments (optimizers), Rⱼ mean rank of treatment j, t sizes of groups of ties.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::StatisticsError;
use super::error::{require_count, require_rectangle};
use super::ranks::{ranks_and_ties, tie_sum};

#[derive(Debug, Clone, PartialEq)]
pub struct FriedmanTest {
    /// Mean rank of each treatment over blocks, 1 to k; the smallest values have the smallest ranks.
    pub mean_ranks: Vec<f64>,
    /// Friedman's statistic, corrected for ties; 0 if all values of each block are equal.
    pub statistic: f64,
    /// p value from the χ² distribution with k − 1 degrees of freedom.
    pub p: f64,
}

/// Computes the Friedman test of `blocks`, shape n × k: one row per block with the value of each treatment.
///
/// If all values of each block are equal, the statistic is 0 and the p value 1 (scipy gives NaN). Two treatments are
/// allowed, unlike in scipy; the χ² statistic is then that of the sign test.
///
/// # Errors
/// [`StatisticsError::TooFew`] with fewer than 2 blocks or 2 treatments, [`StatisticsError::Ragged`] if rows differ in
/// length, [`StatisticsError::NotANumber`] for NaN; infinite values are ranked.
pub fn friedman<Row: AsRef<[f64]>>(blocks: &[Row]) -> Result<FriedmanTest, StatisticsError> {
    require_count("blocks", blocks.len(), 2)?;
    let treatments = require_rectangle(blocks)?;
    require_count("treatments", treatments, 2)?;
    let (n, k) = (blocks.len() as f64, treatments as f64);
    let mut rank_sums = vec![0.0; treatments];
    let mut ties = 0.0;
    for block in blocks {
        let (ranks, sizes) = ranks_and_ties(block.as_ref())?;
        for (sum, rank) in rank_sums.iter_mut().zip(ranks) {
            *sum += rank;
        }
        ties += tie_sum(&sizes);
    }
    let mean_ranks: Vec<f64> = rank_sums.iter().map(|sum| sum / n).collect();
    let correction = 1.0 - ties / (k * (k * k - 1.0) * n);
    if correction <= 0.0 {
        return Ok(FriedmanTest { mean_ranks, statistic: 0.0, p: 1.0 });
    }
    // The sum of squared deviations equals the textbook's sum of squares minus its mean, without its cancellation.
    let centre = n * (k + 1.0) / 2.0;
    let deviations: f64 = rank_sums.iter().map(|sum| (sum - centre).powi(2)).sum();
    let statistic = 12.0 / (k * n * (k + 1.0)) * deviations / correction;
    Ok(FriedmanTest { mean_ranks, statistic, p: chi_squared_survival(statistic, k - 1.0)? })
}

fn chi_squared_survival(statistic: f64, degrees: f64) -> Result<f64, StatisticsError> {
    let distribution = ChiSquared::new(degrees).map_err(|_| StatisticsError::OutOfRange {
        name: "degrees of freedom",
        value: degrees,
        allowed: "a positive number",
    })?;
    Ok(distribution.sf(statistic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreeing_blocks_have_the_largest_statistic() {
        let test = friedman(&[[1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [5.0, 6.0, f64::INFINITY]]).unwrap();
        assert_eq!(test.mean_ranks, [1.0, 2.0, 3.0]);
        assert!((test.statistic - 6.0).abs() < 1e-12, "n (k - 1) = 6, found {}", test.statistic);
        // The tail of two degrees of freedom is exp(-statistic / 2).
        assert!((test.p - (-3.0_f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn equal_values_have_a_p_value_of_one() {
        let test = friedman(&[[1.0, 1.0], [2.0, 2.0]]).unwrap();
        assert_eq!((test.statistic, test.p), (0.0, 1.0));
        assert_eq!(test.mean_ranks, [1.5, 1.5]);
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(friedman::<Vec<f64>>(&[]), Err(StatisticsError::TooFew { what: "blocks", .. })));
        assert!(matches!(friedman(&[[1.0], [1.0]]), Err(StatisticsError::TooFew { what: "treatments", .. })));
        assert!(matches!(friedman(&[[1.0, f64::NAN], [1.0, 2.0]]), Err(StatisticsError::NotANumber { .. })));
        assert!(matches!(friedman(&[vec![1.0, 2.0], vec![1.0]]), Err(StatisticsError::Ragged { .. })));
    }
}
