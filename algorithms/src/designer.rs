//! The interface of a search algorithm.
//!
//! # Contract for implementers
//! - **Pure.** The same problem, seed, history and request give the same suggestions in any process, with any number of
//!   threads, independent of the order of the trials in the history. No clock, no IO, no global random numbers:
//!   randomness comes from [`crate::rng::stream`], keyed by the study's seed, the suggested trial and a purpose.
//! - **Completed and pending trials are separate arguments.** Pending trials are always the complete set.
//! - **No state between requests.** A designer may be rebuilt for each call.
//! - **No repetition in a finite space.** Points of the history are not proposed again. If the space is exhausted,
//!   `suggest` returns fewer suggestions than requested, or none. A shortage for any other reason is an error.
//! - **No failure because of bad trials.** Infeasible trials and trials that were stopped early are observations.

use std::num::NonZeroUsize;

use crate::designers::UsedPoints;
use crate::encoding::EncodingError;
use crate::interruption::Interruption;
use crate::problem::{CompletedTrial, ParameterValues, PendingTrial, TrialId, TrialSuggestion};
use crate::transfer::SourceInfluence;

/// Trials behind a suggestion.
#[derive(Debug, Clone, Copy, Default)]
pub struct History<'a> {
    /// Trials with a final result, each id once, in any order.
    pub completed: &'a [CompletedTrial],
    /// All assigned trials without a result yet, in any order.
    pub pending: &'a [PendingTrial],
}

impl<'a> History<'a> {
    pub(crate) fn points(self) -> impl Iterator<Item = (TrialId, &'a ParameterValues)> {
        let completed = self.completed.iter().map(|trial| (trial.id, &trial.parameters));
        completed.chain(self.pending.iter().map(|trial| (trial.id, &trial.parameters)))
    }
}

/// A request for suggestions.
#[derive(Debug, Clone, Copy)]
pub struct SuggestRequest {
    /// Id of the first suggestion; the others follow consecutively.
    pub first_trial_id: TrialId,
    /// Number of suggestions.
    pub count: NonZeroUsize,
}

impl SuggestRequest {
    /// Requests a single trial `id`.
    pub fn one(id: TrialId) -> Self {
        Self { first_trial_id: id, count: NonZeroUsize::MIN }
    }
}

/// Problems supported by an algorithm. A service can check them before it builds a designer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Learns from completed trials; otherwise it only avoids used points.
    pub learns: bool,
    /// Accepts parameters of kind double.
    pub doubles: bool,
    /// Accepts categorical parameters.
    pub categories: bool,
    /// Accepts conditional parameters.
    pub conditions: bool,
    /// Accepts several metrics.
    pub several_metrics: bool,
    /// Accepts constraints.
    pub constraints: bool,
    /// Uses [priors](crate::problem::ParameterPrior); otherwise it ignores them.
    pub priors: bool,
}

impl Capabilities {
    /// Capabilities of an algorithm that accepts every problem and ignores priors.
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

/// Search algorithm for one problem and one seed. The [module documentation](self) states the contract.
pub trait Designer: Send + Sync {
    /// Supported problems.
    fn capabilities(&self) -> Capabilities;

    /// Proposes up to `request.count` points; fewer mean that the space is exhausted.
    ///
    /// # Errors
    /// [`DesignerError`] states whether another algorithm could be used instead.
    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        self.suggest_until(history, request, &Interruption::default())
    }

    /// [`Self::suggest`] with interruption. A slow designer checks `interruption` between suggestions and between the
    /// fits of its models.
    ///
    /// # Errors
    /// [`DesignerError`]; [`DesignerError::Interrupted`] soon after `interruption` was requested.
    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError>;

    /// Influence of each source study with usable trials on the next suggestion after `history`; empty for an algorithm
    /// that has none.
    ///
    /// # Errors
    /// As [`Self::suggest_until`].
    fn source_influences(
        &self,
        history: History<'_>,
        interruption: &Interruption,
    ) -> Result<Vec<SourceInfluence>, DesignerError> {
        let _ = (history, interruption);
        Ok(Vec::new())
    }

    /// View of an algorithm that uses only the points of a history; `None` if it uses more of it.
    fn by_points(&self) -> Option<&dyn PointDesigner> {
        None
    }
}

/// Search algorithm that uses only the points of a history. It needs no trials in memory: a caller adds the number of
/// each trial's point to [`UsedPoints`], and gets the same suggestions as with the whole history.
pub trait PointDesigner: Send + Sync {
    /// Whether the algorithm suggests points of a finite set, and has to know all used ones.
    fn is_finite(&self) -> bool;

    /// Whether further used points can affect the suggestions after `used`.
    fn needs_more_than(&self, used: &UsedPoints) -> bool {
        let _ = used;
        self.is_finite()
    }

    /// Number of a point; `None` for a point that the algorithm need not know.
    ///
    /// # Errors
    /// The values are not a point of the space. Not detected in a space with a double.
    fn number(&self, parameters: &ParameterValues) -> Result<Option<u128>, EncodingError>;

    /// Suggests up to `request.count` unused points, and adds them to `used`; fewer mean that all points are used.
    fn suggest_unused(&self, used: &mut UsedPoints, request: SuggestRequest) -> Vec<TrialSuggestion>;
}

/// Reason for a missing suggestion, by the caller's remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignerError {
    /// The algorithm cannot handle the problem: choose another one.
    #[error("{algorithm} cannot search this space: {reason}")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Unsupported property, with the name of the parameter.
        reason: String,
    },
    /// The history does not belong to the problem, an error of the caller.
    #[error("trial {trial} does not fit the problem: {reason}")]
    ForeignTrial {
        /// The trial that does not fit.
        trial: TrialId,
        /// Mismatch between trial and problem.
        reason: String,
    },
    /// The computation failed for this history: fall back to a simpler algorithm for this suggestion.
    #[error("{algorithm} found no suggestion: {reason}")]
    Numerical {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Failed step, with its input.
        reason: String,
    },
    /// The caller requested the end of the computation.
    #[error("the computation was interrupted")]
    Interrupted,
}

impl DesignerError {
    /// Converts a mismatch between trial and problem to the error of that trial.
    pub(crate) fn foreign<E: ToString>(trial: TrialId) -> impl Fn(E) -> Self {
        move |mismatch| Self::ForeignTrial { trial, reason: mismatch.to_string() }
    }
}
