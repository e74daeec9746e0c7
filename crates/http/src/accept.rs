//! Serves connections, with a limit on the time for which a client does nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::listener::{Accepted, Connections, Io, Peer};
use super::unread::{Drain, UnreadBody};

/// Serves `router` on `connections` until `end` completes. Returns after the requests in progress are answered.
///
/// `idle` is the time for the head of a request, from the end of the previous response; so it is also the time for which
/// an unused connection is kept. A client that sends nothing of a body or takes nothing of a response for this time loses
/// its connection, too.
pub async fn serve(mut connections: Connections, router: Router, idle: Duration, end: impl Future<Output = ()>) {
    let (ending, ended) = watch::channel(());
    let mut end = pin!(end);
    loop {
        let Accepted { stream, peer, place } = tokio::select! {
            () = &mut end => break,
            accepted = connections.accept() => accepted,
        };
        let work = serve_connection(stream, peer, router.clone(), idle, ended.clone());
        tokio::spawn(async move {
            work.await;
            drop(place);
        });
    }
    drop((connections, ended));
    ending.send_replace(());
    ending.closed().await;
}

async fn serve_connection(
    stream: Box<dyn Io>,
    peer: SocketAddr,
    router: Router,
    idle: Duration,
    mut ended: watch::Receiver<()>,
) {
    let service = TowerToHyperService::new(router);
    let unread = UnreadBody::default();
    let stream = Stalling { stream, limit: idle, stalled: None, unread: unread.clone(), drain: None };
    let service = service_fn(move |request: Request<Incoming>| {
        unread.set(false);
        let unread = unread.clone();
        let body = |body| Body::new(StallingBody { body, limit: idle, stalled: None, is_read: false, unread });
        let mut request = request.map(body);
        request.extensions_mut().insert(ConnectInfo(Peer(peer)));
        hyper::service::Service::call(&service, request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(idle);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut is_ending = false;
    loop {
        tokio::select! {
            result = &mut connection => {
                if let Err(error) = result {
                    tracing::debug!(%peer, %error, "a connection ended with an error");
                }
                return;
            }
            _ = ended.changed(), if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A body that fails if the client sends nothing of it for the time `limit`.
struct StallingBody {
    body: Incoming,
    limit: Duration,
    /// Ends when the current part has been awaited too long.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whether the end was reached.
    is_read: bool,
    unread: UnreadBody,
}

impl Drop for StallingBody {
    fn drop(&mut self) {
        self.unread.set(!self.is_read && !hyper::body::Body::is_end_stream(&self.body));
    }
}

impl hyper::body::Body for StallingBody {
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

/// A stream whose writes fail if the client takes nothing for the time `limit`. Before it is closed, the rest of a body
/// that was refused is read.
struct Stalling {
    stream: Box<dyn Io>,
    limit: Duration,
    /// Ends when the current write has waited too long.
    stalled: Option<Pin<Box<Sleep>>>,
    unread: UnreadBody,
    /// The state after the last write.
    drain: Option<Drain>,
}

impl Stalling {
    fn limited<T>(&mut self, context: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.stalled = None;
            return progress;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limited(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(context);
        self.limited(context, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.drain.is_none() {
            let progress = Pin::new(&mut this.stream).poll_shutdown(context);
            ready!(this.limited(context, progress))?;
        }
        if !this.unread.is_set() {
            return Poll::Ready(Ok(()));
        }
        this.drain.get_or_insert_with(Drain::new).poll(Pin::new(&mut this.stream), context).map(Ok)
    }
}
