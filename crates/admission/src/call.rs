//! Use case calls, translated from requests by a front end.

use std::fmt;
use std::net::IpAddr;

use super::use_cases::UseCase;
use tunesmith_domain::{Refusal, StudyId};

#[derive(Debug, Clone)]
pub struct Call {
    pub use_case: UseCase,
    /// Empty for use cases outside projects.
    pub project: String,
    /// Job or model whose IAM policy may grant the permission.
    pub job: Option<String>,
    /// Resource name in audit records.
    pub resource: String,
    pub client: Client,
    /// Client-chosen key for a change that the client may retry.
    pub idempotency_key: Option<String>,
}

impl Call {
    /// Checks that the resource is at the location that its client addresses, if the host names one.
    pub(crate) fn check_location(&self) -> Result<(), Refusal> {
        let Some(addressed) = &self.client.location else { return Ok(()) };
        let mut segments = self.resource.split('/').skip_while(|segment| *segment != "locations");
        let named = segments.nth(1).and_then(|segment| segment.split(':').next()).unwrap_or_default();
        // The studies of jobs are at every location.
        if named.is_empty() || named == addressed || named == StudyId::JOBS_LOCATION {
            return Ok(());
        }
        let text =
            format!("The provided location ID doesn't match the endpoint. The valid location ID is `{addressed}`.");
        Err(Refusal::invalid("name", text))
    }
}

#[derive(Clone, Default)]
pub struct Client {
    pub address: Option<IpAddr>,
    /// Request ID in logs.
    pub request_id: String,
    /// Token of a principal or of a running trial.
    pub token: Option<String>,
    /// Session of a browser that sent no token.
    pub session: Option<SessionSecrets>,
    /// Instruction for sending `TOKEN` in the protocol of the call.
    pub advice: &'static str,
    /// Location that the host in the request names: `us-central1` in `us-central1-ml.googleapis.com`.
    pub location: Option<String>,
}

/// Name of a call that this process makes for a client of another protocol: of the tool that an agent has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalledAs(pub &'static str);

#[derive(Clone)]
pub struct SessionSecrets {
    pub cookie: String,
    /// Secret that the session's pages repeat with changes; `None` if it was not sent.
    pub csrf: Option<String>,
}

impl fmt::Debug for Client {
    /// Omits the secrets, which must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address).field("request_id", &self.request_id).finish()
    }
}

const MAX_KEY_LENGTH: usize = 64;

/// Idempotency key: repeated calls with the same key have one effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    pub(crate) fn new(key: &str) -> Result<Self, Refusal> {
        if key.is_empty() || key.len() > MAX_KEY_LENGTH || !key.chars().all(|c| c.is_ascii_graphic()) {
            let text = format!("must be 1 to {MAX_KEY_LENGTH} printable ASCII characters without spaces");
            return Err(Refusal::invalid("Idempotency-Key", text));
        }
        Ok(Self(key.to_owned()))
    }
}

impl From<IdempotencyKey> for String {
    fn from(key: IdempotencyKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::use_cases;

    #[test]
    fn location_is_that_of_the_host() {
        let check = |location: Option<&str>, resource: &str| {
            let call = Call {
                use_case: use_cases::GET_STUDY,
                project: "p".to_owned(),
                job: None,
                resource: resource.to_owned(),
                client: Client { location: location.map(str::to_owned), ..Client::default() },
                idempotency_key: None,
            };
            call.check_location().map_err(|refusal| refusal.message)
        };
        let study = "projects/p/locations/us-central1/studies/s";
        for (location, resource) in [
            (None, study),
            (Some("us-central1"), study),
            (Some("us-central1"), "projects/p/locations/us-central1"),
            (Some("us-central1"), "projects/p/locations/jobs/studies/j/trials/1"),
            (Some("us-central1"), "projects/p/locations"),
            (Some("us-central1"), "projects/p/jobs/j"),
        ] {
            assert_eq!(check(location, resource), Ok(()), "{location:?} {resource}");
        }
        let refused = check(Some("europe-west4"), study).unwrap_err();
        assert!(refused.contains("The valid location ID is `europe-west4`."), "{refused}");
    }
}
