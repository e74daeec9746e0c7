//! The client that sends requests to the service, on a server or on a data folder.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::Method;
use indicatif::ProgressBar;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::error::{ClientError, Refusal};
use super::folder::Folder;
use super::http::Server;
use super::request::{Answer, Payload, Request};

/// Characters that are encoded within a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where the service runs.
pub(super) enum Transport {
    Server(Server),
    Folder(Box<Folder>),
}

/// A client of the service, for the resources of one project.
pub(super) struct Client {
    pub(super) transport: Arc<Transport>,
    pub(super) project: String,
}

impl Client {
    /// Returns a client for the resources of another project.
    pub(super) fn of_project(&self, project: String) -> Self {
        Self { transport: Arc::clone(&self.transport), project }
    }

    /// Returns the path of a resource of the project, from the segments of its name.
    pub(super) fn path(&self, segments: &[&str]) -> String {
        self.path_below("/v1", segments)
    }

    fn path_below(&self, root: &str, segments: &[&str]) -> String {
        let encode = |segment: &str| utf8_percent_encode(segment, SEGMENT).to_string();
        let mut path = format!("{root}/projects/{}", encode(&self.project));
        for segment in segments {
            path.push('/');
            path.push_str(&encode(segment));
        }
        path
    }

    /// The address of a page of the console.
    pub(super) fn page_address(&self, segments: &[&str]) -> String {
        format!("{}{}", self.address().trim_end_matches('/'), self.path_below("/console", segments))
    }

    /// Sends a GET request.
    pub(super) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, ClientError> {
        self.send(Method::GET, path, query, Payload::None).await
    }

    /// Sends a POST request.
    pub(super) async fn post(&self, path: &str, query: &[(&str, &str)], body: Value) -> Result<Value, ClientError> {
        self.send(Method::POST, path, query, Payload::Json(body)).await
    }

    /// Sends a PATCH request.
    pub(super) async fn patch(&self, path: &str, query: &[(&str, &str)], body: Value) -> Result<Value, ClientError> {
        self.send(Method::PATCH, path, query, Payload::Json(body)).await
    }

    /// Sends a PUT request with the bytes of a file. Its progress is shown by `taken`.
    pub(super) async fn put(&self, path: &str, bytes: Bytes, taken: ProgressBar) -> Result<Value, ClientError> {
        self.send(Method::PUT, path, &[], Payload::File(bytes, taken)).await
    }

    /// Sends a DELETE request.
    pub(super) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.send(Method::DELETE, path, &[], Payload::None).await
    }

    /// Reads the page of the console with these segments below the project.
    ///
    /// # Errors
    /// [`ClientError::NoPage`] with the reason that the server gives.
    pub(super) async fn page(&self, segments: &[&str]) -> Result<Bytes, ClientError> {
        let target = self.path_below("/console", segments);
        let request = Request { method: Method::GET, target, payload: Payload::None };
        let Answer { status, body, .. } = self.answer(request).await?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let reason = String::from_utf8_lossy(&body).into_owned();
        // A server without this page answers with another one.
        let is_html = reason.trim_start().starts_with('<');
        Err(ClientError::NoPage {
            server: self.address(),
            status,
            reason: if is_html { "it has no such page; it may be of another version".to_owned() } else { reason },
        })
    }

    async fn answer(&self, request: Request) -> Result<Answer, ClientError> {
        match &*self.transport {
            Transport::Server(server) => server.send(request).await,
            Transport::Folder(folder) => folder.send(request).await,
        }
    }

    /// Returns the address of the server, or the path of the data folder.
    pub(super) fn address(&self) -> String {
        match &*self.transport {
            Transport::Server(server) => server.address().to_owned(),
            Transport::Folder(folder) => folder.path().display().to_string(),
        }
    }

    /// Returns the data folder, unless the service is a server.
    pub(super) fn folder(&self) -> Option<&Folder> {
        match &*self.transport {
            Transport::Server(_) => None,
            Transport::Folder(folder) => Some(folder),
        }
    }

    /// Whether a relative job folder is one of the current folder: on this machine, unless a token selects the area of a project.
    pub(super) fn uses_current_folder(&self) -> bool {
        match &*self.transport {
            Transport::Server(server) => server.is_local() && !server.has_token(),
            Transport::Folder(_) => true,
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        payload: Payload,
    ) -> Result<Value, ClientError> {
        // Programs need no indentation.
        let mut target = format!("{path}?prettyPrint=false");
        for (name, value) in query {
            target.push_str(&format!("&{name}={}", utf8_percent_encode(value, SEGMENT)));
        }
        let request = Request { method, target, payload };
        let Answer { status, request_id, body } = self.answer(request).await?;
        let foreign = |detail: String| ClientError::Foreign { server: self.address(), detail };
        let is_success = (200..300).contains(&status);
        let value: Value = serde_json::from_slice(&body)
            .map_err(|error| foreign(format!("status {status} with a body that is not JSON ({error})")))?;
        if is_success {
            return Ok(value);
        }
        Err(match Refusal::of(status, request_id, &value) {
            Some(refusal) => ClientError::Refused(refusal),
            None => foreign(format!("status {status} without an error message")),
        })
    }
}
