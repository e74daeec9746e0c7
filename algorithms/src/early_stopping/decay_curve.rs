//! The decay-curve rule: stop a trial whose learning curve, carried on to its end, will hardly be the best.
//!
//! It stands for AI Platform's `decayCurveStoppingConfig`, of which is published that the final value of a running trial
//! is predicted from the completed ones, and that the trial is stopped if it is very unlikely to exceed the optimum
//! found so far. The prediction is ours.
//!
//! Notation: `t` in (0, 1] progress, step by the last step of the trial, for a running trial by the median last step
//! of the finished ones; `f` progress of the candidate; `y` maximised values; `n` finished trials.
//!
//! Prediction from the part of a curve with `t <= f`: the last value, or the last value carried along a power law
//! `y = a - b (t^-c - 1)`, whose `b >= 0` is fitted by least squares with weights `t`. The law, one for all, is that of
//! which the finished trials, cut off at `f`, would have been predicted best (least sum of squared errors). The `n`
//! errors of that law are also what is known of its uncertainty: the candidate's error is one more of the same normal
//! distribution, so that `(final - predicted - mean) / (deviation sqrt(1 + 1/n))` has Student's distribution with `n - 1`
//! degrees of freedom.
//!
//! Curves of the power law family are Domhan et al., Speeding up automatic hyperparameter optimization of deep neural
//! networks by extrapolation of learning curves, IJCAI 2015 (`pow3`); they fit each curve by sampling and use no other
//! trial.

#[cfg(test)]
mod tests;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::curve::{CompletedCurve, CurvePoint, cleaned, median};
use crate::problem::Goal;

/// Exponents `c` that are tried beside no rise at all.
const EXPONENTS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
/// Fewer finished trials than this give no deviation.
const FEWEST_FINISHED: usize = 2;
/// Smallest deviation relative to the range of all values: below, rounding would decide.
const DEVIATION_FLOOR: f64 = 1e-9;

/// How much must be known, and how hopeless a trial must be, before it is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecayCurveRule {
    min_finished: usize,
    min_reports: usize,
    min_progress: f64,
    probability: f64,
}

impl Default for DecayCurveRule {
    /// 10 finished trials, 4 reports, a tenth of the usual way, and a chance below 1 in 100.
    fn default() -> Self {
        Self { min_finished: 10, min_reports: 4, min_progress: 0.1, probability: 0.01 }
    }
}

impl DecayCurveRule {
    /// A rule that stops a trial whose chance to end better than the best so far is below `probability` (above 0 and
    /// below 1), and that speaks when
    /// - at least `min_finished` trials (at least 2) ran to their end with a curve,
    /// - the candidate has reported at least `min_reports` times (at least 1), and
    /// - its last step is at least `min_progress` (from 0 to 1) of the median last step of those.
    ///
    /// # Errors
    /// [`DecayCurveRuleError`] if one of them is out of range.
    pub fn new(
        min_finished: usize,
        min_reports: usize,
        min_progress: f64,
        probability: f64,
    ) -> Result<Self, DecayCurveRuleError> {
        if min_finished < FEWEST_FINISHED || min_reports == 0 {
            return Err(DecayCurveRuleError::NoEvidence);
        }
        if !(0.0..=1.0).contains(&min_progress) {
            return Err(DecayCurveRuleError::Progress { min_progress });
        }
        if !(probability > 0.0 && probability < 1.0) {
            return Err(DecayCurveRuleError::Probability { probability });
        }
        Ok(Self { min_finished, min_reports, min_progress, probability })
    }

    /// Digests the curves of completed trials for any number of decisions. Of those that were stopped early only the
    /// value counts, among the best so far.
    pub fn prepare<'a>(
        self,
        goal: Goal,
        completed: impl IntoIterator<Item = CompletedCurve<'a>>,
    ) -> PreparedDecayCurveRule {
        let (mut best, mut lowest) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut finished = Vec::new();
        let mut gaps = Vec::new();
        for curve in completed {
            let points = cleaned(curve.points);
            let Some(last) = points.last() else { continue };
            best = best.max(goal.to_maximized(last.value));
            lowest = points.iter().fold(lowest, |lowest, point| lowest.min(goal.to_maximized(point.value)));
            if !curve.stopped_early {
                gaps.extend(points.windows(2).map(|pair| pair[1].step as f64 - pair[0].step as f64));
                finished.push(points);
            }
        }
        // Progress begins one report before the first one, so that epochs may count from 0 or from 1.
        let first = finished.iter().map(|points| points[0].step as f64).fold(f64::INFINITY, f64::min);
        let origin = first - median(gaps).unwrap_or(1.0);
        let horizon = median(finished.iter().map(|points| points[points.len() - 1].step as f64).collect());
        PreparedDecayCurveRule {
            rule: self,
            goal,
            origin,
            length: horizon.map(|horizon| horizon - origin),
            best,
            floor: (best - lowest) * DEVIATION_FLOOR,
            finished: finished.iter().map(|points| progress(goal, points, origin, None)).collect(),
        }
    }
}

/// The decay-curve rule with the completed trials of one moment.
#[derive(Debug, Clone)]
pub struct PreparedDecayCurveRule {
    rule: DecayCurveRule,
    goal: Goal,
    /// The step where progress is 0.
    origin: f64,
    /// Steps from there to the usual end; `None` without finished trials.
    length: Option<f64>,
    /// The best value with which a trial ended, maximised.
    best: f64,
    /// Smallest deviation of errors.
    floor: f64,
    /// Curves of the finished trials, up to progress 1.
    finished: Vec<Vec<Progress>>,
}

/// One report: progress, and the maximised value.
#[derive(Debug, Clone, Copy)]
struct Progress {
    t: f64,
    y: f64,
}

impl PreparedDecayCurveRule {
    /// Judges a running trial by its reports so far. Asking again with the same reports gives the same answer.
    ///
    /// Costs one pass over the reports of all finished trials.
    pub fn decide(&self, candidate: &[CurvePoint]) -> DecayCurveDecision {
        let candidate = cleaned(candidate);
        if candidate.len() < self.rule.min_reports {
            return DecayCurveDecision::TooEarly;
        }
        let Some(length) = self.length else { return DecayCurveDecision::TooEarly };
        let curve = progress(self.goal, &candidate, self.origin, Some(length));
        let Some(last) = curve.last().copied() else { return DecayCurveDecision::TooEarly };
        // Beyond the usual end there is nothing to predict, and little to save.
        if last.t < self.rule.min_progress || last.t >= 1.0 {
            return DecayCurveDecision::TooEarly;
        }
        let cut = |curve: &'_ Vec<Progress>| curve.partition_point(|point| point.t <= last.t);
        let known: Vec<(&[Progress], f64)> = self
            .finished
            .iter()
            .map(|curve| (&curve[..cut(curve)], curve[curve.len() - 1].y))
            .filter(|(part, _)| !part.is_empty())
            .collect();
        if known.len() < self.rule.min_finished {
            return DecayCurveDecision::TooEarly;
        }
        let laws = std::iter::once(None).chain(EXPONENTS.map(Some));
        let errors = |law| known.iter().map(|(part, end)| end - predict(part, law)).collect::<Vec<f64>>();
        let squares = |errors: &[f64]| errors.iter().map(|error| error * error).sum::<f64>();
        let best_law =
            laws.map(|law| (law, errors(law))).min_by(|(_, one), (_, other)| squares(one).total_cmp(&squares(other)));
        let Some((law, errors)) = best_law else { return DecayCurveDecision::TooEarly };

        let n = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / n;
        let variance = errors.iter().map(|error| (error - mean) * (error - mean)).sum::<f64>() / (n - 1.0);
        let deviation = (variance * (1.0 + 1.0 / n)).sqrt().max(self.floor);
        let predicted = predict(&curve, law) + mean;
        let reached = curve.iter().map(|point| point.y).fold(f64::NEG_INFINITY, f64::max);
        let probability = chance_above((self.best - predicted) / deviation, n - 1.0);
        let (best, predicted) = (self.goal.to_maximized(self.best), self.goal.to_maximized(predicted));
        match probability {
            None => DecayCurveDecision::TooEarly,
            Some(probability) if probability < self.rule.probability && reached < self.best => {
                DecayCurveDecision::Stop { probability, predicted, best }
            }
            Some(probability) => DecayCurveDecision::Continue { probability, predicted, best },
        }
    }
}

/// The reports of a curve by progress; `length` steps make progress 1, without it the curve's own.
fn progress(goal: Goal, points: &[CurvePoint], origin: f64, length: Option<f64>) -> Vec<Progress> {
    let own = points.last().map_or(1.0, |last| last.step as f64 - origin);
    let length = length.unwrap_or(own);
    let one =
        |point: &CurvePoint| Progress { t: (point.step as f64 - origin) / length, y: goal.to_maximized(point.value) };
    points.iter().map(one).filter(|point| point.t > 0.0).collect()
}

/// The value at progress 1 of a curve of which `part` (not empty) is known: the last value, with the rise that the
/// power law of exponent `law` has left.
fn predict(part: &[Progress], law: Option<f64>) -> f64 {
    let last = part[part.len() - 1];
    let Some(exponent) = law else { return last.y };
    let distance = |point: &Progress| point.t.powf(-exponent) - 1.0;
    let (mut weights, mut mean_z, mut mean_y) = (0.0, 0.0, 0.0);
    for point in part {
        weights += point.t;
        mean_z += point.t * distance(point);
        mean_y += point.t * point.y;
    }
    (mean_z, mean_y) = (mean_z / weights, mean_y / weights);
    let (mut squares, mut products) = (0.0, 0.0);
    for point in part {
        let z = distance(point) - mean_z;
        squares += point.t * z * z;
        products += point.t * z * (point.y - mean_y);
    }
    let slope = if squares > 0.0 { (-products / squares).max(0.0) } else { 0.0 };
    last.y + slope * distance(&last)
}

/// Probability that a number of Student's distribution is above `standardised`; `None` if that cannot be said.
fn chance_above(standardised: f64, degrees: f64) -> Option<f64> {
    if standardised.is_nan() {
        return None;
    }
    if standardised.is_infinite() {
        return Some(if standardised > 0.0 { 0.0 } else { 1.0 });
    }
    let distribution = StudentsT::new(0.0, 1.0, degrees).ok()?;
    Some(distribution.sf(standardised)).filter(|probability| probability.is_finite())
}

/// What the rule says about a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DecayCurveDecision {
    /// Not enough is known.
    TooEarly,
    /// It may still become the best.
    Continue {
        /// Chance to end better than the best so far.
        probability: f64,
        /// The value with which it is expected to end.
        predicted: f64,
        /// The best value with which a trial ended.
        best: f64,
    },
    /// Stop it.
    Stop {
        /// Chance to end better than the best so far.
        probability: f64,
        /// The value with which it is expected to end.
        predicted: f64,
        /// The best value with which a trial ended.
        best: f64,
    },
}

impl DecayCurveDecision {
    /// Whether the trial should be stopped.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Stop { .. })
    }
}

/// Why there is no such rule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecayCurveRuleError {
    /// A trial would be judged on nothing.
    #[error("the decay-curve rule needs at least {FEWEST_FINISHED} finished trials and one report")]
    NoEvidence,
    /// The share of the way is no share.
    #[error("the progress {min_progress} is not between 0 and 1")]
    Progress {
        /// What was given.
        min_progress: f64,
    },
    /// Every trial, or none, would be stopped.
    #[error("the probability {probability} is not above 0 and below 1")]
    Probability {
        /// What was given.
        probability: f64,
    },
}
