//! Connections of the gRPC listener: HTTP/2 without TLS, with limits.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tower::ServiceExt;
use tunesmith_admission::AccessControl;

use crate::limits::{CALLS, CALLS_PER_CONNECTION, CONNECTIONS, MESSAGE_BYTES, PING_INTERVAL, PING_TIMEOUT};
use crate::service::{Peer, Service};
use crate::storage::Storage;
use crate::wire::storage_service_server::StorageServiceServer;

/// Current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Flow control windows in bytes: a client sends this much before the server reads.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

const MAX_HEADER_BYTES: u32 = 16 << 10;

/// Pause after a system error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves a storage to clients.
pub struct OptunaServer {
    server: StorageServiceServer<Service>,
    service: Service,
    /// Limits concurrent calls of all connections.
    calls: Arc<Semaphore>,
    /// Time limit of a call, from its first byte to its reply.
    time_limit: Duration,
}

impl OptunaServer {
    /// Serves `storage`. `control` admits every call. With `lease`, a running trial fails if no call about it was made
    /// for this time.
    pub fn new(storage: Storage, control: Arc<AccessControl>, clock: Clock, lease: Option<Duration>) -> Self {
        // Admission has its own limit, which begins when the message is complete.
        let time_limit = control.time_limit() * 2;
        let service = Service::new(storage, control, clock, lease);
        let server = StorageServiceServer::new(service.clone())
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        Self { server, service, calls: Arc::new(Semaphore::new(CALLS)), time_limit }
    }

    /// Serves connections of `listener` until `end` completes, then waits for the calls in progress.
    pub async fn serve(self, listener: TcpListener, end: impl Future<Output = ()>) {
        // Ends when it is dropped.
        let mut tasks = JoinSet::new();
        tasks.spawn(self.service.clone().sweep());
        let (server, slots) = (Arc::new(self), Arc::new(Semaphore::new(CONNECTIONS)));
        let graceful = GracefulShutdown::new();
        let mut end = pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection for gRPC cannot be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                tracing::debug!(%peer, "a connection for gRPC was refused: {CONNECTIONS} are open");
                continue;
            };
            let (server, watcher) = (Arc::clone(&server), graceful.watcher());
            tokio::spawn(async move {
                server.serve_connection(stream, peer, watcher).await;
                drop(slot);
            });
        }
        drop(listener);
        graceful.shutdown().await;
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, watcher: Watcher) {
        // Messages are written whole, so delaying small packets has no benefit.
        let _ = stream.set_nodelay(true);
        // Pings begin with the first bytes of the client.
        if !matches!(timeout(PING_TIMEOUT, stream.peek(&mut [0])).await, Ok(Ok(1))) {
            return;
        }
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(CALLS_PER_CONNECTION)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    let server = Arc::clone(&self);
                    async move { Ok::<_, Infallible>(server.respond(request, peer).await) }
                }),
            );
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%peer, %error, "a connection for gRPC ended with an error");
        }
    }

    async fn respond(&self, mut request: Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        request.extensions_mut().insert(Peer(peer));
        let _permit = self.calls.acquire().await.expect("the semaphore is never closed");
        match timeout(self.time_limit, self.server.clone().oneshot(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => {
                Status::deadline_exceeded(format!("no complete request within {:?}", self.time_limit)).into_http()
            }
        }
    }
}
