//! The ID of a request, given by the client or drawn at random. It is part of the response, the log and the audit log.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use rand::Rng;

/// The header of the ID.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a client's ID.
const MAX_LENGTH: usize = 128;

/// The ID of one request: up to 128 printable ASCII characters without spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestId(String);

impl RequestId {
    /// The ID in the request's header, if it is valid; otherwise a new one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
        let given =
            given.filter(|id| !id.is_empty() && id.len() <= MAX_LENGTH && id.chars().all(|c| c.is_ascii_graphic()));
        Self(given.map_or_else(|| format!("{:016x}", rand::rng().next_u64()), str::to_owned))
    }

    /// The text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// As the value of [`HEADER`].
    pub(super) fn header_value(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::{HEADER, RequestId};

    #[test]
    fn valid_id_of_the_client_is_kept() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, value.parse().unwrap());
            RequestId::of(&headers).as_str().to_owned()
        };
        assert_eq!(of("abc-1"), "abc-1");
        for bad in ["", "with space", &"x".repeat(129)] {
            let drawn = of(bad);
            assert_eq!(drawn.len(), 16, "{drawn}");
        }
        assert_ne!(RequestId::of(&HeaderMap::new()), RequestId::of(&HeaderMap::new()));
    }
}
