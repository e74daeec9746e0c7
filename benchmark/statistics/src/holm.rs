//! Holm's correction of p values for several comparisons.
//!
//! Source: Holm, "A simple sequentially rejective multiple test procedure", 1979, in the form of adjusted p values.

use super::StatisticsError;

/// Returns the adjusted p values in the order of `p_values`. Rejecting those below α keeps the probability of any false
/// rejection below α, for any dependence between the tests. Empty for no p values.
///
/// # Errors
/// [`StatisticsError::NotANumber`] if one is not between 0 and 1, both included.
///
/// ```
/// use tunesmith_statistics::holm::holm_adjust;
/// assert_eq!(holm_adjust(&[0.5, 0.0625, 0.125]), Ok(vec![0.5, 0.1875, 0.25]));
/// ```
pub fn holm_adjust(p_values: &[f64]) -> Result<Vec<f64>, StatisticsError> {
    if let Some(index) = p_values.iter().position(|p| !(0.0..=1.0).contains(p)) {
        return Err(StatisticsError::NotANumber {
            what: "p values",
            index,
            value: p_values[index],
            allowed: "numbers from 0 to 1",
        });
    }
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&first, &second| p_values[first].total_cmp(&p_values[second]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (position, &index) in order.iter().enumerate() {
        let remaining = (p_values.len() - position) as f64;
        largest = largest.max((remaining * p_values[index]).min(1.0));
        adjusted[index] = largest;
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_values_keep_their_order_and_stop_at_one() {
        // By hand: 3 x 0.01; 2 x 0.015 = 0.03, not less than the value before; 0.9.
        let adjusted = holm_adjust(&[0.9, 0.01, 0.015]).unwrap();
        for (found, expected) in adjusted.iter().zip([0.9, 0.03, 0.03]) {
            assert!((found - expected).abs() < 1e-15, "{found}, not {expected}");
        }
        assert_eq!(holm_adjust(&[0.6, 0.7]), Ok(vec![1.0, 1.0]));
        assert_eq!(holm_adjust(&[]), Ok(vec![]));
    }

    #[test]
    fn a_value_that_is_not_a_probability_is_an_error() {
        for bad in [f64::NAN, -0.1, 1.1] {
            assert!(matches!(holm_adjust(&[0.5, bad]), Err(StatisticsError::NotANumber { index: 1, .. })));
        }
    }
}
