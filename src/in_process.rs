//! Transport of the API's client to the routes of this process.

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use tower::ServiceExt;

use tunesmith_admission::{CalledAs, Client as Caller};
use tunesmith_client::{ClientError, Payload, Request, Response, Transport};

#[derive(Clone)]
pub(crate) struct InProcess {
    pub(crate) router: Router,
    /// Name of the service for messages.
    pub(crate) address: String,
    /// Client on whose behalf requests are sent, if `router` does not identify it.
    pub(crate) caller: Option<Caller>,
    /// Maximum size of a response, which is held in memory.
    pub(crate) max_bytes: usize,
    /// Name of the requests in audit records; by default, that of each use case.
    pub(crate) called_as: Option<CalledAs>,
}

#[async_trait]
impl Transport for InProcess {
    fn address(&self) -> String {
        self.address.clone()
    }

    async fn send(&self, request: Request) -> Result<Response, ClientError> {
        let unexpected = |detail: String| ClientError::Unexpected { server: self.address(), detail };
        let (content_type, body) = match request.payload {
            Payload::None => (None, Body::empty()),
            Payload::Json(message) => (Some("application/json"), Body::from(message)),
            Payload::File(bytes, _) => (Some("application/octet-stream"), Body::from(bytes)),
        };
        let mut builder = axum::http::Request::builder().method(request.method).uri(request.target);
        if let Some(content_type) = content_type {
            builder = builder.header(CONTENT_TYPE, content_type);
        }
        let mut request = builder.body(body).map_err(|error| unexpected(error.to_string()))?;
        let request_id = self.caller.as_ref().map(|caller| caller.request_id.clone());
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        if let Some(called_as) = self.called_as {
            request.extensions_mut().insert(called_as);
        }
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), self.max_bytes).await;
        let body = body.map_err(|error| unexpected(format!("{error} ({} bytes are allowed)", self.max_bytes)))?;
        Ok(Response { status, request_id, body })
    }
}
