use axum::extract::FromRequestParts;
use axum::http::header::ALLOW;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use tunesmith_api::ai_platform::optimizer::trial_and_attempt;

use crate::response::error::{ApiError, Code};
use tunesmith_domain::{JobId, StudyId};
use tunesmith_studies::TrialRef;

/// Decoded names in a request path, in order: `p` and `j` in `/v1/projects/p/jobs/j:cancel`. A request extension, set
/// by routing.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathNames(pub(crate) Vec<String>);

impl PathNames {
    /// Value of `{parameter}` in the path `template`.
    pub(crate) fn get(&self, template: &str, parameter: &str) -> Option<String> {
        let place = parameter_names(template).position(|name| name == parameter)?;
        self.0.get(place).cloned()
    }
}

pub(crate) struct Names<const N: usize>(pub(crate) [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Names<N> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let names = parts.extensions.remove::<PathNames>().map(|PathNames(names)| names).unwrap_or_default();
        let names = <[String; N]>::try_from(names).map_err(|names| {
            tracing::error!(path = parts.uri.path(), expected = N, ?names, "a route does not match its handler");
            ApiError::new(Code::Internal, "internal error; see the server's log")
        })?;
        Ok(Self(names))
    }
}

pub(crate) fn parameter_names<'a>(template: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
    template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// Percent-decodes `text`; `None` if the encoding is invalid or the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let mut signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    if !signs.all(|(index, _)| is_digit(bytes.get(index + 1)) && is_digit(bytes.get(index + 2))) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

pub(crate) fn project(name: &str) -> Result<&str, ApiError> {
    location(name, StudyId::JOBS_LOCATION).map(|()| name)
}

pub(crate) fn location(project: &str, location: &str) -> Result<(), ApiError> {
    study_id(project, location, "any").map(|_| ())
}

pub(crate) fn job_id(project: &str, id: &str) -> Result<JobId, ApiError> {
    JobId::new(project, id).map_err(|error| ApiError::invalid("name", error.to_string()))
}

pub(crate) fn study_id(project: &str, location: &str, study: &str) -> Result<StudyId, ApiError> {
    StudyId::new(project, location, study).map_err(|error| ApiError::invalid("name", error.to_string()))
}

/// Trial reference from the segment `7`, or `7~2` with an attempt.
pub(crate) fn trial_ref(study: StudyId, segment: &str) -> Result<TrialRef, ApiError> {
    let (trial, attempt) = trial_and_attempt(segment)?;
    Ok(TrialRef { study, trial, attempt })
}

/// Error for an unknown path or method.
pub(crate) fn no_method(what: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no method {what}"))
}

/// Response to a method that is not in `allowed`.
pub(crate) fn wrong_method(path: &str, method: &Method, allowed: &[&Method]) -> Response {
    let allowed: Vec<&str> = allowed.iter().map(|method| method.as_str()).collect();
    let text = format!("{path} does not support the method {method}; allowed: {}", allowed.join(", "));
    (
        [(ALLOW, allowed.join(", "))],
        ApiError::new(Code::Unimplemented, text).with_status(StatusCode::METHOD_NOT_ALLOWED),
    )
        .into_response()
}
