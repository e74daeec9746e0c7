//! Rules that stop a trial early because it is unlikely to become the best.
//!
//! Each rule is a pure function of learning curves. [`StoppingRuleKind`] names the rules, [`StoppingRule`] adds their
//! settings.
//!
//! | rule | stops a trial that |
//! |---|---|
//! | [`MedianRule`] | was never as good as the other trials were on average |
//! | [`DecayCurveRule`] | is very unlikely to end better than the best so far |
//! | [`AshaRule`] | is not in the best third of the trials that came as far |
//!
//! The median and decay-curve rules lost no best trial in simulation. Successive halving saves more time, but loses the
//! best trial in about half of the studies and suits random search with many trials; see docs/experiments/040 and 044.
//!
//! All rules share these properties: a tie does not stop, too little evidence does not stop, values that are not finite
//! are ignored, and the order of trials and reports has no effect. Not here: stopping a program, and the use of a
//! stopped trial's values in a search.

mod asha;
mod curve;
mod decay_curve;
mod final_value;
mod kind;
mod median;
#[cfg(test)]
#[path = "tests/properties.rs"]
mod properties;
mod rule;

pub use asha::{AshaRule, PreparedAshaRule};
pub use curve::{CompletedCurve, CurvePoint};
pub use decay_curve::{DecayCurveRule, PreparedDecayCurveRule};
pub use final_value::FinalPrediction;
pub use kind::{StoppingRuleKind, UnknownStoppingRule};
pub use median::{MedianRule, PreparedMedianRule};
pub use rule::{EarlyStopDecision, PreparedStoppingRule, StopEvidence, StoppingRule, StoppingRuleError};
