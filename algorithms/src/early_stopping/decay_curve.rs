//! Decay-curve rule: stops a trial whose extrapolated learning curve is very unlikely to become the best.
//!
//! Corresponds to AI Platform's `decayCurveStoppingConfig`. According to its documentation, the completed trials
//! predict the final value of a running trial, which is stopped if it is very unlikely to exceed the optimum found so
//! far. The prediction is our own, see [`super::final_value`].

#[cfg(test)]
mod tests;

use super::curve::{CompletedCurve, CurvePoint, cleaned};
use super::final_value::{FEWEST_FINISHED, FinalValuePredictor};
use super::rule::{EarlyStopDecision, StopEvidence, StoppingRuleError};
use crate::problem::Goal;

/// Default number of reports before a decision (measured, see docs/experiments/048).
const USUAL_REPORTS: usize = 1;

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
        PreparedDecayCurveRule { rule: self, predictor: FinalValuePredictor::new(goal, completed) }
    }
}

/// Rule with the trials completed so far.
#[derive(Debug, Clone)]
pub struct PreparedDecayCurveRule {
    rule: DecayCurveRule,
    predictor: FinalValuePredictor,
}

impl PreparedDecayCurveRule {
    /// Decides on a running trial by its reports so far. The same reports give the same decision.
    ///
    /// Takes one pass over the reports of all finished trials.
    pub fn decide(&self, candidate: &[CurvePoint]) -> EarlyStopDecision {
        let Self { rule, predictor } = self;
        let candidate = cleaned(candidate);
        if candidate.len() < rule.needed_reports() {
            return EarlyStopDecision::TooEarly;
        }
        let Some(predicted) = predictor.predict(&candidate) else { return EarlyStopDecision::TooEarly };
        if predicted.progress < rule.min_progress || predicted.finished < rule.min_finished {
            return EarlyStopDecision::TooEarly;
        }
        let Some(probability) = predicted.chance_above(predictor.best()) else { return EarlyStopDecision::TooEarly };
        let user = |value| predictor.goal().to_maximized(value);
        let evidence = StopEvidence::DecayCurve {
            probability,
            predicted: user(predicted.value),
            deviation: predicted.deviation,
            best: user(predictor.best()),
        };
        let reached = candidate.iter().map(|point| user(point.value)).fold(f64::NEG_INFINITY, f64::max);
        if probability < rule.probability && reached < predictor.best() {
            EarlyStopDecision::Stop(evidence)
        } else {
            EarlyStopDecision::Continue(evidence)
        }
    }

    pub(super) fn predictor(&self) -> &FinalValuePredictor {
        &self.predictor
    }
}
