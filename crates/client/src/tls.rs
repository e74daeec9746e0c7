//! Server certificate verification.
//!
//! Trusts the system's certificates or those in `SSL_CERT_FILE`; a standalone program falls back to Mozilla's roots.
//! Certificates in `TUNESMITH_CA_FILE` are trusted in addition. A server may present a certificate from either file
//! itself, even one marked as an authority, as created by `openssl req -x509`.

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

/// Environment variable with the path of additional trusted certificates for Tunesmith servers. Not inherited by
/// trials.
pub const CA_FILE_VARIABLE: &str = "TUNESMITH_CA_FILE";

/// Environment variable with the path of certificates that replace the system's, also in other programs.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";

/// TLS settings for clients, which also trust the files that the environment variables `additional` name.
///
/// # Errors
/// If a named file has no certificate, or none is trusted.
pub(super) fn client_config(additional: &[&'static str]) -> Result<ClientConfig, ClientFailure> {
    let mut own = certificates_named_by(CA_FILE_VARIABLE)?;
    for variable in additional {
        own.extend(certificates_named_by(variable)?);
    }
    let replacing = certificates_named_by(SYSTEM_VARIABLE)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a file of trusted certificates cannot be read");
    }
    if let Some(standalone) = standalone().filter(|_| found.certs.is_empty()) {
        found.certs.extend_from_slice(standalone.roots);
    }
    found.certs.extend_from_slice(&own);
    let mut roots = RootCertStore::empty();
    let (_, ignored) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(certificates.trusted = roots.len(), certificates.ignored = ignored, "read trusted certificates");
    let system = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let system = system.map_err(ClientFailure::NoTrust)?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let trust = Arc::new(Trust { named: [own, replacing].concat(), system });
    Ok(config.dangerous().with_custom_certificate_verifier(trust).with_no_client_auth())
}

/// Whether the system or `SSL_CERT_FILE` provides trusted certificates.
pub fn system_has_certificates() -> bool {
    !rustls_native_certs::load_native_certs().certs.is_empty()
}

/// Remedy for a certificate error; `None` for other causes.
pub fn advice(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(current) = next {
        // An IO error does not expose the wrapped error as its source.
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
        "its certificate is not trusted; set {CA_FILE_VARIABLE} to a file with that certificate, or with the \
         certificate of its authority"
    )
}

/// Certificates in the file named by `variable`; none if unset.
fn certificates_named_by(variable: &'static str) -> Result<Vec<CertificateDer<'static>>, ClientFailure> {
    let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(Vec::new());
    };
    match CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(certificates) if certificates.is_empty() => Err(ClientFailure::NoCertificate { variable, path }),
        Ok(certificates) => Ok(certificates),
        Err(source) => Err(ClientFailure::Certificates { variable, path, source }),
    }
}

/// Verifies against the trusted roots, and accepts certificates in the named files themselves.
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
            // The validity period was already checked; the name remains.
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

/// Whether a certificate was rejected only for being an authority's.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    other.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}
