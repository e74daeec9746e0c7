//! Rate limits of each principal.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The exceeded limit of a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// Requests per second.
    #[error("{principal} sends more than {limit} requests a second")]
    Requests {
        /// The principal.
        principal: String,
        /// The limit.
        limit: u32,
        /// Time until the next request is accepted.
        retry_after: Duration,
    },
    /// Concurrent suggestions.
    #[error("{principal} already waits for {limit} suggestions, the maximum")]
    Suggestions {
        /// The principal.
        principal: String,
        /// The limit.
        limit: u32,
    },
}

/// The limits, which are the same for each principal.
pub struct Limits {
    requests: Option<(NonZeroU32, DefaultKeyedRateLimiter<String>)>,
    suggestions: Option<NonZeroU32>,
    waiting: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A permit for one of a principal's concurrent suggestions; dropping it releases the permit.
#[derive(Debug)]
pub struct SuggestionPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Limits {
    /// Limits of `requests` per second, which is also the maximum burst, and of concurrent `suggestions`; `None`: no
    /// limit.
    pub fn new(requests: Option<NonZeroU32>, suggestions: Option<NonZeroU32>) -> Self {
        let requests = requests.map(|rate| (rate, RateLimiter::keyed(Quota::per_second(rate))));
        Self { requests, suggestions, waiting: Mutex::default() }
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

    /// Counts a suggestion of `principal` until the returned value is dropped.
    ///
    /// # Errors
    /// [`OverLimit::Suggestions`] if the limit is exceeded.
    pub fn suggestion(&self, principal: &str) -> Result<SuggestionPermit, OverLimit> {
        let Some(limit) = self.suggestions else { return Ok(SuggestionPermit { _permit: None }) };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Entries of principals without pending suggestions are removed.
        waiting.retain(|_, permits| permits.available_permits() < limit.get() as usize);
        let permits = waiting.entry(principal.to_owned());
        let permits = permits.or_insert_with(|| Arc::new(Semaphore::new(limit.get() as usize)));
        let permit = Arc::clone(permits).try_acquire_owned();
        let permit =
            permit.map_err(|_| OverLimit::Suggestions { principal: principal.to_owned(), limit: limit.get() })?;
        Ok(SuggestionPermit { _permit: Some(permit) })
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
        let _second = limits.suggestion("a").unwrap();
        let refused = limits.suggestion("a").unwrap_err();
        assert_eq!(refused, OverLimit::Suggestions { principal: "a".to_owned(), limit: 2 });
        limits.suggestion("b").unwrap();
        drop(first);
        limits.suggestion("a").unwrap();
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
