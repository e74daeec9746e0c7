//! The Nemenyi test for pairs of optimizers that differ in mean rank, after [`super::friedman`] found a difference.
//!
//! Sources: Nemenyi, "Distribution-free multiple comparisons", 1963; critical difference and diagram as in Demšar,
//! "Statistical comparisons of classifiers over multiple data sets", 2006, section 3.2. The quantile is computed
//! instead of tabulated, for any number of optimizers.
//!
//! Notation: k treatments, n blocks, R the range (largest less smallest) of k independent standard normal numbers, φ and
//! Φ their density and distribution; q(α, k) the upper α quantile of R, divided by √2.

use std::f64::consts::SQRT_2;

use tunesmith_algorithms::numerics::normal;

use super::StatisticsError;
use super::error::{require_count, require_finite};

/// Returns the critical difference: the difference of mean ranks over `blocks` blocks from which two treatments differ
/// at level `alpha`, q(α, k) √(k (k + 1) / 6n).
///
/// # Errors
/// [`StatisticsError::TooFew`] with fewer than 2 treatments or no block, [`StatisticsError::OutOfRange`] unless 1e-6 ≤
/// `alpha` < 1; smaller values are inexact due to rounding.
pub fn critical_difference(treatments: usize, blocks: usize, alpha: f64) -> Result<f64, StatisticsError> {
    require_count("blocks", blocks, 1)?;
    let k = treatments as f64;
    Ok(studentized_range_quantile(treatments, alpha)? / SQRT_2 * (k * (k + 1.0) / (6.0 * blocks as f64)).sqrt())
}

/// Returns the upper `alpha` quantile of the studentized range of `treatments` means with infinite degrees of freedom,
/// as `scipy.stats.studentized_range.ppf(1 - alpha, treatments, inf)`.
///
/// # Errors
/// As [`critical_difference`].
pub fn studentized_range_quantile(treatments: usize, alpha: f64) -> Result<f64, StatisticsError> {
    require_count("treatments", treatments, 2)?;
    if !(1e-6..1.0).contains(&alpha) {
        return Err(StatisticsError::OutOfRange { name: "alpha", value: alpha, allowed: "1e-6 <= value < 1" });
    }
    let quadrature = Quadrature::new();
    let (mut low, mut high) = (0.0, 1.0);
    // The bound exceeds any quantile by far and ends the loop despite rounding.
    while high < 1024.0 && 1.0 - quadrature.range_distribution(high, treatments) > alpha {
        low = high;
        high *= 2.0;
    }
    loop {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            return Ok(middle);
        }
        if 1.0 - quadrature.range_distribution(middle, treatments) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// Returns the groups of treatments that do not differ significantly: the bars of a critical-difference diagram.
///
/// Each group is a maximal set of at least two treatments whose mean ranks all differ by less than `difference`. Groups
/// contain indices into `mean_ranks` by increasing rank, are in that order themselves, and may overlap. Empty for fewer
/// than two treatments.
///
/// # Errors
/// [`StatisticsError::NotANumber`] if a mean rank is not finite, [`StatisticsError::OutOfRange`] if `difference` is NaN
/// or negative.
///
/// ```
/// use tunesmith_statistics::nemenyi::groups;
/// assert_eq!(groups(&[3.0, 1.0, 1.8, 2.5], 1.0), Ok(vec![vec![1, 2], vec![2, 3], vec![3, 0]]));
/// ```
pub fn groups(mean_ranks: &[f64], difference: f64) -> Result<Vec<Vec<usize>>, StatisticsError> {
    require_finite("mean ranks", mean_ranks)?;
    if difference.is_nan() || difference < 0.0 {
        return Err(StatisticsError::OutOfRange {
            name: "critical difference",
            value: difference,
            allowed: "a number that is not negative",
        });
    }
    let mut order: Vec<usize> = (0..mean_ranks.len()).collect();
    order.sort_by(|&first, &second| mean_ranks[first].total_cmp(&mean_ranks[second]));
    let mut found = Vec::new();
    let mut covered = 0;
    for (start, &first) in order.iter().enumerate() {
        let reach = order[start..].iter().take_while(|&&other| mean_ranks[other] - mean_ranks[first] < difference);
        let end = start + reach.count();
        if end > covered && end - start >= 2 {
            found.push(order[start..end].to_vec());
            covered = end;
        }
    }
    Ok(found)
}

/// Nodes of the trapezoidal rule, with φ and Φ at each. The integrand is entire and decays like φ, so the rule
/// converges faster than any power of its step: quantiles for 2 to 100 treatments equal those of scipy to 1e-14.
struct Quadrature {
    nodes: Vec<Node>,
}

struct Node {
    position: f64,
    density: f64,
    distribution: f64,
}

impl Quadrature {
    const STEP: f64 = 1.0 / 16.0;
    /// φ is below 1e-18 outside.
    const REACH: i32 = 9 * 16;

    fn new() -> Self {
        let nodes = (-Self::REACH..=Self::REACH)
            .map(|index| {
                let position = f64::from(index) * Self::STEP;
                let density = normal::log_density(position).exp();
                Node { position, density, distribution: normal::distribution(position) }
            })
            .collect();
        Self { nodes }
    }

    /// P(R ≤ range) = k ∫ φ(z) (Φ(z) − Φ(z − range))^(k − 1) dz, z being the largest number.
    fn range_distribution(&self, range: f64, treatments: usize) -> f64 {
        let term = |node: &Node| {
            node.density
                * (node.distribution - normal::distribution(node.position - range)).powf(treatments as f64 - 1.0)
        };
        treatments as f64 * Self::STEP * self.nodes.iter().map(term).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_equal_those_of_demsar() {
        // Demšar's table of critical values, q at 0.05 and at 0.10: three decimals, from rounded quantiles.
        let table = [(2, 1.960, 1.645), (3, 2.343, 2.052), (5, 2.728, 2.459), (10, 3.164, 2.920)];
        for (treatments, at_005, at_010) in table {
            for (alpha, printed) in [(0.05, at_005), (0.10, at_010)] {
                let found = studentized_range_quantile(treatments, alpha).unwrap() / SQRT_2;
                assert!((found - printed).abs() < 1.1e-3, "{treatments} treatments at {alpha}: {found}, not {printed}");
            }
        }
    }

    #[test]
    fn the_critical_difference_equals_that_of_demsar() {
        // Demšar's example: 4 classifiers on 14 data sets at 0.10, with q = 2.291.
        assert!((critical_difference(4, 14, 0.10).unwrap() - 1.12).abs() < 5e-3);
    }

    #[test]
    fn groups_are_maximal_sets() {
        assert_eq!(groups(&[1.0, 1.2, 1.4, 3.0], 0.5), Ok(vec![vec![0, 1, 2]]));
        assert_eq!(groups(&[1.0, 2.0], 1.0), Ok(vec![]), "a difference of exactly the critical one is significant");
        assert_eq!(groups(&[2.0, 2.0, 2.0], 0.1), Ok(vec![vec![0, 1, 2]]));
        assert_eq!(groups(&[], 1.0), Ok(vec![]));
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(critical_difference(1, 10, 0.05), Err(StatisticsError::TooFew { what: "treatments", .. })));
        assert!(matches!(critical_difference(3, 0, 0.05), Err(StatisticsError::TooFew { what: "blocks", .. })));
        for alpha in [0.0, 1e-7, 1.0, f64::NAN] {
            assert!(matches!(critical_difference(3, 5, alpha), Err(StatisticsError::OutOfRange { .. })));
        }
        assert!(matches!(groups(&[f64::NAN], 1.0), Err(StatisticsError::NotANumber { .. })));
        assert!(matches!(groups(&[1.0], f64::NAN), Err(StatisticsError::OutOfRange { .. })));
    }
}
