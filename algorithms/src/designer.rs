//! The interface of a search algorithm.
//!
//! # Contract for implementers
//! - **Pure.** The same problem, seed, history and request give the same suggestions in any process, at any number of
//!   threads, whatever the order of the trials in the history. No clock, no IO, no global random numbers: randomness
//!   comes from [`crate::rng::stream`], keyed by the study's seed, the trial to be suggested and a purpose.
//! - **Completed and pending trials are separate**, and pending is always the whole set.
//! - **Nothing survives between requests.** A designer may be built anew for each call.
//! - In a finite space no point of the history is proposed again. When nothing is left, fewer suggestions than asked,
//!   in the end none, come back: the space is exhausted. Running short for any other reason is an error.
//! - Infeasible trials and trials stopped early are knowledge, never a reason to fail.

use std::num::NonZeroUsize;

use crate::problem::{CompletedTrial, PendingTrial, TrialId, TrialSuggestion};

/// All that is known when a suggestion is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct History<'a> {
    /// Trials with a final result, each id once, in any order.
    pub completed: &'a [CompletedTrial],
    /// Trials given out and still without a result: all of them, in any order.
    pub pending: &'a [PendingTrial],
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct SuggestRequest {
    /// The id that the first suggestion will get; the others follow it.
    pub first_trial_id: TrialId,
    /// How many suggestions.
    pub count: NonZeroUsize,
}

impl SuggestRequest {
    /// A request for the one trial `id`.
    pub fn one(id: TrialId) -> Self {
        Self { first_trial_id: id, count: NonZeroUsize::MIN }
    }
}

/// What an algorithm can do, declared so that a service need not find out by trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// It learns from completed trials; the others only need to know which points were used.
    pub learns: bool,
    /// It accepts spaces with parameters of kind double.
    pub doubles: bool,
    /// It accepts spaces with categorical parameters.
    pub categories: bool,
    /// It accepts spaces with conditional parameters.
    pub conditions: bool,
    /// It accepts problems with several metrics.
    pub several_metrics: bool,
    /// It accepts problems with constraints.
    pub constraints: bool,
    /// It makes use of [priors](crate::problem::ParameterPrior); the others search as if there were none.
    pub priors: bool,
}

impl Capabilities {
    /// Every problem can be stated to it, whether or not it learns; of priors it makes no use.
    pub const fn any_problem(learns: bool) -> Self {
        Self {
            learns,
            doubles: true,
            categories: true,
            conditions: true,
            several_metrics: true,
            constraints: true,
            priors: false,
        }
    }
}

/// A search algorithm for one problem and one seed. See the module documentation for the contract.
pub trait Designer: Send + Sync {
    /// What the algorithm can do.
    fn capabilities(&self) -> Capabilities;

    /// Proposes up to `request.count` points; fewer means that the space is exhausted.
    ///
    /// # Errors
    /// [`DesignerError`] tells whether another algorithm could answer in its place.
    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError>;
}

/// Why an algorithm gives no suggestion, by what the caller can do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignerError {
    /// The problem is not one this algorithm can handle: choose another algorithm.
    #[error("{algorithm} cannot search this space: {reason}")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// What it cannot handle, naming the parameter.
        reason: String,
    },
    /// The history does not belong to the problem: a fault of the caller.
    #[error("trial {trial} does not fit the problem: {reason}")]
    ForeignTrial {
        /// The trial.
        trial: TrialId,
        /// What does not fit.
        reason: String,
    },
    /// The computation failed for this history: fall back to a simpler algorithm for this suggestion.
    #[error("{algorithm} found no suggestion: {reason}")]
    Numerical {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Which step failed and on what.
        reason: String,
    },
}
