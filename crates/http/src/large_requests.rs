//! Requests with large inputs: once they are read, their handlers run on blocking threads, a few at a time for each caller.
//!
//! Parsing and checking a body of some megabytes takes longer than the requests of others may wait for a thread of the runtime.
//! Between the steps of a handler, while it waits for the store, it uses no thread.

use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::rendered::{permit_to_render, renderers};
use tunesmith_access::PerPrincipal;

/// Size of a body or a query in bytes from which a request is large (a guess: 1 ms of parsing).
pub(super) const LARGE_BYTES: usize = 16 << 10;

/// The steps of large requests that run at once, for each caller.
pub(super) fn lanes() -> PerPrincipal {
    PerPrincipal::new((renderers() / 2).max(1))
}

/// Progress of the handler of one request, as an extension of the request.
#[derive(Debug, Clone)]
pub(super) struct Progress(Arc<State>);

#[derive(Debug)]
struct State {
    lanes: Arc<PerPrincipal>,
    /// The caller in whose lane the request waits; `None`: one without a name, which is not limited by itself.
    caller: Option<String>,
    /// Whether the handler continues on blocking threads.
    has_left: AtomicBool,
    /// Whether the handler must not be ended before its end, since it may have changed something.
    must_end: AtomicBool,
}

impl Progress {
    /// A request of `caller` whose handler starts. It may be ended until [`Self::begin_change`].
    pub(super) fn new(lanes: Arc<PerPrincipal>, caller: Option<String>) -> Self {
        Self(Arc::new(State { lanes, caller, has_left: AtomicBool::new(false), must_end: AtomicBool::new(false) }))
    }

    /// Moves the handler to blocking threads, from the next step on, if its input has `bytes`.
    pub(super) async fn expect(&self, bytes: usize) {
        if bytes < LARGE_BYTES || self.0.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        // The next poll is on a blocking thread.
        let mut is_first = true;
        poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Notes that the handler is to be completed from now on.
    pub(super) fn begin_change(&self) {
        self.0.must_end.store(true, Ordering::Relaxed);
    }

    /// Whether the handler is to be completed.
    pub(super) fn must_end(&self) -> bool {
        self.0.must_end.load(Ordering::Relaxed)
    }

    /// Runs `handler`: on the runtime until it expects a large input, and then on blocking threads.
    pub(super) async fn run<T: Send + 'static>(self, mut handler: BoxFuture<'static, T>) -> T {
        let small = poll_fn(|context| match handler.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.0.has_left.load(Ordering::Relaxed) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(output) = small.await {
            return output;
        }
        let lane = self.0.caller.as_deref().map(|caller| self.0.lanes.of(caller));
        let woken = Arc::new(Woken::default());
        loop {
            let in_lane: Option<OwnedSemaphorePermit> = match &lane {
                Some(lane) => Some(Arc::clone(lane).acquire_owned().await.expect("the semaphore is never closed")),
                None => None,
            };
            // The step keeps its permits if this future is dropped meanwhile.
            let permits = (in_lane, permit_to_render().await);
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
                    // The runtime ends.
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

/// Remembers that a handler was woken while its step still ran.
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
        let lanes = Arc::new(lanes());
        for (bytes, leaves) in [(LARGE_BYTES - 1, false), (LARGE_BYTES, true)] {
            let progress = Progress::new(Arc::clone(&lanes), Some("a".to_owned()));
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
        let lanes = Arc::new(lanes());
        let (release, released) = oneshot::channel::<()>();
        let waiting = Progress::new(Arc::clone(&lanes), Some("a".to_owned()));
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
        // It ends although the first one has not: that one waits without a permit.
        let other = Progress::new(Arc::clone(&lanes), Some("a".to_owned()));
        let handle = other.clone();
        other.run(async move { handle.expect(LARGE_BYTES).await }.boxed()).await;
        release.send(()).unwrap();
        waiting.await.unwrap();
        assert_eq!(lanes.of("a").available_permits(), lanes.permits());
    }
}
