use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::request::names::decode;
use crate::response::error::{ApiError, Code};
use tunesmith_api::ai_platform::proto_json::{self, MessageError};
use tunesmith_filter::FilterError;

/// Standard parameters of Google services that have no effect. The response lists those in the request.
pub(crate) const WITHOUT_EFFECT: [&str; 8] =
    ["$.xgafv", "access_token", "fields", "key", "oauth_token", "quotaUser", "uploadType", "upload_protocol"];

/// Standard parameters of Google services that select the response format.
const FORM: [&str; 2] = ["alt", "prettyPrint"];

/// Standard parameter for JSONP, always refused.
const CALLBACK: &str = "callback";

pub(crate) struct Query<T>(pub(crate) T);

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

/// Parses the parameter `filter`.
///
/// # Errors
/// Names the field, and the error in `text`.
pub(crate) fn filter<F: FromStr<Err = FilterError>>(text: &str) -> Result<F, ApiError> {
    text.parse().map_err(refused_filter)
}

pub(crate) fn refused_filter(error: FilterError) -> ApiError {
    ApiError::invalid("filter", error.to_string())
}

/// Parses Booleans, which are words in a query. Numbers may remain text, as in a message.
fn typed((name, text): (String, String)) -> (String, Value) {
    match text.as_str() {
        "true" => (name, Value::Bool(true)),
        "false" => (name, Value::Bool(false)),
        _ => (name, Value::String(text)),
    }
}

/// Checks that `query` has only parameters in `known` and standard ones.
pub(crate) fn check(query: &str, known: &[String]) -> Result<(), ApiError> {
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

pub(crate) fn pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
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
