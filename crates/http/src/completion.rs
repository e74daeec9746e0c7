//! Handlers run to completion, also if the client disconnects or the time limit is exceeded, so no change is applied in
//! part.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;

/// A handler that panicked.
pub(super) type Panic = Box<dyn Any + Send>;

/// Why a handler returned no response.
pub(super) enum NoAnswer {
    /// It panicked.
    Panicked,
    /// It did not end within the time limit. It continues in the background.
    TimedOut,
}

/// Runs `handler` for at most `limit`. If the returned future is dropped or the limit is over, `handler` continues in the
/// background.
pub(super) async fn run(
    handler: impl Future<Output = Response> + Send + 'static,
    limit: Duration,
) -> Result<Response, NoAnswer> {
    let handler = Detachable(Some(AssertUnwindSafe(handler).catch_unwind().boxed()));
    match tokio::time::timeout(limit, handler).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_)) => Err(NoAnswer::Panicked),
        Err(_) => Err(NoAnswer::TimedOut),
    }
}

/// A future that is spawned as a task if it is dropped before it is complete.
struct Detachable(Option<BoxFuture<'static, Result<Response, Panic>>>);

impl Future for Detachable {
    type Output = Result<Response, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut().expect("a future is not polled after it is complete");
        let output = std::task::ready!(future.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl Drop for Detachable {
    fn drop(&mut self) {
        if let Some(future) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::response::{IntoResponse, Response};
    use tokio::sync::oneshot;

    use super::{NoAnswer, run};

    /// A handler that ends after `release` is sent or dropped, and then sends on `ended`.
    async fn handler(release: oneshot::Receiver<()>, ended: oneshot::Sender<()>) -> Response {
        let _ = release.await;
        let _ = ended.send(());
        "done".into_response()
    }

    #[tokio::test]
    async fn handler_continues_after_its_client_disconnects() {
        let (release, released) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let mut request = Box::pin(run(handler(released, end), Duration::from_secs(60)));
        assert!(futures::poll!(&mut request).is_pending());
        drop(request);
        release.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn handler_continues_after_its_time_limit() {
        let (release, released) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let answer = run(handler(released, end), Duration::ZERO).await;
        assert!(matches!(answer, Err(NoAnswer::TimedOut)));
        release.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn panic_is_reported_as_a_missing_response() {
        let answer = run(async { panic!("a fault of the handler") }, Duration::from_secs(60)).await;
        assert!(matches!(answer, Err(NoAnswer::Panicked)));
    }
}
