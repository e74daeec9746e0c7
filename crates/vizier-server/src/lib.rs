#![doc = include_str!("../README.md")]

mod creation;
mod grpc;
mod http_rule;
mod locations;
mod method;
mod operations;
mod oss;
mod paging;
mod refusals;
mod rest;
mod services;
mod trials;
mod vertex;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::Uri;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::middleware::map_request;
use axum::routing::any;
use tunesmith_admission::UseCase;

use method::Method;
pub use services::Services;

/// Path before those of Vertex AI.
pub const PREFIX: &str = "/vertex";

/// Paths of Vertex AI, without [`PREFIX`].
const PATHS: [&str; 3] = ["/v1/", "/v1beta1/", "/ui/"];

/// Maximum size of a request message in bytes, as of gRPC's receivers.
const MESSAGE_BYTES: usize = 4 << 20;

/// A method of a protocol.
#[derive(Debug, Clone)]
pub struct MethodDescription {
    /// Full name of the service.
    pub service: &'static str,
    pub name: &'static str,
    /// The use case behind it, with the method's full name.
    pub use_case: UseCase,
    /// Requests over HTTP, such as `GET /v1/{name=projects/*}`, without the prefix; empty for a method of gRPC only.
    pub http: Vec<String>,
}

/// All methods, by service.
pub fn methods() -> Vec<MethodDescription> {
    let describe = |method: &Method| MethodDescription {
        service: method.service,
        name: method.name,
        use_case: method.use_case,
        http: method.http.iter().map(ToString::to_string).collect(),
    };
    all().iter().map(describe).collect()
}

fn all() -> Vec<Method> {
    let mut methods = vertex::methods();
    methods.extend(operations::methods());
    methods.extend(locations::methods());
    methods.extend(oss::methods());
    methods
}

/// End of the host names of Vertex AI: `aiplatform.googleapis.com`, or `us-central1-aiplatform.googleapis.com`.
const HOST_NAME: &str = "aiplatform.googleapis.com";

/// Requests whose paths are those of Vertex AI without [`PREFIX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutPrefix {
    All,
    /// Requests to a host of Vertex AI, which reach this server through a proxy or a table of hosts.
    ByHost,
}

/// Whether `request` addresses a host of Vertex AI.
fn addresses_vertex(request: &Request) -> bool {
    let header = || request.headers().get(HOST)?.to_str().ok()?.parse().ok();
    let authority: Option<Authority> = request.uri().authority().cloned().or_else(header);
    let host = authority.map(|authority| authority.host().to_ascii_lowercase());
    host.is_some_and(|host| host.strip_suffix(HOST_NAME).is_some_and(|rest| rest.is_empty() || rest.ends_with('-')))
}

/// Serves the paths of Vertex AI without [`PREFIX`] for these `requests`, and everything else as `router` does.
pub fn without_prefix(router: Router, requests: WithoutPrefix) -> Router {
    let rewrite = move |request: Request| {
        let is_rewritten = requests == WithoutPrefix::All || addresses_vertex(&request);
        std::future::ready(if is_rewritten { with_prefix(request) } else { request })
    };
    Router::new().fallback_service(router).layer(map_request(rewrite))
}

/// `request` with [`PREFIX`] before a path of Vertex AI.
fn with_prefix(mut request: Request) -> Request {
    let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    if PATHS.iter().any(|path| target.starts_with(path)) {
        let mut parts = request.uri().clone().into_parts();
        // A valid target stays valid behind a prefix.
        parts.path_and_query = format!("{PREFIX}{target}").parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Routes of all services: over gRPC, and below [`PREFIX`] over HTTP.
pub fn router(services: Services) -> Router {
    let (services, methods) = (Arc::new(services), Arc::new(all()));
    let mut names: Vec<&'static str> = methods.iter().map(|method| method.service).collect();
    names.dedup();
    let mut router = Router::new();
    for service in names {
        let (services, methods) = (Arc::clone(&services), Arc::clone(&methods));
        let respond = move |Path(name): Path<String>, request: Request| {
            let (services, methods) = (Arc::clone(&services), Arc::clone(&methods));
            async move {
                let method = methods.iter().find(|method| method.service == service && method.name == name);
                grpc::respond(services, method, service, request).await
            }
        };
        router = router.route(&format!("/{service}/{{method}}"), any(respond));
    }
    let respond = move |request: Request| {
        let (services, methods) = (Arc::clone(&services), Arc::clone(&methods));
        async move { rest::respond(services, &methods, request).await }
    };
    router.route(&format!("{PREFIX}/{{*path}}"), any(respond))
}
