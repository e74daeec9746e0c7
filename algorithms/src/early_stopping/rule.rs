//! Stopping rules as one enum, for callers that offer a choice.

use std::fmt;

use super::asha::{AshaRule, PreparedAshaRule};
use super::curve::{CompletedCurve, CurvePoint};
use super::decay_curve::{DecayCurveRule, PreparedDecayCurveRule};
use super::final_value::{FinalPrediction, FinalValuePredictor};
use super::kind::StoppingRuleKind;
use super::median::{MedianRule, PreparedMedianRule};
use crate::problem::Goal;
use crate::rounded::Rounded;

/// Stopping rule with its settings.
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
    /// Name of the rule.
    pub fn kind(&self) -> StoppingRuleKind {
        match self {
            Self::Median(_) => StoppingRuleKind::Median,
            Self::DecayCurve(_) => StoppingRuleKind::DecayCurve,
            Self::Asha(_) => StoppingRuleKind::Asha,
        }
    }

    /// Precomputes decisions from the curves of completed trials. `completed` should contain every trial that ended
    /// with a usable value, including those that were stopped early, in any order.
    pub fn prepare<'a>(
        self,
        goal: Goal,
        completed: impl IntoIterator<Item = CompletedCurve<'a>>,
    ) -> PreparedStoppingRule {
        let completed: Vec<CompletedCurve<'a>> = completed.into_iter().collect();
        let curves = || completed.iter().copied();
        let predictor = || FinalValuePredictor::new(goal, curves());
        PreparedStoppingRule(match self {
            Self::Median(rule) => Prepared::Median(rule.prepare(goal, curves().map(|curve| curve.points)), predictor()),
            Self::DecayCurve(rule) => Prepared::DecayCurve(rule.prepare(goal, curves())),
            Self::Asha(rule) => Prepared::Asha(rule.prepare(goal, curves()), predictor()),
        })
    }

    /// Likely reason why the rule has stopped no trial of a study, judged by `reports` alone: the numbers of reports of
    /// the trials that ran to their end with a result. A sentence without a full stop.
    pub fn explain_no_stop(&self, reports: &[usize]) -> String {
        let longest = reports.iter().copied().max();
        let (fewest, needed) = match self {
            Self::Median(rule) => (rule.min_completed(), rule.needed_reports(longest)),
            Self::DecayCurve(rule) => (rule.min_finished(), rule.needed_reports()),
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
    fn from(kind: StoppingRuleKind) -> Self {
        match kind {
            StoppingRuleKind::Median => Self::Median(MedianRule::default()),
            StoppingRuleKind::DecayCurve => Self::DecayCurve(DecayCurveRule::default()),
            StoppingRuleKind::Asha => Self::Asha(AshaRule::default()),
        }
    }
}

/// Rule with the trials completed so far.
#[derive(Debug, Clone)]
pub struct PreparedStoppingRule(Prepared);

/// A rule with its curves, and where it makes no predictions the predictor.
#[derive(Debug, Clone)]
enum Prepared {
    Median(PreparedMedianRule, FinalValuePredictor),
    DecayCurve(PreparedDecayCurveRule),
    Asha(PreparedAshaRule, FinalValuePredictor),
}

impl PreparedStoppingRule {
    /// Decides on a running trial by its reports so far, in any order. `others` are the reports of the other running
    /// trials, in any order; only successive halving uses them.
    pub fn decide<'a>(
        &self,
        candidate: &[CurvePoint],
        others: impl IntoIterator<Item = &'a [CurvePoint]>,
    ) -> EarlyStopDecision {
        match &self.0 {
            Prepared::Median(rule, _) => rule.decide(candidate),
            Prepared::DecayCurve(rule) => rule.decide(candidate),
            Prepared::Asha(rule, _) => rule.decide(candidate, others),
        }
    }

    /// Predicts the final value of a trial from its reports, in any order, whichever the rule; `None` with fewer than two
    /// trials that ran to their end, without reports, and from the usual last step on.
    pub fn predicted_final(&self, reports: &[CurvePoint]) -> Option<FinalPrediction> {
        let predictor = match &self.0 {
            Prepared::Median(_, predictor) | Prepared::Asha(_, predictor) => predictor,
            Prepared::DecayCurve(rule) => rule.predictor(),
        };
        predictor.predicted_final(reports)
    }
}

/// Decision on a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EarlyStopDecision {
    /// Too little evidence.
    TooEarly,
    /// The trial may still become good.
    Continue(StopEvidence),
    /// The trial should be stopped.
    Stop(StopEvidence),
}

impl EarlyStopDecision {
    /// Whether the trial should be stopped.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Stop(_))
    }
}

/// Figures compared by a decision, in the units and orientation of the user. A trial is stopped on strict inequality.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StopEvidence {
    /// Best value, against the other trials on average.
    Median {
        /// Best value of the trial so far.
        best: f64,
        /// Median of the running means of the other trials.
        median: f64,
    },
    /// Probability that the trial ends better than the best so far.
    DecayCurve {
        /// Probability, from 0 to 1.
        probability: f64,
        /// Predicted final value.
        predicted: f64,
        /// Standard deviation of the final value, not negative.
        deviation: f64,
        /// Best final value of a trial.
        best: f64,
    },
    /// Value among the trials that passed the same rung.
    Asha {
        /// Step of the rung.
        rung: i64,
        /// Best value of the trial so far.
        value: f64,
        /// Worst value that passes the rung.
        cutoff: f64,
        /// Number of trials that have passed the rung, including this one.
        compared: usize,
    },
}

impl StopEvidence {
    /// Explains a stop in a sentence without a full stop. `metric` is the name of the metric.
    pub fn explain(&self, metric: &str) -> impl fmt::Display {
        match self {
            Self::Median { best, median } => {
                let (best, median) = (Rounded(*best), Rounded(*median));
                format!("its best {metric} {best} is worse than the median {median} of the others")
            }
            Self::DecayCurve { probability, predicted, best, .. } => format!(
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

/// Setting out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoppingRuleError {
    /// A decision would be made without evidence.
    #[error("a stopping rule needs at least one trial and one report, the decay-curve rule two trials")]
    NoEvidence,
    /// The progress is not between 0 and 1.
    #[error("the progress {min_progress} is not between 0 and 1")]
    Progress {
        /// Progress as given.
        min_progress: f64,
    },
    /// Every trial, or none, would be stopped.
    #[error("the probability {probability} is not above 0 and below 1")]
    Probability {
        /// Probability as given.
        probability: f64,
    },
    /// The reduction factor is too small: every trial would pass.
    #[error("the reduction factor {eta} is not at least 2")]
    Eta {
        /// Factor as given.
        eta: u32,
    },
    /// The first rung is too low: rungs would not increase.
    #[error("the first rung {first_rung} is not at least step 1")]
    FirstRung {
        /// Step as given.
        first_rung: i64,
    },
}
