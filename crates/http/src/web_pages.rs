//! Refuses requests that a web page makes a browser send.
//!
//! A page of any site can make the browser of its visitor send requests to loopback and internal addresses, where a
//! server without tokens obeys them. Browsers mark such requests: `Origin` and `Sec-Fetch-Site` name another site, or,
//! if the name of the site was resolved to this server's address (DNS rebinding), `Host` is not a name of this server.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

use super::status::{ApiError, Code};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Maximum number of characters of a header that an error repeats.
const MAX_SHOWN: usize = 100;

/// A host name without port, in lower case: `tune.example.com`, `10.0.0.7`, `[::1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

/// A text that is not a host name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a host name: use a name or an address without scheme, port and path, such as tune.example.com"
)]
pub struct BadHostName {
    /// The text.
    pub text: String,
}

impl FromStr for HostName {
    type Err = BadHostName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadHostName { text: text.to_owned() };
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::of(address));
        }
        match host_and_port(text) {
            Some((host, None)) if !text.ends_with(':') => Ok(Self(host)),
            _ => Err(bad()),
        }
    }
}

impl HostName {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self(address.to_string()),
            IpAddr::V6(address) => Self(format!("[{address}]")),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names under which clients address a server: `localhost`, loopback addresses, the address that it listens on, and
/// configured names, each with any port.
#[derive(Debug, Clone)]
pub struct AllowedHosts {
    listen: IpAddr,
    configured: Vec<HostName>,
}

impl AllowedHosts {
    /// The names of a server that listens on `listen`. If that is every address of the machine, every address is
    /// allowed: only a name can be made to mean another address.
    pub fn new(listen: IpAddr, configured: Vec<HostName>) -> Self {
        Self { listen, configured }
    }

    /// Checks that `request` addresses this server and does not come from a page of another site.
    pub(super) fn check(&self, request: &Request) -> Result<(), ApiError> {
        let own = self.own_host(request.uri(), request.headers())?;
        let refuse = |header: &str, value: &str| {
            let text = format!("{header} is {:?}: requests of web pages of another origin are refused", shown(value));
            ApiError::new(Code::PermissionDenied, text)
        };
        for value in request.headers().get_all(ORIGIN) {
            let origin = String::from_utf8_lossy(value.as_bytes());
            if !self.is_own(&origin, &own) {
                return Err(refuse("Origin", &origin));
            }
        }
        for value in request.headers().get_all(FETCH_SITE) {
            if !matches!(value.as_bytes(), b"same-origin" | b"none") {
                return Err(refuse("Sec-Fetch-Site", &String::from_utf8_lossy(value.as_bytes())));
            }
        }
        Ok(())
    }

    /// The host and port that the client addresses.
    fn own_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(String, Option<u16>), ApiError> {
        let refuse = |text: String| Err(ApiError::new(Code::PermissionDenied, text));
        let mut given = headers.get_all(HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else {
            return refuse("the request must have one Host header".to_owned());
        };
        let host = String::from_utf8_lossy(host.as_bytes());
        // A client may put the host before the path as well.
        let before_path = uri.authority().map(Authority::as_str);
        for text in before_path.into_iter().chain([&*host]) {
            if !host_and_port(text).is_some_and(|(name, _)| self.allows(&name)) {
                return refuse(format!(
                    "Host {:?} is not a name of this server: use its address, or start it with --allowed-host NAME",
                    shown(text)
                ));
            }
        }
        host_and_port(&host).map_or_else(|| refuse("Host is not a host".to_owned()), Ok)
    }

    fn allows(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost"
            || address
                .is_ok_and(|address| address.is_loopback() || self.listen == address || self.listen.is_unspecified())
            || self.configured.iter().any(|name| name.0 == host)
    }

    /// Whether pages of `origin` are of the server that a request for `own` addresses. A proxy may change `Host`, so
    /// origins of configured names with the default port are own ones as well.
    fn is_own(&self, origin: &str, own: &(String, Option<u16>)) -> bool {
        let (default_port, authority) = match origin.split_once("://") {
            Some(("http", authority)) => (80, authority),
            Some(("https", authority)) => (443, authority),
            _ => return false,
        };
        let Some((host, port)) = host_and_port(authority) else { return false };
        let same_port = port.unwrap_or(default_port) == own.1.unwrap_or(default_port);
        (host == own.0 && same_port)
            || (port.is_none_or(|port| port == default_port) && self.configured.iter().any(|name| name.0 == host))
    }
}

/// The host of `text` in lower case, and its port; `None` if it is not `HOST` or `HOST:PORT`.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let authority: Authority = text.parse().ok()?;
    let port = match authority.as_str().strip_prefix(authority.host())? {
        "" => None,
        port => Some(port.strip_prefix(':')?.parse().ok()?),
    };
    let host = authority.host().to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
    (!host.is_empty()).then_some((host, port))
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use axum::body::Body;
    use axum::extract::Request;

    use super::{AllowedHosts, HostName};

    fn check(hosts: &AllowedHosts, headers: &[(&str, &str)]) -> Result<(), u16> {
        let request =
            headers.iter().fold(Request::builder().uri("/v1"), |request, (name, value)| request.header(*name, *value));
        hosts.check(&request.body(Body::empty()).unwrap()).map_err(|error| error.http_status().as_u16())
    }

    fn server(listen: IpAddr) -> AllowedHosts {
        AllowedHosts::new(listen, vec!["Tune.example.com".parse().unwrap()])
    }

    #[test]
    fn host_must_be_a_name_of_the_server() {
        let local = server(Ipv4Addr::LOCALHOST.into());
        let good =
            ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1:80", "127.9.9.9", "[::1]:8080", "tune.example.com:4"];
        for host in good {
            assert_eq!(check(&local, &[("host", host)]), Ok(()), "{host}");
        }
        let bad = [
            "",
            "x",
            "localhost.evil.test",
            "evil.test:8080",
            "10.0.0.7",
            "0.0.0.0",
            "[::2]",
            "a@localhost",
            "127.0.0.1.nip.io",
            "localhost:x",
        ];
        for host in bad {
            assert_eq!(check(&local, &[("host", host)]), Err(403), "{host}");
        }
        assert_eq!(check(&local, &[]), Err(403));
        assert_eq!(check(&local, &[("host", "localhost"), ("host", "evil.test")]), Err(403));
        let absolute = Request::builder().uri("http://evil.test/v1").header("host", "localhost");
        assert!(local.check(&absolute.body(Body::empty()).unwrap()).is_err());

        let one = server(Ipv4Addr::new(10, 0, 0, 7).into());
        assert_eq!(check(&one, &[("host", "10.0.0.7:8080")]), Ok(()));
        assert_eq!(check(&one, &[("host", "10.0.0.8:8080")]), Err(403));
        let every = server(Ipv4Addr::UNSPECIFIED.into());
        assert_eq!(check(&every, &[("host", "10.0.0.8:8080")]), Ok(()));
        assert_eq!(check(&every, &[("host", "gpubox:8080")]), Err(403));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let local = server(Ipv4Addr::LOCALHOST.into());
        let from = |host: &str, origin: &str| check(&local, &[("host", host), ("origin", origin)]);
        assert_eq!(from("localhost:8080", "http://localhost:8080"), Ok(()));
        assert_eq!(from("localhost", "http://localhost:80"), Ok(()));
        assert_eq!(from("127.0.0.1:8080", "https://tune.example.com"), Ok(()), "behind a proxy");
        let foreign = [
            "null",
            "",
            "http://localhost:3000",
            "http://evil.test",
            "http://127.0.0.1:8080",
            "http://localhost:8080.evil.test",
            "https://tune.example.com:3000",
            "file://",
            "chrome-extension://localhost:8080",
            "localhost:8080",
        ];
        for origin in foreign {
            assert_eq!(from("localhost:8080", origin), Err(403), "{origin}");
        }
        let site = |site: &str| check(&local, &[("host", "localhost"), ("sec-fetch-site", site)]);
        assert_eq!((site("same-origin"), site("none")), (Ok(()), Ok(())));
        assert_eq!((site("cross-site"), site("same-site"), site("")), (Err(403), Err(403), Err(403)));
    }

    #[test]
    fn host_names_have_neither_scheme_nor_port() {
        for good in ["tune", "tune.example.com", "10.0.0.7", "::1", "[::1]"] {
            assert!(good.parse::<HostName>().is_ok(), "{good}");
        }
        for bad in ["", "http://tune", "tune:80", "tune:", "tune/x", "a@b", "[::1]:80", "a b"] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
    }
}
