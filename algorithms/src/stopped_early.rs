//! The rule for the last value of a trial that was stopped early.
//!
//! The value is not a result. Had the trial gone on, it would have ended elsewhere, usually better. A rule that predicts final
//! values replaces it by its prediction before the trial gets here (docs/decisions/061); otherwise nothing is known of how much.
//! In both cases the trial is never the best one, the recommended one or the threshold of an improvement while another trial
//! ran to its end. In a model, the value is an observation of the final one with more noise, as of a lower fidelity:
//!
//! | use | variance of the observation |
//! |---|---|
//! | suggestions: `GpBandit`, source studies | [`NOISE_FACTOR`] times that of a result, and [`prediction_noise`] for a predicted value: the noise of a deterministic program is almost 0, so a factor alone would take predictions for results (docs/experiments/102). Corrections by a line and censored values gained nothing, see 044 |
//! | statements about results: [`insight`](crate::insight), [`expected_gain`](crate::expected_gain) | [`NOISE_FACTOR`] times that of a result, and [`ADDED_NOISE`] |
//!
//! `Tpe` ranks the value among the others, and keeps one finished trial among the good ones.
//!
//! Sources: Kandasamy, Dasarathy, Schneider & Póczos 2017, Multi-fidelity Bayesian optimisation with continuous approximations
//! (a lower fidelity differs from the objective by a bounded amount); Hutter, Hoos & Leyton-Brown 2013, Bayesian optimization
//! with censored response data (arXiv 1310.1947), for the alternative of a bound in place of a value.

use crate::output_warp::Warp;

/// Noise variance of a last value, relative to a result (a guess).
pub(crate) const NOISE_FACTOR: f64 = 4.0;

/// Variance of the difference between last and final value, where all values of a study have the variance 1 (a guess:
/// half of their deviation).
pub(crate) const ADDED_NOISE: f64 = 0.25;

/// Standard deviation of a predicted value in a model, relative to that stated by the rule (measured, see docs/experiments/102):
/// predictions for near points err alike, so together they are less exact than the model assumes.
const DEVIATION_FACTOR: f64 = 2.0;

/// Variance of the target of a predicted final value with the standard deviation `deviation`, both in the units of the values that
/// `warp` was fitted to; 0 for a deviation of 0.
pub(crate) fn prediction_noise(warp: &Warp, value: f64, deviation: f64) -> f64 {
    if deviation == 0.0 { 0.0 } else { (DEVIATION_FACTOR * warp.deviation(value, deviation)).powi(2) }
}
