//! Steps of handlers. With a large input, they run on blocking threads, a few concurrently per caller.
//!
//! Parsing and validating some megabytes would block a runtime thread for too long. Between steps, while it waits for
//! the store, a handler occupies no thread.

use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::long_work;
use tunesmith_access::PerPrincipal;

/// Minimum size of a large body or query in bytes (a guess: 1 ms of parsing).
pub(super) const LARGE_BYTES: usize = 16 << 10;

/// Concurrency limit on steps of large requests, per caller.
pub(super) fn queues() -> PerPrincipal {
    PerPrincipal::new((long_work::permits() / 2).max(1))
}

/// Execution state of one call's handler.
#[derive(Debug, Clone)]
pub(super) struct Steps(Arc<StepsState>);

#[derive(Debug)]
struct StepsState {
    queues: Arc<PerPrincipal>,
    /// Caller whose queue the request waits in; `None`: anonymous, without a limit of its own.
    caller: Option<String>,
    /// Whether the handler continues on blocking threads.
    has_left: AtomicBool,
    /// Whether the handler must complete, since it may have changed something.
    must_end: AtomicBool,
}

impl Steps {
    /// State of a new handler for `caller`, cancellable until [`Self::begin_change`].
    pub(super) fn new(queues: Arc<PerPrincipal>, caller: Option<String>) -> Self {
        Self(Arc::new(StepsState {
            queues,
            caller,
            has_left: AtomicBool::new(false),
            must_end: AtomicBool::new(false),
        }))
    }

    /// Moves the handler to blocking threads, from its next step on, if its input is large.
    pub(super) async fn expect(&self, bytes: usize) {
        if bytes < LARGE_BYTES || self.0.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        // The next poll is on a blocking thread.
        let mut is_first = true;
        poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    pub(super) fn begin_change(&self) {
        self.0.must_end.store(true, Ordering::Relaxed);
    }

    pub(super) fn must_end(&self) -> bool {
        self.0.must_end.load(Ordering::Relaxed)
    }

    /// Runs `handler` on the runtime, and on blocking threads once it expects a large input.
    pub(super) async fn run<T: Send + 'static>(self, mut handler: BoxFuture<'static, T>) -> T {
        let small = poll_fn(|context| match handler.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.0.has_left.load(Ordering::Relaxed) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(output) = small.await {
            return output;
        }
        let queue = self.0.caller.as_deref().map(|caller| self.0.queues.of(caller));
        let woken = Arc::new(Woken::default());
        loop {
            let in_queue: Option<OwnedSemaphorePermit> = match &queue {
                Some(queue) => Some(Arc::clone(queue).acquire_owned().await.expect("the semaphore is never closed")),
                None => None,
            };
            // Dropping this future does not release the permits of the running step.
            let permits = (in_queue, long_work::permit().await);
            let waker = Waker::from(Arc::clone(&woken));
            let step = tokio::task::spawn_blocking(move || {
                let polled = handler.as_mut().poll(&mut Context::from_waker(&waker));
                drop(permits);
                (handler, polled)
            });
            let (rest, polled) = match step.await {
                Ok(step) => step,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime is shutting down.
                    Err(_) => pending().await,
                },
            };
            if let Poll::Ready(output) = polled {
                return output;
            }
            handler = rest;
            woken.0.notified().await;
        }
    }
}

/// Records wake-ups during a running step.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    fn thread() -> std::thread::ThreadId {
        std::thread::current().id()
    }

    #[tokio::test]
    async fn handler_of_a_large_request_leaves_the_runtime() {
        let runtime = thread();
        let queues = Arc::new(queues());
        for (bytes, leaves) in [(LARGE_BYTES - 1, false), (LARGE_BYTES, true)] {
            let progress = Steps::new(Arc::clone(&queues), Some("a".to_owned()));
            let handle = progress.clone();
            let handler = async move {
                let before = thread();
                handle.expect(bytes).await;
                let large = thread();
                tokio::task::yield_now().await;
                (before, large, thread())
            };
            let (before, large, after) = progress.run(handler.boxed()).await;
            assert_eq!((before == runtime, large != runtime, after != runtime), (true, leaves, leaves), "{bytes}");
        }
    }

    #[tokio::test]
    async fn large_requests_of_one_caller_run_one_after_the_other_and_do_not_hold_up_others_while_they_wait() {
        let queues = Arc::new(queues());
        let (release, released) = oneshot::channel::<()>();
        let waiting = Steps::new(Arc::clone(&queues), Some("a".to_owned()));
        let handle = waiting.clone();
        let waiting = tokio::spawn(
            waiting.run(
                async move {
                    handle.expect(LARGE_BYTES).await;
                    released.await.unwrap();
                }
                .boxed(),
            ),
        );
        // Completes before the first handler, which waits without a permit.
        let other = Steps::new(Arc::clone(&queues), Some("a".to_owned()));
        let handle = other.clone();
        other.run(async move { handle.expect(LARGE_BYTES).await }.boxed()).await;
        release.send(()).unwrap();
        waiting.await.unwrap();
        assert_eq!(queues.of("a").available_permits(), queues.permits());
    }
}
