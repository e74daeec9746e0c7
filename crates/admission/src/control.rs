//! Access control: authorisation and audit records of calls.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use tunesmith_access::{
    AuditLog, Authenticator, Caller, Grant, Limits, NewToken, OverLimit, PerPrincipal, Permission, Principal, Record,
    Session, SuggestionPermit, TokenChange, TokenFileError,
};
use tunesmith_domain::{Code, Document, JobId, Refusal};
use tunesmith_telemetry::telemetry;

use super::administration::{ApplyTokenChange, AuditedCalls};
use super::admission::{Admission, Outcome};
use super::call::{Call, Client, IdempotencyKey, SessionSecrets};
use super::policy::{self, PolicyResource};
use super::steps::queues;
use super::use_cases::{RequiredAccess, Resource, UseCase};

pub(crate) const TOKENS_UNREADABLE: &str = "the server's tokens cannot be read; see its log";

/// Access rules of a server: authentication, rate limits and audit logs.
pub struct Access {
    pub authenticator: Authenticator,
    /// Changes the tokens of `authenticator`.
    pub change_tokens: ApplyTokenChange,
    /// Whether tokens may belong to several principals: their programs are isolated from each other, or need not be.
    pub accepts_several_principals: bool,
    pub limits: Limits,
    pub admin_activity: Arc<AuditLog>,
    /// Audit log of reads; `None`: disabled.
    pub data_access: Option<Arc<AuditLog>>,
    /// Whether to refuse changes while `admin_activity` is not writable.
    pub refuses_unrecorded: bool,
}

impl Access {
    /// All audit logs.
    pub fn audit_logs(&self) -> Vec<Arc<AuditLog>> {
        std::iter::once(&self.admin_activity).chain(&self.data_access).cloned().collect()
    }
}

/// Only caller of a service, with all permissions: the owner of the data folder, or the listener of a protocol without
/// credentials.
pub struct Owner {
    /// Name in the audit logs.
    pub principal: String,
    pub admin_activity: Arc<AuditLog>,
    /// Audit log of reads; `None`: disabled.
    pub data_access: Option<Arc<AuditLog>>,
    /// Whether to refuse changes while `admin_activity` is not writable.
    pub refuses_unrecorded: bool,
}

pub enum ServiceAccess {
    /// Callers allowed by these rules.
    Checked(Box<Access>),
    /// One caller with all permissions, whose changes are recorded.
    Owner(Owner),
    /// This process, which only reads.
    Open,
    /// Everyone who reaches the listener reads; changes are refused.
    ReadOnly,
}

/// Looks up the IAM policy of a job or model, if it exists.
pub type PolicyOf = Box<dyn Fn(PolicyResource) -> BoxFuture<'static, Option<Document>> + Send + Sync>;

/// Authorises and records calls.
pub struct AccessControl {
    mode: Mode,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    time_limit: Duration,
    /// Queues of large calls, per caller.
    pub(crate) queues: Arc<PerPrincipal>,
}

enum Mode {
    Checked(Box<Rules>),
    /// Every call is allowed; changes are recorded.
    Owner(Owner),
    /// Every call is allowed; nothing is recorded.
    Open,
    /// Calls have the permissions of this caller; nothing is recorded.
    ReadOnly(Caller),
}

pub(crate) struct Rules {
    pub(crate) access: Access,
    policy_of: PolicyOf,
}

impl AccessControl {
    /// Access control by `access`, with a lookup of policies, the clock of audit records and the default time limit
    /// of calls.
    pub fn new(
        access: ServiceAccess,
        policy_of: PolicyOf,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        time_limit: Duration,
    ) -> Self {
        let mode = match access {
            ServiceAccess::Checked(access) => Mode::Checked(Box::new(Rules { access: *access, policy_of })),
            ServiceAccess::Owner(owner) => Mode::Owner(owner),
            ServiceAccess::Open => Mode::Open,
            ServiceAccess::ReadOnly => Mode::ReadOnly(Caller::reader()),
        };
        Self { mode, now: Box::new(now), time_limit, queues: Arc::new(queues()) }
    }

    pub fn time_limit(&self) -> Duration {
        self.time_limit
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    pub(crate) fn rules(&self) -> Option<&Rules> {
        match &self.mode {
            Mode::Checked(rules) => Some(rules),
            Mode::Owner(_) | Mode::Open | Mode::ReadOnly(_) => None,
        }
    }

    pub(crate) fn audit_log(&self, calls: AuditedCalls) -> Option<Arc<AuditLog>> {
        match (&self.mode, calls) {
            (Mode::Checked(rules), AuditedCalls::Reads) => rules.access.data_access.clone(),
            (Mode::Checked(rules), AuditedCalls::Changes) => Some(Arc::clone(&rules.access.admin_activity)),
            (Mode::Owner(owner), AuditedCalls::Changes) => Some(Arc::clone(&owner.admin_activity)),
            (Mode::Owner(owner), AuditedCalls::Reads) => owner.data_access.clone(),
            (Mode::Open | Mode::ReadOnly(_), _) => None,
        }
    }

    /// Checks that tokens are readable and changes can be recorded.
    ///
    /// # Errors
    /// The failure, as an error message.
    pub fn check_ready(&self) -> Result<(), String> {
        let Some(Rules { access, .. }) = self.rules() else { return Ok(()) };
        access.authenticator.check().map_err(|error| unreadable(error).message)?;
        if access.refuses_unrecorded {
            prepare(&access.admin_activity).map_err(|refusal| refusal.message)
        } else {
            Ok(())
        }
    }

    /// Whether `client` may be the caller of `use_case` as far as its credentials tell, for protocols whose messages name
    /// the resource: the message of a stranger is not read. Records nothing; [`Self::admit`] refuses the call.
    pub fn knows(&self, use_case: UseCase, client: &Client) -> bool {
        self.rules().is_none_or(|rules| rules.caller(use_case, client, self.now()).is_ok())
    }

    /// Checks that `caller` has `permission` on a model, by role or by the IAM policy of the model.
    pub(crate) async fn check_model(
        &self,
        caller: &Caller,
        permission: Permission,
        project: &str,
        model: &str,
    ) -> Result<(), Refusal> {
        let Some(rules) = self.rules().filter(|_| !caller.may(permission, project)) else { return Ok(()) };
        let resource = PolicyResource::Model { project: project.to_owned(), name: model.to_owned() };
        let policy = (rules.policy_of)(resource).await;
        if policy.is_some_and(|policy| policy::allows(&policy, caller.principal(), permission)) {
            return Ok(());
        }
        let text =
            format!("permission {permission} is denied on projects/{project}/models/{model} (or it does not exist)");
        Err(Refusal::new(Code::PermissionDenied, text))
    }

    /// Admits `call`. Records refused calls in the audit log.
    ///
    /// # Errors
    /// [`Refusal`] if the client is unauthenticated or lacks the permission, a limit is exceeded, a change could not be
    /// recorded, or the decision exceeds the time limit.
    pub async fn admit(self: &Arc<Self>, call: Call) -> Result<Admission, Refusal> {
        let limit = self.time_limit * call.use_case.time_limit_factor();
        let end = tokio::time::Instant::now() + limit;
        let admitted = tokio::time::timeout_at(end, self.check(&call)).await;
        let (caller, permit) = admitted.map_err(|_| Refusal::timed_out(limit, false))??;
        call.check_location().inspect_err(|refusal| {
            self.record(&call, caller.principal(), &Outcome::of_refusal(refusal));
        })?;
        let key = call.idempotency_key.as_deref().filter(|_| call.use_case.takes_key());
        let key = key.map(IdempotencyKey::new).transpose().inspect_err(|refusal| {
            self.record(&call, caller.principal(), &Outcome::of_refusal(refusal));
        })?;
        Ok(Admission::new(Arc::clone(self), call, caller, permit, key, (limit, end)))
    }

    async fn check(&self, call: &Call) -> Result<(Caller, Option<SuggestionPermit>), Refusal> {
        let rules = match &self.mode {
            Mode::Checked(rules) => rules,
            Mode::Owner(owner) if call.use_case.changes() && owner.refuses_unrecorded => {
                prepare(&owner.admin_activity)?;
                return Ok((Caller::Anonymous, None));
            }
            Mode::Owner(_) | Mode::Open => return Ok((Caller::Anonymous, None)),
            Mode::ReadOnly(reader) => return check_reader(reader, call),
        };
        let caller = rules.caller(call.use_case, &call.client, self.now());
        let principal = caller.as_ref().map_or("unknown", Caller::principal).to_owned();
        let checked = rules.check(call, caller).await;
        if let Err(refusal) = &checked {
            self.record(call, &principal, &Outcome::of_refusal(refusal));
        }
        checked
    }

    pub(crate) async fn still_admits(&self, call: &Call) -> bool {
        let Some(rules) = self.rules() else { return true };
        let Ok(caller) = rules.caller(call.use_case, &call.client, self.now()) else { return false };
        rules.authorize(call, &caller).await.is_ok()
    }

    /// Opens a session for the owner of the token `secret`, recorded as a change by `call`. Returns the secret for the
    /// browser; `None` if this server requires no tokens.
    ///
    /// # Errors
    /// [`Refusal`] if the token is invalid, a limit is exceeded, or the session cannot be stored.
    pub async fn sign_in(&self, call: &Call, secret: &str) -> Result<Option<String>, Refusal> {
        let Some(rules) = self.rules() else { return Ok(None) };
        if !rules.access.authenticator.requires_tokens() {
            return Ok(None);
        }
        let now = self.now();
        match rules.access.authenticator.authenticate(secret, now).map_err(unreadable)? {
            Some(Caller::Authenticated(token)) => {
                self.open_session(rules, call, Session::of_token(&token, now)).await.map(Some)
            }
            Some(Caller::Anonymous) | None => Err(self.refuse_sign_in(call, unknown_token())),
        }
    }

    /// Opens a session for a principal that an identity provider has authenticated, as [`Self::sign_in`].
    ///
    /// # Errors
    /// [`Refusal`] if a limit is exceeded, or the session cannot be stored.
    pub async fn sign_in_as(
        &self,
        call: &Call,
        principal: Principal,
        grants: Vec<Grant>,
    ) -> Result<Option<String>, Refusal> {
        let Some(rules) = self.rules() else { return Ok(None) };
        self.open_session(rules, call, Session::of_principal(principal, grants, self.now())).await.map(Some)
    }

    /// Records that the sign-in of a stranger by `call` is refused.
    pub fn refuse_sign_in(&self, call: &Call, refusal: Refusal) -> Refusal {
        self.record(call, "unknown", &Outcome::of_refusal(&refusal));
        refusal
    }

    async fn open_session(&self, rules: &Rules, call: &Call, made: NewToken) -> Result<String, Refusal> {
        let NewToken { token: session, secret } = made;
        let principal = session.principal.clone();
        rules.access.limits.request(principal.as_str()).map_err(over_limit)?;
        let opened = (rules.access.change_tokens)(TokenChange::OpenSession(session)).await;
        let outcome = opened.as_ref().err().map_or(Outcome { status: 200, resource: None }, Outcome::of_refusal);
        self.record(call, principal.as_str(), &outcome);
        opened.map(|()| secret)
    }

    /// Ends the session of `client` if `csrf` is its CSRF secret.
    ///
    /// # Errors
    /// [`Refusal`] if the end cannot be stored.
    pub async fn sign_out(&self, client: &Client, csrf: &str) -> Result<(), Refusal> {
        match (self.rules(), self.session(client).filter(|session| session.allows(csrf))) {
            (Some(rules), Some(session)) => {
                match (rules.access.change_tokens)(TokenChange::Revoke { id: session.id }).await {
                    Err(refusal) if refusal.code == Code::NotFound => Ok(()),
                    ended => ended,
                }
            }
            _ => Ok(()),
        }
    }

    pub fn session(&self, client: &Client) -> Option<Session> {
        // Calls of a session whose tokens are unreadable are refused.
        self.rules()?.access.authenticator.session(&client.session.as_ref()?.cookie, self.now()).ok()?
    }

    pub(crate) fn record(&self, call: &Call, principal: &str, outcome: &Outcome) {
        let use_case = call.use_case;
        let calls = if use_case.changes() { AuditedCalls::Changes } else { AuditedCalls::Reads };
        let (calls, principal) = match &self.mode {
            Mode::Checked(_) | Mode::Owner(_) if use_case.access() == RequiredAccess::Open => return,
            Mode::Owner(owner) => (calls, owner.principal.as_str()),
            Mode::Checked(_) | Mode::Open | Mode::ReadOnly(_) => (calls, principal),
        };
        let Some(log) = self.audit_log(calls) else { return };
        let record = Record {
            time: self.now(),
            principal,
            caller_ip: call.client.address.map(|address| address.to_string()),
            method: use_case.name(),
            resource: outcome.resource.as_deref().unwrap_or(&call.resource),
            permission: match use_case.access() {
                RequiredAccess::Of(permission) => Some(permission.as_str()),
                RequiredAccess::Open | RequiredAccess::TrialToken | RequiredAccess::Token => None,
            },
            status: outcome.status,
            request_id: &call.client.request_id,
            count: None,
        };
        // The program of a trial is identified only by a successful call.
        let is_stranger = self.rules().is_some()
            && (outcome.status == Code::Unauthenticated.http_status()
                || (use_case.access() == RequiredAccess::TrialToken && outcome.status >= 400));
        let written = if is_stranger { log.write_of_stranger(&record) } else { log.write(&record).map(|()| true) };
        match written {
            Ok(true) => {}
            Ok(false) => {
                telemetry().audit_suppressed.inc();
            }
            Err(error) => {
                telemetry().audit_failures.inc();
                let Record { principal, resource, .. } = record;
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, principal, resource, "an audit record is not written yet");
            }
        }
    }
}

impl Rules {
    fn caller(&self, use_case: UseCase, client: &Client, now: Timestamp) -> Result<Caller, Refusal> {
        let Client { token, session, advice, .. } = client;
        let authenticator = &self.access.authenticator;
        let missing = |name: &str| Refusal::new(Code::Unauthenticated, advice.replace("TOKEN", name));
        match use_case.access() {
            // The use case checks the token. A request without one is not read further.
            RequiredAccess::TrialToken if token.is_none() => return Err(missing("$TUNESMITH_TOKEN")),
            RequiredAccess::Open | RequiredAccess::TrialToken => return Ok(Caller::Anonymous),
            RequiredAccess::Token | RequiredAccess::Of(_) if !authenticator.requires_tokens() => {
                return Ok(Caller::Anonymous);
            }
            RequiredAccess::Token | RequiredAccess::Of(_) => {}
        }
        match (token, session) {
            (Some(token), _) => {
                authenticator.authenticate(token.trim(), now).map_err(unreadable)?.ok_or_else(unknown_token)
            }
            (None, Some(secrets)) => self.caller_of_session(secrets, use_case.changes(), now),
            (None, None) => Err(missing("TOKEN")),
        }
    }

    /// Authenticates a session. Changes also require its CSRF secret.
    fn caller_of_session(&self, secrets: &SessionSecrets, changes: bool, now: Timestamp) -> Result<Caller, Refusal> {
        let ended = || Refusal::new(Code::Unauthenticated, "the session has ended: sign in again");
        let session = self.access.authenticator.session(&secrets.cookie, now).map_err(unreadable)?.ok_or_else(ended)?;
        if changes && !secrets.csrf.as_deref().is_some_and(|given| session.allows(given)) {
            let text = "the page does not belong to the session: load the page again";
            return Err(Refusal::new(Code::PermissionDenied, text));
        }
        Ok(Caller::Authenticated(session.visitor))
    }

    async fn check(
        &self,
        call: &Call,
        caller: Result<Caller, Refusal>,
    ) -> Result<(Caller, Option<SuggestionPermit>), Refusal> {
        let caller = caller?;
        let limits = &self.access.limits;
        let is_named = caller != Caller::Anonymous;
        if is_named {
            limits.request(caller.principal()).map_err(over_limit)?;
        }
        self.authorize(call, &caller).await?;
        if call.use_case.changes() && self.access.refuses_unrecorded {
            prepare(&self.access.admin_activity)?;
        }
        let is_limited = is_named && call.use_case.is_suggestion();
        let permit = if is_limited { limits.suggestion(caller.principal()).map_err(over_limit)? } else { None };
        Ok((caller, permit))
    }

    /// Checks that `caller` has the required permission, by role or by the IAM policy of the job or model.
    async fn authorize(&self, call: &Call, caller: &Caller) -> Result<(), Refusal> {
        let RequiredAccess::Of(permission) = call.use_case.access() else { return Ok(()) };
        if caller.may(permission, &call.project) || self.policy_allows(call, caller, permission).await {
            return Ok(());
        }
        let resource = match &call.job {
            None if call.project.is_empty() => {
                let text = format!("permission {permission} is denied: a role with it in all projects is required");
                return Err(Refusal::new(Code::PermissionDenied, text));
            }
            Some(model) if call.use_case.resource() == Resource::Model => {
                format!("projects/{}/models/{model}", call.project)
            }
            Some(job) => format!("projects/{}/jobs/{job}", call.project),
            None => format!("projects/{}", call.project),
        };
        let text = format!("permission {permission} is denied on {resource} (or it does not exist)");
        Err(Refusal::new(Code::PermissionDenied, text))
    }

    async fn policy_allows(&self, call: &Call, caller: &Caller, permission: Permission) -> bool {
        let Some(name) = &call.job else { return false };
        let resource = match call.use_case.resource() {
            Resource::Job => JobId::new(&call.project, name).ok().map(PolicyResource::Job),
            Resource::Model => Some(PolicyResource::Model { project: call.project.clone(), name: name.clone() }),
            _ => None,
        };
        let Some(resource) = resource else { return false };
        let policy = (self.policy_of)(resource).await;
        policy.is_some_and(|policy| policy::allows(&policy, caller.principal(), permission))
    }
}

/// Admits `call` of a reader, whose permissions include no change.
fn check_reader(reader: &Caller, call: &Call) -> Result<(Caller, Option<SuggestionPermit>), Refusal> {
    let may_read = match call.use_case.access() {
        RequiredAccess::Open | RequiredAccess::Token => true,
        RequiredAccess::TrialToken => false,
        RequiredAccess::Of(permission) => reader.may(permission, &call.project),
    };
    if may_read && !call.use_case.changes() {
        return Ok((reader.clone(), None));
    }
    let text =
        format!("{} is denied: this address is read-only; `tunesmith serve` accepts changes", call.use_case.name());
    Err(Refusal::new(Code::PermissionDenied, text))
}

fn unknown_token() -> Refusal {
    Refusal::new(Code::Unauthenticated, "the token is unknown, was revoked, or has expired")
}

fn prepare(log: &AuditLog) -> Result<(), Refusal> {
    log.prepare().map_err(|error| {
        let cause = &error as &dyn std::error::Error;
        tracing::error!(error = cause, "the audit log cannot be written; changes are refused");
        let text = format!("the audit log cannot be written, and changes are refused until it can: {error}");
        Refusal::new(Code::Unavailable, text)
    })
}

fn unreadable(error: TokenFileError) -> Refusal {
    tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be read");
    Refusal::new(Code::Unavailable, TOKENS_UNREADABLE)
}

/// Refusal of a call beyond a limit of its principal.
pub(crate) fn over_limit(error: OverLimit) -> Refusal {
    let retry_after = match &error {
        OverLimit::Requests { retry_after, .. } => *retry_after,
        _ => Duration::from_secs(1),
    };
    Refusal { retry_after: Some(retry_after), ..Refusal::new(Code::ResourceExhausted, error.to_string()) }
}
