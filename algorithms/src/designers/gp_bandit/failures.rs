//! What failed trials teach: whether the point explains failures, and how much the search avoids them.
//!
//! Feasibility is a Gaussian process of +1 for measured and -1 for failed trials. From [`ENOUGH_TRIALS`] on, it must predict
//! each trial from all others better than the share of failures alone does: the sum of the log probabilities of the trials,
//! each left out in turn, must be larger by [`LEAST_GAIN`]. Otherwise the failures are taken as random, as those of a machine that breaks, and are left
//! out: neither the values nor the trust region learn from them. Their points are still not tried again.
//!
//! A model of the values in which failures have a pessimistic value avoids the border of a region that fails, where the
//! optimum often is. A model of the measured values alone finds it, but half of the trials fail. So the search is bold while
//! at most [`ACCEPTED`] of the last [`RECENT`] trials has failed: the values are those of measured trials alone, and the
//! log probability of feasibility has the weight [`BOLD_WEIGHT`]. Otherwise the pessimistic values count, and the weight is 1.
//! All of this is measured, see docs/experiments/017.

use super::fitting::{Fitting, Output};
use super::observations::Observations;
use crate::acquisition::BoundedOutcome;
use crate::numerics::normal::log_distribution;

/// Number of different points from which failures may count as random. Fewer say too little.
const ENOUGH_TRIALS: usize = 20;
/// Gain in log probability from which failures count as explained.
const LEAST_GAIN: f64 = 4.0;
/// Number of completed trials whose failures decide whether the search is bold.
const RECENT: usize = 20;
/// Number of failures among them up to which it is.
const ACCEPTED: usize = 1;
/// Weight of the log probability of feasibility while the search is bold.
const BOLD_WEIGHT: f64 = 30.0;

/// What the failures of a history teach.
pub(super) struct Failures {
    /// The observations that the model of the values learns from, if they are not all.
    pub(super) without: Option<Observations>,
    /// Whether the points do not explain the failures.
    pub(super) are_random: bool,
    /// The model of feasibility; `None` if there are too few failures, or if they are random.
    pub(super) model: Option<BoundedOutcome>,
}

impl Failures {
    /// What the failures in `observations`, those of `fitting`, teach.
    pub(super) fn new(fitting: &Fitting<'_>, observations: &Observations) -> Self {
        let Some((posterior, labels)) = fitting.posterior_with_values(Output::Feasibility, None) else {
            return Self { without: None, are_random: false, model: None };
        };
        let predictions = posterior.leave_one_out(&labels);
        let count = labels.len() as f64;
        let measured = labels.iter().filter(|label| **label > 0.0).count() as f64;
        let gain = |(label, (mean, deviation)): (&f64, &(f64, f64))| {
            // The share among the others, with half a trial more of each kind.
            let equal = if *label > 0.0 { measured } else { count - measured };
            log_distribution(label * mean / deviation) - ((equal - 0.5) / count).ln()
        };
        let gain: f64 = labels.iter().zip(&predictions).map(gain).sum();
        if labels.len() >= ENOUGH_TRIALS && gain < LEAST_GAIN {
            return Self { without: Some(observations.without_failures()), are_random: true, model: None };
        }
        let is_bold = observations.failures_among_last(RECENT) <= ACCEPTED;
        Self {
            without: is_bold.then(|| observations.without_failures()),
            are_random: false,
            model: Some(BoundedOutcome { posterior, threshold: 0.0, weight: if is_bold { BOLD_WEIGHT } else { 1.0 } }),
        }
    }
}
