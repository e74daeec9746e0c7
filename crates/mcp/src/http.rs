//! Streamable HTTP: `POST /mcp`. Each request is answered on its own, without sessions, in either era of the protocol.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::tower::StreamableHttpService;
use tokio::sync::watch;
use tunesmith_admission::use_cases::MCP_MESSAGE;
use tunesmith_admission::{AccessControl, Call, Client as Caller};
use tunesmith_api::ai_platform::rpc::ErrorResponse;
use tunesmith_domain::{Code, Refusal};

use crate::Services;
use crate::server::factory;

/// Path of the endpoint.
pub const PATH: &str = "/mcp";

/// Maximum size of a message in bytes: a configuration has at most 4 MiB, which JSON may double.
const MESSAGE_BYTES: usize = 8 << 20;

/// Serves the endpoint until `ended` is true, which ends its open streams. The middleware of the server checks `Host` and
/// `Origin`.
pub fn router(services: Services, control: Arc<AccessControl>, mut ended: watch::Receiver<bool>) -> Router {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MESSAGE_BYTES)
        .disable_allowed_hosts();
    let end = config.cancellation_token.clone();
    tokio::spawn(async move {
        // The sender lives as long as the server.
        let _ = ended.wait_for(|is_ended| *is_ended).await;
        end.cancel();
    });
    let services = Services { control: Some(Arc::clone(&control)), ..services };
    let service = StreamableHttpService::new(factory(services), Arc::new(NeverSessionManager::default()), config);
    let respond = move |request: Request| {
        let (control, service) = (Arc::clone(&control), service.clone());
        async move {
            let client = request.extensions().get::<Caller>().cloned().unwrap_or_default();
            let mut response = match admit(&control, client).await {
                Ok(()) => service.handle(request).await.into_response(),
                Err(refusal) => refused(&refusal),
            };
            response.extensions_mut().insert(MCP_MESSAGE);
            response
        }
    };
    Router::new().route(PATH, any(respond))
}

/// Refuses a client without a valid token before its message is read. The tools ask for their permissions.
async fn admit(control: &Arc<AccessControl>, client: Caller) -> Result<(), Refusal> {
    // A cookie, which browsers send by themselves, is no credential here.
    let client = Caller { session: None, ..client };
    if control.knows(MCP_MESSAGE, &client) {
        return Ok(());
    }
    let call = Call {
        use_case: MCP_MESSAGE,
        project: String::new(),
        job: None,
        resource: PATH.trim_start_matches('/').to_owned(),
        client,
        idempotency_key: None,
    };
    match control.admit(call).await {
        Err(refusal) => Err(refusal),
        // The credentials became valid just now.
        Ok(_) => Ok(()),
    }
}

fn refused(refusal: &Refusal) -> Response {
    let status = refusal.code.http_status();
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (code, Json(ErrorResponse::new(status, refusal))).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if refusal.code == Code::Unauthenticated {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
