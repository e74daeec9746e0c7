//! Memory budget of a server: evicts cached studies when the process exceeds it, or when they are idle.

use std::sync::Arc;
use std::time::Duration;

use crate::allocator;
use tunesmith_studies::Studies;
use tunesmith_telemetry::telemetry;

/// Polling interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Polls between two idle counts: one minute.
const LOOKS_PER_COUNT: u32 = 60;

/// Idle counts before eviction: ten minutes (a guess: longer than a client's pause between two trials of a few
/// minutes; reading the history again takes less than a second).
const IDLE_COUNTS: u32 = 10;

/// Free allocator memory in bytes that is not worth returning to the system.
const SLACK: usize = 32 << 20;

/// Enforces `budget`, in bytes, by evicting caches of `studies` and returning freed memory to the system. Never
/// returns.
pub(crate) async fn keep(studies: Arc<Studies>, budget: usize) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for look in 1_u64.. {
        interval.tick().await;
        let counts = look.is_multiple_of(u64::from(LOOKS_PER_COUNT));
        let studies = Arc::clone(&studies);
        // Dropping a long history and returning its memory takes a while.
        let looked = tokio::task::spawn_blocking(move || look_at(&studies, budget, counts));
        if let Err(error) = looked.await {
            tracing::error!(error = &error as &dyn std::error::Error, "the memory could not be checked");
        }
    }
}

fn look_at(studies: &Studies, budget: usize, counts: bool) {
    let held = || allocator::held_bytes().unwrap_or(0);
    let before = held();
    let idle = if counts { studies.drop_idle(IDLE_COUNTS) } else { 0 };
    let mut dropped = 0;
    if held() > budget {
        // Evicts down to three quarters, so that the next suggestion does not exceed the budget again.
        dropped = studies.drop_while(|| held() > budget / 4 * 3);
        tracing::info!(
            memory.budget_bytes = budget,
            memory.before_bytes = before,
            memory.after_bytes = held(),
            dropped,
            "the memory budget was exceeded"
        );
    }
    let free = allocator::resident_bytes().unwrap_or(0).saturating_sub(held());
    if idle + dropped > 0 || free > budget / 4 + SLACK {
        allocator::release();
    }
    let gauge = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    telemetry().memory_held.set(gauge(held()));
    telemetry().memory_resident.set(gauge(allocator::resident_bytes().unwrap_or(0)));
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use tunesmith_contract::samples;
    use tunesmith_domain::SuggestionRequest;
    use tunesmith_store::MemoryStore;
    use tunesmith_studies::clock::SystemClock;
    use tunesmith_studies::search_policy::SearchPolicy;

    use super::*;

    #[tokio::test]
    async fn kept_state_is_dropped_beyond_the_budget_unless_it_was_used_last_and_when_it_is_idle() {
        let store = Arc::new(MemoryStore::new());
        let policy = Arc::new(SearchPolicy::new(store.clone(), 1));
        let studies = Studies::new(store, policy, Arc::new(SystemClock));
        for name in ["p/l/a", "p/l/b"] {
            studies.create_study(samples::study(name)).await.unwrap();
        }
        // Number of histories and summaries left after these polls, for two studies.
        let left_after = async |client: &str, looks: &[(usize, bool)]| {
            for name in ["p/l/a", "p/l/b"] {
                let request = SuggestionRequest {
                    client_id: client.to_owned(),
                    count: NonZeroUsize::new(2).unwrap(),
                    lease: None,
                };
                let study = name.parse().unwrap();
                studies.suggest(&study, &request).await.unwrap();
                studies.optimal_trials(&studies.study(&study).await.unwrap()).await.unwrap();
            }
            for &(budget, counts) in looks {
                look_at(&studies, budget, counts);
            }
            studies.drop_idle(0)
        };
        assert_eq!(left_after("a", &[(usize::MAX, false); 20]).await, 4);
        // One history: the next request needs the other one, and the summaries.
        assert_eq!(left_after("b", &[(0, false)]).await, 3);
        assert_eq!(left_after("c", &[(usize::MAX, true), (0, false)]).await, 0);
        assert_eq!(left_after("d", &[(usize::MAX, true); 10]).await, 4);
        assert_eq!(left_after("e", &[(usize::MAX, true); 11]).await, 0);
    }
}
