//! Pages for people, which another crate renders, under the rules of the API's methods: authentication, permissions,
//! limits, audit records and the time limit.
//!
//! Not here: what a page shows. Pages change nothing, and are not part of the OpenAPI document.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use tokio::time::timeout;

use super::authorization::{Admission, Call};
use super::completion::{self, NoAnswer};
use super::job_policy;
use super::large_requests::Progress;
use super::request_log::MethodName;
use super::routes::Dispatch;
use super::sessions::COOKIE_NAME;
use super::status::{ApiError, Code};
use tunesmith_access::{Caller, Permission};
use tunesmith_algorithms::problem::SearchSpace;
use tunesmith_api::ai_platform::optimizer::PublishedNames;
use tunesmith_domain::Job;

/// The names of the parameters of `space` in requests about trials, in its order. Those of different conditions may be equal.
pub fn names_in_requests(space: &SearchSpace) -> Vec<String> {
    let names = PublishedNames::of(space);
    space.parameters().iter().map(|parameter| names.published(parameter.name()).to_owned()).collect()
}

/// Admits requests for pages.
#[derive(Clone)]
pub struct Pages {
    pub(super) dispatch: Arc<Dispatch>,
}

/// A request for a page.
#[derive(Debug, Clone)]
pub struct PageCall {
    /// The name of the page in logs, metrics and audit records, such as `console.job`.
    pub name: &'static str,
    /// The permission that the page requires; `None`: any token.
    pub permission: Option<Permission>,
    /// The project of the page; empty for pages outside of projects.
    pub project: String,
    /// The job of the page.
    pub job: Option<String>,
    /// The time limit as a multiple of that of other pages.
    pub time_limit_factor: u32,
}

impl PageCall {
    /// A page outside of projects, which any token may see. It shows only what its visitor may see.
    pub fn of_all(name: &'static str) -> Self {
        Self { name, permission: None, project: String::new(), job: None, time_limit_factor: 1 }
    }

    /// A page about the whole server, which requires `permission` in all projects.
    pub fn of_server(name: &'static str, permission: Permission) -> Self {
        Self::of_project(name, permission, "")
    }

    /// A page of `project` that requires `permission`.
    pub fn of_project(name: &'static str, permission: Permission, project: &str) -> Self {
        Self { name, permission: Some(permission), project: project.to_owned(), job: None, time_limit_factor: 1 }
    }

    /// A page of a job that requires `permission` on it.
    pub fn of_job(name: &'static str, permission: Permission, project: &str, job: &str) -> Self {
        Self { job: Some(job.to_owned()), ..Self::of_project(name, permission, project) }
    }
}

/// The person who looks at a page.
#[derive(Debug, Clone)]
pub struct Visitor {
    caller: Caller,
    /// The secret of the session that changes repeat; empty without a session.
    csrf: String,
}

impl Visitor {
    /// The principal; `None` if the server requires no tokens.
    pub fn principal(&self) -> Option<&str> {
        match &self.caller {
            Caller::Anonymous => None,
            caller @ Caller::Authenticated(_) => Some(caller.principal()),
        }
    }

    /// The secret that requests of this visitor's pages send with changes; empty if they need none.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Whether the roles of the visitor in `project` include `permission`.
    pub fn may(&self, permission: Permission, project: &str) -> bool {
        self.caller.may(permission, project)
    }

    /// Whether the roles of the visitor in any project include `permission`.
    pub fn may_somewhere(&self, permission: Permission) -> bool {
        self.caller.may_somewhere(permission)
    }

    /// Whether the visitor has a role with `permission` in all projects.
    pub fn may_everywhere(&self, permission: Permission) -> bool {
        self.caller.may_everywhere(permission)
    }

    /// Whether the visitor has `permission` on `job`, by a role in its project or by its policy.
    pub fn may_on(&self, permission: Permission, job: &Job) -> bool {
        self.may(permission, job.id.parts().0) || job_policy::allows(&job.policy, self.caller.principal(), permission)
    }
}

/// Why a page is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// What is wrong, for people.
    pub message: String,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self { status: error.http_status(), message: error.message().to_owned() }
    }
}

impl Pages {
    pub(super) fn new(dispatch: Arc<Dispatch>) -> Self {
        Self { dispatch }
    }

    /// Reads the `body` of a form of at most `max_bytes`, of a visitor who is not known yet.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot be read, is larger, or does not end within the time limit.
    pub async fn form(&self, body: Body, max_bytes: usize) -> Result<Bytes, Refusal> {
        let limit = self.dispatch.time_limit;
        let read = timeout(limit, to_bytes(body, max_bytes)).await;
        let read = read.map_err(|_| page_timed_out(limit))?;
        read.map_err(|_| ApiError::invalid("body", "the form cannot be read: send it again").into())
    }

    /// Opens a session for the owner of the token `secret`, and returns the value of the header `set-cookie`. `None` if
    /// this server requires no tokens.
    ///
    /// # Errors
    /// [`Refusal`] if the token is not valid, or a limit is exceeded.
    pub fn sign_in(&self, parts: &Parts, secret: &str, is_secure: bool) -> Result<Option<String>, Refusal> {
        let call = Call::of_page(PageCall::of_all("console.login"), parts).changing();
        let cookie = self.dispatch.authorization.sign_in(&call, secret)?;
        Ok(cookie.map(|cookie| set_cookie(&cookie, "", is_secure)))
    }

    /// Ends the session of a request whose page has sent the secret `csrf`, and returns the value of the header `set-cookie`
    /// that removes its cookie.
    pub fn sign_out(&self, parts: &Parts, csrf: &str, is_secure: bool) -> String {
        self.dispatch.authorization.sign_out(&parts.headers, csrf);
        set_cookie("", "; Max-Age=0", is_secure)
    }

    /// Whether the visitor of `call` may still make it, as for a stream of events: the session or the token is valid, and has the
    /// permission.
    pub async fn still_admits(&self, call: PageCall, parts: &Parts) -> bool {
        self.dispatch.authorization.still_admits(&Call::of_page(call, parts), &parts.headers).await
    }

    /// Answers a request with what `render` returns for its visitor, if the visitor may make it.
    ///
    /// # Errors
    /// [`Refusal`] if the visitor is not authenticated or lacks the permission, if a limit is exceeded, and if `render`
    /// panics or does not end within the time limit.
    pub async fn answer<F>(
        &self,
        call: PageCall,
        parts: &Parts,
        render: impl FnOnce(Visitor) -> F,
    ) -> Result<Response, Refusal>
    where
        F: Future<Output = Response> + Send + 'static,
    {
        self.answer_with_body(call, parts, Body::empty(), 0, |visitor, _| render(visitor)).await
    }

    /// As [`Self::answer`], with the `body` of the request, which is read once the visitor is admitted.
    ///
    /// # Errors
    /// As [`Self::answer`], and if the body cannot be read or is larger than `max_bytes`.
    pub async fn answer_with_body<F>(
        &self,
        call: PageCall,
        parts: &Parts,
        body: Body,
        max_bytes: usize,
        render: impl FnOnce(Visitor, Bytes) -> F,
    ) -> Result<Response, Refusal>
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let Dispatch { authorization, lanes, time_limit } = &*self.dispatch;
        let time_limit = *time_limit * call.time_limit_factor;
        let call = Call::of_page(call, parts);
        let admitted = async {
            let admission = authorization.admit(&call, &parts.headers).await?;
            let body = to_bytes(body, max_bytes).await.map_err(|_| super::body::too_large())?;
            Ok::<_, ApiError>((admission, body))
        };
        let (begin, late) = (Instant::now(), || page_timed_out(time_limit));
        let (Admission { caller, permit: _ }, body) = timeout(time_limit, admitted).await.map_err(|_| late())??;
        let principal = caller.principal().to_owned();
        let csrf = authorization.session(&parts.headers).map(|session| session.csrf).unwrap_or_default();
        let progress = Progress::new(Arc::clone(lanes), call.lane(&caller));
        let bytes = body.len().max(parts.uri.query().map_or(0, str::len));
        let page = render(Visitor { caller, csrf }, body);
        let work = {
            let progress = progress.clone();
            async move {
                progress.expect(bytes).await;
                page.await
            }
        };
        let answer = completion::run(work, progress, time_limit.saturating_sub(begin.elapsed())).await;
        let mut response = answer.map_err(|no_answer| match no_answer {
            NoAnswer::Panicked => {
                tracing::error!(page = call.method, "a page panicked");
                ApiError::new(Code::Internal, "internal error; see the server's log")
            }
            NoAnswer::TimedOut { .. } => late(),
        })?;
        authorization.record(&call, &principal, &response);
        response.extensions_mut().insert(MethodName(call.method));
        Ok(response)
    }
}

fn page_timed_out(limit: Duration) -> ApiError {
    ApiError::new(Code::DeadlineExceeded, format!("the page was not ready within {limit:?}"))
}

fn set_cookie(value: &str, end: &str, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}")
}
