/// Failures of a login, as messages for the person who signs in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The provider does not respond, or its response is unusable.
    #[error("{0}")]
    Provider(String),
    /// The login or its ID token is not accepted.
    #[error("{0}")]
    Rejected(String),
    #[error("{principal} has no role on this server: no group of this account is listed in groupRoles")]
    NoRole { principal: String },
    #[error("too many logins are in progress; try again in a few seconds")]
    Busy,
}

impl LoginError {
    pub(crate) fn rejected(text: impl Into<String>) -> Self {
        Self::Rejected(text.into())
    }
}
