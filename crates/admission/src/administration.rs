//! Administration of tokens, sessions and audit records, for pages and commands.

use tunesmith_access::{AuditRecord, NewestRecords, Token};

use super::control::{AccessControl, TOKENS_UNREADABLE};
use super::long_work::off_the_runtime;
use jiff::Timestamp;

/// Maximum number of audit log bytes to search, from the end.
const SEARCHED: u64 = 16 << 20;

#[derive(Debug, Clone)]
pub struct Credentials {
    pub are_required: bool,
    /// In order of creation, without secrets.
    pub tokens: Vec<TokenUse>,
}

#[derive(Debug, Clone)]
pub struct TokenUse {
    pub token: Token,
    /// Last use since the start of this process, if any.
    pub last_use: Option<Timestamp>,
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
        let sessions = rules.sessions.counts(self.now());
        let tokens = tokens.into_iter().map(|(token, last_use)| TokenUse {
            sessions: sessions.get(&token.id).copied().unwrap_or_default(),
            token,
            last_use,
        });
        Ok(Some(Credentials { are_required: authenticator.requires_tokens(), tokens: tokens.collect() }))
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
