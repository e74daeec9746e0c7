//! Certificate of a TLS listener, which can be replaced while the listener is in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} has no usable {what}: {reason}")]
    File { path: String, what: &'static str, reason: String },
    #[error("the certificate and the key cannot be used")]
    Pair(#[from] rustls::Error),
}

/// Certificate chain and private key from two PEM files.
#[derive(Debug)]
pub struct ServerIdentity {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServerIdentity {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be used, or if they do not belong together.
    pub fn read(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let current = RwLock::new(Arc::new(certified_key(&certificate, &key)?));
        Ok(Self { certificate, key, current })
    }

    /// Reads the files again. Returns a certificate that [`Self::install`] takes into use.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_again(&self) -> Result<NewCertificate, TlsError> {
        Ok(NewCertificate(Arc::new(certified_key(&self.certificate, &self.key)?)))
    }

    /// Uses `certificate` for new connections. Returns whether it differs from the previous one. Open connections keep theirs.
    pub fn install(&self, certificate: NewCertificate) -> bool {
        let mut current = self.current.write();
        let is_new = current.cert != certificate.0.cert;
        *current = certificate.0;
        is_new
    }
}

/// A valid certificate that is not in use yet.
pub struct NewCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for ServerIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certified_key(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let bad = |path: &Path, what, reason: String| TlsError::File { path: path.display().to_string(), what, reason };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| bad(certificate, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(bad(certificate, "certificate", "none was found".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, "private key", error.to_string()))?;
    Ok(CertifiedKey::from_der(chain, key, &provider())?)
}
