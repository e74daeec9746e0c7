use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::sync::OwnedSemaphorePermit;

use super::PerPrincipal;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    #[error("{principal} sends more than {limit} requests a second")]
    Requests {
        principal: String,
        limit: u32,
        /// Time until the next request is accepted.
        retry_after: Duration,
    },
    #[error("{principal} already waits for {limit} suggestions, the maximum")]
    Suggestions { principal: String, limit: usize },
    #[error(
        "{principal} already waits for suggestions of {waiting} trials, and {count} more exceed the maximum of {limit}: retry \
         when they are complete, or request fewer trials"
    )]
    SuggestedTrials {
        principal: String,
        count: usize,
        /// Number of trials the principal is waiting for.
        waiting: usize,
        limit: usize,
    },
}

/// Maximum number of requested trials per concurrent suggestion of a principal. A guess: most requests ask for one.
const TRIALS_PER_SUGGESTION: usize = 10;

/// Rate limits, equal for all principals.
pub struct Limits {
    requests: Option<(NonZeroU32, DefaultKeyedRateLimiter<String>)>,
    suggestions: Option<SuggestionLimits>,
}

struct SuggestionLimits {
    requests: PerPrincipal,
    trials: Arc<PerPrincipal>,
}

/// Permit for one of a principal's concurrent suggestions, released on drop.
#[derive(Debug)]
pub struct SuggestionPermit {
    _permit: OwnedSemaphorePermit,
    principal: String,
    trials: Arc<PerPrincipal>,
}

impl Limits {
    /// Limits `requests` per second, which is also the maximum burst, and concurrent `suggestions`, with ten times as
    /// many requested trials in total; `None`: no limit.
    pub fn new(requests: Option<NonZeroU32>, suggestions: Option<NonZeroU32>) -> Self {
        let requests = requests.map(|rate| (rate, RateLimiter::keyed(Quota::per_second(rate))));
        let suggestions = suggestions.map(|limit| SuggestionLimits {
            requests: PerPrincipal::new(limit.get() as usize),
            trials: Arc::new(PerPrincipal::new(limit.get() as usize * TRIALS_PER_SUGGESTION)),
        });
        Self { requests, suggestions }
    }

    /// Counts a request of `principal`.
    ///
    /// # Errors
    /// [`OverLimit::Requests`] if the limit is exceeded.
    pub fn request(&self, principal: &str) -> Result<(), OverLimit> {
        let Some((rate, limiter)) = &self.requests else { return Ok(()) };
        limiter.check_key(&principal.to_owned()).map_err(|too_early| OverLimit::Requests {
            principal: principal.to_owned(),
            limit: rate.get(),
            retry_after: too_early.wait_time_from(DefaultClock::default().now()),
        })
    }

    /// Counts a suggestion of `principal` until the returned permit is dropped; `None`: no limit.
    ///
    /// # Errors
    /// [`OverLimit::Suggestions`] if the limit is exceeded.
    pub fn suggestion(&self, principal: &str) -> Result<Option<SuggestionPermit>, OverLimit> {
        let Some(limits) = &self.suggestions else { return Ok(None) };
        let permit = limits.requests.of(principal).try_acquire_owned();
        let limit = limits.requests.permits();
        let permit = permit.map_err(|_| OverLimit::Suggestions { principal: principal.to_owned(), limit })?;
        let (principal, trials) = (principal.to_owned(), Arc::clone(&limits.trials));
        Ok(Some(SuggestionPermit { _permit: permit, principal, trials }))
    }
}

impl SuggestionPermit {
    /// Counts `count` trials of this suggestion until the returned guard is dropped. A suggestion above the maximum is
    /// permitted while no other one is waiting.
    ///
    /// # Errors
    /// [`OverLimit::SuggestedTrials`] if the limit is exceeded.
    pub fn trials(&self, count: usize) -> Result<impl Send + Sync + use<>, OverLimit> {
        let permits = self.trials.of(&self.principal);
        let limit = self.trials.permits();
        let counted = u32::try_from(count.min(limit)).unwrap_or(u32::MAX);
        let waiting = limit - permits.available_permits();
        let principal = self.principal.clone();
        permits.try_acquire_many_owned(counted).map_err(|_| OverLimit::SuggestedTrials {
            principal,
            count,
            waiting,
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::{Limits, OverLimit};

    #[test]
    fn limits_apply_to_each_principal_separately() {
        let limits = Limits::new(NonZeroU32::new(1), NonZeroU32::new(2));
        assert_eq!(limits.request("a"), Ok(()));
        // The second request is accepted only one second later.
        assert!(matches!(limits.request("a"), Err(OverLimit::Requests { limit: 1, .. })));
        assert_eq!(limits.request("b"), Ok(()));

        let first = limits.suggestion("a").unwrap();
        let second = limits.suggestion("a").unwrap().unwrap();
        let refused = limits.suggestion("a").unwrap_err();
        assert_eq!(refused, OverLimit::Suggestions { principal: "a".to_owned(), limit: 2 });
        limits.suggestion("b").unwrap();
        drop(first);
        let third = limits.suggestion("a").unwrap().unwrap();

        let of_second = second.trials(15).unwrap();
        let refused = third.trials(6).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "a already waits for suggestions of 15 trials, and 6 more exceed the maximum of 20: retry when they are complete, \
             or request fewer trials"
        );
        let _of_other = limits.suggestion("b").unwrap().unwrap().trials(20).unwrap();
        let of_third = third.trials(5).unwrap();
        assert!(third.trials(1).is_err());
        drop((of_second, of_third));
        let _all = third.trials(1000).unwrap();
        assert!(second.trials(1).is_err());
    }

    #[test]
    fn all_requests_are_accepted_without_limits() {
        let limits = Limits::new(None, None);
        for _ in 0..1000 {
            assert_eq!(limits.request("a"), Ok(()));
            std::mem::forget(limits.suggestion("a").unwrap());
        }
    }
}
