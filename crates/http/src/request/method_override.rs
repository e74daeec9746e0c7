//! `x-http-method-override`: clients send a GET with a too long URL as a POST with the query as its body.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, Uri};

use crate::request::body::too_large;
use crate::response::error::{ApiError, Code};

const HEADER: &str = "x-http-method-override";

/// Maximum size of a query in bytes, the limit of the URL it becomes part of.
const MAX_QUERY_BYTES: usize = 64 << 10;

/// Applies the method override to `request`, if it has one.
pub(crate) async fn resolve(request: Request) -> Result<Request, ApiError> {
    let Some(method) = request.headers().get(HEADER) else { return Ok(request) };
    let refuse = |text: String| ApiError::new(Code::InvalidArgument, text);
    let method =
        Method::from_bytes(method.as_bytes()).map_err(|_| refuse(format!("{HEADER}: {method:?} is not a method")))?;
    if request.method() != Method::POST || method == Method::POST {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    parts.method = method.clone();
    if method != Method::GET {
        return Ok(Request::from_parts(parts, body));
    }
    let query = to_bytes(body, MAX_QUERY_BYTES).await.map_err(|_| too_large())?;
    let query = std::str::from_utf8(&query).map_err(|_| refuse("the body is not a query".to_owned()))?;
    if !query.is_empty() {
        let path = parts.uri.path();
        parts.uri = format!("{path}?{query}")
            .parse::<Uri>()
            .map_err(|error| refuse(format!("the body is not a query: {error}")))?;
    }
    Ok(Request::from_parts(parts, Body::empty()))
}
