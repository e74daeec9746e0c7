//! Connections of the server, with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// Time limit of a TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of connections that wait to be served after their handshake.
const BACKLOG: usize = 128;

/// Pause after a system error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The remote address of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// A bidirectional stream of bytes.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Accepts connections.
pub enum Connections {
    /// Without TLS.
    Plain(TcpListener),
    /// With TLS, after the handshake. A slow handshake does not delay other connections.
    Tls {
        /// Connections whose handshake is complete.
        agreed: mpsc::Receiver<(Box<dyn Io>, SocketAddr)>,
        /// The local address.
        address: SocketAddr,
    },
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
    /// The local address of the listener cannot be read.
    #[error("the local address cannot be read")]
    Address(#[from] io::Error),
}

impl Connections {
    /// The connections of `listener`, encrypted with the certificate chain and the private key in these PEM files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn tls(listener: TcpListener, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
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
        let address = listener.local_addr()?;
        let (send, agreed) = mpsc::channel(BACKLOG);
        tokio::spawn(agree(listener, TlsAcceptor::from(Arc::new(config)), send));
        Ok(Self::Tls { agreed, address })
    }
}

/// Accepts connections and sends those whose handshake succeeds, until the receiver is dropped.
async fn agree(listener: TcpListener, acceptor: TlsAcceptor, send: mpsc::Sender<(Box<dyn Io>, SocketAddr)>) {
    loop {
        let (stream, peer) = tokio::select! {
            () = send.closed() => return,
            accepted = next(&listener) => accepted,
        };
        let (acceptor, send) = (acceptor.clone(), send.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                // The send fails only after the receiver was dropped.
                Ok(Ok(stream)) => drop(send.send((Box::new(stream), peer)).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake timed out"),
            }
        });
    }
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

impl Listener for Connections {
    type Io = Box<dyn Io>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self {
            Self::Plain(listener) => {
                let (stream, peer) = next(listener).await;
                (Box::new(stream), peer)
            }
            Self::Tls { agreed, .. } => match agreed.recv().await {
                Some(agreed) => agreed,
                // The handshake task ends only with the process.
                None => std::future::pending().await,
            },
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        match self {
            Self::Plain(listener) => listener.local_addr(),
            Self::Tls { address, .. } => Ok(*address),
        }
    }
}

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Self {
        Self(*stream.remote_addr())
    }
}
