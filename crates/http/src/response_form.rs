//! The form of JSON responses by the standard query parameters `fields` and `prettyPrint`, and the header that names the
//! query parameters without effect.
//!
//! Not here: the check of the parameters, which is part of routing, since it refuses requests.

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, StreamExt};

use super::field_mask::FieldMask;
use super::json_text::{Indenter, selected};
use super::query::{self, WITHOUT_EFFECT};
use super::rendered::permit_to_render;
use super::status::{ApiError, Code};

/// The header that names the query parameters without effect.
const NOTICE: HeaderName = HeaderName::from_static("tunesmith-notice");

/// Size in bytes from which a response is formed on a blocking thread (a guess: 1 ms).
const LONG_BYTES: usize = 256 << 10;

/// The requested form of a response.
struct Form {
    /// The selected fields; `None`: all of them.
    mask: Option<FieldMask>,
    is_indented: bool,
    /// The given parameters that have no effect.
    without_effect: Vec<&'static str>,
}

impl Form {
    /// The form that `query` requests. Parameters that cannot be parsed are ignored: the request is refused.
    fn of(query: &str) -> Self {
        let pairs = query::pairs(query).unwrap_or_default();
        let value = |name: &str| pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let is_given = |name: &&'static str| value(name).is_some();
        Self {
            mask: value("fields").and_then(|text| text.parse().ok()).filter(|mask: &FieldMask| !mask.is_whole()),
            is_indented: !matches!(value("prettyPrint"), Some("false" | "0")),
            without_effect: WITHOUT_EFFECT.into_iter().filter(is_given).collect(),
        }
    }
}

/// Gives the response of `handle` the form that the request asks for. Errors are not selected by field.
pub(super) async fn answer(request: Request, handle: impl AsyncFnOnce(Request) -> Response) -> Response {
    let form = Form::of(request.uri().query().unwrap_or_default());
    let mut response = handle(request).await;
    if !form.without_effect.is_empty() {
        let text = format!("no effect: {}", form.without_effect.join(", "));
        if let Ok(text) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(NOTICE, text);
        }
    }
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    let mask = form.mask.filter(|_| response.status().is_success());
    if !is_json || (mask.is_none() && !form.is_indented) {
        return response;
    }
    let (mut parts, mut body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    if let Some(mask) = mask {
        let Ok(bytes) = to_bytes(body, usize::MAX).await else {
            tracing::error!("a response could not be rendered");
            return ApiError::new(Code::Internal, "internal error; see the server's log").into_response();
        };
        // A text that is not what the server renders, such as the empty answer to HEAD, is returned as it is.
        body = transformed(bytes, move |bytes| selected(bytes, &mask).map(Bytes::from)).await;
    }
    Response::from_parts(parts, if form.is_indented { indented(body).await } else { body })
}

/// `bytes` as `transform` returns them, or as they are. Long ones are transformed on a blocking thread.
async fn transformed(bytes: Bytes, transform: impl FnOnce(&[u8]) -> Option<Bytes> + Send + 'static) -> Body {
    if bytes.len() < LONG_BYTES {
        return transform(&bytes).unwrap_or(bytes).into();
    }
    let permit = permit_to_render().await;
    let given = bytes.clone();
    let work = tokio::task::spawn_blocking(move || {
        let transformed = transform(&given);
        drop(permit);
        transformed
    });
    work.await.ok().flatten().unwrap_or(bytes).into()
}

/// `body` with line breaks and indentation. A body that is sent in parts is indented in parts.
async fn indented(body: Body) -> Body {
    let mut indenter = Indenter::default();
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
    match to_bytes(body, usize::MAX).await {
        Ok(whole) => {
            let indent = move |whole: &[u8]| {
                let mut output = indenter.part(whole);
                output.extend_from_slice(indenter.end());
                Some(output.into())
            };
            transformed(whole, indent).await
        }
        Err(error) => Body::from_stream(stream::once(async { Err::<Bytes, _>(error) })),
    }
}
