//! Administration of tokens, sessions and audit records, for pages and commands.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tunesmith_access::{
    AuditRecord, Caller, Grant, NewToken, NewestRecords, Principal, SignIn, Token, TokenChange, TokenFile,
    TokenFileError,
};
use tunesmith_domain::{Code, Refusal};

use super::control::{AccessControl, TOKENS_UNREADABLE};
use super::long_work::off_the_runtime;
use jiff::Timestamp;

/// Maximum number of audit log bytes to search, from the end.
const SEARCHED: u64 = 16 << 20;

/// Applies a change to the tokens of a server, or of all servers that share them.
pub type ApplyTokenChange = Arc<dyn Fn(TokenChange) -> BoxFuture<'static, Result<(), Refusal>> + Send + Sync>;

/// Changes the tokens in `file`.
pub fn tokens_in(file: TokenFile) -> ApplyTokenChange {
    // One at a time: the lock of the file does not wait.
    let queue = Arc::new(tokio::sync::Mutex::new(()));
    Arc::new(move |change| {
        let (file, queue) = (file.clone(), Arc::clone(&queue));
        Box::pin(async move {
            let _guard = queue.lock().await;
            off_the_runtime(move || file.apply(change)).await?.map_err(refused_change)
        })
    })
}

/// Refusal for a change of tokens that failed with `error`.
pub fn refused_change(error: TokenFileError) -> Refusal {
    match error {
        TokenFileError::NotFound { .. } => Refusal::new(Code::NotFound, error.to_string()),
        TokenFileError::Busy { .. } => Refusal::new(Code::Aborted, "the tokens are being changed; try again"),
        _ => {
            tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be changed");
            Refusal::new(Code::Unavailable, "the server's tokens cannot be changed; see its log")
        }
    }
}

#[derive(Debug, Clone)]
pub struct Credentials {
    pub are_required: bool,
    /// Tokens, and sessions that were opened without one, in order of creation and without secrets.
    pub tokens: Vec<TokenUse>,
}

#[derive(Debug, Clone)]
pub struct TokenUse {
    pub token: Token,
    /// Last use since the start of this process, if any.
    pub last_use: Option<Timestamp>,
    /// Number of open sessions of a token.
    pub sessions: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditedCalls {
    Changes,
    Reads,
}

impl AccessControl {
    /// Tokens and open sessions; `None` if every call is allowed.
    ///
    /// # Errors
    /// The failure, as an error message.
    pub fn credentials(&self) -> Result<Option<Credentials>, String> {
        let Some(rules) = self.rules() else { return Ok(None) };
        let authenticator = &rules.access.authenticator;
        let tokens = authenticator.tokens().map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be read");
            TOKENS_UNREADABLE.to_owned()
        })?;
        let now = self.now();
        let mut sessions: HashMap<String, usize> = HashMap::new();
        for (session, _) in tokens.iter().filter(|(session, _)| !session.has_expired(now)) {
            if let Some(SignIn::Token(id)) = &session.session {
                *sessions.entry(id.clone()).or_default() += 1;
            }
        }
        let is_listed = |token: &Token| match token.session {
            None => true,
            Some(SignIn::OpenIdConnect) => !token.has_expired(now),
            Some(SignIn::Token(_)) => false,
        };
        let tokens = tokens.into_iter().filter(|(token, _)| is_listed(token)).map(|(token, last_use)| TokenUse {
            sessions: sessions.get(&token.id).copied().unwrap_or_default(),
            token,
            last_use,
        });
        Ok(Some(Credentials { are_required: authenticator.requires_tokens(), tokens: tokens.collect() }))
    }

    /// Creates a token of `principal` that expires after `lifetime`; `None`: never.
    ///
    /// # Errors
    /// [`Code::FailedPrecondition`] on a server without tokens, since its first token would lock out everyone else, and for
    /// a further principal on a server that does not isolate their programs. [`Refusal`] if the tokens cannot be changed.
    pub async fn create_token(
        &self,
        principal: Principal,
        grants: Vec<Grant>,
        lifetime: Option<Duration>,
    ) -> Result<NewToken, Refusal> {
        let apply = self.token_changes()?;
        self.check_principal(&principal)?;
        let made = Token::draw(principal, grants, self.now(), self.expiry(lifetime)?);
        apply(TokenChange::Add(made.token.clone())).await?;
        Ok(made)
    }

    /// Creates a successor of the token `id`, for the same principal with the same roles, that expires after `lifetime`.
    /// The token itself is valid for `overlap`.
    ///
    /// # Errors
    /// As [`Self::create_token`]; [`Code::NotFound`].
    pub async fn rotate_token(
        &self,
        id: &str,
        lifetime: Option<Duration>,
        overlap: Duration,
    ) -> Result<NewToken, Refusal> {
        let apply = self.token_changes()?;
        let tokens = self.credentials().map_err(|message| Refusal::new(Code::Unavailable, message))?;
        let tokens = tokens.map(|credentials| credentials.tokens).unwrap_or_default();
        let Some(TokenUse { token, .. }) = tokens.into_iter().find(|used| used.token.id == id) else {
            return Err(Refusal::new(Code::NotFound, format!("there is no token {id}")));
        };
        if token.session.is_some() {
            let text = format!("{id} is a session: sign in again instead");
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        let made = Token::draw(token.principal, token.grants, self.now(), self.expiry(lifetime)?);
        let end = if overlap.is_zero() { None } else { self.expiry(Some(overlap))? };
        apply(TokenChange::Rotate { id: token.id, successor: made.token.clone(), end }).await?;
        Ok(made)
    }

    /// Revokes the token `id` at the request of `caller`.
    ///
    /// # Errors
    /// [`Code::FailedPrecondition`] for the token of the caller, which may be the last one of an administrator; as
    /// [`Self::rotate_token`].
    pub async fn revoke_token(&self, id: &str, caller: &Caller) -> Result<(), Refusal> {
        let apply = self.token_changes()?;
        if matches!(caller, Caller::Authenticated(token) if token.id == id) {
            let text =
                format!("token {id} is that of this request: revoke it with another one, or on the server's machine");
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        apply(TokenChange::Revoke { id: id.to_owned() }).await
    }

    /// Refuses a further principal on a server that does not isolate their programs.
    fn check_principal(&self, principal: &Principal) -> Result<(), Refusal> {
        let accepts_several = self.rules().is_none_or(|rules| rules.access.accepts_several_principals);
        let tokens = self.credentials().map_err(|message| Refusal::new(Code::Unavailable, message))?;
        let tokens = tokens.map(|credentials| credentials.tokens).unwrap_or_default();
        let now = self.now();
        let is_other = |used: &TokenUse| used.token.principal != *principal && !used.token.has_expired(now);
        if accepts_several || !tokens.iter().any(is_other) {
            return Ok(());
        }
        let text = format!(
            "{principal} would be a further principal, and programs of jobs run as the user of this server: start it with \
             --run-as, or with --allow-unisolated-programs if their owners trust each other"
        );
        Err(Refusal::new(Code::FailedPrecondition, text))
    }

    fn token_changes(&self) -> Result<&ApplyTokenChange, Refusal> {
        let rules = self.rules().filter(|rules| rules.access.authenticator.requires_tokens());
        rules.map(|rules| &rules.access.change_tokens).ok_or_else(|| {
            let text =
                "this server requires no token: create the first one on its machine, with tunesmith tokens create";
            Refusal::new(Code::FailedPrecondition, text)
        })
    }

    /// Time after `lifetime` from now.
    fn expiry(&self, lifetime: Option<Duration>) -> Result<Option<Timestamp>, Refusal> {
        let end = lifetime.map(|lifetime| self.now().checked_add(lifetime)).transpose();
        end.map_err(|_| Refusal::invalid("lifetime", "is beyond the calendar"))
    }

    pub fn records(&self, calls: AuditedCalls) -> bool {
        self.audit_log(calls).is_some()
    }

    /// Newest records of `calls` that `accepts` selects, at most `limit`; `None` if there is no such log.
    ///
    /// # Errors
    /// The failure, as an error message.
    pub async fn audit(
        &self,
        calls: AuditedCalls,
        limit: usize,
        accepts: impl Fn(&AuditRecord) -> bool + Send + 'static,
    ) -> Result<Option<NewestRecords>, String> {
        let Some(log) = self.audit_log(calls) else { return Ok(None) };
        let read = off_the_runtime(move || log.newest(limit, SEARCHED, accepts)).await;
        read.map_err(|refusal| refusal.message)?.map(Some).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "the audit log cannot be read");
            format!("the audit log cannot be read: {error}")
        })
    }
}
