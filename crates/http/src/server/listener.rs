//! Connection listener with limits, with or without TLS.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::serve_connection;
use super::identity::{ServerIdentity, TlsError, provider};
use super::limits::{ConnectionLimits, ConnectionSlots};

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Response to a connection above a limit.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";

const REFUSAL_LIMIT: Duration = Duration::from_secs(1);

/// Pause after a system error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

pub struct Connections {
    listener: TcpListener,
    slots: ConnectionSlots,
    acceptor: Option<TlsAcceptor>,
}

impl Connections {
    /// Accepts connections without TLS.
    pub fn plain(listener: TcpListener, limits: ConnectionLimits) -> Self {
        Self { listener, slots: ConnectionSlots::new(limits), acceptor: None }
    }

    /// Accepts TLS connections with the certificate of `identity`.
    ///
    /// # Errors
    /// If this build supports no version of TLS.
    pub fn tls(
        listener: TcpListener,
        limits: ConnectionLimits,
        identity: Arc<ServerIdentity>,
    ) -> Result<Self, TlsError> {
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_cert_resolver(identity);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = Some(TlsAcceptor::from(Arc::new(config)));
        Ok(Self { acceptor, ..Self::plain(listener, limits) })
    }

    /// Accepts the next connection. Logs system errors and retries.
    async fn next(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Responses are written whole, so delaying small packets has no benefit.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Serves `router` on `connections` until `end` completes, then waits for requests in progress.
///
/// `idle` is the idle timeout: it closes unused connections and those whose client sends no complete request head,
/// stops sending a body, or stops reading a response.
pub async fn serve(connections: Connections, router: Router, idle: Duration, end: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let mut end = pin!(end);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut end => break,
            accepted = connections.next() => accepted,
        };
        let acceptor = connections.acceptor.clone();
        let Some(slot) = connections.slots.take(peer.ip()) else {
            tracing::debug!(%peer, "a connection was refused: too many are open");
            if acceptor.is_none() {
                tokio::spawn(refuse(stream));
            }
            continue;
        };
        let (router, watcher) = (router.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _slot = slot;
            let Some(acceptor) = acceptor else { return serve_connection(stream, peer, router, idle, watcher).await };
            match timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => serve_connection(stream, peer, router, idle, watcher).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake timed out"),
            }
        });
    }
    drop(connections);
    graceful.shutdown().await;
}

/// Sends [`TOO_MANY`] if the client reads it within [`REFUSAL_LIMIT`].
async fn refuse(mut stream: TcpStream) {
    let response = async {
        stream.write_all(TOO_MANY).await?;
        stream.shutdown().await
    };
    // Without the response, the closed connection informs the client.
    let _ = timeout(REFUSAL_LIMIT, response).await;
}
