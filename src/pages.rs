//! The router of a server, with the console if this program has it.

use axum::Router;
use tokio::sync::watch;

use tunesmith_http::server::{self, Service};

#[cfg(feature = "console")]
pub(crate) use tunesmith_console::{ServerFacts, Setting};

/// The state of a server that its console shows or follows.
#[cfg_attr(not(feature = "console"), expect(dead_code, reason = "only the console reads it"))]
pub(crate) struct Pages {
    /// The start of the server; `None` in a process that serves no others.
    #[cfg(feature = "console")]
    pub(crate) server: Option<ServerFacts>,
    /// Whether browsers reach the server over HTTPS only, so that cookies are never sent without it.
    pub(crate) is_secure: bool,
    /// Becomes true when the server ends, and open streams with it.
    pub(crate) ended: watch::Receiver<bool>,
}

/// The routes of `service` and the pages of the console.
#[cfg(feature = "console")]
pub(crate) fn router(service: Service, pages: Pages) -> Router {
    let Pages { server, is_secure, ended } = pages;
    let console = tunesmith_console::Services {
        jobs: std::sync::Arc::clone(&service.jobs),
        studies: std::sync::Arc::clone(&service.studies),
        clock: std::sync::Arc::clone(&service.clock),
        server,
        is_secure,
        ended,
    };
    server::router_with_pages(service, |control| tunesmith_console::router(console, control))
}

/// The routes of `service`. Pages of the console answer that they are missing.
#[cfg(not(feature = "console"))]
pub(crate) fn router(service: Service, _: Pages) -> Router {
    let missing = || async {
        (axum::http::StatusCode::NOT_FOUND, "this program was built without the console (feature console)\n")
    };
    let routes = Router::new().route("/console", axum::routing::any(missing));
    server::router_with_pages(service, |_| routes.route("/console/{*page}", axum::routing::any(missing)))
}
