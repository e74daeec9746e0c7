//! Activity tracking of a connection: idle, stalled, or waiting for the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

#[derive(Clone)]
pub(super) struct Activity(Arc<State>);

struct State {
    begin: Instant,
    /// Time of the last activity in milliseconds since `begin`.
    last: AtomicU64,
    /// Number of exchanges waiting for the server.
    waiting: AtomicUsize,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(State { begin: Instant::now(), last: AtomicU64::new(0), waiting: AtomicUsize::new(0) }))
    }

    /// Records activity: the client or the server has sent or received something.
    pub(super) fn moved(&self) {
        let elapsed = u64::try_from(self.0.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last.store(elapsed, Ordering::Relaxed);
    }

    /// Begins an exchange, initially waiting for the server.
    pub(super) fn exchange(&self) -> Exchange {
        let mut exchange = Exchange { activity: self.clone(), waits_for_server: false };
        exchange.wait_for_server(true);
        exchange
    }

    /// Completes after `idle` without activity while no exchange waits for the server.
    pub(super) async fn stalled(&self, idle: Duration) {
        while let Some(next) = self.next_check(Instant::now(), idle) {
            sleep_until(next).await;
        }
    }

    /// Earliest time at which the connection can be stalled; `None` if it is stalled at `now`.
    fn next_check(&self, now: Instant, idle: Duration) -> Option<Instant> {
        let end = self.0.begin + Duration::from_millis(self.0.last.load(Ordering::Relaxed)) + idle;
        match self.0.waiting.load(Ordering::Relaxed) {
            _ if now < end => Some(end),
            0 => None,
            _ => Some(now + idle),
        }
    }
}

/// Request with its response.
pub(super) struct Exchange {
    activity: Activity,
    waits_for_server: bool,
}

impl Exchange {
    /// Sets whether the next move is the server's.
    pub(super) fn wait_for_server(&mut self, waits: bool) {
        if self.waits_for_server == waits {
            return;
        }
        self.waits_for_server = waits;
        self.activity.moved();
        let waiting = &self.activity.0.waiting;
        if waits {
            waiting.fetch_add(1, Ordering::Relaxed)
        } else {
            waiting.fetch_sub(1, Ordering::Relaxed)
        };
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.wait_for_server(false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Activity;

    #[test]
    fn connection_is_stalled_while_it_waits_for_the_client_only() {
        let idle = Duration::from_secs(10);
        let activity = Activity::new();
        let after = |secs| {
            let begin = activity.0.begin;
            let next = activity.next_check(begin + Duration::from_secs(secs), idle);
            next.map(|next| next.duration_since(begin).as_secs())
        };
        assert_eq!((after(9), after(10)), (Some(10), None));
        let mut exchange = activity.exchange();
        assert_eq!(after(100), Some(110), "the server computes");
        exchange.wait_for_server(false);
        assert_eq!(after(100), None);
        exchange.wait_for_server(true);
        assert_eq!(after(100), Some(110), "the next part is not ready");
        drop(exchange);
        assert_eq!(after(100), None);
    }
}
