//! Router of a server, including the console if compiled in.

use axum::Router;
use tokio::sync::watch;

use tunesmith_admission::AccessControl;
use tunesmith_http::server::{self, Service};

#[cfg(feature = "console")]
pub(crate) use tunesmith_console::{ServerFacts, Setting, SingleSignOn};

/// Server state for the console.
#[cfg_attr(not(feature = "console"), expect(dead_code, reason = "only the console reads it"))]
pub(crate) struct Pages {
    /// `None` in a process that serves no other clients.
    #[cfg(feature = "console")]
    pub(crate) server: Option<ServerFacts>,
    /// Sign-in beside tokens, if any.
    #[cfg(feature = "console")]
    pub(crate) single_sign_on: Option<SingleSignOn>,
    /// Whether browsers reach the server only over HTTPS, so that cookies can be restricted to it.
    pub(crate) is_secure: bool,
    /// Becomes true when the server, and thus its open streams, ends.
    pub(crate) ended: watch::Receiver<bool>,
}

/// Routes of `service` and pages of the console.
#[cfg(feature = "console")]
pub(crate) fn router(service: Service, pages: Pages) -> Router {
    let Pages { server, single_sign_on, is_secure, ended } = pages;
    let console = tunesmith_console::Services {
        jobs: std::sync::Arc::clone(&service.jobs),
        studies: std::sync::Arc::clone(&service.studies),
        clock: std::sync::Arc::clone(&service.clock),
        server,
        is_secure,
        single_sign_on,
        ended,
    };
    let vizier = vizier_routes(&service);
    server::router_with_pages(service, |control| {
        tunesmith_console::router(console, std::sync::Arc::clone(&control)).merge(vizier(control))
    })
}

/// Routes of `service`. Console pages answer that they are not compiled in.
#[cfg(not(feature = "console"))]
pub(crate) fn router(service: Service, _: Pages) -> Router {
    let missing = || async {
        (axum::http::StatusCode::NOT_FOUND, "this program was built without the console (feature console)\n")
    };
    let routes = Router::new().route("/console", axum::routing::any(missing));
    let vizier = vizier_routes(&service);
    let routes = routes.route("/console/{*page}", axum::routing::any(missing));
    server::router_with_pages(service, |control| routes.merge(vizier(control)))
}

/// Routes of the Vizier services, if they are compiled in.
#[cfg_attr(not(feature = "vizier"), expect(unused_variables, reason = "only the Vizier services need it"))]
fn vizier_routes(service: &Service) -> impl FnOnce(std::sync::Arc<AccessControl>) -> Router + use<> {
    #[cfg(feature = "vizier")]
    let services = {
        let (studies, jobs) = (std::sync::Arc::clone(&service.studies), std::sync::Arc::clone(&service.jobs));
        let (machines, clock) = (std::sync::Arc::clone(&service.machines), std::sync::Arc::clone(&service.clock));
        let (packages, working_directory) = (service.packages.clone(), service.working_directory.clone());
        move |control| tunesmith_vizier_server::Services {
            studies,
            jobs,
            packages,
            machines,
            working_directory,
            clock,
            control,
        }
    };
    move |control| {
        #[cfg(feature = "vizier")]
        return tunesmith_vizier_server::router(services(control));
        #[cfg(not(feature = "vizier"))]
        return Router::new();
    }
}
