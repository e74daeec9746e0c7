//! Decay-curve rule: stops a trial whose extrapolated learning curve is very unlikely to become the best.
//!
//! Corresponds to AI Platform's `decayCurveStoppingConfig`. According to its documentation, the completed trials
//! predict the final value of a running trial, which is stopped if it is very unlikely to exceed the optimum found so
//! far. The prediction is our own.
//!
//! Notation: `t` in (0, 1] progress: step divided by the last step of the trial, or by the median last step of the
//! finished trials for a running trial; `f` progress of the candidate; `y` maximised values; `n` number of finished
//! trials.
//!
//! Prediction from the part of a curve with `t <= f`: the last value, or the last value extrapolated by a power law `y
//! = a - b (t^-c - 1)`, whose `b >= 0` is fitted by least squares with weights `t`. All trials share one law: the one
//! with the least sum of squared errors on the finished trials truncated at `f`. The `n` errors of that law also
//! determine its uncertainty: the candidate's error is another sample of the same normal distribution, so `(final -
//! predicted - mean) / (deviation sqrt(1 + 1/n))` has Student's distribution with `n - 1` degrees of freedom.
//!
//! Source of the power law family: Domhan et al., Speeding up automatic hyperparameter optimization of deep neural
//! networks by extrapolation of learning curves, IJCAI 2015 (`pow3`). They fit each curve by sampling and use no other
//! trials.

#[cfg(test)]
mod tests;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::curve::{CompletedCurve, CurvePoint, cleaned, median};
use super::rule::{EarlyStopDecision, StopEvidence, StoppingRuleError};
use crate::problem::Goal;

/// Candidate exponents `c`, in addition to no rise at all. A guess.
const EXPONENTS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
/// Minimum number of finished trials for a standard deviation.
const FEWEST_FINISHED: usize = 2;
/// Default number of reports before a decision (measured, see docs/experiments/048).
const USUAL_REPORTS: usize = 1;
/// Smallest deviation relative to the range of all values; below it rounding errors would decide.
const DEVIATION_FLOOR: f64 = 1e-9;

/// Evidence required for stopping a trial, and the probability threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecayCurveRule {
    min_finished: usize,
    min_reports: Option<usize>,
    min_progress: f64,
    probability: f64,
}

impl Default for DecayCurveRule {
    /// 3 finished trials, 1 report, a tenth of the usual length, and a probability below 0.05: measured, see
    /// docs/experiments/044, 048 and 102.
    fn default() -> Self {
        Self { min_finished: 3, min_reports: None, min_progress: 0.1, probability: 0.05 }
    }
}

impl DecayCurveRule {
    /// Creates a rule that stops a trial if the probability that it ends better than the best so far is below
    /// `probability` (above 0 and below 1). The rule makes decisions once
    /// - at least `min_finished` trials (at least 2) ran to their end with a curve,
    /// - the candidate has reported at least `min_reports` times (at least 1; `None`: once), and
    /// - its last step is at least `min_progress` (from 0 to 1) of the median last step of the finished trials.
    ///
    /// # Errors
    /// [`StoppingRuleError`] if an argument is out of range.
    pub fn new(
        min_finished: usize,
        min_reports: Option<usize>,
        min_progress: f64,
        probability: f64,
    ) -> Result<Self, StoppingRuleError> {
        if min_finished < FEWEST_FINISHED || min_reports == Some(0) {
            return Err(StoppingRuleError::NoEvidence);
        }
        if !(0.0..=1.0).contains(&min_progress) {
            return Err(StoppingRuleError::Progress { min_progress });
        }
        if !(probability > 0.0 && probability < 1.0) {
            return Err(StoppingRuleError::Probability { probability });
        }
        Ok(Self { min_finished, min_reports, min_progress, probability })
    }

    /// Number of finished trials required for a decision.
    pub fn min_finished(&self) -> usize {
        self.min_finished
    }

    /// Number of the candidate's reports required for a decision; `None` for the default.
    pub fn min_reports(&self) -> Option<usize> {
        self.min_reports
    }

    /// Number of the candidate's reports required for a decision.
    pub(super) fn needed_reports(&self) -> usize {
        self.min_reports.unwrap_or(USUAL_REPORTS)
    }

    /// Share of the usual length required for a decision.
    pub fn min_progress(&self) -> f64 {
        self.min_progress
    }

    /// Probability below which a trial is stopped.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Precomputes decisions from the curves of completed trials. Trials that were stopped early contribute only their
    /// final value, as a candidate for the best so far.
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
        // Progress starts one report before the first one, so that steps may start at 0 or 1.
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
            reports: self.needed_reports(),
            finished: finished.iter().map(|points| progress(goal, points, origin, None)).collect(),
        }
    }
}

/// Rule with the trials completed so far.
#[derive(Debug, Clone)]
pub struct PreparedDecayCurveRule {
    rule: DecayCurveRule,
    goal: Goal,
    /// Step with progress 0.
    origin: f64,
    /// Number of steps from `origin` to the usual end; `None` without finished trials.
    length: Option<f64>,
    /// Best final value, maximised.
    best: f64,
    /// Number of reports before which no trial is stopped.
    reports: usize,
    floor: f64,
    /// Curves of the finished trials, up to progress 1.
    finished: Vec<Vec<Progress>>,
}

#[derive(Debug, Clone, Copy)]
struct Progress {
    t: f64,
    y: f64,
}

impl PreparedDecayCurveRule {
    /// Decides on a running trial by its reports so far. The same reports give the same decision.
    ///
    /// Takes one pass over the reports of all finished trials.
    pub fn decide(&self, candidate: &[CurvePoint]) -> EarlyStopDecision {
        let candidate = cleaned(candidate);
        if candidate.len() < self.reports {
            return EarlyStopDecision::TooEarly;
        }
        let Some(length) = self.length else { return EarlyStopDecision::TooEarly };
        let curve = progress(self.goal, &candidate, self.origin, Some(length));
        let Some(last) = curve.last().copied() else { return EarlyStopDecision::TooEarly };
        // After the usual end there is nothing to predict and little time to save.
        if last.t < self.rule.min_progress || last.t >= 1.0 {
            return EarlyStopDecision::TooEarly;
        }
        let cut = |curve: &'_ Vec<Progress>| curve.partition_point(|point| point.t <= last.t);
        let known: Vec<(&[Progress], f64)> = self
            .finished
            .iter()
            .map(|curve| (&curve[..cut(curve)], curve[curve.len() - 1].y))
            .filter(|(part, _)| !part.is_empty())
            .collect();
        if known.len() < self.rule.min_finished {
            return EarlyStopDecision::TooEarly;
        }
        let laws = std::iter::once(None).chain(EXPONENTS.map(Some));
        let errors = |law| known.iter().map(|(part, end)| end - predict(part, law)).collect::<Vec<f64>>();
        let squares = |errors: &[f64]| errors.iter().map(|error| error * error).sum::<f64>();
        let best_law =
            laws.map(|law| (law, errors(law))).min_by(|(_, one), (_, other)| squares(one).total_cmp(&squares(other)));
        let Some((law, errors)) = best_law else { return EarlyStopDecision::TooEarly };

        let n = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / n;
        let variance = errors.iter().map(|error| (error - mean) * (error - mean)).sum::<f64>() / (n - 1.0);
        let deviation = (variance * (1.0 + 1.0 / n)).sqrt().max(self.floor);
        let predicted = predict(&curve, law) + mean;
        let reached = curve.iter().map(|point| point.y).fold(f64::NEG_INFINITY, f64::max);
        let probability = chance_above((self.best - predicted) / deviation, n - 1.0);
        let (best, predicted) = (self.goal.to_maximized(self.best), self.goal.to_maximized(predicted));
        match probability {
            None => EarlyStopDecision::TooEarly,
            Some(probability) if probability < self.rule.probability && reached < self.best => {
                EarlyStopDecision::Stop(StopEvidence::DecayCurve { probability, predicted, deviation, best })
            }
            Some(probability) => {
                EarlyStopDecision::Continue(StopEvidence::DecayCurve { probability, predicted, deviation, best })
            }
        }
    }
}

/// Reports of a curve by progress. Progress 1 is at `length` steps, or at the last step of the curve if `length` is
/// `None`.
fn progress(goal: Goal, points: &[CurvePoint], origin: f64, length: Option<f64>) -> Vec<Progress> {
    let own = points.last().map_or(1.0, |last| last.step as f64 - origin);
    let length = length.unwrap_or(own);
    let one =
        |point: &CurvePoint| Progress { t: (point.step as f64 - origin) / length, y: goal.to_maximized(point.value) };
    points.iter().map(one).filter(|point| point.t > 0.0).collect()
}

/// Predicts the value at progress 1 of a curve from its known `part` (not empty): the last value plus the remaining
/// rise by the power law of exponent `law`.
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

/// Probability that a sample of Student's distribution is above `standardised`; `None` if it cannot be computed.
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
