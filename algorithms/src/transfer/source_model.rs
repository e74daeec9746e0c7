//! Models of the source studies, and the relation of a study's values to them.
//!
//! Given the completed trials, `y_i` their targets and `mu(u_i)` the predictions of a stack:
//! - From [`MIN_RANKED_TRIALS`] trials on, a source study is dropped if its own model ranks them worse than chance (a
//!   negative rank correlation), from [`COMPARED_TRIALS`] on if it hardly ranks them better (a correlation below
//!   [`LEAST_CORRELATION`]). The model has seen none of these trials, so this is a held-out test.
//! - The line `y = a + b mu` is a regression with a prior centred at slope 1: `b` moves from 1 to the slope of the data
//!   as their spread grows, `b = (sum (y - ybar)(mu - mubar) + w) / (sum (mu - mubar)^2 + w)`, `w` =
//!   [`SLOPE_PRIOR_WEIGHT`]. A stack whose predictions vary little therefore has little influence, and one without a
//!   positive `b` is not used.

use std::collections::HashMap;
use std::sync::Arc;

use nalgebra::DMatrix;
use parking_lot::Mutex;

use super::influence::{SourceInfluence, variance_shares};
use super::source_study::SourceStudy;
use super::translation::translate;
use crate::encoding::Encoding;
use crate::gp::{Hyperparameters, Line, Posterior, StackedPosterior, TrainingSet, fit, representative_subset};
use crate::numerics::ranks::rank_correlation;
use crate::prior::PriorDensity;
use crate::problem::ProblemStatement;

/// Number of trials from which a source study may be dropped (measured, see docs/experiments/003).
const MIN_RANKED_TRIALS: usize = 2;
/// Number of trials that source models propose before they are tested.
pub(crate) const TRUSTED_TRIALS: usize = MIN_RANKED_TRIALS - 1;
/// Number of first trials of which every other one belongs to the initial design (measured, see docs/experiments/003).
pub(crate) const ALTERNATING_TRIALS: usize = 3;
/// Number of trials from which source models have to predict them, and the stacked model competes with one without source
/// models.
pub(crate) const COMPARED_TRIALS: usize = 5;
/// Smallest rank correlation from then on (measured, see docs/experiments/003).
const LEAST_CORRELATION: f64 = 0.3;
/// Maximum number of ranked trials, the first ones: the time grows with the square of their number.
const MAX_RANKED_TRIALS: usize = 256;
/// Weight of the prior of the slope, in units of squared standardised values (a guess).
const SLOPE_PRIOR_WEIGHT: f64 = 0.5;
/// Smallest slope; below it, the values do not follow the stack.
const SMALLEST_SLOPE: f64 = 0.05;
/// Maximum number of stacked studies, the latest ones: each costs time at every suggestion.
const MOST_STUDIES: usize = 8;
/// Maximum number of a study's trials in a hyperparameter fit.
const FIT_SIZE: usize = 256;

/// Stack of each list of study indices; `None` if it cannot be computed.
type Stacks = HashMap<Vec<usize>, Option<Arc<StackedPosterior>>>;

/// Source studies of one problem with usable data, and their models.
#[derive(Debug, Clone)]
pub(crate) struct SourceModels {
    /// Translated trials of each study, oldest first.
    studies: Vec<TrainingSet>,
    /// Index of each study among the given ones.
    indices: Vec<usize>,
    /// Cache of stacks, which a recomputation reproduces identically.
    stacks: Arc<Mutex<Stacks>>,
}

/// Stack of source models, with the line by which the current study's values follow it.
#[derive(Debug, Clone)]
pub(crate) struct SourceModel {
    pub(crate) stack: Arc<StackedPosterior>,
    pub(crate) line: Line,
}

impl SourceModels {
    /// Translates `studies`, oldest first, to `problem`; `None` if none provides usable data.
    pub(crate) fn new(problem: &ProblemStatement, encoding: &Encoding, studies: &[SourceStudy]) -> Option<Self> {
        let prior = PriorDensity::new(problem.search_space(), encoding);
        let (mut indices, mut translated) = (Vec::new(), Vec::new());
        for (index, study) in studies.iter().enumerate() {
            if let Some(data) = translate(problem, encoding, prior.as_ref(), study) {
                indices.push(index);
                translated.push(data);
            }
        }
        let oldest = indices.len().saturating_sub(MOST_STUDIES);
        indices.drain(..oldest);
        translated.drain(..oldest);
        (!translated.is_empty()).then(|| Self { studies: translated, indices, stacks: Arc::default() })
    }

    /// Points of all studies, not necessarily feasible, in decreasing order of the whole stack's mean.
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

    /// Source model that predicts the measured trials at the rows of `points` (n x d) with targets `values` (length n);
    /// `None` if no study does.
    pub(crate) fn source_model_for(&self, points: &DMatrix<f64>, values: &[f64]) -> Option<SourceModel> {
        let kept = self.kept(points, values);
        if kept.is_empty() {
            return None;
        }
        let stack = self.stack(&kept)?;
        let line = line(&stack.means(points), values)?;
        Some(SourceModel { stack, line })
    }

    /// Studies whose models rank the measured trials well enough.
    fn kept(&self, points: &DMatrix<f64>, values: &[f64]) -> Vec<usize> {
        let least = match values.len() {
            ..MIN_RANKED_TRIALS => return (0..self.studies.len()).collect(),
            MIN_RANKED_TRIALS..COMPARED_TRIALS => 0.0,
            COMPARED_TRIALS.. => LEAST_CORRELATION,
        };
        let correlations = self.rank_correlations(points, values);
        let is_kept = |study: &usize| match &correlations[*study] {
            Some(correlation) => correlation.is_none_or(|correlation| correlation >= least),
            None => false,
        };
        (0..self.studies.len()).filter(is_kept).collect()
    }

    /// Rank correlation of each study's own model with the measured trials, without a value if either has equal ranks
    /// only; `None` without a model.
    fn rank_correlations(&self, points: &DMatrix<f64>, values: &[f64]) -> Vec<Option<Option<f64>>> {
        let ranked = values.len().min(MAX_RANKED_TRIALS);
        let points = points.rows(0, ranked).clone_owned();
        let correlation = |study| Some(rank_correlation(&self.stack(&[study])?.means(&points), &values[..ranked]));
        (0..self.studies.len()).map(correlation).collect()
    }

    /// Influence of each study, given the measured trials at the rows of `points` (n x d) with targets `values` (length
    /// n), and the model stacked on these source models. Its variance is that at the rows of `space` (m x d).
    pub(crate) fn influences(
        &self,
        points: &DMatrix<f64>,
        values: &[f64],
        model: Option<&StackedPosterior>,
        space: &DMatrix<f64>,
    ) -> Vec<SourceInfluence> {
        let mut shares = vec![0.0; self.studies.len()];
        if let Some(model) = model {
            let kept = self.kept(points, values);
            // The lowest models are missing if the values above do not follow them.
            let parts = model.parts(space);
            let own = usize::from(!values.is_empty());
            let sources = parts.len() - own;
            for (study, share) in kept[kept.len() - sources..].iter().zip(variance_shares(&parts)) {
                shares[*study] = share;
            }
        }
        let correlations = self.rank_correlations(points, values);
        let influence = |study: usize| SourceInfluence {
            study: self.indices[study],
            trials: self.studies[study].values.len(),
            rank_correlation: correlations[study].flatten(),
            share: shares[study],
        };
        (0..self.studies.len()).map(influence).collect()
    }

    fn stack(&self, studies: &[usize]) -> Option<Arc<StackedPosterior>> {
        let lock = || self.stacks.lock();
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
        let stack = Self::level(data, source_model).map(Arc::new);
        lock().insert(studies.to_vec(), stack.clone());
        stack
    }

    /// Stack with a model of `data` on top of `source_model`.
    fn level(data: &TrainingSet, source_model: Option<SourceModel>) -> Option<StackedPosterior> {
        let mut data = data.clone();
        if let Some(source_model) = &source_model {
            data.values = source_model.residuals(&data.points, &data.values);
        }
        let fitted = fit(&data.select(&representative_subset(&data, FIT_SIZE, None)));
        let posterior = Posterior::new(fitted, &data)
            .or_else(|| Posterior::new(Hyperparameters::default_for(&data.categorical), &data))?;
        Some(match source_model {
            Some(SourceModel { stack, line }) => StackedPosterior::over(stack, line, posterior),
            None => posterior.into(),
        })
    }
}

impl SourceModel {
    /// Residuals of `values` (length n) at the rows of `points` (n x d).
    pub(crate) fn residuals(&self, points: &DMatrix<f64>, values: &[f64]) -> Vec<f64> {
        let Line { offset, slope } = self.line;
        values.iter().zip(self.stack.means(points)).map(|(value, mean)| value - (offset + slope * mean)).collect()
    }
}

/// Line by which `values` follow `means`; `None` if the slope is too small.
fn line(means: &[f64], values: &[f64]) -> Option<Line> {
    let n = means.len().max(1) as f64;
    let mean = means.iter().sum::<f64>() / n;
    let value = values.iter().sum::<f64>() / n;
    let together: f64 = means.iter().zip(values).map(|(m, y)| (m - mean) * (y - value)).sum();
    let alone: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    let slope = (together + SLOPE_PRIOR_WEIGHT) / (alone + SLOPE_PRIOR_WEIGHT);
    (slope.is_finite() && slope > SMALLEST_SLOPE).then_some(Line { offset: value - slope * mean, slope })
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
}
