#![doc = include_str!("../README.md")]

mod audit;
mod authenticator;
mod file;
mod limits;
mod per_principal;
mod role;
mod sessions;
mod token;

pub use audit::{AuditLog, AuditRecord, NewestRecords, Record, Rotation};
pub use authenticator::Authenticator;
pub use file::{TokenChange, TokenFile, TokenFileError};
pub use limits::{Limits, OverLimit, SuggestionPermit};
pub use per_principal::PerPrincipal;
pub use role::{Permission, Role, UnknownRole};
pub use sessions::{CSRF_HEADER, SESSION_COOKIE, Session};
pub use token::{BadGrant, BadPrincipal, Grant, NewToken, Principal, Projects, SignIn, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Any client of a server that requires no tokens; it has all permissions.
    Anonymous,
    Authenticated(Token),
}

impl Caller {
    /// Caller without a token who may read everything and change nothing.
    pub fn reader() -> Self {
        Self::Authenticated(Token::of_reader())
    }

    /// Principal, as in audit logs and IAM policies.
    pub fn principal(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Authenticated(token) => token.principal.as_str(),
        }
    }

    /// Whether the caller's roles in any project include `permission`.
    pub fn may_somewhere(&self, permission: Permission) -> bool {
        match self {
            Self::Anonymous => true,
            Self::Authenticated(token) => token.grants.iter().any(|grant| grant.role.allows(permission)),
        }
    }

    /// Whether the caller has a role with `permission` in all projects.
    pub fn may_everywhere(&self, permission: Permission) -> bool {
        match self {
            Self::Anonymous => true,
            Self::Authenticated(token) => {
                let everywhere = token.grants.iter().filter(|grant| grant.projects == Projects::All);
                everywhere.into_iter().any(|grant| grant.role.allows(permission))
            }
        }
    }

    pub fn may(&self, permission: Permission, project: &str) -> bool {
        match self {
            Self::Anonymous => true,
            Self::Authenticated(token) => token.roles_in(project).any(|role| role.allows(permission)),
        }
    }
}
