#![doc = include_str!("../README.md")]

mod resolver;
mod standalone;
mod tls;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;

pub use self::standalone::{Standalone, addresses, install_standalone, standalone};
pub use self::tls::{TRUSTED_VARIABLE, advice, system_has_certificates};

/// Maximum time to connect to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time between two reads of a response. The report of a job with many trials takes long.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// The reason why there is no client for an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFailure {
    /// The address is not that of a server.
    #[error("invalid server address {address:?}: expected http://HOST:PORT or https://HOST:PORT")]
    Address {
        /// The address.
        address: String,
    },
    /// The file of trusted certificates cannot be read.
    #[error("{TRUSTED_VARIABLE}: {} cannot be read", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The file of trusted certificates has none.
    #[error("{TRUSTED_VARIABLE}: {} contains no certificate in PEM format", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The system has no trusted certificates.
    #[error("there are no trusted certificates on this system; set {TRUSTED_VARIABLE} to a file with some")]
    NoTrust(#[source] rustls::client::VerifierBuilderError),
    /// The settings of TLS are inconsistent.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created")]
    Http(#[from] reqwest::Error),
}

/// Returns a client for requests to the server at `address`.
///
/// # Errors
/// If the address is invalid, or no certificates can be trusted.
pub fn http_client(address: &str) -> Result<reqwest::Client, ClientFailure> {
    let base = base_address(address)?;
    // An error means that a provider is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("tunesmith/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT);
    client = match tls::client_config() {
        Ok(config) => client.tls_backend_preconfigured(config),
        Err(failure) if base.scheme() == "https" => return Err(failure),
        // Otherwise the client would look for certificates of the system itself, and fail without one.
        Err(_) => client.tls_certs_only([]),
    };
    if is_loopback(&base) {
        client = client.no_proxy();
    }
    if let Some(standalone) = standalone() {
        client = client.dns_resolver(Arc::new(standalone));
    }
    Ok(client.build()?)
}

/// Parses the address of a server.
///
/// # Errors
/// If it is not an address of HTTP or HTTPS with a host.
pub fn base_address(address: &str) -> Result<Url, ClientFailure> {
    match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err(ClientFailure::Address { address: address.to_owned() }),
    }
}

/// Whether the server at `url` runs on this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_must_be_one_of_http_with_a_host() {
        for address in ["server:8080", "ftp://server", "http://", ""] {
            let error = base_address(address).unwrap_err().to_string();
            let expected = "expected http://HOST:PORT or https://HOST:PORT";
            assert_eq!(error, format!("invalid server address {address:?}: {expected}"));
        }
        assert!(is_loopback(&base_address("http://[::1]:8080").unwrap()));
        assert!(!is_loopback(&base_address("https://server").unwrap()));
    }
}
