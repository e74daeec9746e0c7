//! Rules that end a trial before its end because it is unlikely to become the best.
//!
//! Each is a pure function of measured curves: [`StoppingRule`] names them for callers that let their users choose.
//! What holds for all of them: a tie does not stop, too little knowledge does not stop, values that are not finite do
//! not exist, and the order of trials and reports is of no consequence. Not here: asking a program to end, and what a
//! stopped trial's values mean to the search.

mod asha;
mod curve;
mod decay_curve;
mod median;
#[cfg(test)]
mod properties;
mod rule;

pub use asha::{AshaDecision, AshaRule, AshaRuleError, PreparedAshaRule};
pub use curve::{CompletedCurve, CurvePoint};
pub use decay_curve::{DecayCurveDecision, DecayCurveRule, DecayCurveRuleError, PreparedDecayCurveRule};
pub use median::{MedianDecision, MedianRule, MedianRuleError, PreparedMedianRule};
pub use rule::{EarlyStopDecision, PreparedStoppingRule, StopReason, StoppingRule, UnknownStoppingRule};
