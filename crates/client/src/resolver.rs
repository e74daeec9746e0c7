//! Name resolution without the C library, whose name service switch needs shared libraries of a matching version at
//! run time.
//!
//! Reads `/etc/hosts`, then queries the name servers in `/etc/resolv.conf`, honouring search domains and options.
//! Nothing is cached: connections are few, and the files may change.
//!
//! Not supported: `/etc/nsswitch.conf` and sources other than files and DNS, such as mDNS or LDAP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::parse_resolv_conf;

#[derive(Debug)]
pub(super) struct FileResolver {
    hosts: PathBuf,
    resolv_conf: PathBuf,
    /// Port of the name servers, which the file does not state.
    port: u16,
}

impl Default for FileResolver {
    fn default() -> Self {
        Self { hosts: "/etc/hosts".into(), resolv_conf: "/etc/resolv.conf".into(), port: 53 }
    }
}

/// A name without an address.
#[derive(Debug, thiserror::Error)]
enum ResolutionFailure {
    #[error("{} cannot be used to resolve the name {name}: {source}", path.display())]
    ResolvConf { name: String, path: PathBuf, source: io::Error },
    #[error("the name {name} cannot be resolved: {source}")]
    Dns { name: String, source: NetError },
}

impl From<ResolutionFailure> for io::Error {
    fn from(failure: ResolutionFailure) -> Self {
        Self::other(failure)
    }
}

impl FileResolver {
    /// Resolves `name`, which may be an IP address.
    ///
    /// # Errors
    /// If it has no address, or no name server responds.
    pub(super) async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        // The file is optional.
        let hosts = tokio::fs::read_to_string(&self.hosts).await.unwrap_or_default();
        let found = addresses_in(&hosts, name);
        if !found.is_empty() {
            return Ok(found);
        }
        if is_localhost(name) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let (config, options) = self.name_servers(name).await?;
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let failure = |source| ResolutionFailure::Dns { name: name.to_owned(), source };
        let resolver = builder.build().map_err(failure)?;
        Ok(resolver.lookup_ip(name).await.map_err(failure)?.iter().collect())
    }

    async fn name_servers(&self, name: &str) -> Result<(ResolverConfig, ResolverOpts), ResolutionFailure> {
        let path: &Path = &self.resolv_conf;
        let failure = |source| ResolutionFailure::ResolvConf { name: name.to_owned(), path: path.to_owned(), source };
        let text = tokio::fs::read(path).await.map_err(failure)?;
        let (config, mut options) = parse_resolv_conf(text).map_err(|error| failure(io::Error::other(error)))?;
        // Some resolvers search the host name's domain; glibc and musl do not.
        let mut servers = config.name_servers().to_vec();
        servers
            .iter_mut()
            .flat_map(|server| &mut server.connections)
            .for_each(|connection| connection.port = self.port);
        let config = ResolverConfig::from_parts(None, config.search().to_vec(), servers);
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.use_hosts_file = ResolveHosts::Never;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.num_concurrent_reqs = 1;
        options.cache_size = 0;
        Ok((config, options))
    }
}

/// Addresses of `name` in `text`, in the format of hosts(5).
fn addresses_in(text: &str, name: &str) -> Vec<IpAddr> {
    let wanted = name.trim_end_matches('.');
    let entries = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(wanted)).then_some(address)
    });
    entries.collect()
}

/// Whether `name` is a loopback name (RFC 6761, section 6.3).
fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests;
