//! Rate-limited API client with retries on overload.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use kube::core::Status;

/// Sustained rate and burst per [`Purpose`], in requests per second. The API server has its own limits per user.
const RATE: NonZeroU32 = NonZeroU32::new(20).expect("it is not 0");
const BURST: NonZeroU32 = NonZeroU32::new(100).expect("it is not 0");

/// Request timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum attempts per request, and the initial back-off, which doubles.
const MAX_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Maximum `Retry-After` that is honoured.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("the API server answers {}: {}", .0.code, .0.message)]
    Refused(Box<Status>),
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

    /// Whether the object was replaced since its UID was read.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_conflict() && !status.is_already_exists())
    }

    /// Whether the API server has decided against the request, such as for a quota.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(status) if (400..500).contains(&status.code) && !matches!(status.code, 409 | 410 | 429))
    }

    /// Message of a permanent rejection: one that names an invalid field.
    ///
    /// All other rejections may be transient. A restarting API server answers 403 until it has loaded its roles;
    /// roles, namespaces, quotas and admission webhooks can be repaired.
    pub(super) fn invalid_field(&self) -> Option<&str> {
        let Self::Refused(status) = self else { return None };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let names_field = causes.into_iter().any(|cause| !cause.field.is_empty());
        (matches!(status.code, 400 | 422) && names_field).then_some(status.message.as_str())
    }

    /// Minimum delay before a retry; `None` if a retry is useless.
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

/// Innermost error, which names the fault.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Purpose of a request. Each has its own rate limit, so that reads do not delay submissions and cancellations.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Create,
    Delete,
    Read,
}

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

    /// Sends `request`, possibly several times.
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

    /// Like [`Self::call`], with `None` for a missing object.
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
        // A cluster policy names no field.
        let policy = serde_json::json!({"causes": [{"message": "denied by policy", "field": ""}]});
        assert_eq!(refused_for(422, "denied", policy).invalid_field(), None);
        assert_eq!(refused_for(403, "forbidden", field).invalid_field(), None);
        for code in [400, 403, 404, 422, 429, 503] {
            assert_eq!(refused(code, "no", 0).invalid_field(), None, "{code}");
        }
    }
}
