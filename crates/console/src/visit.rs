//! Visitor of a page, and the page request as a call.

use std::ops::Deref;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use tunesmith_access::{Caller, Permission};
use tunesmith_admission::use_cases::{RequiredAccess, UseCase};
use tunesmith_admission::{AccessControl, Admission, Call, Client, Outcome, allows};
use tunesmith_domain::{Code, Job, Refusal};
use tunesmith_prediction::Model;

use super::frame::{Frame, Section};

#[derive(Debug, Clone)]
pub(crate) struct PageCall {
    /// Use case that the page shows, named after the page, such as `console.job`.
    pub(crate) use_case: UseCase,
    /// Empty for pages outside projects.
    pub(crate) project: String,
    pub(crate) job: Option<String>,
}

impl PageCall {
    /// Page outside projects, open to any token. Shows only what its visitor may see.
    pub(crate) fn of_all(name: &'static str) -> Self {
        Self::of_server(UseCase::page(name, RequiredAccess::Token))
    }

    pub(crate) fn of_server(use_case: UseCase) -> Self {
        Self { use_case, project: String::new(), job: None }
    }

    pub(crate) fn into_call(self, parts: &Parts) -> Call {
        Call {
            use_case: self.use_case,
            project: self.project,
            job: self.job,
            resource: parts.uri.path().to_owned(),
            client: client(parts),
            idempotency_key: None,
        }
    }
}

/// Client, as identified by the server.
pub(crate) fn client(parts: &Parts) -> Client {
    parts.extensions.get().cloned().unwrap_or_default()
}

#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    caller: Caller,
    /// CSRF secret that the visitor's pages send with changes; empty without a session.
    pub(crate) csrf: String,
}

impl Deref for Visitor {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Visitor {
    /// Principal; `None` if the server requires no tokens.
    pub(crate) fn principal(&self) -> Option<&str> {
        match &self.caller {
            Caller::Anonymous => None,
            caller @ Caller::Authenticated(_) => Some(caller.principal()),
        }
    }

    /// ID of the token that the visitor has signed in with.
    pub(crate) fn token_id(&self) -> Option<&str> {
        match &self.caller {
            Caller::Anonymous => None,
            Caller::Authenticated(token) => Some(&token.id),
        }
    }

    /// Whether the visitor has `permission` on `job`, by a role in its project or by its policy.
    pub(crate) fn may_on(&self, permission: Permission, job: &Job) -> bool {
        self.may(permission, job.id.parts().0) || allows(&job.policy, self.caller.principal(), permission)
    }

    /// Whether the visitor has `permission` on `model`, by a role in its project or by its policy.
    pub(crate) fn may_on_model(&self, permission: Permission, model: &Model) -> bool {
        self.may(permission, &model.project) || allows(&model.policy, self.caller.principal(), permission)
    }
}

/// Visitor with an admitted page request.
pub(crate) struct Visit {
    pub(crate) visitor: Visitor,
    pub(crate) headers: HeaderMap,
    pub(crate) admission: Admission,
    pub(crate) body: Bytes,
}

impl Visit {
    pub(crate) fn frame(&self, title: impl Into<String>, section: Section) -> Frame {
        Frame::new(title, section, &self.visitor, &self.headers)
    }
}

/// Admits a request and responds with `render`. The `body` is limited to `max_bytes`.
///
/// # Errors
/// [`Refusal`] if the visitor is unauthenticated or lacks the permission, a limit is exceeded, or `render` panics or
/// times out.
pub(crate) async fn respond<F>(
    control: &Arc<AccessControl>,
    call: PageCall,
    parts: &Parts,
    (body, max_bytes): (Body, usize),
    render: impl FnOnce(Visit) -> F + Send + 'static,
) -> Result<Response, Refusal>
where
    F: Future<Output = Response> + Send + 'static,
{
    let call = call.into_call(parts);
    let use_case = call.use_case;
    let time_limit = control.time_limit() * use_case.time_limit_factor();
    let csrf = control.session(&call.client).map(|session| session.csrf).unwrap_or_default();
    let late = |refusal: Refusal| match refusal.code {
        Code::DeadlineExceeded => {
            Refusal { message: format!("the page was not ready within {time_limit:?}"), ..refusal }
        }
        _ => refusal,
    };
    let admission = control.admit(call).await.map_err(late)?;
    let headers = parts.headers.clone();
    let show = move |admission: Admission| async move {
        let Ok(body) = to_bytes(body, max_bytes).await else { return super::errors::too_large(&headers) };
        admission.expect_input(body.len()).await;
        let visitor = Visitor { caller: admission.caller().clone(), csrf };
        render(Visit { visitor, headers, admission, body }).await
    };
    let outcome = |response: &Response| Outcome { status: response.status().as_u16(), resource: None };
    let query_bytes = parts.uri.query().map_or(0, str::len);
    let mut response = admission.run(query_bytes, show, outcome).await.map_err(late)?;
    response.extensions_mut().insert(use_case);
    Ok(response)
}
