//! Addresses that clients of a server may have it connect to.
//!
//! Clients choose the addresses of packages and of tracking servers. Unrestricted, they could use the server to reach
//! services that only the server can reach. The address of the first request and of every redirect is checked.
//! [`PublicResolver`] resolves each name once, and connections use the checked addresses.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};

const MAX_REDIRECTS: usize = 10;

const PROXIES: [&str; 6] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy"];

/// The address is not public. The message does not reveal whether a service listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its address is not public")]
pub struct NotPublic;

/// Checks a URL with an IP address as its host. Names are checked on resolution.
///
/// # Errors
/// [`NotPublic`].
pub fn check(url: &Url) -> Result<(), NotPublic> {
    let host = url.host_str().unwrap_or_default();
    let address: Result<IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
    match address {
        Ok(address) if !is_public(address) => Err(NotPublic),
        _ => Ok(()),
    }
}

/// Policy that follows redirects to HTTP and HTTPS whose addresses pass [`check`].
pub fn redirects(allow_private: bool) -> Policy {
    Policy::custom(move |attempt: Attempt<'_>| {
        if attempt.previous().len() > MAX_REDIRECTS {
            return attempt.error(format!("more than {MAX_REDIRECTS} redirects"));
        }
        match check(attempt.url()) {
            Err(refused) if !allow_private => attempt.error(refused),
            _ => attempt.follow(),
        }
    })
}

/// Resolver that refuses names with a non-public address. Allows proxies: their operator controls their reach.
#[derive(Debug)]
pub struct PublicResolver {
    proxies: Arc<Vec<String>>,
}

impl PublicResolver {
    /// Resolver with the proxies of the environment `variables`.
    pub fn new(variables: &BTreeMap<OsString, OsString>) -> Self {
        let host = |name: &&str| {
            let text = variables.get(std::ffi::OsStr::new(name))?.to_str()?;
            let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
            url.ok()?.host_str().map(str::to_ascii_lowercase)
        };
        Self { proxies: Arc::new(PROXIES.iter().filter_map(host).collect()) }
    }
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let proxies = Arc::clone(&self.proxies);
        Box::pin(async move {
            let host = name.as_str().to_ascii_lowercase();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            // One non-public address is enough to refuse: the others may be unreachable.
            if !proxies.contains(&host) && !found.iter().all(|address| is_public(address.ip())) {
                return Err(NotPublic.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether `address` is on the public internet. Source: the IANA registries of special-purpose addresses.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        // This network, shared by carriers, protocol assignments, benchmarks, reserved.
        || a == 0
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18)
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Mapped, compatible and translated addresses embed an IPv4 address.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, documentation, and the rest of the protocol assignments.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for public in ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn notations_of_addresses_are_read_as_clients_read_them() {
        for url in ["http://127.1/", "http://0x7f000001/", "http://2130706433/", "http://[::1]:80/", "http://0/"] {
            assert_eq!(check(&Url::parse(url).unwrap()), Err(NotPublic), "{url}");
        }
        assert_eq!(check(&Url::parse("https://8.8.8.8/a").unwrap()), Ok(()));
    }

    #[tokio::test]
    async fn redirects_to_private_addresses_are_refused_alike_whether_a_service_listens_or_not() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        tokio::spawn(async move {
            for target in [open, closed] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = format!(
                    "HTTP/1.1 302 Found\r\nlocation: http://{target}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        for _ in [open, closed] {
            // The first address of a package is checked before the request.
            let client = reqwest::Client::builder().no_proxy().redirect(redirects(false)).build().unwrap();
            let error = client.get(format!("http://{open}/")).send().await.unwrap_err();
            let mut causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
            assert!(causes.any(|cause| cause.is::<NotPublic>()), "{error:?}");
        }
    }

    #[tokio::test]
    async fn names_of_loopback_addresses_are_refused_unless_they_are_proxies() {
        let name = || "localhost".parse::<Name>().unwrap();
        let refused = PublicResolver::new(&BTreeMap::new()).resolve(name()).await;
        assert_eq!(refused.err().unwrap().to_string(), NotPublic.to_string());
        let proxy = BTreeMap::from([("http_proxy".into(), "LOCALHOST:3128".into())]);
        assert!(PublicResolver::new(&proxy).resolve(name()).await.is_ok());
    }
}
