//! Lets requests pass whose callers may make them, and records what was done.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::call::{Call, Needs, identify};
use super::listener::Peer;
use super::request_id::RequestId;
use super::status::{ApiError, Code};
use tunesmith_access::{AuditLog, Authenticator, Caller, Limits, OverLimit, Permission, Record};
use tunesmith_domain::JobId;
use tunesmith_service::clock::Clock;
use tunesmith_service::jobs::Jobs;
use tunesmith_telemetry::telemetry;

/// Who may make requests, how many, and where it is recorded.
pub struct Access {
    /// Recognises callers.
    pub authenticator: Authenticator,
    /// How much each may ask for.
    pub limits: Limits,
    /// The record of every change.
    pub admin_activity: AuditLog,
    /// The record of what was read, if it is kept.
    pub data_access: Option<AuditLog>,
}

/// [`Access`] and what it takes to decide.
pub(super) struct Gate {
    /// Without it everything is open and nothing recorded, as for the owner of a data folder.
    pub(super) access: Option<Access>,
    pub(super) jobs: Arc<Jobs>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The method that was called, as an extension of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct MethodName(pub(super) &'static str);

pub(super) async fn pass(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    // That something is no method is told by the routes, to those who may know.
    let call = identify(request.method(), request.uri().path()).unwrap_or_else(|| Call::unknown(request.method()));
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|ConnectInfo(Peer(address))| *address);
    let id = request.extensions().get::<RequestId>().cloned();
    let resource = request.uri().path().trim_start_matches("/v1/").to_owned();
    let caller = gate.caller(&call, request.headers());
    let principal = caller.as_ref().map_or("unknown", Caller::principal).to_owned();
    let mut response = match gate.admit(&call, caller).await {
        Ok((caller, permit)) => {
            request.extensions_mut().insert(caller);
            let response = next.run(request).await;
            drop(permit);
            response
        }
        Err(error) => error.into_response(),
    };
    response.extensions_mut().insert(MethodName(call.method));
    gate.record(&call, &principal, peer, &resource, id, response.status().as_u16());
    response
}

impl Gate {
    fn caller(&self, call: &Call, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let Some(access) = &self.access else { return Ok(Caller::Anonymous) };
        if !access.authenticator.requires_tokens() || matches!(call.needs, Needs::Nothing | Needs::TrialToken) {
            return Ok(Caller::Anonymous);
        }
        let refuse = |text: &str| ApiError::new(Code::Unauthenticated, text);
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let shown = shown.ok_or_else(|| refuse("send the header `authorization: Bearer TOKEN`"))?;
        let recognised = access.authenticator.authenticate(shown.trim(), self.clock.now()).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "tokens cannot be read");
            ApiError::new(Code::Internal, "the server's tokens cannot be read; its log says more")
        })?;
        recognised.ok_or_else(|| refuse("the token is unknown, was revoked, or has ended"))
    }

    async fn admit(
        &self,
        call: &Call,
        caller: Result<Caller, ApiError>,
    ) -> Result<(Caller, Option<tunesmith_access::SuggestionPermit>), ApiError> {
        let caller = caller?;
        let Some(Access { limits, .. }) = &self.access else { return Ok((caller, None)) };
        if caller != Caller::Anonymous {
            limits.request(caller.principal())?;
        }
        if let Needs::Permission(permission) = call.needs
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
        Ok((caller, permit))
    }

    /// Whether the policy of the job that `call` is about allows it.
    async fn allowed_by_job(&self, call: &Call, caller: &Caller, permission: Permission) -> bool {
        let Some(id) = call.job.as_ref().and_then(|job| JobId::new(&call.project, job).ok()) else { return false };
        let job = self.jobs.job(&id).await;
        job.is_ok_and(|job| super::job_iam::allows(&job.policy, caller.principal(), permission))
    }

    fn record(
        &self,
        call: &Call,
        principal: &str,
        peer: Option<SocketAddr>,
        resource: &str,
        id: Option<RequestId>,
        status: u16,
    ) {
        let Some(access) = &self.access else { return };
        let log = match (call.needs, call.changes) {
            (Needs::Nothing, _) => return,
            (_, true) => &access.admin_activity,
            (_, false) => match &access.data_access {
                Some(log) => log,
                None => return,
            },
        };
        let record = Record {
            time: self.clock.now(),
            principal,
            caller_ip: peer.map(|address| address.ip().to_string()),
            method: call.method,
            resource,
            permission: call.needs.permission().map(Permission::as_str),
            status,
            request_id: id.as_ref().map_or("", RequestId::as_str),
        };
        if let Err(error) = log.write(&record) {
            telemetry().audit_failures.inc();
            tracing::error!(error = &error as &dyn std::error::Error, principal, resource, "a record is lost");
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
