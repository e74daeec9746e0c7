//! The rule for the last value of a trial that was stopped early.
//!
//! The value is not a result. Had the trial gone on, it would have ended elsewhere, usually better. A rule that predicts final
//! values replaces it by its prediction before the trial gets here (docs/decisions/061); otherwise nothing is known of how much.
//! In both cases the trial is never the best one, the recommended one or the threshold of an improvement while another trial
//! ran to its end. In a model, the value is an observation of the final one with more noise, as of a lower fidelity:
//!
//! | use | variance of the observation |
//! |---|---|
//! | suggestions: `GpBandit`, source studies | [`NOISE_FACTOR`] times that of a result. Less noise for predicted values gained nothing, see docs/experiments/048; nor did corrections by a line and censored values, see 044 |
//! | statements about results: [`insight`](crate::insight), [`expected_gain`](crate::expected_gain) | the same, and [`ADDED_NOISE`]. The noise of a deterministic program is almost 0, so a factor alone would declare an early value to be the final one |
//!
//! `Tpe` ranks the value among the others, and keeps one finished trial among the good ones.
//!
//! Sources: Kandasamy, Dasarathy, Schneider & Póczos 2017, Multi-fidelity Bayesian optimisation with continuous approximations
//! (a lower fidelity differs from the objective by a bounded amount); Hutter, Hoos & Leyton-Brown 2013, Bayesian optimization
//! with censored response data (arXiv 1310.1947), for the alternative of a bound in place of a value.

/// Noise variance of a last value, relative to a result (a guess).
pub(crate) const NOISE_FACTOR: f64 = 4.0;

/// Variance of the difference between last and final value, where all values of a study have the variance 1 (a guess:
/// half of their deviation).
pub(crate) const ADDED_NOISE: f64 = 0.25;
