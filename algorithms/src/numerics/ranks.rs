//! Spearman's rank correlation.

/// Correlation of the ranks, where equal values share their mean rank. `None` if all values of one list are equal.
pub(crate) fn rank_correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let (one, other) = (ranks(one), ranks(other));
    let middle = (one.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum() };
    let scale = (product(&one, &one) * product(&other, &other)).sqrt();
    (scale > 0.0).then(|| (product(&one, &other) / scale).clamp(-1.0, 1.0))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other < value);
        let up_to = sorted.partition_point(|other| other <= value);
        ((below + up_to) as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_matches_known_values() {
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[0.1, 0.2, 1e9]), Some(1.0));
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(rank_correlation(&[1.0, 1.0, 1.0], &[3.0, 2.0, 1.0]), None);
        // Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
        let swapped = rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[6.0, 5.0, 8.0, 7.0]).unwrap();
        assert!((swapped - 0.6).abs() < 1e-12, "{swapped}");
        // Ranks 0, 1.5, 1.5, 3 against 0, 2, 1, 3: 4.5 / sqrt(4.5 * 5).
        let shared = rank_correlation(&[1.0, 2.0, 2.0, 3.0], &[1.0, 3.0, 2.0, 4.0]).unwrap();
        assert!((shared - 4.5 / 22.5_f64.sqrt()).abs() < 1e-12, "{shared}");
    }
}
