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
use axum::middleware::map_request;
use axum::routing::any;
use tunesmith_admission::UseCase;

use method::Method;
pub use services::Services;

/// Path before those of Vertex AI.
pub const PREFIX: &str = "/vertex";

/// Paths of Vertex AI, without [`PREFIX`].
const PATHS: [&str; 2] = ["/v1/", "/ui/"];

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

/// Serves the paths of Vertex AI without [`PREFIX`], and everything else as `router` does.
pub fn without_prefix(router: Router) -> Router {
    let rewrite = async |mut request: Request| {
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
    };
    Router::new().fallback_service(router).layer(map_request(rewrite))
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
