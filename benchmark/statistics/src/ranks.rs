//! Ranks of values, with the average rank for ties (midranks), as `scipy.stats.rankdata(method="average")`.
//!
//! Source: Kruskal and Wallis, "Use of ranks in one-criterion variance analysis", 1952.

use super::StatisticsError;
use super::error::{require_count, require_rectangle};

/// Returns the rank of each of `values`, 1 for the smallest; equal values have the mean of their ranks. Empty for no
/// values.
///
/// Infinite values are allowed (a run without a result has the worst one), and equal ones tie. Negative zero equals
/// zero.
///
/// # Errors
/// [`StatisticsError::NotANumber`] if a value is NaN.
///
/// ```
/// use tunesmith_statistics::ranks::average_ranks;
/// assert_eq!(average_ranks(&[3.0, 1.0, 3.0, 2.0]), Ok(vec![3.5, 1.0, 3.5, 2.0]));
/// ```
pub fn average_ranks(values: &[f64]) -> Result<Vec<f64>, StatisticsError> {
    Ok(ranks_and_ties(values)?.0)
}

/// Returns the mean rank of each column over the rows of `blocks`.
///
/// # Errors
/// As [`average_ranks`]; [`StatisticsError::Ragged`] if rows differ in length, [`StatisticsError::TooFew`] without rows.
pub fn mean_ranks<Row: AsRef<[f64]>>(blocks: &[Row]) -> Result<Vec<f64>, StatisticsError> {
    require_count("blocks", blocks.len(), 1)?;
    require_rectangle(blocks)?;
    let ranks: Vec<Vec<f64>> = blocks.iter().map(|block| average_ranks(block.as_ref())).collect::<Result<_, _>>()?;
    Ok((0..ranks[0].len())
        .map(|column| ranks.iter().map(|row| row[column]).sum::<f64>() / ranks.len() as f64)
        .collect())
}

/// Ranks, and the number of values in each group of equal ones (1 for a unique value).
pub(crate) fn ranks_and_ties(values: &[f64]) -> Result<(Vec<f64>, Vec<usize>), StatisticsError> {
    if let Some(index) = values.iter().position(|value| value.is_nan()) {
        return Err(StatisticsError::NotANumber {
            what: "values to rank",
            index,
            value: values[index],
            allowed: "numbers, infinite ones included",
        });
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&first, &second| values[first].total_cmp(&values[second]));
    let mut ranks = vec![0.0; values.len()];
    let mut ties = Vec::new();
    for group in order.chunk_by(|&first, &second| values[first] == values[second]) {
        let before: usize = ties.iter().sum();
        let rank = before as f64 + (group.len() as f64 + 1.0) / 2.0;
        for &index in group {
            ranks[index] = rank;
        }
        ties.push(group.len());
    }
    Ok((ranks, ties))
}

/// Sum of t³ − t over groups of t equal values, subtracted by tie corrections.
pub(crate) fn tie_sum(ties: &[usize]) -> f64 {
    ties.iter().map(|&size| (size as f64).powi(3) - size as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_their_mean_rank_and_infinite_ones_are_last() {
        let ranks = average_ranks(&[f64::INFINITY, 0.0, -0.0, 5.0, f64::INFINITY, f64::NEG_INFINITY]).unwrap();
        assert_eq!(ranks, [5.5, 2.5, 2.5, 4.0, 5.5, 1.0]);
        assert_eq!(average_ranks(&[]), Ok(vec![]));
    }

    #[test]
    fn nan_and_ragged_rows_are_errors() {
        assert!(matches!(average_ranks(&[1.0, f64::NAN]), Err(StatisticsError::NotANumber { index: 1, .. })));
        let ragged = mean_ranks(&[vec![1.0, 2.0], vec![1.0]]);
        assert_eq!(ragged, Err(StatisticsError::Ragged { row: 1, found: 1, expected: 2 }));
        assert!(matches!(mean_ranks::<Vec<f64>>(&[]), Err(StatisticsError::TooFew { .. })));
    }

    #[test]
    fn mean_ranks_are_taken_over_rows() {
        assert_eq!(mean_ranks(&[[1.0, 2.0, 3.0], [3.0, 3.0, 1.0]]), Ok(vec![1.75, 2.25, 2.0]));
    }
}
