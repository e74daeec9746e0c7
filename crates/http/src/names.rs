//! Resource names in the paths of requests.

use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::header::ALLOW;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use tunesmith_algorithms::problem::TrialId;

use super::status::{ApiError, Code};
use tunesmith_domain::{JobId, StudyId};
use tunesmith_service::studies::TrialRef;

/// The decoded names in the path of a request, in order: `p` and `j` in `/v1/projects/p/jobs/j:cancel`. An extension of
/// a routed request.
#[derive(Debug, Clone, Default)]
pub(super) struct PathNames(pub(super) Vec<String>);

impl PathNames {
    /// The name at the place of `{parameter}` in the path `template`.
    pub(super) fn get(&self, template: &str, parameter: &str) -> Option<String> {
        let place = parameter_names(template).position(|name| name == parameter)?;
        self.0.get(place).cloned()
    }
}

/// The `N` names in the path of a request.
pub(super) struct Names<const N: usize>(pub(super) [String; N]);

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

/// The names of the parameters in the path `template`.
pub(super) fn parameter_names<'a>(template: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
    template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// `text` without percent-encoding; `None` if the encoding is invalid or the result is not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let mut signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    if !signs.all(|(index, _)| is_digit(bytes.get(index + 1)) && is_digit(bytes.get(index + 2))) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// `name`, if it is a valid project.
pub(super) fn project(name: &str) -> Result<&str, ApiError> {
    location(name, StudyId::JOBS_LOCATION).map(|()| name)
}

/// Whether `location` is a valid location of `project`.
pub(super) fn location(project: &str, location: &str) -> Result<(), ApiError> {
    study_id(project, location, "any").map(|_| ())
}

/// The ID of a job from two segments of a path.
pub(super) fn job_id(project: &str, id: &str) -> Result<JobId, ApiError> {
    JobId::new(project, id).map_err(|error| ApiError::invalid("name", error.to_string()))
}

/// The ID of a study from three segments of a path.
pub(super) fn study_id(project: &str, location: &str, study: &str) -> Result<StudyId, ApiError> {
    StudyId::new(project, location, study).map_err(|error| ApiError::invalid("name", error.to_string()))
}

/// The trial of the segment `7`, or `7~2` with its attempt.
pub(super) fn trial_ref(study: StudyId, segment: &str) -> Result<TrialRef, ApiError> {
    let (number, attempt) = match segment.split_once('~') {
        Some((number, attempt)) => (number, Some(attempt)),
        None => (segment, None),
    };
    let no_trial = || ApiError::invalid("name", format!("{segment:?} is not a trial's number"));
    let trial = number.parse().map(TrialId).map_err(|_| no_trial())?;
    let attempt = attempt.map(str::parse).transpose().map_err(|_| no_trial())?;
    Ok(TrialRef { study, trial, attempt })
}

/// The error for a path or method that does not exist.
pub(super) fn no_method(what: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no method {what}"))
}

/// The response to an HTTP method that is not one of the methods `allowed` of a path.
pub(super) fn wrong_method(path: &str, method: &Method, allowed: &[&Method]) -> Response {
    let allowed: Vec<&str> = allowed.iter().map(|method| method.as_str()).collect();
    let text = format!("{path} does not support the method {method}; allowed: {}", allowed.join(", "));
    ([(ALLOW, allowed.join(", "))], ApiError::new(Code::MethodNotAllowed, text)).into_response()
}
