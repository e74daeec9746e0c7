//! Authorisation of requests, and their audit records.
//!
//! A request is authorised after routing: the route defines the permission that its method requires, and authorisation
//! and handler use the same decoded names of the path.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use futures::future::BoxFuture;
use jiff::Timestamp;

use super::administration::{Credentials, TokenUse};
use super::listener::Peer;
use super::names::PathNames;
use super::openapi::{Operation, RequiredAccess};
use super::pages::PageCall;
use super::request_id::RequestId;
use super::sessions;
use super::status::{ApiError, Code};
use super::trial_reports::token_of_trial;
use tunesmith_access::{
    AuditLog, Authenticator, Caller, Limits, OverLimit, Permission, Record, Session, Sessions, SuggestionPermit,
    TokenFileError,
};
use tunesmith_domain::{Document, JobId};
use tunesmith_service::clock::Clock;
use tunesmith_service::jobs::Jobs;
use tunesmith_telemetry::telemetry;

const TOKENS_UNREADABLE: &str = "the server's tokens cannot be read; see its log";

/// The access rules of a server: authentication, rate limits and audit logs.
pub struct Access {
    /// Authenticates callers by their tokens.
    pub authenticator: Authenticator,
    /// The limits of each caller.
    pub limits: Limits,
    /// The log of every change.
    pub admin_activity: Arc<AuditLog>,
    /// The log of every read; `None`: reads are not logged.
    pub data_access: Option<Arc<AuditLog>>,
    /// Whether changes are refused while `admin_activity` cannot be written.
    pub refuses_unrecorded: bool,
}

/// The only caller of a service in its own process: the owner of the data folder, who has all permissions.
pub struct Owner {
    /// The name in the audit log.
    pub principal: String,
    /// The log of every change.
    pub admin_activity: Arc<AuditLog>,
}

/// The resource that a request created, as an extension of the response.
#[derive(Debug, Clone)]
pub(super) struct CreatedResource(pub(super) String);

/// Allows or refuses requests, and records them.
pub(super) struct Authorization {
    mode: Mode,
}

enum Mode {
    /// Requests are checked.
    Checked(Box<Rules>),
    /// Every request is allowed; changes are recorded.
    Owner(Owner, Arc<dyn Clock>),
    /// Every request is allowed, and none is recorded.
    Open,
}

/// The IAM policy of a job, if the job exists.
pub(super) type PolicyOf = Box<dyn Fn(JobId) -> BoxFuture<'static, Option<Document>> + Send + Sync>;

struct Rules {
    access: Access,
    /// The IAM policies of jobs, which may allow requests.
    policy_of: PolicyOf,
    clock: Arc<dyn Clock>,
    /// Sessions of browsers.
    sessions: Sessions,
}

/// The policies of the stored jobs.
pub(super) fn policies(jobs: Arc<Jobs>) -> PolicyOf {
    Box::new(move |id| {
        let jobs = Arc::clone(&jobs);
        Box::pin(async move { jobs.job(&id).await.ok().map(|job| job.policy.clone()) })
    })
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
            changes: operation.method != Method::GET && !operation.only_reads,
            ..Self::with(operation.id, operation.access, parts)
        }
    }

    /// The call of a method that does not exist. Any valid token is sufficient.
    pub(super) fn unknown(parts: &Parts) -> Self {
        Self::with("unknown", RequiredAccess::Token, parts)
    }

    /// The call of a page.
    pub(super) fn of_page(page: PageCall, parts: &Parts) -> Self {
        let PageCall { name, permission, project, job, time_limit_factor: _ } = page;
        let required = permission.map_or(RequiredAccess::Token, RequiredAccess::Permission);
        Self { project, job, changes: false, ..Self::with(name, required, parts) }
    }

    /// The lane of its large requests: that of `caller`, or of its project for the programs of trials; `None` if callers have no
    /// names.
    pub(super) fn lane(&self, caller: &Caller) -> Option<String> {
        match (caller, self.required) {
            (Caller::Authenticated(_), _) => Some(caller.principal().to_owned()),
            (Caller::Anonymous, RequiredAccess::TrialToken) => Some(format!("trials of {}", self.project)),
            (Caller::Anonymous, _) => None,
        }
    }

    /// The call, recorded as a change.
    pub(super) fn changing(self) -> Self {
        Self { changes: true, ..self }
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
    /// The rules of `access`.
    pub(super) fn new(access: Access, policy_of: PolicyOf, clock: Arc<dyn Clock>) -> Self {
        Self { mode: Mode::Checked(Box::new(Rules { access, policy_of, clock, sessions: Sessions::default() })) }
    }

    /// Allows every request of `owner`, and records changes.
    pub(super) fn of_owner(owner: Owner, clock: Arc<dyn Clock>) -> Self {
        Self { mode: Mode::Owner(owner, clock) }
    }

    /// Allows every request.
    pub(super) fn open() -> Self {
        Self { mode: Mode::Open }
    }

    /// Checks that tokens can be read and changes recorded.
    ///
    /// # Errors
    /// What fails, as the message of an error.
    pub(super) fn check_ready(&self) -> Result<(), String> {
        let Mode::Checked(rules) = &self.mode else { return Ok(()) };
        let access = &rules.access;
        if let Err(error) = access.authenticator.check() {
            tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be read");
            return Err(TOKENS_UNREADABLE.to_owned());
        }
        if access.refuses_unrecorded { prepare(&access.admin_activity) } else { Ok(()) }
    }

    /// The tokens and open sessions; `None` if every request is allowed.
    ///
    /// # Errors
    /// What fails, as the message of an error.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, String> {
        let Mode::Checked(rules) = &self.mode else { return Ok(None) };
        let authenticator = &rules.access.authenticator;
        let tokens = authenticator.tokens().map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be read");
            TOKENS_UNREADABLE.to_owned()
        })?;
        let sessions = rules.sessions.counts(rules.clock.now());
        let tokens = tokens.into_iter().map(|(token, last_use)| TokenUse {
            sessions: sessions.get(&token.id).copied().unwrap_or_default(),
            token,
            last_use,
        });
        Ok(Some(Credentials { are_required: authenticator.requires_tokens(), tokens: tokens.collect() }))
    }

    /// The audit log of changes or, if `of_reads`, of reads; `None` if there is none.
    pub(super) fn audit_log(&self, of_reads: bool) -> Option<Arc<AuditLog>> {
        match &self.mode {
            Mode::Checked(rules) if of_reads => rules.access.data_access.clone(),
            Mode::Checked(rules) => Some(Arc::clone(&rules.access.admin_activity)),
            Mode::Owner(owner, _) if !of_reads => Some(Arc::clone(&owner.admin_activity)),
            Mode::Owner(..) | Mode::Open => None,
        }
    }

    /// Whether `call` is still allowed, as for a stream that was opened by it. Counts and records nothing.
    pub(super) async fn still_admits(&self, call: &Call, headers: &HeaderMap) -> bool {
        let Mode::Checked(rules) = &self.mode else { return true };
        let Ok(caller) = rules.caller(call, headers) else { return false };
        let RequiredAccess::Permission(permission) = call.required else { return true };
        caller.may(permission, &call.project) || rules.allowed_by_job(call, &caller, permission).await
    }

    /// Allows or refuses `call`. A refused call is recorded in the audit log.
    pub(super) async fn admit(&self, call: &Call, headers: &HeaderMap) -> Result<Admission, ApiError> {
        let rules = match &self.mode {
            Mode::Checked(rules) => rules,
            Mode::Owner(owner, _) if call.changes => {
                prepare(&owner.admin_activity).map_err(unrecordable)?;
                return Ok(Admission { caller: Caller::Anonymous, permit: None });
            }
            Mode::Owner(..) | Mode::Open => return Ok(Admission { caller: Caller::Anonymous, permit: None }),
        };
        let caller = rules.caller(call, headers);
        let principal = caller.as_ref().map_or("unknown", Caller::principal).to_owned();
        let admission = rules.check(call, caller).await;
        if let Err(error) = &admission {
            rules.record(call, &principal, &call.resource, error.http_status().as_u16());
        }
        admission
    }

    /// Records a call of `principal` that was answered with `response`.
    pub(super) fn record(&self, call: &Call, principal: &str, response: &Response) {
        let created = response.extensions().get::<CreatedResource>();
        let resource = created.map_or(&call.resource, |CreatedResource(name)| name);
        let status = response.status().as_u16();
        match &self.mode {
            Mode::Checked(rules) => rules.record(call, principal, resource, status),
            Mode::Owner(owner, clock) if call.changes => {
                write(&owner.admin_activity, &call.record(clock.now(), &owner.principal, resource, status));
            }
            Mode::Owner(..) | Mode::Open => {}
        }
    }
}

impl Rules {
    fn caller(&self, call: &Call, headers: &HeaderMap) -> Result<Caller, ApiError> {
        if call.required == RequiredAccess::TrialToken {
            // The handler checks it. A request without one is not read further.
            token_of_trial(headers)?;
        }
        let access = &self.access;
        let needs_token = !matches!(call.required, RequiredAccess::None | RequiredAccess::TrialToken);
        if !needs_token || !access.authenticator.requires_tokens() {
            return Ok(Caller::Anonymous);
        }
        let refuse = |text: &str| ApiError::new(Code::Unauthenticated, text);
        if !headers.contains_key(AUTHORIZATION)
            && let Some(cookie) = sessions::cookie(headers)
        {
            return self.caller_of_session(cookie, call, headers);
        }
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let shown = shown.ok_or_else(|| refuse("send the header `authorization: Bearer TOKEN`"))?;
        let recognised = access.authenticator.authenticate(shown.trim(), self.clock.now()).map_err(unreadable)?;
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
                None if call.project.is_empty() => {
                    let text = format!("permission {permission} is denied: a role with it in all projects is required");
                    return Err(ApiError::new(Code::PermissionDenied, text));
                }
                Some(job) => format!("projects/{}/jobs/{job}", call.project),
                None => format!("projects/{}", call.project),
            };
            let text = format!("permission {permission} is denied on {resource} (or it does not exist)");
            return Err(ApiError::new(Code::PermissionDenied, text));
        }
        let is_suggestion = call.method.ends_with(".suggest") && caller != Caller::Anonymous;
        if call.changes && self.access.refuses_unrecorded {
            prepare(&self.access.admin_activity).map_err(unrecordable)?;
        }
        let permit = if is_suggestion { limits.suggestion(caller.principal())? } else { None };
        Ok(Admission { caller, permit })
    }

    /// Whether the IAM policy of the job of `call` allows it.
    async fn allowed_by_job(&self, call: &Call, caller: &Caller, permission: Permission) -> bool {
        let Some(id) = call.job.as_ref().and_then(|job| JobId::new(&call.project, job).ok()) else { return false };
        let policy = (self.policy_of)(id).await;
        policy.is_some_and(|policy| super::job_policy::allows(&policy, caller.principal(), permission))
    }

    fn record(&self, call: &Call, principal: &str, resource: &str, status: u16) {
        let access = &self.access;
        let log = match (call.required, call.changes) {
            (RequiredAccess::None, _) => return,
            (_, true) => &access.admin_activity,
            (_, false) => match &access.data_access {
                Some(log) => log,
                None => return,
            },
        };
        let record = call.record(self.clock.now(), principal, resource, status);
        // The program of a trial is known only if its request succeeds.
        let is_stranger = status == StatusCode::UNAUTHORIZED.as_u16()
            || (call.required == RequiredAccess::TrialToken && status >= StatusCode::BAD_REQUEST.as_u16());
        if !is_stranger {
            write(log, &record);
            return;
        }
        match log.write_of_stranger(&record) {
            Ok(true) => {}
            Ok(false) => {
                telemetry().audit_suppressed.inc();
            }
            Err(error) => lost(&record, &error),
        }
    }
}

impl Call {
    fn record<'a>(&'a self, time: Timestamp, principal: &'a str, resource: &'a str, status: u16) -> Record<'a> {
        let permission = match self.required {
            RequiredAccess::Permission(permission) => Some(permission.as_str()),
            RequiredAccess::None | RequiredAccess::TrialToken | RequiredAccess::Token => None,
        };
        Record {
            time,
            principal,
            caller_ip: self.peer.map(|address| address.ip().to_string()),
            method: self.method,
            resource,
            permission,
            status,
            request_id: self.request_id.as_ref().map_or("", RequestId::as_str),
            count: None,
        }
    }
}

impl Authorization {
    /// Opens a session for the owner of the token `secret`, and records it. Returns the secret for its cookie; `None` if
    /// this server requires no tokens.
    pub(super) fn sign_in(&self, call: &Call, secret: &str) -> Result<Option<String>, ApiError> {
        let Mode::Checked(rules) = &self.mode else { return Ok(None) };
        let (authenticator, now) = (&rules.access.authenticator, rules.clock.now());
        if !authenticator.requires_tokens() {
            return Ok(None);
        }
        let caller = authenticator.authenticate(secret, now).map_err(unreadable)?;
        let Some(Caller::Authenticated(token)) = caller else {
            rules.record(call, "unknown", &call.resource, StatusCode::UNAUTHORIZED.as_u16());
            let text = "the token is unknown, was revoked, or has expired";
            return Err(ApiError::new(Code::Unauthenticated, text));
        };
        rules.access.limits.request(token.principal.as_str())?;
        rules.record(call, token.principal.as_str(), &call.resource, StatusCode::OK.as_u16());
        Ok(Some(rules.sessions.open(&token, now)))
    }

    /// Ends the session of `headers`, if its request is one of its pages.
    pub(super) fn sign_out(&self, headers: &HeaderMap, csrf: &str) {
        if let Mode::Checked(rules) = &self.mode
            && let Some(cookie) = sessions::cookie(headers)
            && self.session(headers).is_some_and(|session| session.allows(csrf))
        {
            rules.sessions.close(cookie);
        }
    }

    /// The session that `headers` name.
    pub(super) fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let Mode::Checked(rules) = &self.mode else { return None };
        rules.sessions.find(sessions::cookie(headers)?, rules.clock.now())
    }
}

impl Rules {
    /// The caller of a request with the cookie of a session. A change needs the secret of the session in a header, too.
    fn caller_of_session(&self, cookie: &str, call: &Call, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let now = self.clock.now();
        let ended = || ApiError::new(Code::Unauthenticated, "the session has ended: sign in again");
        let session = self.sessions.find(cookie, now).ok_or_else(ended)?;
        let caller = self.access.authenticator.with_id(&session.token_id, now).map_err(unreadable)?;
        let caller = caller.ok_or_else(ended)?;
        let given = headers.get(sessions::CSRF).and_then(|value| value.to_str().ok());
        if call.changes && !given.is_some_and(|given| session.allows(given)) {
            let text = format!("the header {} is not the one of the session: load the page again", sessions::CSRF);
            return Err(ApiError::new(Code::PermissionDenied, text));
        }
        Ok(caller)
    }
}

/// Checks that a record can be written.
///
/// # Errors
/// The message for the caller.
fn prepare(log: &AuditLog) -> Result<(), String> {
    log.prepare().map_err(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the audit log cannot be written; changes are refused"
        );
        format!("the audit log cannot be written, and changes are refused until it can: {error}")
    })
}

/// The error if tokens cannot be read.
fn unreadable(error: TokenFileError) -> ApiError {
    tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be read");
    ApiError::new(Code::Unavailable, TOKENS_UNREADABLE)
}

fn unrecordable(text: String) -> ApiError {
    ApiError::new(Code::Unavailable, text)
}

fn write(log: &AuditLog, record: &Record<'_>) {
    if let Err(error) = log.write(record) {
        lost(record, &error);
    }
}

fn lost(record: &Record<'_>, error: &std::io::Error) {
    telemetry().audit_failures.inc();
    let Record { principal, resource, .. } = record;
    tracing::error!(error = error as &dyn std::error::Error, principal, resource, "an audit record is not written yet");
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
