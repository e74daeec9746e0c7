//! Router of a server, including the console if compiled in.

use axum::Router;
use tokio::sync::watch;

use tunesmith_admission::AccessControl;
use tunesmith_http::server::{self, Service};

#[cfg(feature = "console")]
pub(crate) use tunesmith_console::{ServerFacts, Setting, SingleSignOn};

/// Maximum size of a response to a tool of an agent: a job with some hundred thousand trials.
#[cfg(feature = "mcp")]
const MCP_RESPONSE_BYTES: usize = 64 << 20;

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
        models: service.models.clone(),
        clock: std::sync::Arc::clone(&service.clock),
        server,
        is_secure,
        single_sign_on,
        ended,
    };
    let (vizier, mcp) = (vizier_routes(&service), mcp_routes(console.ended.clone()));
    server::router_with_pages(service, |control, methods| {
        let routes = tunesmith_console::router(console, std::sync::Arc::clone(&control));
        routes.merge(vizier(std::sync::Arc::clone(&control))).merge(mcp(control, methods))
    })
}

/// Routes of `service`. Console pages answer that they are not compiled in.
#[cfg(not(feature = "console"))]
pub(crate) fn router(service: Service, pages: Pages) -> Router {
    let missing = || async {
        (axum::http::StatusCode::NOT_FOUND, "this program was built without the console (feature console)\n")
    };
    let routes = Router::new().route("/console", axum::routing::any(missing));
    let (vizier, mcp) = (vizier_routes(&service), mcp_routes(pages.ended));
    let routes = routes.route("/console/{*page}", axum::routing::any(missing));
    server::router_with_pages(service, |control, methods| {
        routes.merge(vizier(std::sync::Arc::clone(&control))).merge(mcp(control, methods))
    })
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

/// The endpoint of the Model Context Protocol, if it is compiled in. Its tools call the methods of the API.
#[cfg_attr(not(feature = "mcp"), expect(unused_variables, reason = "only the endpoint needs it"))]
fn mcp_routes(ended: watch::Receiver<bool>) -> impl FnOnce(std::sync::Arc<AccessControl>, Router) -> Router {
    move |control, methods| {
        #[cfg(feature = "mcp")]
        {
            let connect = move |called_as,
                                caller: Option<&tunesmith_admission::Client>|
                  -> std::sync::Arc<dyn tunesmith_client::Transport> {
                std::sync::Arc::new(crate::in_process::InProcess {
                    router: methods.clone(),
                    address: "this server".to_owned(),
                    caller: caller.cloned(),
                    max_bytes: MCP_RESPONSE_BYTES,
                    called_as,
                })
            };
            let services = tunesmith_mcp::Services {
                connect: std::sync::Arc::new(connect),
                project: tunesmith_domain::JobId::LOCAL_PROJECT.to_owned(),
                upload: None,
                is_read_only: false,
                control: None,
            };
            tunesmith_mcp::router(services, control, ended)
        }
        #[cfg(not(feature = "mcp"))]
        Router::new()
    }
}
