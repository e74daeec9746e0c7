//! Replacements for system services in a standalone program.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::OnceLock;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::pki_types::CertificateDer;

use super::resolver::FileResolver;

type Resolution = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Name resolution and trust roots of a standalone program.
#[derive(Debug)]
pub struct Standalone {
    /// Resolves a name, or parses an IP address.
    pub resolve: fn(String) -> Resolution,
    /// Certificates to trust on a system without any.
    pub roots: &'static [CertificateDer<'static>],
}

static STANDALONE: OnceLock<Standalone> = OnceLock::new();

/// Makes all clients of this process independent of system services. Programs that never call it do not link these
/// services.
pub fn install_standalone() {
    STANDALONE.get_or_init(|| Standalone {
        resolve: |name| Box::pin(async move { FileResolver::default().addresses(&name).await }),
        roots: webpki_root_certs::TLS_SERVER_ROOT_CERTS,
    });
}

/// Installed services; `None` if the process uses the system's.
pub fn standalone() -> Option<&'static Standalone> {
    STANDALONE.get()
}

/// Resolves `host`, a name or an IP address without brackets.
///
/// # Errors
/// If the name has no address, or cannot be resolved now.
pub async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match standalone() {
        Some(standalone) => {
            let found = (standalone.resolve)(host.to_owned()).await?;
            Ok(found.into_iter().map(|address| (address, port).into()).collect())
        }
        None => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
    }
}

impl Resolve for &'static Standalone {
    fn resolve(&self, name: Name) -> Resolving {
        let found = (self.resolve)(name.as_str().to_owned());
        Box::pin(async move {
            // The client replaces the port.
            let addresses: Addrs = Box::new(found.await?.into_iter().map(|address| (address, 0).into()));
            Ok(addresses)
        })
    }
}
