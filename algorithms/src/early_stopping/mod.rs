//! Rules that end a trial before its end because it is unlikely to become the best.
//!
//! Each is a pure function of measured curves. Not here: asking a program to end, and what a stopped trial's values
//! mean to the search.

mod median;

pub use median::{CurvePoint, EarlyStopDecision, MedianRule, MedianRuleError, PreparedMedianRule};
