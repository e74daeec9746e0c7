//! Computations bounded by a time limit and by the lifetime of their caller.

use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tunesmith_algorithms::interruption::Interruption;

/// Default time limit for the suggestions of one request. A guess: 100 suggestions with six metrics after 3,000 trials
/// take two minutes on a slow machine.
pub(super) const MAX_TIME: Duration = Duration::from_secs(300);

/// Waits for `computing`, raising the `interruption` that it checks after `limit`, or if this future is dropped.
/// Returns its result, and whether the limit was exceeded.
pub(super) async fn bounded<T>(
    mut computing: JoinHandle<T>,
    interruption: &Interruption,
    limit: Option<Duration>,
) -> (Result<T, JoinError>, bool) {
    let mut caller = Caller { interruption, waits: true };
    let computed = match limit {
        None => Ok((&mut computing).await),
        Some(limit) => tokio::time::timeout(limit, &mut computing).await,
    };
    let (result, is_late) = match computed {
        Ok(result) => (result, false),
        Err(_) => {
            interruption.interrupt();
            (computing.await, true)
        }
    };
    caller.waits = false;
    (result, is_late)
}

/// Interrupts the computation if dropped while waiting.
struct Caller<'a> {
    interruption: &'a Interruption,
    waits: bool,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.interruption.interrupt();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn computation_ends_when_its_caller_is_gone() {
        let interruption = Interruption::default();
        let (ended, has_ended) = oneshot::channel();
        let request = interruption.clone();
        let computing = tokio::task::spawn_blocking(move || {
            while !request.is_requested() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        });
        let mut waiting = Box::pin(bounded(computing, &interruption, None));
        assert!(poll!(&mut waiting).is_pending());
        drop(waiting);
        has_ended.await.unwrap();
    }

    #[tokio::test]
    async fn request_remains_usable_after_a_computation() {
        let interruption = Interruption::default();
        let computing = tokio::task::spawn_blocking(|| 7);
        let (result, is_late) = bounded(computing, &interruption, Some(MAX_TIME)).await;
        assert_eq!((result.unwrap(), is_late, interruption.is_requested()), (7, false, false));
    }
}
