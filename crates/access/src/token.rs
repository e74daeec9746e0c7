//! Tokens: the secret of the client and the stored record.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rand::Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::role::{Role, UnknownRole};

/// Prefixes of secrets, recognized by leak scanners.
const TOKEN_PREFIX: &str = "tsm";
const SESSION_PREFIX: &str = "tss";

/// Length of the token ID, the public part, in bytes.
const ID_BYTES: usize = 6;

/// Length of the secret part in bytes. It cannot be guessed, so an unsalted digest is sufficient.
const SECRET_BYTES: usize = 32;

/// Owner of a token, in the syntax of IAM policy members: `user:EMAIL`, `serviceAccount:EMAIL` or `group:EMAIL`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Principal(String);

impl Principal {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a principal: use user:NAME, serviceAccount:NAME or group:NAME, without spaces, up to 256 bytes"
)]
pub struct BadPrincipal {
    pub text: String,
}

impl FromStr for Principal {
    type Err = BadPrincipal;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.split_once(':').filter(|(kind, _)| matches!(*kind, "user" | "serviceAccount" | "group"));
        let is_good = name.is_some_and(|(_, name)| !name.is_empty())
            && text.len() <= 256
            && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        if is_good { Ok(Self(text.to_owned())) } else { Err(BadPrincipal { text: text.to_owned() }) }
    }
}

impl TryFrom<String> for Principal {
    type Error = BadPrincipal;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projects {
    All,
    One(String),
}

/// Role in one project or in all: `ml.viewer`, or `ml.developer@project`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Grant {
    pub role: Role,
    pub projects: Projects,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGrant {
    #[error(transparent)]
    Role(#[from] UnknownRole),
    #[error("ml.jobOwner is a role on one job: it is granted by the job's IAM policy (setIamPolicy), not by a token")]
    JobOwner,
    #[error("{text:?} has an empty project: use ROLE@PROJECT, or ROLE alone for all projects")]
    NoProject { text: String },
}

impl FromStr for Grant {
    type Err = BadGrant;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (role, projects) = match text.split_once('@') {
            None => (text, Projects::All),
            Some((_, "")) => return Err(BadGrant::NoProject { text: text.to_owned() }),
            Some((role, project)) => (role, Projects::One(project.to_owned())),
        };
        match role.parse()? {
            Role::JobOwner => Err(BadGrant::JobOwner),
            role => Ok(Self { role, projects }),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.projects {
            Projects::All => write!(f, "{}", self.role),
            Projects::One(project) => write!(f, "{}@{project}", self.role),
        }
    }
}

impl TryFrom<String> for Grant {
    type Error = BadGrant;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

/// Sign-in that opened a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SignIn {
    /// With the token of this ID.
    Token(String),
    /// At an identity provider.
    OpenIdConnect,
}

/// Stored record of a token or of a session, without the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Token {
    /// Public part of the token.
    pub id: String,
    /// SHA-256 of the whole token, in hexadecimal digits.
    digest: String,
    pub principal: Principal,
    pub grants: Vec<Grant>,
    pub create_time: Timestamp,
    /// Expiry; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<Timestamp>,
    /// Sign-in of a session; `None` for a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SignIn>,
}

/// New token with its secret, which is not stored.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub token: Token,
    pub secret: String,
}

impl Token {
    pub fn draw(
        principal: Principal,
        grants: Vec<Grant>,
        create_time: Timestamp,
        expire_time: Option<Timestamp>,
    ) -> NewToken {
        Self::draw_with(TOKEN_PREFIX, principal, grants, create_time, expire_time)
    }

    pub(super) fn draw_session(
        principal: Principal,
        grants: Vec<Grant>,
        sign_in: SignIn,
        (start, end): (Timestamp, Timestamp),
    ) -> NewToken {
        let NewToken { token, secret } = Self::draw_with(SESSION_PREFIX, principal, grants, start, Some(end));
        NewToken { token: Self { session: Some(sign_in), ..token }, secret }
    }

    fn draw_with(
        prefix: &str,
        principal: Principal,
        grants: Vec<Grant>,
        create_time: Timestamp,
        expire_time: Option<Timestamp>,
    ) -> NewToken {
        let mut random = [0; ID_BYTES + SECRET_BYTES];
        rand::rng().fill_bytes(&mut random);
        let (id, secret) = random.split_at(ID_BYTES);
        let id = hex::encode(id);
        let secret = format!("{prefix}_{id}_{}", URL_SAFE_NO_PAD.encode(secret));
        let token = Self { id, digest: digest(&secret), principal, grants, create_time, expire_time, session: None };
        NewToken { token, secret }
    }

    /// Token without a secret, for callers of a listener on which everyone reads.
    pub(super) fn of_reader() -> Self {
        let grants = vec![Grant { role: Role::Viewer, projects: Projects::All }];
        Self {
            id: String::new(),
            digest: String::new(),
            principal: Principal("user:reader".to_owned()),
            grants,
            create_time: Timestamp::UNIX_EPOCH,
            expire_time: None,
            session: None,
        }
    }

    /// Whether `secret` belongs to this token. Compares digests, so the run time does not depend on the secret.
    pub(super) fn matches(&self, secret: &str) -> bool {
        self.digest == digest(secret)
    }

    /// Sets the expiry to `end`, unless it is earlier.
    pub(super) fn end_by(&mut self, end: Timestamp) {
        self.expire_time = Some(self.expire_time.map_or(end, |own| own.min(end)));
    }

    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expire_time.is_some_and(|end| end <= now)
    }

    pub fn roles_in(&self, project: &str) -> impl Iterator<Item = Role> {
        let holds = move |grant: &&Grant| match &grant.projects {
            Projects::All => true,
            Projects::One(one) => one == project,
        };
        self.grants.iter().filter(holds).map(|grant| grant.role)
    }
}

/// Extracts the ID from a token; `None` if `secret` is not a Tunesmith token.
pub(super) fn id_of(secret: &str) -> Option<&str> {
    id_after(TOKEN_PREFIX, secret)
}

/// Extracts the ID from the secret of a session; `None` for any other text.
pub(super) fn id_of_session(secret: &str) -> Option<&str> {
    id_after(SESSION_PREFIX, secret)
}

fn id_after<'a>(prefix: &str, secret: &'a str) -> Option<&'a str> {
    let (id, _) = secret.strip_prefix(prefix)?.strip_prefix('_')?.split_once('_')?;
    Some(id)
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}
