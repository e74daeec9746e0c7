//! Trust in the certificate of a server.
//!
//! The certificates of the system are trusted, or those in the file that `SSL_CERT_FILE` names. A standalone program trusts the
//! roots of Mozilla where there are neither. A server may present a
//! certificate of that file itself, also if it is marked as that of an authority, as `openssl req -x509` makes it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::{ClientFailure, standalone};

/// Environment variable with the path of trusted certificates.
pub const TRUSTED_VARIABLE: &str = "SSL_CERT_FILE";

/// Returns the settings of TLS for clients.
///
/// # Errors
/// If the file that `SSL_CERT_FILE` names has no certificate, or the system has none.
pub(super) fn client_config() -> Result<ClientConfig, ClientFailure> {
    let named = named_certificates()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a file of trusted certificates cannot be read");
    }
    if let Some(standalone) = standalone().filter(|_| found.certs.is_empty()) {
        found.certs.extend_from_slice(standalone.roots);
    }
    let mut roots = RootCertStore::empty();
    let (_, ignored) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(certificates.trusted = roots.len(), certificates.ignored = ignored, "read trusted certificates");
    let system = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let system = system.map_err(ClientFailure::NoTrust)?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let trust = Arc::new(Trust { named, system });
    Ok(config.dangerous().with_custom_certificate_verifier(trust).with_no_client_auth())
}

/// Whether the system, or the file that `SSL_CERT_FILE` names, has trusted certificates.
pub fn system_has_certificates() -> bool {
    !rustls_native_certs::load_native_certs().certs.is_empty()
}

/// Returns what a user can do about an error of a connection; `None` if its cause is not a certificate.
pub fn advice(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(current) = next {
        // An IO error does not return the error that it wraps as its source.
        let wrapped = current.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let found = current.downcast_ref::<Error>().or_else(|| wrapped?.downcast_ref::<Error>());
        if let Some(error @ Error::InvalidCertificate(reason)) = found {
            return Some(if is_authority(error) { untrusted() } else { certificate_advice(reason) });
        }
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => current.source(),
        };
    }
    None
}

fn certificate_advice(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => untrusted(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "its certificate is valid for other names ({reason}); use one of them in the address, or make a \
             certificate with the name of this address as a subject alternative name"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired ({reason}); the server needs a new one")
        }
        other => format!("its certificate is invalid: {other}"),
    }
}

fn untrusted() -> String {
    format!(
        "its certificate is not trusted; set {TRUSTED_VARIABLE} to a file with that certificate, or with the \
         certificate of its authority"
    )
}

fn named_certificates() -> Result<Vec<CertificateDer<'static>>, ClientFailure> {
    let Some(path) = std::env::var_os(TRUSTED_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(Vec::new());
    };
    match CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(certificates) if certificates.is_empty() => Err(ClientFailure::NoCertificate { path }),
        Ok(certificates) => Ok(certificates),
        Err(source) => Err(ClientFailure::Certificates { path, source }),
    }
}

/// Verifies certificates against those of the system, and accepts the named ones themselves.
#[derive(Debug)]
struct Trust {
    named: Vec<CertificateDer<'static>>,
    system: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.system.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The period of validity was checked before, so that the name remains to be checked.
            Err(error) if is_authority(&error) && self.named.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.system.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.system.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.system.supported_verify_schemes()
    }
}

/// Whether a certificate was refused only because it is that of an authority.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    other.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}
