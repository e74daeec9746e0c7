//! Use case calls, translated from requests by a front end.

use std::fmt;
use std::net::IpAddr;

use super::use_cases::UseCase;
use tunesmith_domain::Refusal;

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
