//! Which earlier studies a study is built upon, and how its values follow theirs.
//!
//! With the trials that are completed, `y_i` their targets and `mu(u_i)` what a stack predicts:
//! - from [`FEWEST_TO_JUDGE`] trials on, a study whose own model ranks them worse than by chance (a negative rank
//!   correlation) is left out. The model has seen none of these trials, so each is predicted as one left out;
//! - the line `y = a + b mu` is a regression with a prior that trusts the stack: `b` begins at 1 and moves to the slope
//!   of the data with their spread, `b = (sum (y - ybar)(mu - mubar) + w) / (sum (mu - mubar)^2 + w)`, `w` =
//!   [`TRUST`]. A stack that says little about the trials so counts little, and none without a positive `b` counts at
//!   all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nalgebra::DMatrix;

use super::study::EarlierStudy;
use super::translation::translate;
use crate::encoding::Encoding;
use crate::gp::{
    Hyperparameters, KernelTerms, Line, Posterior, StackedPosterior, TrainingSet, fit_with_terms, representative_subset,
};
use crate::prior::Beliefs;
use crate::problem::ProblemStatement;

/// Trials from which on a study may be left out.
pub(crate) const FEWEST_TO_JUDGE: usize = 5;
/// How many of the first trials earlier studies propose before they are judged.
pub(crate) const TRIALS_ON_TRUST: usize = FEWEST_TO_JUDGE.div_ceil(2);
/// No more trials judge a study, the first ones: the time grows with their square.
const MOST_JUDGES: usize = 256;
/// Weight of the prior of the line, in units of squared standardised values (a guess).
const TRUST: f64 = 0.5;
/// A slope below this says that the stack has no part in the values.
const SMALLEST_SLOPE: f64 = 0.05;
/// No more studies are stacked, the latest ones: each costs time at every suggestion.
const MOST_STUDIES: usize = 8;
/// Hyperparameters of a study are fitted to at most this many of its trials.
const FIT_SIZE: usize = 256;

/// Some studies by index, and their stack if it can be computed.
type Stacks = HashMap<Vec<usize>, Option<Arc<StackedPosterior>>>;

/// The earlier studies of one problem, as far as they teach something.
#[derive(Debug, Clone)]
pub(crate) struct Grounds {
    /// The oldest first.
    studies: Vec<TrainingSet>,
    terms: KernelTerms,
    /// Memory of stacks that would be computed again identically.
    stacks: Arc<Mutex<Stacks>>,
}

/// What the values of the current study follow.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    pub(crate) stack: Arc<StackedPosterior>,
    pub(crate) line: Line,
}

impl Grounds {
    /// `None` if `studies`, the oldest first, teach nothing about `problem`.
    pub(crate) fn new(
        problem: &ProblemStatement,
        encoding: &Encoding,
        studies: &[EarlierStudy],
        terms: KernelTerms,
    ) -> Option<Self> {
        let beliefs = Beliefs::new(problem.search_space(), encoding);
        let translated = studies.iter().filter_map(|study| translate(problem, encoding, beliefs.as_ref(), study));
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

    /// What measured trials at the rows of `points` (n x d), with targets `values` (length n), are built upon.
    pub(crate) fn below(&self, points: &DMatrix<f64>, values: &[f64]) -> Option<Ground> {
        let judges = values.len().min(MOST_JUDGES);
        let judging = points.rows(0, judges).clone_owned();
        let is_kept = |study: &usize| {
            let ranks_well =
                |alone: Arc<StackedPosterior>| rank_correlation(&alone.means(&judging), &values[..judges]) >= 0.0;
            judges < FEWEST_TO_JUDGE || self.stack(&[*study]).is_some_and(ranks_well)
        };
        let kept: Vec<usize> = (0..self.studies.len()).filter(is_kept).collect();
        if kept.is_empty() {
            return None;
        }
        let stack = self.stack(&kept)?;
        let line = line(&stack.means(points), values)?;
        Some(Ground { stack, line })
    }

    /// The stack of some studies, in their order.
    fn stack(&self, studies: &[usize]) -> Option<Arc<StackedPosterior>> {
        // Whatever happened to another holder, entries are whole.
        let lock = || self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(studies) {
            return known.clone();
        }
        let (&last, before) = studies.split_last()?;
        let data = &self.studies[last];
        // Not under the lock: two callers may compute the same, and get the same.
        let below = if before.is_empty() { None } else { self.stack(before) };
        let ground = below.and_then(|stack| {
            let line = line(&stack.means(&data.points), &data.values)?;
            Some(Ground { stack, line })
        });
        let stack = self.level(data, ground).map(Arc::new);
        lock().insert(studies.to_vec(), stack.clone());
        stack
    }

    fn level(&self, data: &TrainingSet, ground: Option<Ground>) -> Option<StackedPosterior> {
        let mut data = data.clone();
        if let Some(ground) = &ground {
            data.values = ground.residuals(&data.points, &data.values);
        }
        let fitted = fit_with_terms(&data.select(&representative_subset(&data, FIT_SIZE, None)), self.terms);
        let posterior = Posterior::new(fitted, &data)
            .or_else(|| Posterior::new(Hyperparameters::default_with_terms(&data.categorical, self.terms), &data))?;
        Some(match ground {
            Some(Ground { stack, line }) => StackedPosterior::over(stack, line, posterior),
            None => posterior.into(),
        })
    }
}

impl Ground {
    /// What it leaves over of `values` (length n) at the rows of `points` (n x d).
    pub(crate) fn residuals(&self, points: &DMatrix<f64>, values: &[f64]) -> Vec<f64> {
        let Line { offset, slope } = self.line;
        values.iter().zip(self.stack.means(points)).map(|(value, mean)| value - (offset + slope * mean)).collect()
    }
}

/// The line by which `values` follow `means`; `None` if they do not.
fn line(means: &[f64], values: &[f64]) -> Option<Line> {
    let n = means.len().max(1) as f64;
    let mean = means.iter().sum::<f64>() / n;
    let value = values.iter().sum::<f64>() / n;
    let together: f64 = means.iter().zip(values).map(|(m, y)| (m - mean) * (y - value)).sum();
    let alone: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    let slope = (together + TRUST) / (alone + TRUST);
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
    fn a_line_begins_at_slope_one_and_follows_the_data() {
        assert_eq!(line(&[], &[]), Some(Line { offset: 0.0, slope: 1.0 }));
        assert_eq!(line(&[2.0], &[0.0]), Some(Line { offset: -2.0, slope: 1.0 }));
        // Squared spread 8: the slope of the data is 3.
        let found = line(&[-2.0, 2.0], &[-5.0, 7.0]).unwrap();
        let slope = (24.0 + TRUST) / (8.0 + TRUST);
        assert!((found.slope - slope).abs() < 1e-12 && (found.offset - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!(line(&[-2.0, 2.0], &[7.0, -5.0]), None);
    }

    #[test]
    fn rank_correlation_of_known_orders() {
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[0.1, 0.2, 1e9]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[3.0, 2.0, 1.0]), -1.0);
        // Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
        assert!((rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[6.0, 5.0, 8.0, 7.0]) - 0.6).abs() < 1e-12);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[2.0, 3.0]), 0.0);
    }
}
