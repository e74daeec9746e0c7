//! Protection against requests forged by web pages.
//!
//! Any web page can make its visitor's browser send requests to loopback and internal addresses, where a server without
//! tokens obeys them. Browsers mark such requests: `Origin` and `Sec-Fetch-Site` name another site or, after DNS
//! rebinding, `Host` is not a name of this server.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{Method, Version};

use crate::response::error::{ApiError, Code};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Maximum length of a header value in an error message, in characters.
const MAX_SHOWN: usize = 100;

/// Host name without port, in lower case: `tune.example.com`, `10.0.0.7`, `[::1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a host name: use a name or an address without scheme, port and path, such as tune.example.com"
)]
pub struct BadHostName {
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

/// Accepted host names of a server: `localhost`, loopback addresses, the listen address and configured names, each with
/// any port.
#[derive(Debug, Clone)]
pub struct AllowedHosts {
    listen: IpAddr,
    configured: Vec<HostName>,
    /// Path that pages of other sites may open as a page of its own.
    landing_page: Option<&'static str>,
}

impl AllowedHosts {
    /// Names of a server that listens on `listen`. The unspecified address allows every address: DNS rebinding needs a
    /// name.
    pub fn new(listen: IpAddr, configured: Vec<HostName>) -> Self {
        Self { listen, configured, landing_page: None }
    }

    /// Lets other sites, such as an identity provider, send browsers to the page `path`. Its handler must verify what
    /// such a site sends.
    #[must_use]
    pub fn with_landing_page(self, path: &'static str) -> Self {
        Self { landing_page: Some(path), ..self }
    }

    /// Checks that `request` addresses this server and does not come from a page of another site.
    pub(crate) fn check(&self, request: &Request) -> Result<(), ApiError> {
        let own = self.own_host(request)?;
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
            if !matches!(value.as_bytes(), b"same-origin" | b"none") && !self.lands(request) {
                return Err(refuse("Sec-Fetch-Site", &String::from_utf8_lossy(value.as_bytes())));
            }
        }
        Ok(())
    }

    /// Whether a browser opens the landing page with `request`, not as a part of another page.
    fn lands(&self, request: &Request) -> bool {
        let is = |name: &HeaderName, value: &str| request.headers().get(name).is_some_and(|given| given == value);
        request.method() == Method::GET
            && self.landing_page == Some(request.uri().path())
            && is(&FETCH_MODE, "navigate")
            && is(&FETCH_DESTINATION, "document")
    }

    /// Host and port of the request's target.
    fn own_host(&self, request: &Request) -> Result<(String, Option<u16>), ApiError> {
        let refuse = |text: String| Err(ApiError::new(Code::PermissionDenied, text));
        let mut given = request.headers().get_all(HOST).iter().map(|host| String::from_utf8_lossy(host.as_bytes()));
        // Clients may also send the host before the path; HTTP/2 sends it only there.
        let before_path = request.uri().authority().map(Authority::as_str);
        let host = match (given.next(), given.next(), before_path) {
            (Some(host), None, _) => host,
            (None, None, Some(host)) if request.version() == Version::HTTP_2 => host.into(),
            _ => return refuse("the request must have one Host header".to_owned()),
        };
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

    /// Whether `origin` is the server that a request for `own` addresses. Configured names with the default port also
    /// count, since a proxy may change `Host`.
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

/// Host that `request` addresses, in lower case.
pub(crate) fn host(request: &Request) -> Option<String> {
    let header = || request.headers().get(HOST)?.to_str().ok();
    // HTTP/2 sends the host before the path.
    let given = request.uri().authority().map(Authority::as_str).or_else(header)?;
    host_and_port(given).map(|(host, _)| host)
}

/// Host in lower case and port of `text`; `None` unless it is `HOST` or `HOST:PORT`.
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
    fn other_sites_open_the_landing_page_only_as_a_page() {
        let hosts = server(Ipv4Addr::LOCALHOST.into()).with_landing_page("/back");
        let request = |method: &str, path: &str, mode: &str, destination: &str| {
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            let request = request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", mode);
            let request = request.header("sec-fetch-dest", destination).body(Body::empty()).unwrap();
            hosts.check(&request).is_ok()
        };
        assert!(request("GET", "/back?code=1", "navigate", "document"));
        assert!(!request("POST", "/back", "navigate", "document"));
        assert!(!request("GET", "/back/", "navigate", "document"));
        assert!(!request("GET", "/v1", "navigate", "document"));
        assert!(!request("GET", "/back", "no-cors", "document"));
        assert!(!request("GET", "/back", "navigate", "iframe"));
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
