//! Handler completion. A handler that changes something runs to completion despite disconnects and timeouts, so no
//! change is partial. Others end with their request.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::steps::Steps;

pub(super) type Panic = Box<dyn Any + Send>;

pub(super) enum NoResponse {
    Panicked,
    TimedOut {
        /// Whether the handler continues in the background.
        continues: bool,
    },
}

/// Runs `handler` for at most `limit`, on blocking threads if its input is large. On drop or timeout, `handler` is
/// cancelled, or continues in the background if `steps` requires completion.
pub(super) async fn run<T: Send + 'static>(
    handler: impl Future<Output = T> + Send + 'static,
    steps: Steps,
    limit: Duration,
) -> Result<T, NoResponse> {
    let work = AssertUnwindSafe(steps.clone().run(handler.boxed())).catch_unwind().boxed();
    let handler = Detachable { work: Some(work), steps: steps.clone() };
    match tokio::time::timeout(limit, handler).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_)) => Err(NoResponse::Panicked),
        Err(_) => Err(NoResponse::TimedOut { continues: steps.must_end() }),
    }
}

/// Future that, if dropped while completion is required, continues as a spawned task.
struct Detachable<T: Send + 'static> {
    work: Option<BoxFuture<'static, Result<T, Panic>>>,
    steps: Steps,
}

impl<T: Send + 'static> Future for Detachable<T> {
    type Output = Result<T, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.work.as_mut().expect("a future is not polled after it is complete");
        let output = std::task::ready!(future.as_mut().poll(context));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Detachable<T> {
    fn drop(&mut self) {
        if let Some(future) = self.work.take()
            && self.steps.must_end()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::{NoResponse, run};
    use crate::steps::{Steps, queues};

    fn steps(changes: bool) -> Steps {
        let steps = Steps::new(Arc::new(queues()), None);
        if changes {
            steps.begin_change();
        }
        steps
    }

    /// Handler that runs until `release` is sent or dropped, then sends on `ended`.
    async fn handler(release: oneshot::Receiver<()>, ended: oneshot::Sender<()>) {
        let _ = release.await;
        let _ = ended.send(());
    }

    #[tokio::test]
    async fn handler_that_changes_something_continues_after_its_client_disconnects() {
        for changes in [true, false] {
            let (release, released) = oneshot::channel();
            let (end, ended) = oneshot::channel();
            let mut request = Box::pin(run(handler(released, end), steps(changes), Duration::from_secs(60)));
            assert!(futures::poll!(&mut request).is_pending());
            drop(request);
            assert_eq!(release.send(()).is_ok(), changes);
            assert_eq!(ended.await.is_ok(), changes);
        }
    }

    #[tokio::test]
    async fn handler_that_changes_something_continues_after_its_time_limit() {
        for changes in [true, false] {
            let (release, released) = oneshot::channel();
            let (end, ended) = oneshot::channel();
            let response = run(handler(released, end), steps(changes), Duration::ZERO).await;
            assert!(matches!(response, Err(NoResponse::TimedOut { continues }) if continues == changes));
            assert_eq!(release.send(()).is_ok(), changes);
            assert_eq!(ended.await.is_ok(), changes);
        }
    }

    #[tokio::test]
    async fn panic_is_reported_as_a_missing_response() {
        let response =
            run(async { panic!("a fault of the handler") as () }, steps(false), Duration::from_secs(60)).await;
        assert!(matches!(response, Err(NoResponse::Panicked)));
    }
}
