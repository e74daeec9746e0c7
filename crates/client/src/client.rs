//! Client for the resources of one project.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tunesmith_api::ai_platform::proto_json;

use super::ClientError;
use super::error::{Refusal, named};
use super::transport::{Payload, Request, Response, Transport};

/// Characters escaped within a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A client for the resources of one project.
#[derive(Clone)]
pub struct Client {
    pub(super) transport: Arc<dyn Transport>,
    project: String,
}

/// A response message.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource<T> {
    /// The message as received, including fields unknown to this version.
    pub json: Value,
    /// The fields known to this version.
    pub message: T,
}

impl<T> Deref for Resource<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.message
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Resource<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        let message = proto_json::known(json.clone()).map_err(D::Error::custom)?;
        Ok(Self { json, message })
    }
}

impl Client {
    pub fn new(transport: Arc<dyn Transport>, project: String) -> Self {
        Self { transport, project }
    }

    /// Returns a client for another project.
    #[must_use]
    pub fn of_project(&self, project: String) -> Self {
        Self { transport: Arc::clone(&self.transport), project }
    }

    pub fn project(&self) -> &str {
        &self.project
    }

    /// Address of the server, or path of the data folder.
    pub fn address(&self) -> String {
        self.transport.address()
    }

    /// Path of a project resource, from the segments of its name.
    pub fn path(&self, segments: &[&str]) -> String {
        self.path_below("/v1", segments)
    }

    /// URL of a console page.
    pub fn page_address(&self, segments: &[&str]) -> String {
        format!("{}{}", self.address().trim_end_matches('/'), self.path_below("/console", segments))
    }

    pub(super) fn path_below(&self, root: &str, segments: &[&str]) -> String {
        let encode = |segment: &str| utf8_percent_encode(segment, SEGMENT).to_string();
        let mut path = format!("{root}/projects/{}", encode(&self.project));
        for segment in segments {
            path.push('/');
            path.push_str(&encode(segment));
        }
        path
    }

    /// Fetches the console page at `segments` below the project.
    ///
    /// # Errors
    /// [`ClientError::NoPage`] with the server's reason.
    pub async fn page(&self, segments: &[&str]) -> Result<Bytes, ClientError> {
        let target = self.path_below("/console", segments);
        let request = Request { method: Method::GET, target, payload: Payload::None, is_repeated: true };
        let Response { status, request_id, body } = self.transport.send(request).await?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let reason = String::from_utf8_lossy(&body).into_owned();
        // A server without this page responds with another one.
        let is_html = reason.trim_start().starts_with('<');
        Err(ClientError::NoPage {
            server: self.address(),
            status,
            request_id,
            reason: if is_html { "it has no such page; it may be of another version".to_owned() } else { reason },
        })
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, ClientError> {
        self.send(Method::GET, path, query, Payload::None).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        message: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(Method::POST, path, query, json(message)).await
    }

    pub(super) async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        mask: &str,
        message: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(Method::PATCH, path, &[("updateMask", mask)], json(message)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.send(Method::DELETE, path, &[], Payload::None).await
    }

    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        payload: Payload,
    ) -> Result<T, ClientError> {
        // Programs need no indentation.
        let mut target = format!("{path}?prettyPrint=false");
        for (name, value) in query {
            target.push_str(&format!("&{name}={}", utf8_percent_encode(value, SEGMENT)));
        }
        self.exchange(Request { method, target, payload, is_repeated: true }).await
    }

    pub(super) async fn exchange<T: DeserializeOwned>(&self, request: Request) -> Result<T, ClientError> {
        let Response { status, request_id: id, body } = self.transport.send(request).await?;
        let server = self.address();
        if !(200..300).contains(&status) {
            return Err(Refusal::error(&server, status, id, &body));
        }
        let body: Value = serde_json::from_slice(&body)
            .map_err(|error| ClientError::no_json(&server, status, id.as_deref(), &error))?;
        proto_json::known(body)
            .map_err(|error| ClientError::Unexpected { server, detail: format!("{error}{}", named(id.as_deref())) })
    }
}

pub(super) fn json(message: &impl Serialize) -> Payload {
    Payload::Json(serde_json::to_vec(message).expect("messages have text keys and no other reason to fail"))
}
