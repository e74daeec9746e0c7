//! The rules by name, for callers that let their users choose.

use std::fmt;
use std::str::FromStr;

use super::asha::{AshaDecision, AshaRule, PreparedAshaRule};
use super::curve::{CompletedCurve, CurvePoint};
use super::decay_curve::{DecayCurveDecision, DecayCurveRule, PreparedDecayCurveRule};
use super::median::{MedianDecision, MedianRule, PreparedMedianRule};
use crate::problem::Goal;

/// A rule for stopping trials early, with its settings.
///
/// ```
/// use tunesmith_algorithms::early_stopping::StoppingRule;
///
/// let rule: StoppingRule = "decay_curve".parse()?;
/// assert_eq!(rule.name(), "decay_curve");
/// assert!("convex".parse::<StoppingRule>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoppingRule {
    /// `median`.
    Median(MedianRule),
    /// `decay_curve`.
    DecayCurve(DecayCurveRule),
    /// `asha`.
    Asha(AshaRule),
}

impl StoppingRule {
    /// The names of all rules.
    pub const NAMES: [&'static str; 3] = ["median", "decay_curve", "asha"];

    /// The name of the rule.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Median(_) => "median",
            Self::DecayCurve(_) => "decay_curve",
            Self::Asha(_) => "asha",
        }
    }

    /// Digests the curves of completed trials for any number of decisions. `completed` should hold every trial that
    /// ended with a usable value, with those that were stopped early, in any order.
    pub fn prepare<'a>(
        self,
        goal: Goal,
        completed: impl IntoIterator<Item = CompletedCurve<'a>>,
    ) -> PreparedStoppingRule {
        match self {
            Self::Median(rule) => {
                PreparedStoppingRule::Median(rule.prepare(goal, completed.into_iter().map(|curve| curve.points)))
            }
            Self::DecayCurve(rule) => PreparedStoppingRule::DecayCurve(rule.prepare(goal, completed)),
            Self::Asha(rule) => PreparedStoppingRule::Asha(rule.prepare(goal, completed)),
        }
    }
}

impl FromStr for StoppingRule {
    type Err = UnknownStoppingRule;

    /// The rule of that name with its default settings.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "median" => Ok(Self::Median(MedianRule::default())),
            "decay_curve" => Ok(Self::DecayCurve(DecayCurveRule::default())),
            "asha" => Ok(Self::Asha(AshaRule::default())),
            _ => Err(UnknownStoppingRule { name: name.to_owned() }),
        }
    }
}

/// There is no rule of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no stopping rule {name:?}, only {}", StoppingRule::NAMES.join(", "))]
pub struct UnknownStoppingRule {
    /// What was given.
    pub name: String,
}

/// A rule with the completed trials of one moment.
#[derive(Debug, Clone)]
pub enum PreparedStoppingRule {
    /// The median rule.
    Median(PreparedMedianRule),
    /// The decay-curve rule.
    DecayCurve(PreparedDecayCurveRule),
    /// Asynchronous successive halving.
    Asha(PreparedAshaRule),
}

impl PreparedStoppingRule {
    /// Judges a running trial by its reports so far, in any order. `others` are the reports of the other running
    /// trials, in any order; only successive halving looks at them.
    pub fn decide<'a>(
        &self,
        candidate: &[CurvePoint],
        others: impl IntoIterator<Item = &'a [CurvePoint]>,
    ) -> EarlyStopDecision {
        let reason = match self {
            Self::Median(rule) => match rule.decide(candidate) {
                MedianDecision::TooEarly => None,
                MedianDecision::Continue { .. } => return EarlyStopDecision::Continue,
                MedianDecision::Stop { best, median } => Some(StopReason::Median { best, median }),
            },
            Self::DecayCurve(rule) => match rule.decide(candidate) {
                DecayCurveDecision::TooEarly => None,
                DecayCurveDecision::Continue { .. } => return EarlyStopDecision::Continue,
                DecayCurveDecision::Stop { probability, predicted, best } => {
                    Some(StopReason::DecayCurve { probability, predicted, best })
                }
            },
            Self::Asha(rule) => match rule.decide(candidate, others) {
                AshaDecision::TooEarly => None,
                AshaDecision::Continue { .. } => return EarlyStopDecision::Continue,
                AshaDecision::Stop { rung, value, cutoff, compared } => {
                    Some(StopReason::Asha { rung, value, cutoff, compared })
                }
            },
        };
        reason.map_or(EarlyStopDecision::TooEarly, EarlyStopDecision::Stop)
    }
}

/// What a rule says about a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EarlyStopDecision {
    /// Not enough is known.
    TooEarly,
    /// It may still become good.
    Continue,
    /// Stop it.
    Stop(StopReason),
}

impl EarlyStopDecision {
    /// Whether the trial should be stopped.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Stop(_))
    }
}

/// Why a trial should be stopped; values in the user's own sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StopReason {
    /// Its best value is strictly worse than the others were on average.
    Median {
        /// Its best value so far.
        best: f64,
        /// Median of the running means of the others.
        median: f64,
    },
    /// It will hardly end better than the best so far.
    DecayCurve {
        /// Chance of that.
        probability: f64,
        /// The value with which it is expected to end.
        predicted: f64,
        /// The best value with which a trial ended.
        best: f64,
    },
    /// It is not among the best that passed the same rung.
    Asha {
        /// Step of the rung.
        rung: i64,
        /// Its best value so far.
        value: f64,
        /// The worst value that passes.
        cutoff: f64,
        /// How many trials have passed the rung, itself included.
        compared: usize,
    },
}

impl StopReason {
    /// A sentence without its final stop, about a trial whose metric is named `metric`.
    pub fn explain(&self, metric: &str) -> impl fmt::Display {
        match self {
            Self::Median { best, median } => {
                format!("its best {metric} {best} is worse than the median {median} of the others")
            }
            Self::DecayCurve { probability, predicted, best } => format!(
                "its {metric} is expected to end at {predicted:.6}, with a chance of {:.2}% to beat the best, {best}",
                probability * 100.0
            ),
            Self::Asha { rung, value, cutoff, compared } => format!(
                "its best {metric} {value} is not among the best at step {rung}, where {compared} trials needed {cutoff}"
            ),
        }
    }
}
