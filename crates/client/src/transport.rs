use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;

use super::ClientError;

/// Sends requests to the service, over the network or in-process.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Service address for messages.
    fn address(&self) -> String;

    /// Sends one request.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`], or [`ClientError::Unexpected`] for a truncated response.
    async fn send(&self, request: Request) -> Result<Response, ClientError>;
}

#[derive(Debug)]
pub struct Request {
    pub method: Method,
    /// Path and query.
    pub target: String,
    pub payload: Payload,
    /// Whether to retry if the connection breaks before the response. The request then carries an idempotency key.
    pub is_repeated: bool,
}

/// Receives the total number of uploaded bytes.
pub type UploadProgress = Arc<dyn Fn(u64) + Send + Sync>;

/// A request body.
pub enum Payload {
    None,
    Json(Vec<u8>),
    /// A file and its progress callback.
    File(Bytes, UploadProgress),
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Json(_) => "Json",
            Self::File(..) => "File",
        })
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Request ID in the server's log.
    pub request_id: Option<String>,
    pub body: Bytes,
}
