//! Idempotency keys, by which a trial recognises a retried request.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

use super::Trial;
use crate::TransitionError;

/// Retention time of recorded requests.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Maximum number of requests recorded per trial, at about 45 bytes each.
const MAX_RECORDED: usize = 256;

/// Idempotency key of a request, with a digest of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Printable ASCII characters without spaces.
    pub key: String,
    /// Digest of the request's content.
    pub content: u64,
}

/// Request that changed a trial. Its text is `KEY CONTENT NANOSECONDS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    pub key: String,
    /// Digest of the request's content.
    pub content: u64,
    /// Time of the change.
    pub at: Timestamp,
}

/// Error for text that is not a [`RecordedRequest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a key, a digest and a time")]
pub struct RecordedRequestError {
    pub text: String,
}

impl Trial {
    /// Whether `request` is recorded.
    ///
    /// # Errors
    /// [`TransitionError::KeyReused`] if its key is recorded with other content.
    pub fn has_recorded(&self, request: &RequestKey) -> Result<bool, TransitionError> {
        let Some(recorded) = self.request_keys.iter().find(|recorded| recorded.key == request.key) else {
            return Ok(false);
        };
        if recorded.content != request.content {
            return Err(TransitionError::KeyReused { trial: self.id, key: request.key.clone() });
        }
        Ok(true)
    }

    /// Records `request` and drops old ones, except the request that created the trial.
    pub(super) fn record(&mut self, request: RequestKey, at: Timestamp) {
        let requests = &mut self.0.request_keys;
        let mut index = 0;
        requests.retain(|recorded| {
            index += 1;
            index == 1 || at.duration_since(recorded.at) < KEPT_FOR
        });
        if requests.len() >= MAX_RECORDED {
            requests.remove(1);
        }
        requests.push(RecordedRequest::new(request, at));
    }
}

impl RecordedRequest {
    pub fn new(request: RequestKey, at: Timestamp) -> Self {
        Self { key: request.key, content: request.content, at }
    }
}

impl fmt::Display for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:016x} {}", self.key, self.content, self.at.as_nanosecond())
    }
}

impl FromStr for RecordedRequest {
    type Err = RecordedRequestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || {
            let [at, content, key] = text.rsplitn(3, ' ').collect::<Vec<_>>().try_into().ok()?;
            let at = Timestamp::from_nanosecond(at.parse().ok()?).ok()?;
            Some(Self { key: key.to_owned(), content: u64::from_str_radix(content, 16).ok()?, at })
        };
        parsed().ok_or_else(|| RecordedRequestError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewTrial, TrialStart};
    use tunesmith_algorithms::problem::{ParameterValues, TrialId};

    fn trial(key: &str) -> Trial {
        Trial::new(NewTrial {
            id: TrialId(1),
            parameters: ParameterValues::new(),
            origin: None,
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: String::new(),
            start: TrialStart::Requested,
            create_time: Timestamp::UNIX_EPOCH,
            request_key: Some(request(key, 1)),
        })
        .unwrap()
    }

    fn request(key: &str, content: u64) -> RequestKey {
        RequestKey { key: key.to_owned(), content }
    }

    fn at(hours: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)
    }

    #[test]
    fn requests_are_recorded_for_a_day_and_the_creating_one_for_ever() {
        let mut trial = trial("create");
        for number in 0..100 {
            trial.record(request(&format!("report-{number}"), number), at(0));
        }
        assert_eq!(trial.has_recorded(&request("report-0", 0)), Ok(true), "a hundred reports later");
        trial.record(request("next day", 1), at(24));
        assert_eq!(trial.has_recorded(&request("report-99", 99)), Ok(false));
        assert_eq!(trial.has_recorded(&request("create", 1)), Ok(true));
        for number in 0..1000 {
            trial.record(request(&format!("many-{number}"), 1), at(24));
        }
        assert_eq!(trial.request_keys.len(), MAX_RECORDED);
        assert_eq!(trial.has_recorded(&request("create", 1)), Ok(true));
        assert_eq!(trial.has_recorded(&request("many-999", 1)), Ok(true));
    }

    #[test]
    fn key_with_another_content_is_refused() {
        let mut trial = trial("create");
        trial.record(request("report", 7), at(0));
        let error = trial.has_recorded(&request("report", 8)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the idempotency key report was used for another request to trial 1: use a new key for each request"
        );
    }

    #[test]
    fn recorded_request_is_read_from_its_text() {
        let recorded = RecordedRequest::new(request("a/b", 0xfeed), at(1));
        assert_eq!(recorded.to_string(), "a/b 000000000000feed 3600000000000");
        assert_eq!(recorded.to_string().parse(), Ok(recorded));
        assert!("create 1".parse::<RecordedRequest>().is_err());
    }
}
