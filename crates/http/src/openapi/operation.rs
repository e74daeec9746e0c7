//! Method descriptions, partly declared with the route, partly derived from the handler's types.

use std::collections::BTreeSet;
use std::io::Read;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use tunesmith_admission::{RequiredAccess, UseCase};
use tunesmith_api::ai_platform::prediction::PredictRequest;

use crate::request::body::{Body, RawBody, Report};
use crate::request::names::Names;
use crate::request::query::Query;
use crate::response::error::ApiError;
use crate::response::rendered::Rendered;
use crate::routes::programs::agents::AgentRun;
use crate::routes::programs::trial_reports::ReportingTrial;

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// Names are in braces; text after a colon is a custom method.
    pub(crate) path: &'static str,
    pub(crate) use_case: UseCase,
    pub(super) statuses: BTreeSet<u16>,
    pub(super) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    pub(super) takes_bytes: bool,
    pub(super) example: Option<&'static str>,
    pub(super) response: Option<SchemaOf>,
    pub(super) text: Option<&'static str>,
    pub(super) returns_bytes: bool,
    /// Parameter name of the created resource in other paths, with the OpenAPI expression for its value.
    pub(super) makes: Option<(&'static str, &'static str)>,
}

impl Operation {
    pub(crate) fn get(path: &'static str, use_case: UseCase) -> Self {
        Self::new(Method::GET, path, use_case)
    }

    pub(crate) fn post(path: &'static str, use_case: UseCase) -> Self {
        Self::new(Method::POST, path, use_case)
    }

    pub(crate) fn new(method: Method, path: &'static str, use_case: UseCase) -> Self {
        let mut statuses = BTreeSet::from([400, 500, 504]);
        if use_case.access() != RequiredAccess::Open {
            statuses.extend([401, 403, 429, 503]);
        }
        Self {
            method,
            path,
            use_case,
            statuses,
            query: None,
            body: None,
            takes_bytes: false,
            example: None,
            response: None,
            text: None,
            returns_bytes: false,
            makes: None,
        }
    }

    pub(crate) fn or(mut self, status: StatusCode) -> Self {
        self.statuses.insert(status.as_u16());
        self
    }

    pub(crate) fn or_not_found(self) -> Self {
        self.or(StatusCode::NOT_FOUND)
    }

    pub(crate) fn or_conflict(self) -> Self {
        self.or(StatusCode::CONFLICT)
    }

    pub(crate) fn example(self, body: &'static str) -> Self {
        Self { example: Some(body), ..self }
    }

    /// Declares that the method creates the resource `{name}` of other paths; `expression` is the OpenAPI link
    /// expression for its value.
    pub(crate) fn makes(self, name: &'static str, expression: &'static str) -> Self {
        Self { makes: Some((name, expression)), ..self }
    }
}

pub(crate) trait Input {
    fn describe(_: &mut Operation) {}
}

impl<S> Input for State<S> {}
impl<T> Input for Extension<T> {}
impl Input for HeaderMap {}
impl<const N: usize> Input for Names<N> {}
impl Input for AgentRun {}
impl Input for ReportingTrial {}

impl Input for axum::body::Body {
    fn describe(operation: &mut Operation) {
        operation.takes_bytes = true;
        operation.statuses.insert(413);
    }
}

impl<T: JsonSchema> Input for Query<T> {
    fn describe(operation: &mut Operation) {
        operation.query = Some(SchemaGenerator::subschema_for::<T>);
    }
}

impl<T: JsonSchema> Input for Body<T> {
    fn describe(operation: &mut Operation) {
        operation.body = Some(SchemaGenerator::subschema_for::<T>);
        operation.statuses.extend([413, 415]);
    }
}

impl Input for RawBody {
    fn describe(operation: &mut Operation) {
        Body::<PredictRequest>::describe(operation);
    }
}

impl<T: JsonSchema> Input for Report<T> {
    fn describe(operation: &mut Operation) {
        Body::<T>::describe(operation);
    }
}

pub(crate) trait Output {
    fn describe(operation: &mut Operation);
}

impl<T: JsonSchema> Output for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.response = Some(SchemaGenerator::subschema_for::<T>);
    }
}

impl<T: JsonSchema> Output for Rendered<T> {
    fn describe(operation: &mut Operation) {
        Json::<T>::describe(operation);
    }
}

/// Name of the created resource, as a response extension.
#[derive(Debug, Clone)]
pub(crate) struct CreatedResource(pub(crate) String);

pub(crate) struct Created<T>(pub(crate) String, pub(crate) Json<T>);

impl<T: serde::Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let Self(name, message) = self;
        (axum::Extension(CreatedResource(name)), message).into_response()
    }
}

impl<T: JsonSchema> Output for Created<T> {
    fn describe(operation: &mut Operation) {
        Json::<T>::describe(operation);
    }
}

pub(crate) struct Text {
    pub(crate) content_type: &'static str,
    pub(crate) text: String,
}

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, self.content_type)], self.text).into_response()
    }
}

impl Output for Text {
    fn describe(operation: &mut Operation) {
        // The only text response of the server.
        operation.text = Some("application/openmetrics-text");
    }
}

/// First `length` bytes of a file.
pub(crate) struct Bytes {
    pub(crate) file: std::fs::File,
    pub(crate) length: u64,
}

/// Read size in bytes.
const BYTES_PER_READ: usize = 256 << 10;

impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        let Self { file, length } = self;
        // Cuts a growing file off at the stated length.
        let pieces = futures::stream::try_unfold(file.take(length), |mut file| async move {
            let read = tokio::task::spawn_blocking(move || {
                let mut piece = vec![0; BYTES_PER_READ];
                let length = file.read(&mut piece)?;
                piece.truncate(length);
                Ok::<_, std::io::Error>((length > 0).then_some((piece, file)))
            });
            read.await.map_err(std::io::Error::other)?
        });
        let headers = [(CONTENT_TYPE, "application/octet-stream".to_owned()), (CONTENT_LENGTH, length.to_string())];
        (headers, axum::body::Body::from_stream(pieces)).into_response()
    }
}

impl Output for Bytes {
    fn describe(operation: &mut Operation) {
        operation.returns_bytes = true;
    }
}

/// Message to a worker of a model; without one, the status is 204.
pub(crate) struct Frame(pub(crate) Option<bytes::Bytes>);

impl IntoResponse for Frame {
    fn into_response(self) -> Response {
        match self.0 {
            Some(message) => ([(CONTENT_TYPE, "application/octet-stream")], message).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

impl Output for Frame {
    fn describe(operation: &mut Operation) {
        operation.returns_bytes = true;
    }
}

impl Output for StatusCode {
    fn describe(_: &mut Operation) {}
}

impl<A: Output> Output for Result<A, ApiError> {
    fn describe(operation: &mut Operation) {
        A::describe(operation);
    }
}

/// Handler with inputs `I` and output `A`.
pub(crate) trait Documented<I, A> {
    fn describe(operation: &mut Operation);
}

macro_rules! documented {
    ($($input:ident)*) => {
        impl<F, Fut, A, $($input),*> Documented<($($input,)*), A> for F
        where
            F: Fn($($input),*) -> Fut,
            Fut: Future<Output = A>,
            A: Output,
            $($input: Input,)*
        {
            fn describe(operation: &mut Operation) {
                $($input::describe(operation);)*
                A::describe(operation);
            }
        }
    };
}

documented! {}
documented! { I1 }
documented! { I1 I2 }
documented! { I1 I2 I3 }
documented! { I1 I2 I3 I4 }
documented! { I1 I2 I3 I4 I5 }
