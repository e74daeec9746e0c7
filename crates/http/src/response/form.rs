//! JSON formatting by the standard parameter `prettyPrint`, and the header listing parameters without effect.
//!
//! Routing checks the parameters, since it refuses requests.

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, StreamExt};

use crate::request::query::{self, WITHOUT_EFFECT};
use crate::response::json_text::Indenter;
use tunesmith_admission::long_work;

/// Header listing the query parameters without effect.
const NOTICE: HeaderName = HeaderName::from_static("tunesmith-notice");

/// Minimum size in bytes for formatting a response on a blocking thread (a guess: 1 ms).
const LONG_BYTES: usize = 256 << 10;

/// Formats the response of `handle` as requested, unless it is compressed. Ignores unparsable parameters: routing refuses the
/// request.
pub(crate) async fn respond(request: Request, handle: impl AsyncFnOnce(Request) -> Response) -> Response {
    let pairs = query::pairs(request.uri().query().unwrap_or_default()).unwrap_or_default();
    let mut response = handle(request).await;
    let is_given = |name: &&str| pairs.iter().any(|(given, _)| given == name);
    let without_effect: Vec<&str> = WITHOUT_EFFECT.into_iter().filter(is_given).collect();
    if !without_effect.is_empty()
        && let Ok(text) = HeaderValue::from_str(&format!("no effect: {}", without_effect.join(", ")))
    {
        response.headers_mut().insert(NOTICE, text);
    }
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    let is_compact = pairs.iter().any(|(name, value)| name == "prettyPrint" && matches!(value.as_str(), "false" | "0"));
    if !is_json || is_compact || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, indented(body).await)
}

/// Indents `body`, streaming if it is streamed.
async fn indented(body: Body) -> Body {
    let indenter = Indenter::default();
    if body.size_hint().exact().is_none() {
        let parts = stream::unfold(Some((body.into_data_stream(), indenter)), async |state| {
            let (mut parts, mut indenter) = state?;
            Some(match parts.next().await {
                Some(Ok(part)) => (Ok(Bytes::from(indenter.part(&part))), Some((parts, indenter))),
                Some(Err(error)) => (Err(error), None),
                None => (Ok(Bytes::from_static(indenter.end())), None),
            })
        });
        return Body::from_stream(parts);
    }
    let whole = match to_bytes(body, usize::MAX).await {
        Ok(whole) => whole,
        Err(error) => return Body::from_stream(stream::once(async { Err::<Bytes, _>(error) })),
    };
    let indent = move |mut indenter: Indenter, whole: &[u8]| {
        let mut output = indenter.part(whole);
        output.extend_from_slice(indenter.end());
        Body::from(output)
    };
    if whole.len() < LONG_BYTES {
        return indent(indenter, &whole);
    }
    let permit = long_work::permit().await;
    let given = whole.clone();
    let work = long_work::off_the_runtime(move || {
        let _permit = permit;
        indent(indenter, &given)
    });
    work.await.unwrap_or_else(|_| whole.into())
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[tokio::test]
    async fn compressed_responses_are_not_indented() {
        let request = || Request::builder().uri("/v1/x").body(Body::empty()).unwrap();
        let json = || ([(CONTENT_TYPE, "application/json")], "{\"a\":1}").into_response();
        let compressed = || ([(CONTENT_ENCODING, "gzip"), (CONTENT_TYPE, "application/json")], "{,}").into_response();
        let body = |response: Response| async { to_bytes(response.into_body(), usize::MAX).await.unwrap() };
        assert_eq!(body(respond(request(), async |_| json()).await).await, "{\n  \"a\": 1\n}\n");
        assert_eq!(body(respond(request(), async |_| compressed()).await).await, "{,}");
    }
}
