//! Influence of source studies on the search of another study.

use serde::Serialize;

/// Influence of a source study on the search of another study, given the results of that study so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceInfluence {
    /// Index of the source study among those given to the designer.
    #[serde(skip)]
    pub study: usize,
    /// Number of its trials with a value and a point in the new space, at most 400; at least 2.
    pub trials: usize,
    /// Spearman's correlation between the results of the study and their predictions by the model of the source study,
    /// -1 to 1; `None` with fewer than two different results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// Share of the source study in the variance of the study's model over the search space, 0 to 1: 0 if the source study
    /// is not used. What is missing to a sum of 1 belongs to the results of the study itself.
    pub share: f64,
}

/// Mean squared deviation of `values` from their mean; 0 without values.
fn variance(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count
}

/// Share of each of `parts` in the sum of their variances; zeros if nothing varies. Each part has one value per point.
pub(crate) fn variance_shares(parts: &[Vec<f64>]) -> Vec<f64> {
    let variances: Vec<f64> = parts.iter().map(|part| variance(part)).collect();
    let total: f64 = variances.iter().sum();
    let share = |variance: &f64| if total > 0.0 { variance / total } else { 0.0 };
    variances.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_variances() {
        // Variances 1, 9 and 0.
        let parts = [vec![1.0, -1.0], vec![3.0, 9.0], vec![5.0, 5.0]];
        assert_eq!(variance_shares(&parts), [0.1, 0.9, 0.0]);
        assert_eq!(variance_shares(&[vec![2.0, 2.0]]), [0.0]);
    }
}
