//! Parsing of query parameters.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::field_mask::FieldMask;
use super::names::decode;
use super::status::{ApiError, Code};
use tunesmith_api::ai_platform::proto_json::{self, MessageError};

/// Standard parameters of Google services that have no effect. A response names those that its request has.
pub(super) const WITHOUT_EFFECT: [&str; 7] =
    ["$.xgafv", "access_token", "key", "oauth_token", "quotaUser", "uploadType", "upload_protocol"];

/// Standard parameters of Google services that select the form of the response.
const FORM: [&str; 3] = ["alt", "fields", "prettyPrint"];

/// The standard parameter for JSONP, which is refused.
const CALLBACK: &str = "callback";

/// The query parameters of a method.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let own = pairs(parts.uri.query().unwrap_or_default())?;
        let own: Map<String, Value> = own.into_iter().filter(|(name, _)| !is_standard(name)).map(typed).collect();
        proto_json::from_object(own).map(Self).map_err(|error| match error {
            MessageError::Field { field, description } => ApiError::invalid(&field, description),
            other => ApiError::new(Code::InvalidArgument, format!("invalid query: {other}")),
        })
    }
}

/// In a query, Boolean values are words; numbers may be text, as in a message.
fn typed((name, text): (String, String)) -> (String, Value) {
    match text.as_str() {
        "true" => (name, Value::Bool(true)),
        "false" => (name, Value::Bool(false)),
        _ => (name, Value::String(text)),
    }
}

/// Checks that `query` contains only the parameters `known` and standard parameters.
pub(super) fn check(query: &str, known: &[String]) -> Result<(), ApiError> {
    let refuse = |name: &str, description: String| Err(ApiError::invalid(name, description));
    let pairs = pairs(query)?;
    for (index, (name, value)) in pairs.iter().enumerate() {
        if name == CALLBACK {
            return refuse(name, "JSONP is not supported: read the response as JSON".to_owned());
        }
        if !is_standard(name) && !known.contains(name) {
            return refuse(name, format!("unknown name {name:?}: this method has no such query parameter"));
        }
        if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
            return refuse(name, "is given twice".to_owned());
        }
        let allowed: &[&str] = match name.as_str() {
            "alt" => &["json"],
            "prettyPrint" => &["true", "false", "1", "0"],
            "$.xgafv" => &["1", "2"],
            _ => continue,
        };
        if !allowed.contains(&value.as_str()) {
            return refuse(name, format!("{value:?} is not supported; allowed: {}", allowed.join(", ")));
        }
    }
    Ok(())
}

fn is_standard(name: &str) -> bool {
    WITHOUT_EFFECT.contains(&name) || FORM.contains(&name)
}

/// Checks that responses with the JSON schema `answer` have the fields that `fields` selects.
pub(super) fn check_fields<'a>(query: &str, answer: impl FnOnce() -> Option<&'a Value>) -> Result<(), ApiError> {
    let pairs = pairs(query)?;
    let Some((_, text)) = pairs.iter().find(|(name, text)| name == "fields" && !text.is_empty()) else { return Ok(()) };
    let refuse = |description: String| ApiError::invalid("fields", description);
    let mask: FieldMask = text.parse().map_err(|error| refuse(format!("invalid field selection {text:?}: {error}")))?;
    let Some(answer) = answer() else { return Err(refuse("the response of this method is not JSON".to_owned())) };
    mask.check(answer).map_err(|field| refuse(format!("invalid field selection: the response has no field {field:?}")))
}

/// The decoded names and values of `query`.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let refuse = |part: &str| {
        let text = format!("invalid query: {part:?} is not percent-encoded UTF-8");
        ApiError::new(Code::InvalidArgument, text)
    };
    let text = |part: &str| decode(&part.replace('+', " ")).ok_or_else(|| refuse(part));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((text(name)?, text(value)?))
    });
    pairs.collect()
}
