//! One HTTP/1 or HTTP/2 connection with an idle timeout.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::Version;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::activity::{Activity, Exchange};
use super::unread::{Drain, UnreadBody};

/// Maximum number of concurrent HTTP/2 streams per connection. A guess, at the recommended minimum of RFC 9113.
const MAX_STREAMS: u32 = 100;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves `router` on `stream` until the client or `watcher` ends the connection, or the client is inactive for `idle`
/// while the server waits for it.
pub(super) async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    idle: Duration,
    watcher: Watcher,
) {
    let (activity, unread) = (Activity::new(), UnreadBody::default());
    let service = TowerToHyperService::new(router);
    let stream = Watched { stream, activity: activity.clone(), unread: unread.clone(), drain: None };
    let of_requests = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let exchange = of_requests.exchange();
        unread.set(false);
        // On HTTP/2, an unread body ends only its stream.
        let unread = (request.version() < Version::HTTP_2).then(|| unread.clone());
        let body = |body| Body::new(RequestBody { body, limit: idle, stalled: None, is_read: false, unread });
        let mut request = request.map(body);
        request.extensions_mut().insert(ConnectInfo(Peer(peer)));
        let response = hyper::service::Service::call(&service, request);
        async move { response.await.map(|response| response.map(|body| ResponseBody { body, exchange })) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(idle);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    let connection = pin!(watcher.watch(builder.serve_connection(TokioIo::new(stream), service)));
    tokio::select! {
        result = connection => {
            if let Err(error) = result {
                tracing::debug!(%peer, error = &*error as &dyn std::error::Error, "a connection ended with an error");
            }
        }
        () = activity.stalled(idle) => tracing::debug!(%peer, "an idle connection was closed"),
    }
}

/// Request body that fails if the client sends nothing for `limit`.
struct RequestBody {
    body: Incoming,
    limit: Duration,
    /// Timeout of the current chunk.
    stalled: Option<Pin<Box<Sleep>>>,
    is_read: bool,
    unread: Option<UnreadBody>,
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(unread) = &self.unread {
            unread.set(!self.is_read && !hyper::body::Body::is_end_stream(&self.body));
        }
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.stalled = None;
            self.is_read = frame.is_none();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        stalled.as_mut().poll(context).map(|()| Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Response body. After each chunk, the server waits for the client to receive it.
struct ResponseBody {
    body: Body,
    exchange: Exchange,
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.exchange.wait_for_server(true);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.exchange.wait_for_server(false);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Stream that records activity. Drains the rest of a refused body before closing.
struct Watched<S> {
    stream: S,
    activity: Activity,
    unread: UnreadBody,
    /// Set after the last write.
    drain: Option<Drain>,
}

impl<S> Watched<S> {
    fn moved(&self, progress: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(progress, Poll::Ready(Ok(bytes)) if bytes > 0) {
            self.activity.moved();
        }
        progress
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let progress = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        self.moved(progress.map_ok(|()| read)).map_ok(|_| ())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved(progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.moved(progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.drain.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        if !this.unread.is_set() {
            return Poll::Ready(Ok(()));
        }
        this.drain.get_or_insert_with(Drain::new).poll(Pin::new(&mut this.stream), context).map(Ok)
    }
}
