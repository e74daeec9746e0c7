//! Listeners of a server: HTTP, and where the arguments ask for them, one for clients of Vertex AI and one for Optuna's
//! storage.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
#[cfg(feature = "vizier")]
use anyhow::bail;
use axum::Router;
#[cfg(any(feature = "optuna", feature = "vizier"))]
use futures::future::OptionFuture;
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::ServeArgs;
#[cfg(feature = "optuna")]
use super::grpc::GrpcListener;
use super::open_files::connection_limits;
use crate::cli::output::print;
use crate::cli::self_signed;
use tunesmith_admission::Access;
use tunesmith_data_dir::DataDir;
use tunesmith_http::server::{self, Connections, ServerIdentity};
use tunesmith_studies::clock::Clock;
#[cfg(feature = "vizier")]
use tunesmith_vizier_server::{WithoutPrefix, without_prefix};

/// Bound listeners, which accept connections once they are served.
pub(super) struct Listeners {
    http: Connections,
    /// Address of the HTTP listener, with its scheme.
    pub(super) url: String,
    /// Address under which programs reach the server.
    pub(super) endpoint: String,
    /// Certificate; `None` without HTTPS.
    pub(super) identity: Option<Arc<ServerIdentity>>,
    /// Listener for clients of Vertex AI, whose paths have no prefix, and its address.
    #[cfg(feature = "vizier")]
    vertex: Option<(Connections, String)>,
    #[cfg(feature = "optuna")]
    optuna: Option<GrpcListener>,
}

impl Listeners {
    /// Binds the addresses of `args`.
    ///
    /// # Errors
    /// If an address is in use, the certificate cannot be read, or the storage of Optuna studies cannot be opened.
    #[cfg_attr(not(feature = "optuna"), expect(unused_variables, reason = "only the Optuna listener needs them"))]
    pub(super) async fn open(args: &ServeArgs, data_dir: &DataDir, access: &Access) -> anyhow::Result<Self> {
        let files = certificate(args)?;
        let identity =
            files.map(|(certificate, key)| ServerIdentity::read(certificate, key)).transpose()?.map(Arc::new);
        let (http, address) = listen(args, args.listen, identity.as_ref()).await?;
        let scheme = if identity.is_some() { "https" } else { "http" };
        let endpoint = match &args.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("{scheme}://{}", reachable(address)),
        };
        #[cfg(feature = "vizier")]
        let vertex = match args.vertex_listen {
            Some(address) => {
                let (connections, address) = listen(args, address, identity.as_ref()).await?;
                Some((connections, format!("{scheme}://{address}")))
            }
            None => None,
        };
        Ok(Self {
            http,
            url: format!("{scheme}://{address}"),
            endpoint,
            identity,
            #[cfg(feature = "vizier")]
            vertex,
            #[cfg(feature = "optuna")]
            optuna: GrpcListener::open(args, data_dir, access).await?,
        })
    }

    /// Prints the addresses.
    pub(super) fn announce(&self) -> anyhow::Result<()> {
        #[cfg(feature = "optuna")]
        if let Some(optuna) = &self.optuna {
            optuna.announce();
        }
        let announcement = format!("listening on {}\n", self.url);
        #[cfg(feature = "vizier")]
        let announcement = match &self.vertex {
            Some((_, url)) => format!("{announcement}listening for Vertex AI on {url}\n"),
            None => announcement,
        };
        print(&announcement)?;
        Ok(())
    }

    /// Serves `router` until `ended` becomes true, then waits for the requests in progress.
    #[cfg_attr(not(feature = "optuna"), expect(unused_variables, reason = "only the Optuna listener needs the clock"))]
    pub(super) async fn serve(
        self,
        args: &ServeArgs,
        router: Router,
        clock: Arc<dyn Clock>,
        ended: &watch::Receiver<bool>,
    ) {
        let idle_timeout = Duration::from_secs(args.idle_timeout);
        #[cfg(feature = "vizier")]
        let vertex = OptionFuture::from(self.vertex.map(|(connections, _)| {
            let router = without_prefix(router.clone(), WithoutPrefix::All);
            server::serve(connections, router, idle_timeout, until_ended(ended.clone()))
        }));
        #[cfg(feature = "vizier")]
        let router = without_prefix(router, WithoutPrefix::ByHost);
        let serving = server::serve(self.http, router, idle_timeout, until_ended(ended.clone()));
        #[cfg(feature = "vizier")]
        let serving = futures::future::join(serving, vertex);
        #[cfg(feature = "optuna")]
        let serving = {
            let time_limit = Duration::from_secs(args.request_timeout);
            let optuna = self.optuna.map(|optuna| optuna.serve(clock, time_limit, until_ended(ended.clone())));
            futures::future::join(serving, OptionFuture::from(optuna))
        };
        serving.await;
    }
}

/// Waits until `ended` becomes true.
pub(super) async fn until_ended(mut ended: watch::Receiver<bool>) {
    // The sender is only dropped at the end.
    let _ = ended.wait_for(|ended| *ended).await;
}

/// Refuses an address that others reach on a server without tokens.
#[cfg(feature = "vizier")]
pub(super) fn check_vertex_address(args: &ServeArgs, access: &Access) -> anyhow::Result<()> {
    match args.vertex_listen {
        Some(address) if !address.ip().is_loopback() && !access.authenticator.requires_tokens() => bail!(
            "--vertex-listen {address}: without a token, every client that reaches this address has all permissions; make a \
             token first (tunesmith tokens create --data-dir {}) or listen on the loopback interface",
            args.data_dir.display()
        ),
        _ => Ok(()),
    }
}

/// Listener bound to `address`, and the address with its port.
async fn listen(
    args: &ServeArgs,
    address: SocketAddr,
    identity: Option<&Arc<ServerIdentity>>,
) -> anyhow::Result<(Connections, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let limits = connection_limits(args);
    let connections = match identity {
        Some(identity) => Connections::tls(listener, limits, Arc::clone(identity))?,
        None => Connections::plain(listener, limits),
    };
    Ok((connections, address))
}

/// Paths of the certificate and key; `None` without HTTPS.
fn certificate(args: &ServeArgs) -> anyhow::Result<Option<(PathBuf, PathBuf)>> {
    if let Some(folder) = &args.tls_self_signed {
        let host = args.public_url.as_ref().and_then(Url::host_str);
        let names = args.allowed_host.iter().map(ToString::to_string).chain(host.map(str::to_owned));
        let pair = self_signed::pair(folder, args.listen.ip(), names)?;
        return Ok(Some((pair.certificate, pair.key)));
    }
    Ok(args.tls_certificate.clone().zip(args.tls_key.clone()))
}

/// Address under which a local program reaches a server listening on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
