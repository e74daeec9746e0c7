//! Prediction of the final value of a trial from its first reports.
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
//! A Gaussian process over parameters and reports has smaller errors, but no better searches follow, see
//! docs/experiments/103.
//!
//! Source of the power law family: Domhan et al., Speeding up automatic hyperparameter optimization of deep neural
//! networks by extrapolation of learning curves, IJCAI 2015 (`pow3`). They fit each curve by sampling and use no other
//! trials.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::curve::{CompletedCurve, CurvePoint, cleaned, median};
use crate::problem::Goal;

/// Candidate exponents `c`, in addition to no rise at all. A guess.
const EXPONENTS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
/// Minimum number of finished trials for a standard deviation.
pub(super) const FEWEST_FINISHED: usize = 2;
/// Smallest deviation relative to the range of all values; below it rounding errors would decide.
const DEVIATION_FLOOR: f64 = 1e-9;

/// Final value that a stopped trial would have reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FinalPrediction {
    /// Expected final value, finite.
    pub value: f64,
    /// Standard deviation of the final value, finite, at least 0.
    pub deviation: f64,
}

impl FinalPrediction {
    /// Whether both numbers are finite.
    pub fn is_finite(&self) -> bool {
        self.value.is_finite() && self.deviation.is_finite()
    }
}

/// Curves of the completed trials, prepared for predictions.
#[derive(Debug, Clone)]
pub(super) struct FinalValuePredictor {
    goal: Goal,
    /// Step with progress 0.
    origin: f64,
    /// Number of steps from `origin` to the usual end; `None` without finished trials.
    length: Option<f64>,
    /// Best final value, maximised; minus infinity without completed trials.
    best: f64,
    /// Smallest deviation.
    floor: f64,
    /// Curves of the finished trials, up to progress 1.
    finished: Vec<Vec<Progress>>,
}

#[derive(Debug, Clone, Copy)]
struct Progress {
    t: f64,
    y: f64,
}

/// Student's distribution of a final value, maximised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FinalDistribution {
    pub(super) value: f64,
    pub(super) deviation: f64,
    /// `n`, the number of finished trials behind it.
    pub(super) finished: usize,
    /// `f`, progress of the candidate, below 1.
    pub(super) progress: f64,
}

impl FinalValuePredictor {
    /// Prepares the curves of completed trials. Those of trials that were stopped early contribute only their final value,
    /// as a candidate for the best so far.
    pub(super) fn new<'a>(goal: Goal, completed: impl IntoIterator<Item = CompletedCurve<'a>>) -> Self {
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
        Self {
            goal,
            origin,
            length: horizon.map(|horizon| horizon - origin),
            best,
            floor: (best - lowest) * DEVIATION_FLOOR,
            finished: finished.iter().map(|points| progress(goal, points, origin, None)).collect(),
        }
    }

    pub(super) fn goal(&self) -> Goal {
        self.goal
    }

    /// Best final value of a completed trial, maximised.
    pub(super) fn best(&self) -> f64 {
        self.best
    }

    /// Prediction for a trial with `reports`, in any order, in the units of the user.
    pub(super) fn predicted_final(&self, reports: &[CurvePoint]) -> Option<FinalPrediction> {
        let FinalDistribution { value, deviation, .. } = self.predict(&cleaned(reports))?;
        Some(FinalPrediction { value: self.goal.to_maximized(value), deviation }).filter(FinalPrediction::is_finite)
    }

    /// Distribution of the final value of a trial with the reports `candidate`, [`cleaned`]; `None` with fewer than
    /// [`FEWEST_FINISHED`] finished trials or without reports, and from the usual end on, after which there is nothing to
    /// predict and little time to save.
    ///
    /// Takes one pass over the reports of all finished trials.
    pub(super) fn predict(&self, candidate: &[CurvePoint]) -> Option<FinalDistribution> {
        let curve = progress(self.goal, candidate, self.origin, Some(self.length?));
        let last = curve.last().copied().filter(|last| last.t < 1.0)?;
        let cut = |curve: &'_ Vec<Progress>| curve.partition_point(|point| point.t <= last.t);
        let known: Vec<(&[Progress], f64)> = self
            .finished
            .iter()
            .map(|curve| (&curve[..cut(curve)], curve[curve.len() - 1].y))
            .filter(|(part, _)| !part.is_empty())
            .collect();
        if known.len() < FEWEST_FINISHED {
            return None;
        }
        let laws = std::iter::once(None).chain(EXPONENTS.map(Some));
        let errors = |law| known.iter().map(|(part, end)| end - extrapolate(part, law)).collect::<Vec<f64>>();
        let squares = |errors: &[f64]| errors.iter().map(|error| error * error).sum::<f64>();
        let (law, errors) = laws
            .map(|law| (law, errors(law)))
            .min_by(|(_, one), (_, other)| squares(one).total_cmp(&squares(other)))?;
        let n = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / n;
        let variance = errors.iter().map(|error| (error - mean) * (error - mean)).sum::<f64>() / (n - 1.0);
        Some(FinalDistribution {
            value: extrapolate(&curve, law) + mean,
            deviation: (variance * (1.0 + 1.0 / n)).sqrt().max(self.floor),
            finished: errors.len(),
            progress: last.t,
        })
    }
}

impl FinalDistribution {
    /// Probability that the final value is above `threshold`; `None` if it cannot be computed.
    pub(super) fn chance_above(&self, threshold: f64) -> Option<f64> {
        let standardised = (threshold - self.value) / self.deviation;
        if standardised.is_nan() {
            return None;
        }
        if standardised.is_infinite() {
            return Some(if standardised > 0.0 { 0.0 } else { 1.0 });
        }
        let distribution = StudentsT::new(0.0, 1.0, (self.finished - 1) as f64).ok()?;
        Some(distribution.sf(standardised)).filter(|probability| probability.is_finite())
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
fn extrapolate(part: &[Progress], law: Option<f64>) -> f64 {
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
