//! The models of the source studies, and how the values of a study follow them.
//!
//! Given the completed trials, `y_i` their targets and `mu(u_i)` the predictions of a stack:
//! - From [`MIN_RANKED_TRIALS`] trials on, a source study is dropped if its own model ranks them worse than chance (a
//!   negative rank correlation). The model has seen none of these trials, so this is a held-out test.
//! - The line `y = a + b mu` is a regression with a prior centred at slope 1: `b` moves from 1 to the slope of the data as
//!   their spread grows, `b = (sum (y - ybar)(mu - mubar) + w) / (sum (mu - mubar)^2 + w)`, `w` = [`SLOPE_PRIOR_WEIGHT`]. A
//!   stack whose predictions vary little therefore has little influence, and one without a positive `b` is not used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nalgebra::DMatrix;

use super::source_study::SourceStudy;
use super::translation::translate;
use crate::encoding::Encoding;
use crate::gp::{
    Hyperparameters, KernelTerms, Line, Posterior, StackedPosterior, TrainingSet, fit_with_terms, representative_subset,
};
use crate::prior::PriorDensity;
use crate::problem::ProblemStatement;

/// Number of trials from which a source study may be dropped.
pub(crate) const MIN_RANKED_TRIALS: usize = 5;
/// Number of trials that source models propose before they are tested.
pub(crate) const TRUSTED_TRIALS: usize = MIN_RANKED_TRIALS.div_ceil(2);
/// Most trials that are ranked, the first ones: the time grows with the square of their number.
const MAX_RANKED_TRIALS: usize = 256;
/// Weight of the prior of the slope, in units of squared standardised values (a guess).
const SLOPE_PRIOR_WEIGHT: f64 = 0.5;
/// Smallest slope; below it, the values do not follow the stack.
const SMALLEST_SLOPE: f64 = 0.05;
/// Most studies that are stacked, the latest ones: each costs time at every suggestion.
const MOST_STUDIES: usize = 8;
/// Hyperparameters of a study are fitted to at most this many of its trials.
const FIT_SIZE: usize = 256;

/// The stack of each list of study indices; `None` if it cannot be computed.
type Stacks = HashMap<Vec<usize>, Option<Arc<StackedPosterior>>>;

/// The source studies of one problem that provide usable data, with their models.
#[derive(Debug, Clone)]
pub(crate) struct SourceModels {
    /// The translated trials of each study, the oldest first.
    studies: Vec<TrainingSet>,
    terms: KernelTerms,
    /// Memory of stacks, which would be recomputed identically.
    stacks: Arc<Mutex<Stacks>>,
}

/// A stack of source models and the line by which the values of the current study follow it.
#[derive(Debug, Clone)]
pub(crate) struct SourceModel {
    pub(crate) stack: Arc<StackedPosterior>,
    pub(crate) line: Line,
}

impl SourceModels {
    /// Translates `studies`, the oldest first, to `problem`; `None` if none provides usable data.
    pub(crate) fn new(
        problem: &ProblemStatement,
        encoding: &Encoding,
        studies: &[SourceStudy],
        terms: KernelTerms,
    ) -> Option<Self> {
        let prior = PriorDensity::new(problem.search_space(), encoding);
        let translated = studies.iter().filter_map(|study| translate(problem, encoding, prior.as_ref(), study));
        let mut studies: Vec<TrainingSet> = translated.collect();
        studies.drain(..studies.len().saturating_sub(MOST_STUDIES));
        (!studies.is_empty()).then(|| Self { studies, terms, stacks: Arc::default() })
    }

    /// The points of all studies, not necessarily feasible, the best by the mean of the whole stack first.
    pub(crate) fn best_points(&self) -> Vec<Vec<f64>> {
        let all: Vec<usize> = (0..self.studies.len()).collect();
        let Some(stack) = self.stack(&all) else { return Vec::new() };
        let mut ranked: Vec<(f64, Vec<f64>)> = Vec::new();
        for study in &self.studies {
            let points = study.points.row_iter().map(|row| row.iter().copied().collect());
            ranked.extend(stack.means(&study.points).into_iter().zip(points));
        }
        // Stable, so that of equals the first of the oldest study comes first.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked.into_iter().map(|(_, point)| point).collect()
    }

    /// The source model that predicts the measured trials at the rows of `points` (n x d) with targets `values` (length n);
    /// `None` if no study does.
    pub(crate) fn source_model_for(&self, points: &DMatrix<f64>, values: &[f64]) -> Option<SourceModel> {
        let ranked = values.len().min(MAX_RANKED_TRIALS);
        let ranked_points = points.rows(0, ranked).clone_owned();
        let is_kept = |study: &usize| {
            let ranks_well =
                |alone: Arc<StackedPosterior>| rank_correlation(&alone.means(&ranked_points), &values[..ranked]) >= 0.0;
            ranked < MIN_RANKED_TRIALS || self.stack(&[*study]).is_some_and(ranks_well)
        };
        let kept: Vec<usize> = (0..self.studies.len()).filter(is_kept).collect();
        if kept.is_empty() {
            return None;
        }
        let stack = self.stack(&kept)?;
        let line = line(&stack.means(points), values)?;
        Some(SourceModel { stack, line })
    }

    /// The stack of the given studies, in their order.
    fn stack(&self, studies: &[usize]) -> Option<Arc<StackedPosterior>> {
        // Entries are complete even if another holder of the lock panicked.
        let lock = || self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(studies) {
            return known.clone();
        }
        let (&last, before) = studies.split_last()?;
        let data = &self.studies[last];
        // Computed without the lock: concurrent callers compute the same result.
        let below = if before.is_empty() { None } else { self.stack(before) };
        let source_model = below.and_then(|stack| {
            let line = line(&stack.means(&data.points), &data.values)?;
            Some(SourceModel { stack, line })
        });
        let stack = self.level(data, source_model).map(Arc::new);
        lock().insert(studies.to_vec(), stack.clone());
        stack
    }

    /// The stack with a model of `data` on top of `source_model`.
    fn level(&self, data: &TrainingSet, source_model: Option<SourceModel>) -> Option<StackedPosterior> {
        let mut data = data.clone();
        if let Some(source_model) = &source_model {
            data.values = source_model.residuals(&data.points, &data.values);
        }
        let fitted = fit_with_terms(&data.select(&representative_subset(&data, FIT_SIZE, None)), self.terms);
        let posterior = Posterior::new(fitted, &data)
            .or_else(|| Posterior::new(Hyperparameters::default_with_terms(&data.categorical, self.terms), &data))?;
        Some(match source_model {
            Some(SourceModel { stack, line }) => StackedPosterior::over(stack, line, posterior),
            None => posterior.into(),
        })
    }
}

impl SourceModel {
    /// The residuals of `values` (length n) at the rows of `points` (n x d).
    pub(crate) fn residuals(&self, points: &DMatrix<f64>, values: &[f64]) -> Vec<f64> {
        let Line { offset, slope } = self.line;
        values.iter().zip(self.stack.means(points)).map(|(value, mean)| value - (offset + slope * mean)).collect()
    }
}

/// The line by which `values` follow `means`; `None` if the slope is too small.
fn line(means: &[f64], values: &[f64]) -> Option<Line> {
    let n = means.len().max(1) as f64;
    let mean = means.iter().sum::<f64>() / n;
    let value = values.iter().sum::<f64>() / n;
    let together: f64 = means.iter().zip(values).map(|(m, y)| (m - mean) * (y - value)).sum();
    let alone: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    let slope = (together + SLOPE_PRIOR_WEIGHT) / (alone + SLOPE_PRIOR_WEIGHT);
    (slope.is_finite() && slope > SMALLEST_SLOPE).then_some(Line { offset: value - slope * mean, slope })
}

/// Spearman's rank correlation of two sequences of the same length, equal values sharing the mean of their ranks; 0 if
/// one is constant.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let rank = |value: &f64| {
            let below = values.iter().filter(|other| *other < value).count() as f64;
            let equal = values.iter().filter(|other| *other == value).count() as f64;
            below + 0.5 * (equal - 1.0) - 0.5 * (values.len() as f64 - 1.0)
        };
        values.iter().map(rank).collect()
    };
    let (a, b) = (ranks(a), ranks(b));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    if scale > 0.0 { product(&a, &b) / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_starts_at_one_and_moves_to_the_data() {
        assert_eq!(line(&[], &[]), Some(Line { offset: 0.0, slope: 1.0 }));
        assert_eq!(line(&[2.0], &[0.0]), Some(Line { offset: -2.0, slope: 1.0 }));
        // The squared spread is 8 and the slope of the data 3.
        let found = line(&[-2.0, 2.0], &[-5.0, 7.0]).unwrap();
        let slope = (24.0 + SLOPE_PRIOR_WEIGHT) / (8.0 + SLOPE_PRIOR_WEIGHT);
        assert!((found.slope - slope).abs() < 1e-12 && (found.offset - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!(line(&[-2.0, 2.0], &[7.0, -5.0]), None);
    }

    #[test]
    fn rank_correlation_matches_known_values() {
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[0.1, 0.2, 1e9]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[3.0, 2.0, 1.0]), -1.0);
        // Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
        assert!((rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[6.0, 5.0, 8.0, 7.0]) - 0.6).abs() < 1e-12);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[2.0, 3.0]), 0.0);
    }
}
