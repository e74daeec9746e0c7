//! Local endpoint for reports of the program over HTTP.
//!
//! It listens on the node's loopback interface, so that a program needs no connection to the server, and reports are
//! accepted while the server is unreachable. Other requests with the token of the attempt are forwarded.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;

use super::outbox::Outbox;
use tunesmith_api::ai_platform::optimizer::AddMeasurementRequest;
use tunesmith_api::ai_platform::proto_json;

/// Maximum size of a report in bytes.
const MAX_BODY_BYTES: usize = 4 << 20;

pub(super) struct Endpoint {
    /// HTTP client and address of the server.
    pub(super) http: reqwest::Client,
    pub(super) server: String,
    /// Name of the trial, as in `TUNESMITH_TRIAL`.
    pub(super) trial: String,
    /// Token given to the program.
    pub(super) token: String,
    /// Reports for the server.
    pub(super) outbox: Arc<Outbox>,
}

impl Endpoint {
    /// Starts accepting reports, and returns the address.
    ///
    /// # Errors
    /// If no port is free.
    pub(super) async fn start(self) -> io::Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let router =
            Router::new().fallback(answer).layer(DefaultBodyLimit::max(MAX_BODY_BYTES)).with_state(Arc::new(self));
        tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the address for reports of the program is closed");
            }
        });
        Ok(address)
    }
}

async fn answer(
    State(endpoint): State<Arc<Endpoint>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if given != Some(&endpoint.token) {
        return refuse(
            StatusCode::UNAUTHORIZED,
            "UNAUTHENTICATED",
            "send the header `authorization: Bearer $TUNESMITH_TOKEN`",
        );
    }
    if method == Method::POST && uri.path() == format!("/v1/{}:addMeasurement", endpoint.trial) {
        return endpoint.report(&body).await;
    }
    endpoint.pass_on(method, &uri, &headers, body).await
}

impl Endpoint {
    async fn report(&self, body: &[u8]) -> Response {
        let read = proto_json::read::<AddMeasurementRequest>(body).map_err(|error| error.to_string());
        let measured = read.and_then(|request| {
            let measurement = request.measurement.ok_or_else(|| "measurement is required".to_owned())?;
            measurement
                .into_measurement("measurement")
                .map_err(|refused| format!("{}: {}", refused.field, refused.description))
        });
        let mut measurement = match measured {
            Ok(measurement) => measurement,
            Err(text) => return refuse(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", &text),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        measurement.wall_time_secs = now.as_secs_f64();
        let outbox = Arc::clone(&self.outbox);
        let writing = tokio::task::spawn_blocking(move || outbox.add_report(measurement)).await;
        if let Err(error) = writing.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::error!(%error, "a report of the program cannot be kept");
            return refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "UNAVAILABLE",
                "the report cannot be kept; see the agent's log",
            );
        }
        let state = if self.outbox.is_stopping() { "STOPPING" } else { "ACTIVE" };
        Json(json!({"name": self.trial, "state": state})).into_response()
    }

    async fn pass_on(&self, method: Method, uri: &Uri, headers: &HeaderMap, body: Bytes) -> Response {
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut request = self.http.request(method, format!("{}{target}", self.server)).body(body);
        for name in [AUTHORIZATION, CONTENT_TYPE] {
            if let Some(value) = headers.get(&name) {
                request = request.header(name, value);
            }
        }
        let answered = async {
            let response = request.send().await?;
            let (status, kind) = (response.status(), response.headers().get(CONTENT_TYPE).cloned());
            Ok::<_, reqwest::Error>((status, kind, response.bytes().await?))
        };
        match answered.await {
            Ok((status, kind, bytes)) => {
                let mut response = (status, bytes).into_response();
                if let Some(kind) = kind {
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                }
                response
            }
            Err(error) => {
                tracing::debug!(error = %error.without_url(), "a request of the program could not be passed on");
                refuse(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "the server cannot be reached; try again later")
            }
        }
    }
}

fn refuse(status: StatusCode, name: &str, message: &str) -> Response {
    let error = json!({"error": {"code": status.as_u16(), "message": message, "status": name}});
    (status, Json(error)).into_response()
}
