//! The stopping rules as one enum, for callers that let their users choose.

use std::fmt;

use super::asha::{AshaDecision, AshaRule, PreparedAshaRule};
use super::curve::{CompletedCurve, CurvePoint};
use super::decay_curve::{DecayCurveDecision, DecayCurveRule, PreparedDecayCurveRule};
use super::kind::StoppingRuleKind;
use super::median::{MedianDecision, MedianRule, PreparedMedianRule};
use crate::problem::Goal;
use crate::rounded::Rounded;

/// A stopping rule with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoppingRule {
    /// The median rule.
    Median(MedianRule),
    /// The decay-curve rule.
    DecayCurve(DecayCurveRule),
    /// Asynchronous successive halving.
    Asha(AshaRule),
}

impl StoppingRule {
    /// Which rule it is, without its settings.
    pub fn kind(&self) -> StoppingRuleKind {
        match self {
            Self::Median(_) => StoppingRuleKind::Median,
            Self::DecayCurve(_) => StoppingRuleKind::DecayCurve,
            Self::Asha(_) => StoppingRuleKind::Asha,
        }
    }

    /// Precomputes what decisions need of the curves of completed trials. `completed` should contain every trial that
    /// ended with a usable value, including those that were stopped early, in any order.
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

impl StoppingRule {
    /// Why the rule has stopped no trial of a study, as far as the numbers of reports tell: `reports` are those of the trials that
    /// ran to their end with a result. A sentence without a final stop.
    pub fn explain_no_stop(&self, reports: &[usize]) -> String {
        let longest = reports.iter().copied().max();
        let (fewest, needed) = match self {
            Self::Median(rule) => (rule.min_completed(), rule.needed_reports(longest)),
            Self::DecayCurve(rule) => (rule.min_finished(), rule.needed_reports(longest)),
            // The trial itself counts.
            Self::Asha(rule) => (rule.eta() as usize - 1, 1),
        };
        let trials = |count: usize| if count == 1 { "1 trial".to_owned() } else { format!("{count} trials") };
        let times = |count: usize| match count {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            _ => format!("{count} times"),
        };
        match longest {
            _ if reports.len() <= fewest => {
                format!("it decides after {} with a result, and there were {}", trials(fewest), trials(reports.len()))
            }
            Some(longest) if longest <= needed => {
                format!("no trial reported more than {}, and it decides after that, before the end", times(longest))
            }
            _ => match self {
                Self::Median(_) => {
                    "each trial was at its best at least as good as the median of the others on average".to_owned()
                }
                Self::DecayCurve(rule) => format!(
                    "each trial had a chance of at least {}% to beat the best, by its curve",
                    Rounded(100.0 * rule.probability())
                ),
                Self::Asha(rule) => format!("each trial was among the best one in {} at its rungs", rule.eta()),
            },
        }
    }
}

impl From<StoppingRuleKind> for StoppingRule {
    /// The rule with its default settings.
    fn from(kind: StoppingRuleKind) -> Self {
        match kind {
            StoppingRuleKind::Median => Self::Median(MedianRule::default()),
            StoppingRuleKind::DecayCurve => Self::DecayCurve(DecayCurveRule::default()),
            StoppingRuleKind::Asha => Self::Asha(AshaRule::default()),
        }
    }
}

/// A rule with the completed trials at one moment.
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
    /// Decides on a running trial by its reports so far, in any order. `others` are the reports of the other running
    /// trials, in any order; only successive halving uses them.
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

/// The decision on a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EarlyStopDecision {
    /// There is too little evidence.
    TooEarly,
    /// The trial may still become good.
    Continue,
    /// The trial should be stopped.
    Stop(StopReason),
}

impl EarlyStopDecision {
    /// Whether the trial should be stopped.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Stop(_))
    }
}

/// Why a trial should be stopped. Values are in the units and orientation of the user.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StopReason {
    /// The best value is strictly worse than the other trials were on average.
    Median {
        /// Its best value so far.
        best: f64,
        /// The median of the running means of the other trials.
        median: f64,
    },
    /// The trial is very unlikely to end better than the best so far.
    DecayCurve {
        /// The probability that it does.
        probability: f64,
        /// The predicted final value.
        predicted: f64,
        /// The best final value of a trial.
        best: f64,
    },
    /// The trial is not among the best that passed the same rung.
    Asha {
        /// Step of the rung.
        rung: i64,
        /// Its best value so far.
        value: f64,
        /// The worst value that passes the rung.
        cutoff: f64,
        /// The number of trials that have passed the rung, including this one.
        compared: usize,
    },
}

impl StopReason {
    /// A sentence without a final stop. `metric` is the name of the metric.
    pub fn explain(&self, metric: &str) -> impl fmt::Display {
        match self {
            Self::Median { best, median } => {
                let (best, median) = (Rounded(*best), Rounded(*median));
                format!("its best {metric} {best} is worse than the median {median} of the others")
            }
            Self::DecayCurve { probability, predicted, best } => format!(
                "its {metric} is expected to end at {}, with a chance of {:.2}% to beat the best, {}",
                Rounded(*predicted),
                probability * 100.0,
                Rounded(*best)
            ),
            Self::Asha { rung, value, cutoff, compared } => format!(
                "its best {metric} {} is not among the best at step {rung}, where {compared} trials needed {}",
                Rounded(*value),
                Rounded(*cutoff)
            ),
        }
    }
}
