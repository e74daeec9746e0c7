//! Authorisation of requests, and their audit records.
//!
//! A request is authorised after routing: the route defines the permission that its method requires, and authorisation
//! and handler use the same decoded names of the path.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};

use super::listener::Peer;
use super::names::PathNames;
use super::openapi::{Operation, RequiredAccess};
use super::request_id::RequestId;
use super::status::{ApiError, Code};
use tunesmith_access::{AuditLog, Authenticator, Caller, Limits, OverLimit, Permission, Record, SuggestionPermit};
use tunesmith_domain::JobId;
use tunesmith_service::clock::Clock;
use tunesmith_service::jobs::Jobs;
use tunesmith_telemetry::telemetry;

/// The access rules of a server: authentication, rate limits and audit logs.
pub struct Access {
    /// Authenticates callers by their tokens.
    pub authenticator: Authenticator,
    /// The limits of each caller.
    pub limits: Limits,
    /// The log of every change.
    pub admin_activity: AuditLog,
    /// The log of every read; `None`: reads are not logged.
    pub data_access: Option<AuditLog>,
}

/// Allows or refuses requests, and records them.
pub(super) struct Authorization {
    /// `None`: every request is allowed and none is recorded, as for the owner of a data folder.
    rules: Option<Rules>,
}

struct Rules {
    access: Access,
    /// Provides the jobs, whose IAM policies may allow requests.
    jobs: Arc<Jobs>,
    clock: Arc<dyn Clock>,
}

/// The method of the API that a request calls, with what its authorisation and its record need.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The method's ID in the API's discovery document.
    pub(super) method: &'static str,
    required: RequiredAccess,
    /// Whether it may change something.
    changes: bool,
    /// The project; empty for methods outside of projects.
    project: String,
    /// The job.
    job: Option<String>,
    /// The path after `/v1/`.
    resource: String,
    peer: Option<SocketAddr>,
    request_id: Option<RequestId>,
}

impl Call {
    /// The call of `operation` by a request for `names`.
    pub(super) fn new(operation: &Operation, names: &PathNames, parts: &Parts) -> Self {
        let named = |parameter: &str| names.get(operation.path, parameter);
        Self {
            project: named("project").unwrap_or_default(),
            job: named("job"),
            ..Self::with(operation.id, operation.access, parts)
        }
    }

    /// The call of a method that does not exist. Any valid token is sufficient.
    pub(super) fn unknown(parts: &Parts) -> Self {
        Self::with("unknown", RequiredAccess::Token, parts)
    }

    fn with(method: &'static str, required: RequiredAccess, parts: &Parts) -> Self {
        Self {
            method,
            required,
            changes: !matches!(parts.method, Method::GET | Method::HEAD),
            project: String::new(),
            job: None,
            resource: parts.uri.path().trim_start_matches("/v1/").to_owned(),
            peer: parts.extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(Peer(address))| *address),
            request_id: parts.extensions.get::<RequestId>().cloned(),
        }
    }
}

/// A request that was allowed.
pub(super) struct Admission {
    pub(super) caller: Caller,
    /// Counts as a concurrent suggestion of the caller until it is dropped.
    pub(super) permit: Option<SuggestionPermit>,
}

impl Authorization {
    /// The rules of `access`; without them everything is allowed.
    pub(super) fn new(access: Option<Access>, jobs: Arc<Jobs>, clock: Arc<dyn Clock>) -> Self {
        Self { rules: access.map(|access| Rules { access, jobs, clock }) }
    }

    /// Allows every request.
    pub(super) fn open() -> Self {
        Self { rules: None }
    }

    /// Allows or refuses `call`. A refused call is recorded in the audit log.
    pub(super) async fn admit(&self, call: &Call, headers: &HeaderMap) -> Result<Admission, ApiError> {
        let Some(rules) = &self.rules else { return Ok(Admission { caller: Caller::Anonymous, permit: None }) };
        let caller = rules.caller(call, headers);
        let principal = caller.as_ref().map_or("unknown", Caller::principal).to_owned();
        let admission = rules.check(call, caller).await;
        if let Err(error) = &admission {
            rules.record(call, &principal, error.http_status().as_u16());
        }
        admission
    }

    /// Records a call of `principal` that was answered with `status`.
    pub(super) fn record(&self, call: &Call, principal: &str, status: u16) {
        if let Some(rules) = &self.rules {
            rules.record(call, principal, status);
        }
    }
}

impl Rules {
    fn caller(&self, call: &Call, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let access = &self.access;
        let needs_token = !matches!(call.required, RequiredAccess::None | RequiredAccess::TrialToken);
        if !needs_token || !access.authenticator.requires_tokens() {
            return Ok(Caller::Anonymous);
        }
        let refuse = |text: &str| ApiError::new(Code::Unauthenticated, text);
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let shown = shown.ok_or_else(|| refuse("send the header `authorization: Bearer TOKEN`"))?;
        let recognised = access.authenticator.authenticate(shown.trim(), self.clock.now()).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be read");
            ApiError::new(Code::Internal, "the server's tokens cannot be read; see its log")
        })?;
        recognised.ok_or_else(|| refuse("the token is unknown, was revoked, or has expired"))
    }

    async fn check(&self, call: &Call, caller: Result<Caller, ApiError>) -> Result<Admission, ApiError> {
        let caller = caller?;
        let limits = &self.access.limits;
        if caller != Caller::Anonymous {
            limits.request(caller.principal())?;
        }
        if let RequiredAccess::Permission(permission) = call.required
            && !caller.may(permission, &call.project)
            && !self.allowed_by_job(call, &caller, permission).await
        {
            let resource = match &call.job {
                Some(job) => format!("projects/{}/jobs/{job}", call.project),
                None => format!("projects/{}", call.project),
            };
            let text = format!("permission {permission} is denied on {resource} (or it does not exist)");
            return Err(ApiError::new(Code::PermissionDenied, text));
        }
        let is_suggestion = call.method.ends_with(".suggest") && caller != Caller::Anonymous;
        let permit = if is_suggestion { Some(limits.suggestion(caller.principal())?) } else { None };
        Ok(Admission { caller, permit })
    }

    /// Whether the IAM policy of the job of `call` allows it.
    async fn allowed_by_job(&self, call: &Call, caller: &Caller, permission: Permission) -> bool {
        let Some(id) = call.job.as_ref().and_then(|job| JobId::new(&call.project, job).ok()) else { return false };
        let job = self.jobs.job(&id).await;
        job.is_ok_and(|job| super::job_policy::allows(&job.policy, caller.principal(), permission))
    }

    fn record(&self, call: &Call, principal: &str, status: u16) {
        let access = &self.access;
        let log = match (call.required, call.changes) {
            (RequiredAccess::None, _) => return,
            (_, true) => &access.admin_activity,
            (_, false) => match &access.data_access {
                Some(log) => log,
                None => return,
            },
        };
        let permission = match call.required {
            RequiredAccess::Permission(permission) => Some(permission.as_str()),
            RequiredAccess::None | RequiredAccess::TrialToken | RequiredAccess::Token => None,
        };
        let record = Record {
            time: self.clock.now(),
            principal,
            caller_ip: call.peer.map(|address| address.ip().to_string()),
            method: call.method,
            resource: &call.resource,
            permission,
            status,
            request_id: call.request_id.as_ref().map_or("", RequestId::as_str),
        };
        if let Err(error) = log.write(&record) {
            telemetry().audit_failures.inc();
            let resource = &call.resource;
            tracing::error!(error = &error as &dyn std::error::Error, principal, resource, "an audit record is lost");
        }
    }
}

impl From<OverLimit> for ApiError {
    fn from(error: OverLimit) -> Self {
        let retry_after = match &error {
            OverLimit::Requests { retry_after, .. } => *retry_after,
            _ => std::time::Duration::from_secs(1),
        };
        Self::new(Code::ResourceExhausted, error.to_string()).retry_after(retry_after)
    }
}
