//! Who may do what: principals, their tokens and roles, how much each may ask for, and the record of what was done.
//!
//! The roles and permissions are AI Platform's. A caller shows a token; the token belongs to a principal and says which
//! roles the principal has in which projects. Some jobs have policies of their own, which may allow more.

mod audit;
mod file;
mod keeper;
mod limits;
mod role;
mod token;

pub use audit::{AuditLog, Record};
pub use file::{TokenFile, TokenFileError};
pub use keeper::Keeper;
pub use limits::{Limits, OverLimit, SuggestionPermit};
pub use role::{Permission, Role, UnknownRole};
pub use token::{BadGrant, BadPrincipal, Grant, NewToken, Principal, Projects, Token};

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Somebody on a server that asks for no tokens: may do everything.
    Anonymous,
    /// The owner of a token.
    Known(Token),
}

impl Caller {
    /// The name of the caller, as audit logs and policies have it.
    pub fn principal(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Known(token) => token.principal.as_str(),
        }
    }

    /// Whether its roles in `project` allow `permission`.
    pub fn may(&self, permission: Permission, project: &str) -> bool {
        match self {
            Self::Anonymous => true,
            Self::Known(token) => token.roles_in(project).any(|role| role.allows(permission)),
        }
    }
}
