#![doc = include_str!("../README.md")]

#[cfg(feature = "api")]
mod client;
#[cfg(feature = "api")]
mod error;
#[cfg(feature = "api")]
mod jobs;
#[cfg(feature = "api")]
mod models;
pub mod public_address;
mod resolver;
#[cfg(feature = "api")]
mod server;
mod standalone;
#[cfg(feature = "api")]
mod studies;
mod tls;
#[cfg(feature = "api")]
mod transport;
#[cfg(feature = "api")]
mod upload_body;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;

#[cfg(feature = "api")]
pub use self::client::{Client, Resource};
#[cfg(feature = "api")]
pub use self::error::{ClientError, Refusal};
#[cfg(feature = "api")]
pub use self::jobs::{JobPage, LogSelection};
#[cfg(feature = "api")]
#[cfg(feature = "api")]
pub use self::server::{DownloadError, Server};
pub use self::standalone::{Standalone, addresses, install_standalone, standalone};
#[cfg(feature = "api")]
pub use self::studies::{Prediction, StudyClient, Trials};
pub use self::tls::{CA_FILE_VARIABLE, advice, system_has_certificates};
#[cfg(feature = "api")]
pub use self::transport::{Payload, Request, Response, Transport, UploadProgress};

/// Environment variable with the command line's access token.
pub const TOKEN_VARIABLE: &str = "TUNESMITH_ACCESS_TOKEN";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time between two reads of a response. A report on a job with many trials takes long.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// A client that cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFailure {
    #[error("invalid server address {address:?}: expected http://HOST:PORT or https://HOST:PORT")]
    Address { address: String },
    /// The token is not a valid header value.
    #[error("{TOKEN_VARIABLE} contains characters that are not allowed in a token")]
    Token,
    #[error("{variable}: {} cannot be read", path.display())]
    Certificates {
        /// Variable that names the file.
        variable: &'static str,
        path: PathBuf,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The file of trusted certificates is empty.
    #[error("{variable}: {} contains no certificate in PEM format", path.display())]
    NoCertificate { variable: &'static str, path: PathBuf },
    #[error("there are no trusted certificates on this system; set {CA_FILE_VARIABLE} to a file with some")]
    NoTrust(#[source] rustls::client::VerifierBuilderError),
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client cannot be created")]
    Http(#[from] reqwest::Error),
}

/// Creates an HTTP client for the server at `address`.
///
/// # Errors
/// If the address is invalid, or no certificates are trusted.
pub fn http_client(address: &str) -> Result<reqwest::Client, ClientFailure> {
    Ok(http_client_builder(&base_address(address)?, &[])?.build()?)
}

/// Settings of [`http_client`] for a server at `base`. Also trusts the certificates in the files that the environment
/// variables `certificates` name.
///
/// # Errors
/// If no certificates are trusted, or a named file has none.
pub fn http_client_builder(base: &Url, certificates: &[&'static str]) -> Result<reqwest::ClientBuilder, ClientFailure> {
    // An error means that a provider is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("tunesmith/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT);
    client = match tls::client_config(certificates) {
        Ok(config) => client.tls_backend_preconfigured(config),
        Err(failure) if base.scheme() == "https" => return Err(failure),
        // Otherwise the client would load system certificates itself, and fail without any.
        Err(_) => client.tls_certs_only([]),
    };
    if is_loopback(base) {
        client = client.no_proxy();
    }
    if let Some(standalone) = standalone() {
        client = client.dns_resolver(Arc::new(standalone));
    }
    Ok(client)
}

/// Parses a server address.
///
/// # Errors
/// If it is not an HTTP or HTTPS URL with a host.
pub fn base_address(address: &str) -> Result<Url, ClientFailure> {
    match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err(ClientFailure::Address { address: address.to_owned() }),
    }
}

/// Whether `url` is a loopback address.
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
