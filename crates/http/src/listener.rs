//! Connections of the service, with or without TLS.

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

/// How long the other end may take to agree on a key.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How many agreed connections may wait to be served.
const BACKLOG: usize = 128;

/// How long to wait after an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// A stream of bytes in both directions.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Accepts connections.
pub enum Connections {
    /// As they come.
    Plain(TcpListener),
    /// After the other end has agreed on a key. One that takes its time holds nobody else up.
    Tls {
        /// Those that have agreed.
        agreed: mpsc::Receiver<(Box<dyn Io>, SocketAddr)>,
        /// Where they are accepted.
        address: SocketAddr,
    },
}

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file has no certificate or key in PEM form.
    #[error("{path} has no usable {what}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What was looked for.
        what: &'static str,
        /// Why it is not there.
        reason: String,
    },
    /// The certificate and the key do not fit.
    #[error("the certificate and the key cannot be used")]
    Pair(#[from] rustls::Error),
    /// The listener has no address.
    #[error("the address that is listened on is not known")]
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
            return Err(bad(certificate, "certificate", "it has none".to_owned()));
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

/// Accepts connections and sends on those that agree, until nobody takes them any more.
async fn agree(listener: TcpListener, acceptor: TlsAcceptor, send: mpsc::Sender<(Box<dyn Io>, SocketAddr)>) {
    loop {
        let (stream, peer) = tokio::select! {
            () = send.closed() => return,
            accepted = next(&listener) => accepted,
        };
        let (acceptor, send) = (acceptor.clone(), send.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                // Whoever served them has gone.
                Ok(Ok(stream)) => drop(send.send((Box::new(stream), peer)).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a client did not agree on a key"),
                Err(_) => tracing::debug!(%peer, "a client took too long to agree on a key"),
            }
        });
    }
}

/// The next connection; errors of the system pass.
async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are small and whole: they need not wait for more.
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
                // The task that agrees has ended, which only the end of the process brings about.
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
