//! Lessons from failed trials: whether the point explains failures, and how strongly the search avoids them.
//!
//! Feasibility is a Gaussian process of +1 for measured and -1 for failed trials. From [`ENOUGH_TRIALS`] on, it must
//! predict each trial from all others better than the share of failures alone does: the sum of the log probabilities of
//! the trials, each left out in turn, must be larger by [`LEAST_GAIN`]. Otherwise failures count as random, as on an
//! unreliable machine, and are ignored by the values and the trust region. Their points are still not tried again.
//!
//! A model of the values with a pessimistic value for failures avoids the border of a failing region, where the optimum
//! often is. A model of the measured values alone finds it, but half of the trials fail. So the search is bold while at
//! most [`ACCEPTED`] of the last [`RECENT`] trials has failed: it uses the values of measured trials alone, and weights
//! the log probability of feasibility by [`BOLD_WEIGHT`]. Otherwise it uses the pessimistic values and the weight 1.
//! All of this is measured, see docs/experiments/017.

use super::fitting::{Fitting, Output};
use super::observations::Observations;
use crate::acquisition::BoundedOutcome;
use crate::numerics::normal::log_distribution;

/// Number of distinct points from which failures may count as random.
const ENOUGH_TRIALS: usize = 20;
/// Gain in log probability from which failures count as explained.
const LEAST_GAIN: f64 = 4.0;
/// Number of completed trials whose failures decide whether the search is bold.
const RECENT: usize = 20;
/// Maximum number of failures among them for a bold search.
const ACCEPTED: usize = 1;
/// Weight of the log probability of feasibility in a bold search.
const BOLD_WEIGHT: f64 = 30.0;

pub(super) struct Failures {
    /// Observations for the model of the values, if not all of them.
    pub(super) without: Option<Observations>,
    /// Whether the points do not explain the failures.
    pub(super) are_random: bool,
    /// Model of feasibility; `None` with too few or random failures.
    pub(super) model: Option<BoundedOutcome>,
}

impl Failures {
    /// Analyses the failures in `observations`, those of `fitting`.
    pub(super) fn new(fitting: &Fitting<'_>, observations: &Observations) -> Self {
        let Some((posterior, labels)) = fitting.posterior_with_values(Output::Feasibility, None) else {
            return Self { without: None, are_random: false, model: None };
        };
        let predictions = posterior.leave_one_out(&labels);
        let count = labels.len() as f64;
        let measured = labels.iter().filter(|label| **label > 0.0).count() as f64;
        let gain = |(label, (mean, deviation)): (&f64, &(f64, f64))| {
            // Share among the others, with half a trial more of each kind.
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
