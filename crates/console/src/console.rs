use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use tokio::sync::watch;
use tunesmith_admission::AccessControl;
use tunesmith_domain::Code;
use tunesmith_jobs::Jobs;
use tunesmith_oidc::Provider;
use tunesmith_prediction::Models;
use tunesmith_studies::Studies;
use tunesmith_studies::clock::Clock;

use super::errors::{self, PageError};
use super::events::Streams;
use super::format::encoded;
use super::frame::Frame;
use super::server::ServerFacts;
use super::visit::{PageCall, Visit, respond};

pub(crate) const LOGIN: &str = "/console/login";

/// Path to which an OpenID Connect provider sends browsers back.
pub const LOGIN_CALLBACK: &str = "/console/login/callback";

/// Sign-in at an OpenID Connect provider.
pub struct SingleSignOn {
    /// Name of the provider on the login page.
    pub name: String,
    pub provider: Provider,
}

pub struct Services {
    pub jobs: Arc<Jobs>,
    pub studies: Arc<Studies>,
    pub models: Models,
    pub clock: Arc<dyn Clock>,
    /// Start-up facts of this server; `None` in a process that serves no others.
    pub server: Option<ServerFacts>,
    /// Whether the server is only reachable over HTTPS, so that cookies require it.
    pub is_secure: bool,
    /// Sign-in beside tokens, if any.
    pub single_sign_on: Option<SingleSignOn>,
    /// Becomes true on shutdown, closing open streams.
    pub ended: watch::Receiver<bool>,
}

#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) studies: Arc<Studies>,
    pub(crate) models: Models,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) control: Arc<AccessControl>,
    server: Option<Arc<ServerFacts>>,
    pub(crate) is_secure: bool,
    pub(crate) single_sign_on: Option<Arc<SingleSignOn>>,
    pub(crate) streams: Streams,
}

impl Console {
    pub(crate) fn new(services: Services, control: Arc<AccessControl>) -> Self {
        let Services { jobs, studies, models, clock, server, is_secure, single_sign_on, ended } = services;
        let (server, single_sign_on) = (server.map(Arc::new), single_sign_on.map(Arc::new));
        Self { jobs, studies, models, clock, control, server, is_secure, single_sign_on, streams: Streams::new(ended) }
    }

    /// Start-up facts of this server.
    ///
    /// # Errors
    /// [`PageError::NotFound`] in a process that serves no others.
    pub(crate) fn server(&self) -> Result<Arc<ServerFacts>, PageError> {
        self.server.clone().ok_or_else(|| PageError::NotFound("`tunesmith serve` has this page".to_owned()))
    }

    /// Responds with the page that `render` returns, if `call` is allowed.
    pub(crate) async fn show<F>(
        self,
        call: PageCall,
        parts: Parts,
        render: impl FnOnce(Self, Visit) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = Result<Response, PageError>> + Send + 'static,
    {
        self.show_with_body(call, parts, (Body::empty(), 0), render).await
    }

    /// Like [`Self::show`], with a size limit on the request body in bytes.
    pub(crate) async fn show_with_body<F>(
        self,
        call: PageCall,
        parts: Parts,
        body: (Body, usize),
        render: impl FnOnce(Self, Visit) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = Result<Response, PageError>> + Send + 'static,
    {
        let (control, headers) = (Arc::clone(&self.control), parts.headers.clone());
        let page = async move |visit: Visit| {
            let visitor = visit.visitor.clone();
            render(self, visit).await.unwrap_or_else(|error| error.respond(&visitor, &headers))
        };
        respond(&control, call, &parts, body, page).await.unwrap_or_else(|refusal| match refusal.code {
            Code::Unauthenticated => login_required(&parts),
            _ => errors::refused(refusal, &parts.headers),
        })
    }
}

/// Redirects to the login page, and from there back to the page of `parts`.
pub(crate) fn login_required(parts: &Parts) -> Response {
    let path = parts.uri.path_and_query().map_or("/console", |path| path.as_str());
    Redirect::to(&format!("{LOGIN}?next={}", encoded(path))).into_response()
}

pub(crate) fn rendered(page: &impl askama::Template) -> Response {
    Frame::respond(false, StatusCode::OK, page)
}
