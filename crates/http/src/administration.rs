//! What pages for administrators show: readiness, credentials, and the audit logs.

use jiff::Timestamp;

use super::audit_filter::AuditFilter;
use super::health;
use super::job_policy;
use super::pages::Pages;
use tunesmith_access::{NewestRecords, Token};
use tunesmith_domain::Document;
use tunesmith_service::jobs::Jobs;
use tunesmith_telemetry::telemetry;

/// Number of bytes of an audit log that are searched, from its end.
const SEARCHED: u64 = 16 << 20;

/// The tokens of a server.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Whether requests need a token.
    pub are_required: bool,
    /// The tokens in the order of creation, without their secrets.
    pub tokens: Vec<TokenUse>,
}

/// A token and how it is used.
#[derive(Debug, Clone)]
pub struct TokenUse {
    /// The token.
    pub token: Token,
    /// When it was last used; `None` if it was not since the start of this process.
    pub last_use: Option<Timestamp>,
    /// Number of open sessions of browsers.
    pub sessions: usize,
}

/// An audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditedRequests {
    /// The log of changes.
    Changes,
    /// The log of reads.
    Reads,
}

/// The roles that the IAM policy of a job grants, each with its members.
pub fn granted_roles(policy: &Document) -> Vec<(String, Vec<String>)> {
    job_policy::bindings(policy)
}

impl Pages {
    /// Why the server is not ready, as `/readyz` determines it; empty if it is.
    pub async fn unready_reasons(&self, jobs: &Jobs) -> Vec<String> {
        health::reasons(jobs, &self.dispatch).await
    }

    /// The metrics of the process, as `/metrics` answers.
    pub fn metrics(&self) -> String {
        telemetry().text()
    }

    /// The tokens and their use; `None` if this process needs none.
    ///
    /// # Errors
    /// What fails, as the message of an error.
    pub fn credentials(&self) -> Result<Option<Credentials>, String> {
        self.dispatch.authorization.credentials()
    }

    /// Whether there is an audit log of `requests`.
    pub fn records(&self, requests: AuditedRequests) -> bool {
        self.dispatch.authorization.audit_log(requests == AuditedRequests::Reads).is_some()
    }

    /// The newest records of `requests` that `filter` accepts, at most `limit` of them; `None` if there is no such log.
    ///
    /// # Errors
    /// What fails, as the message of an error.
    pub async fn audit(
        &self,
        requests: AuditedRequests,
        filter: AuditFilter,
        limit: usize,
    ) -> Result<Option<NewestRecords>, String> {
        let Some(log) = self.dispatch.authorization.audit_log(requests == AuditedRequests::Reads) else {
            return Ok(None);
        };
        let read = tokio::task::spawn_blocking(move || log.newest(limit, SEARCHED, |record| filter.accepts(record)));
        let read = read.await.map_err(std::io::Error::other).and_then(|read| read);
        read.map(Some).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "the audit log cannot be read");
            format!("the audit log cannot be read: {error}")
        })
    }
}
