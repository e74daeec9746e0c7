//! Requests to the API server: limited in rate, and retried when it is overloaded.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use kube::core::Status;

/// Requests per second that this process makes on average for each [`Purpose`], and at once. The API server has limits of its
/// own, by user.
const RATE: NonZeroU32 = NonZeroU32::new(20).expect("it is not 0");
const BURST: NonZeroU32 = NonZeroU32::new(100).expect("it is not 0");

/// Limit of the time of one request.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How often a request is made at most, and the pause after the first one, which doubles.
const MAX_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause that the API server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Why a request had no useful answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The API server refuses it.
    #[error("the API server answers {}: {}", .0.code, .0.message)]
    Refused(Box<Status>),
    /// There was no answer, or not that of an API server.
    #[error("the API server does not answer: {0}")]
    Unreached(String),
}

impl ApiError {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_not_found())
    }

    pub(super) fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_already_exists())
    }

    /// Whether the object was replaced since its UID was seen.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_conflict() && !status.is_already_exists())
    }

    /// The message of a refusal that names a field of the object: the same object will always be refused.
    ///
    /// Every other refusal may pass. An API server that restarts answers 403 until it has read its roles, a role or a namespace may
    /// be created again, a quota extended, and an admission webhook repaired.
    pub(super) fn invalid_field(&self) -> Option<&str> {
        let Self::Refused(status) = self else { return None };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let names_field = causes.into_iter().any(|cause| !cause.field.is_empty());
        (matches!(status.code, 400 | 422) && names_field).then_some(status.message.as_str())
    }

    /// The time after which the request may be repeated at the earliest; `None` if repeating it at once is no use.
    fn pause(&self) -> Option<Duration> {
        let Self::Refused(status) = self else { return None };
        let is_overload = matches!(status.code, 429 | 500 | 502 | 503 | 504);
        let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        is_overload.then(|| Duration::from_secs(u64::from(asked)).min(MAX_PAUSE))
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Unreached(innermost(&other)),
        }
    }
}

/// The innermost cause, which names the fault.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Purpose of a request. Each purpose has its own rate, so that many reads do not delay a submission or a cancellation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Create,
    Delete,
    Read,
}

/// Makes requests.
pub(super) struct Client {
    pub(super) kube: kube::Client,
    /// By [`Purpose`].
    limits: [DefaultDirectRateLimiter; 3],
}

impl Client {
    pub(super) fn new(kube: kube::Client) -> Self {
        let limit = || RateLimiter::direct(Quota::per_second(RATE).allow_burst(BURST));
        Self { kube, limits: [limit(), limit(), limit()] }
    }

    /// Makes `request`, which may be made several times.
    pub(super) async fn call<T, F>(&self, purpose: Purpose, request: impl Fn() -> F) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let limit = &self.limits[purpose as usize];
        let mut pause = FIRST_PAUSE;
        let mut tries = 1;
        loop {
            limit.until_ready().await;
            let answer = match tokio::time::timeout(TIMEOUT, request()).await {
                Ok(answer) => answer.map_err(ApiError::from),
                Err(_) => Err(ApiError::Unreached(format!("no answer within {} s", TIMEOUT.as_secs()))),
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(asked) = error.pause().filter(|_| tries < MAX_TRIES) else { return Err(error) };
            tokio::time::sleep(pause.max(asked)).await;
            pause *= 2;
            tries += 1;
        }
    }

    /// As [`Self::call`], with `None` in place of the answer that there is no such object.
    pub(super) async fn find<T, F>(&self, purpose: Purpose, request: impl Fn() -> F) -> Result<Option<T>, ApiError>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        match self.call(purpose, request).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str, retry_after: u32) -> ApiError {
        refused_for(code, message, serde_json::json!({"retryAfterSeconds": retry_after}))
    }

    fn refused_for(code: u16, message: &str, details: serde_json::Value) -> ApiError {
        let status = serde_json::json!({"status": "Failure", "message": message, "code": code, "details": details});
        ApiError::Refused(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn overload_is_retried_and_refusals_are_not() {
        assert_eq!(refused(429, "too many", 3).pause(), Some(Duration::from_secs(3)));
        assert_eq!(refused(503, "", 3600).pause(), Some(MAX_PAUSE));
        assert_eq!(refused(500, "", 0).pause(), Some(Duration::ZERO));
        for code in [400, 401, 403, 404, 409, 422] {
            assert_eq!(refused(code, "", 0).pause(), None, "{code}");
        }
        assert_eq!(ApiError::Unreached("refused".to_owned()).pause(), None);
        assert_eq!(refused(429, "slow down", 0).to_string(), "the API server answers 429: slow down");
    }

    #[test]
    fn refusal_is_final_if_it_names_a_field() {
        let field = serde_json::json!({"causes": [
            {"reason": "FieldValueInvalid", "message": "Invalid value", "field": "spec.template.spec.nodeSelector"},
        ]});
        for code in [400, 422] {
            assert_eq!(refused_for(code, "spec: bad", field.clone()).invalid_field(), Some("spec: bad"), "{code}");
        }
        // A policy of the cluster, which names no field.
        let policy = serde_json::json!({"causes": [{"message": "denied by policy", "field": ""}]});
        assert_eq!(refused_for(422, "denied", policy).invalid_field(), None);
        assert_eq!(refused_for(403, "forbidden", field).invalid_field(), None);
        for code in [400, 403, 404, 422, 429, 503] {
            assert_eq!(refused(code, "no", 0).invalid_field(), None, "{code}");
        }
    }
}
