//! Connections of the server, with or without TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::connection_limits::{ConnectionLimits, OpenConnections, Place};

/// Time limit of a TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of connections that wait to be served after their handshake.
const BACKLOG: usize = 128;

/// The response to a connection beyond a limit.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";

/// Time limit for sending [`TOO_MANY`].
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);

/// Pause after a system error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The remote address of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// A bidirectional stream of bytes.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Accepts connections.
pub struct Connections(Kind);

enum Kind {
    Plain(TcpListener, Arc<OpenConnections>),
    /// Connections whose TLS handshake is complete. A slow handshake does not delay other connections.
    Tls(mpsc::Receiver<Accepted>),
}

/// An accepted connection.
pub(super) struct Accepted {
    pub(super) stream: Box<dyn Io>,
    pub(super) peer: SocketAddr,
    /// Counts as an open connection until it is dropped.
    pub(super) place: Place,
}

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file contains no certificate or key in PEM format.
    #[error("{path} has no usable {what}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The expected content.
        what: &'static str,
        /// The cause.
        reason: String,
    },
    /// The certificate and the key do not match.
    #[error("the certificate and the key cannot be used")]
    Pair(#[from] rustls::Error),
}

impl Connections {
    /// The connections of `listener`, without TLS.
    pub fn plain(listener: TcpListener, limits: ConnectionLimits) -> Self {
        Self(Kind::Plain(listener, OpenConnections::new(limits)))
    }

    /// The connections of `listener`, encrypted with the certificate chain and the private key in these PEM files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn tls(
        listener: TcpListener,
        limits: ConnectionLimits,
        certificate: &Path,
        key: &Path,
    ) -> Result<Self, TlsError> {
        let bad = |path: &Path, what, reason: String| TlsError::File { path: path.display().to_string(), what, reason };
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| bad(certificate, "certificate", error.to_string()))?;
        if chain.is_empty() {
            return Err(bad(certificate, "certificate", "none was found".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, "private key", error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth().with_single_cert(chain, key)?;
        let (send, agreed) = mpsc::channel(BACKLOG);
        let open = OpenConnections::new(limits);
        tokio::spawn(agree(listener, open, TlsAcceptor::from(Arc::new(config)), send));
        Ok(Self(Kind::Tls(agreed)))
    }

    /// The next connection within the limits. Others are closed.
    pub(super) async fn accept(&mut self) -> Accepted {
        match &mut self.0 {
            Kind::Plain(listener, open) => loop {
                let (stream, peer) = next(listener).await;
                match open.admit(peer.ip()) {
                    Some(place) => return Accepted { stream: Box::new(stream), peer, place },
                    None => {
                        tracing::debug!(%peer, "a connection was refused: too many are open");
                        tokio::spawn(refuse(stream));
                    }
                }
            },
            Kind::Tls(agreed) => match agreed.recv().await {
                Some(agreed) => agreed,
                // The handshake task ends only with the process.
                None => std::future::pending().await,
            },
        }
    }
}

/// Accepts connections and sends those whose handshake succeeds, until the receiver is dropped.
async fn agree(listener: TcpListener, open: Arc<OpenConnections>, acceptor: TlsAcceptor, send: mpsc::Sender<Accepted>) {
    loop {
        let (stream, peer) = tokio::select! {
            () = send.closed() => return,
            accepted = next(&listener) => accepted,
        };
        let Some(place) = open.admit(peer.ip()) else {
            tracing::debug!(%peer, "a connection was refused: too many are open");
            continue;
        };
        let (acceptor, send) = (acceptor.clone(), send.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                // The send fails only after the receiver was dropped.
                Ok(Ok(stream)) => drop(send.send(Accepted { stream: Box::new(stream), peer, place }).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake timed out"),
            }
        });
    }
}

/// Sends [`TOO_MANY`], if the client takes it at once.
async fn refuse(mut stream: TcpStream) {
    let response = async {
        stream.write_all(TOO_MANY).await?;
        stream.shutdown().await
    };
    // The client learns from the end of the connection if it does not get the response.
    let _ = tokio::time::timeout(REFUSAL_LIMIT, response).await;
}

/// The next connection. System errors are logged, and the accept is repeated.
async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Responses are written whole, so delaying small packets has no benefit.
                let _ = stream.set_nodelay(true);
                return (stream, peer);
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
