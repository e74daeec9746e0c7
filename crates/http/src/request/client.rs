//! Client of a request: address, credentials and request ID.

use axum::extract::{ConnectInfo, Request};
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderName};
use rand::Rng;
use tunesmith_access::{CSRF_HEADER, SESSION_COOKIE};
use tunesmith_admission::{Client, SessionSecrets};

use super::web_pages::host;
use crate::server::Peer;

/// Request ID header, optionally set by the client. Part of the response and the logs.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const MAX_ID_LENGTH: usize = 128;

pub(crate) fn client(request: &Request) -> Client {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let cookie = if headers.contains_key(AUTHORIZATION) { None } else { session_cookie(headers) };
    Client {
        address: request.extensions().get::<ConnectInfo<Peer>>().map(|ConnectInfo(Peer(address))| address.ip()),
        request_id: request_id(headers),
        token: authorization.map(str::to_owned),
        session: cookie.map(|cookie| SessionSecrets {
            cookie: cookie.to_owned(),
            csrf: text(HeaderName::from_static(CSRF_HEADER)).map(str::to_owned),
        }),
        advice: "send the header `authorization: Bearer TOKEN`",
        location: host(request).as_deref().and_then(location_of).map(str::to_owned),
    }
}

/// Ends of the names of regional hosts, after the location.
const REGIONAL_HOSTS: [&str; 2] = ["-ml.googleapis.com", "-aiplatform.googleapis.com"];

/// Location of a regional host of Google, which reaches this server through a proxy or a table of hosts.
fn location_of(host: &str) -> Option<&str> {
    REGIONAL_HOSTS.iter().find_map(|end| host.strip_suffix(end)).filter(|location| !location.is_empty())
}

/// Request ID from the header if it has 1 to 128 printable ASCII characters without spaces; otherwise a random one.
fn request_id(headers: &HeaderMap) -> String {
    let is_valid = |id: &&str| {
        !id.is_empty() && id.len() <= MAX_ID_LENGTH && id.chars().all(|character| character.is_ascii_graphic())
    };
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(is_valid);
    given.map_or_else(|| format!("{:016x}", rand::rng().next_u64()), str::to_owned)
}

fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = given.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == SESSION_COOKIE).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::{REQUEST_ID, location_of, request_id};

    #[test]
    fn regional_hosts_name_their_location() {
        assert_eq!(location_of("us-central1-ml.googleapis.com"), Some("us-central1"));
        assert_eq!(location_of("europe-west4-aiplatform.googleapis.com"), Some("europe-west4"));
        for host in ["ml.googleapis.com", "aiplatform.googleapis.com", "-ml.googleapis.com", "localhost", ""] {
            assert_eq!(location_of(host), None, "{host}");
        }
    }

    #[test]
    fn valid_id_of_the_client_is_kept() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, value.parse().unwrap());
            request_id(&headers)
        };
        assert_eq!(of("abc-1"), "abc-1");
        for bad in ["", "with space", &"x".repeat(129)] {
            let drawn = of(bad);
            assert_eq!(drawn.len(), 16, "{drawn}");
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
