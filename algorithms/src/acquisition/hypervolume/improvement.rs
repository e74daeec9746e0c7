//! Logarithm of the expected hypervolume improvement of one point, with its derivatives.
//!
//! Notation: `mu_j`, `s_j` posterior mean and deviation of objective `j` at the point, independent of one another; box
//! `k` from `l_kj` to `u_kj`; `EI_j(t)` expected improvement of objective `j` over `t`, and `EI_j(infinity) = 0`.
//!
//! An outcome `y` adds `prod_j (min(y_j, u_kj) - l_kj)+` to the dominated volume inside box `k`, with mean `prod_j
//! (EI_j(l_kj) - EI_j(u_kj))`; the improvement is the sum over the boxes. Source: Yang et al. 2019, J. Global
//! Optimization 75, section 3 (their psi function is `EI` shifted). All values are logarithms, as in Ament et al. 2023,
//! arXiv 2310.20708, but exact instead of smoothed and sampled: `ln(EI(l) - EI(u))` is `ln EI(l) + ln(1 - e^w)` for the
//! difference `w` of the logarithms.

use super::boxes::Boxes;
use crate::acquisition::log_expected_improvement::{LogExpectedImprovement, log_expected_improvement};
use crate::numerics::normal::log1mexp;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LogImprovement {
    pub(super) value: f64,
    pub(super) by_means: Vec<f64>,
    pub(super) by_deviations: Vec<f64>,
}

/// Value for `means` and `deviations` (above 0), one per objective of `boxes`.
pub(super) fn log_improvement(boxes: &Boxes, means: &[f64], deviations: &[f64]) -> f64 {
    log_sum(&terms(boxes, &marginals(boxes, means, deviations)))
}

/// [`log_improvement`] with derivatives.
pub(super) fn log_improvement_and_derivatives(boxes: &Boxes, means: &[f64], deviations: &[f64]) -> LogImprovement {
    let marginals = marginals(boxes, means, deviations);
    let terms = terms(boxes, &marginals);
    let value = log_sum(&terms);
    let mut by_means = vec![0.0; means.len()];
    let mut by_deviations = vec![0.0; means.len()];
    for (sides, term) in boxes.boxes.iter().zip(terms) {
        let share = (term - value).exp();
        if share == 0.0 {
            continue;
        }
        for (j, &(lower, upper)) in sides.iter().enumerate() {
            let below = &marginals[j][lower];
            let Some(above) = marginals[j].get(upper) else {
                by_means[j] += share * below.by_mean;
                by_deviations[j] += share * below.by_deviation;
                continue;
            };
            let difference = above.value - below.value;
            let weight = share / -difference.exp_m1();
            let ratio = difference.exp();
            by_means[j] += weight * (below.by_mean - ratio * above.by_mean);
            by_deviations[j] += weight * (below.by_deviation - ratio * above.by_deviation);
        }
    }
    LogImprovement { value, by_means, by_deviations }
}

/// `ln EI_j` over each bound of each objective.
fn marginals(boxes: &Boxes, means: &[f64], deviations: &[f64]) -> Vec<Vec<LogExpectedImprovement>> {
    let one = |((bounds, mean), deviation): ((&Vec<f64>, &f64), &f64)| {
        bounds.iter().map(|bound| log_expected_improvement(*mean, *deviation, *bound)).collect()
    };
    boxes.bounds.iter().zip(means).zip(deviations).map(one).collect()
}

/// Logarithm of the contribution of each box; minus infinity if it rounds to 0.
fn terms(boxes: &Boxes, marginals: &[Vec<LogExpectedImprovement>]) -> Vec<f64> {
    let side = |j: usize, lower: usize, upper: usize| {
        let below = marginals[j][lower].value;
        match marginals[j].get(upper) {
            Some(above) if above.value < below => below + log1mexp(above.value - below),
            Some(_) => f64::NEG_INFINITY,
            None => below,
        }
    };
    let term =
        |sides: &Vec<(usize, usize)>| sides.iter().enumerate().map(|(j, &(lower, upper))| side(j, lower, upper)).sum();
    boxes.boxes.iter().map(term).collect()
}

/// `ln sum exp` of `terms`; minus infinity if every term is.
pub(super) fn log_sum(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + terms.iter().map(|term| (term - largest).exp()).sum::<f64>().ln()
}
