//! State of a login in the browser.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Time for which a login may take at the provider, in seconds.
pub(crate) const LIFETIME: i64 = 600;

/// Number of random bytes per secret.
const SECRET_BYTES: usize = 32;

/// Login that the browser continues at the provider. The browser keeps it in a cookie that other sites can neither read nor
/// set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingLogin {
    /// Repeated by the provider, so that only this browser can complete the login.
    pub(crate) state: String,
    /// Repeated in the ID token.
    pub(crate) nonce: String,
    /// Secret of PKCE.
    pub(crate) verifier: String,
    /// Seconds since 1970.
    pub(crate) started: i64,
    /// Page to open after the login.
    pub next: String,
}

/// Parameters with which the provider sends the browser back.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Callback {
    pub(crate) code: String,
    pub(crate) state: String,
    pub(crate) error: String,
    pub(crate) error_description: String,
    pub(crate) iss: Option<String>,
}

impl PendingLogin {
    /// Lifetime of its cookie in seconds.
    pub const LIFETIME: i64 = LIFETIME;

    pub(crate) fn draw(next: &str, now: i64) -> Self {
        Self { state: secret(), nonce: secret(), verifier: secret(), started: now, next: next.to_owned() }
    }

    /// Code challenge of PKCE, by the method `S256`.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }

    /// Value of its cookie.
    pub fn to_cookie(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Login in the cookie `text`, if there is one.
    pub fn from_cookie(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

fn secret() -> String {
    let mut random = [0; SECRET_BYTES];
    rand::rng().fill_bytes(&mut random);
    URL_SAFE_NO_PAD.encode(random)
}
