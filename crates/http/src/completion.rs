//! Handlers that change something run to completion, also if the client disconnects or the time limit is exceeded, so no
//! change is applied in part. Others end with their request.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::large_requests::Progress;

/// A handler that panicked.
pub(super) type Panic = Box<dyn Any + Send>;

/// Why a handler returned no response.
pub(super) enum NoAnswer {
    /// It panicked.
    Panicked,
    /// It did not end within the time limit.
    TimedOut {
        /// Whether it continues in the background.
        continues: bool,
    },
}

/// Runs `handler` for at most `limit`, on blocking threads if its input is large. If the returned future is dropped or the limit
/// is over, `handler` ends, or continues in the background if `progress` states that it must be completed.
pub(super) async fn run(
    handler: impl Future<Output = Response> + Send + 'static,
    progress: Progress,
    limit: Duration,
) -> Result<Response, NoAnswer> {
    let work = AssertUnwindSafe(progress.clone().run(handler.boxed())).catch_unwind().boxed();
    let handler = Detachable { work: Some(work), progress: progress.clone() };
    match tokio::time::timeout(limit, handler).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_)) => Err(NoAnswer::Panicked),
        Err(_) => Err(NoAnswer::TimedOut { continues: progress.must_end() }),
    }
}

/// A future that is spawned as a task if it is dropped before it is complete, although it must be completed.
struct Detachable {
    work: Option<BoxFuture<'static, Result<Response, Panic>>>,
    progress: Progress,
}

impl Future for Detachable {
    type Output = Result<Response, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.work.as_mut().expect("a future is not polled after it is complete");
        let output = std::task::ready!(future.as_mut().poll(context));
        self.work = None;
        Poll::Ready(output)
    }
}

impl Drop for Detachable {
    fn drop(&mut self) {
        if let Some(future) = self.work.take()
            && self.progress.must_end()
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

    use axum::response::{IntoResponse, Response};
    use tokio::sync::oneshot;

    use super::{NoAnswer, run};
    use crate::large_requests::{Progress, lanes};

    fn progress(changes: bool) -> Progress {
        let progress = Progress::new(Arc::new(lanes()), None);
        if changes {
            progress.begin_change();
        }
        progress
    }

    /// A handler that ends after `release` is sent or dropped, and then sends on `ended`.
    async fn handler(release: oneshot::Receiver<()>, ended: oneshot::Sender<()>) -> Response {
        let _ = release.await;
        let _ = ended.send(());
        "done".into_response()
    }

    #[tokio::test]
    async fn handler_that_changes_something_continues_after_its_client_disconnects() {
        for changes in [true, false] {
            let (release, released) = oneshot::channel();
            let (end, ended) = oneshot::channel();
            let mut request = Box::pin(run(handler(released, end), progress(changes), Duration::from_secs(60)));
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
            let answer = run(handler(released, end), progress(changes), Duration::ZERO).await;
            assert!(matches!(answer, Err(NoAnswer::TimedOut { continues }) if continues == changes));
            assert_eq!(release.send(()).is_ok(), changes);
            assert_eq!(ended.await.is_ok(), changes);
        }
    }

    #[tokio::test]
    async fn panic_is_reported_as_a_missing_response() {
        let answer = run(async { panic!("a fault of the handler") }, progress(false), Duration::from_secs(60)).await;
        assert!(matches!(answer, Err(NoAnswer::Panicked)));
    }
}
