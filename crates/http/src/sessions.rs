//! How a browser shows the session of its user: a cookie and, with changes, a header.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderName};

/// Name of the cookie.
pub(super) const COOKIE_NAME: &str = "tunesmith_session";

/// The header with the secret that a page of the session contains. Pages of other sites cannot read it.
pub(super) const CSRF: HeaderName = HeaderName::from_static("x-tunesmith-csrf");

/// The secret in the cookie of `headers`.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = given.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}
