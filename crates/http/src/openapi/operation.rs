//! The description of a method: partly given with its route, partly derived from the types of its handler.

use std::collections::BTreeSet;
use std::io::Read;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use tunesmith_access::Permission;

use crate::agents::AgentRun;
use crate::authorization::CreatedResource;
use crate::body::{Body, Report};
use crate::names::Names;
use crate::query::Query;
use crate::rendered::Rendered;
use crate::request_key::RequestKey;
use crate::status::ApiError;
use crate::trial_reports::ReportingTrial;

/// Generates the schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A method of the server.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// Names are in braces; text after a colon is a custom method.
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(super) summary: &'static str,
    /// Error statuses of responses.
    pub(super) statuses: BTreeSet<u16>,
    pub(super) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    /// Whether the body is arbitrary bytes.
    pub(super) takes_bytes: bool,
    /// An example of the body, as JSON.
    pub(super) example: Option<&'static str>,
    pub(super) answer: Option<SchemaOf>,
    /// The content type of a text response.
    pub(super) text: Option<&'static str>,
    /// Whether the response is the content of a file.
    pub(super) returns_bytes: bool,
    /// Whether the method accepts an `Idempotency-Key`.
    pub(super) takes_key: bool,
    /// The name in other paths of the resource that the method creates, and the OpenAPI expression for its value.
    pub(super) makes: Option<(&'static str, &'static str)>,
    pub(crate) access: RequiredAccess,
    /// Factor for the time limit of requests.
    pub(crate) time_limit_factor: u32,
    /// Whether it changes nothing although its HTTP method is not GET.
    pub(crate) only_reads: bool,
}

/// The access that a method requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredAccess {
    /// None.
    None,
    /// The token of the running trial, which the handler checks.
    TrialToken,
    /// Any token, if the server requires tokens.
    Token,
    /// A token whose principal has this permission, if the server requires tokens.
    Permission(Permission),
}

impl Operation {
    /// A method that reads.
    pub(crate) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::GET, path, id, summary)
    }

    /// A custom method or one that creates.
    pub(crate) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::POST, path, id, summary)
    }

    /// A method that stores a resource under a given name.
    pub(crate) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PUT, path, id, summary)
    }

    /// A method that changes a resource.
    pub(crate) fn patch(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PATCH, path, id, summary)
    }

    /// A method that deletes a resource.
    pub(crate) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::DELETE, path, id, summary)
    }

    fn new(method: Method, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            summary,
            statuses: BTreeSet::from([400, 401, 403, 429, 500, 503, 504]),
            query: None,
            body: None,
            takes_bytes: false,
            example: None,
            answer: None,
            text: None,
            returns_bytes: false,
            takes_key: false,
            makes: None,
            access: RequiredAccess::Token,
            time_limit_factor: 1,
            only_reads: false,
        }
    }

    /// Requires `permission` on the project or the job in the path.
    pub(crate) fn permission(mut self, permission: Permission) -> Self {
        self.access = RequiredAccess::Permission(permission);
        self
    }

    /// Multiplies the time limit of the method by `factor`.
    pub(crate) fn time_limit_factor(mut self, factor: u32) -> Self {
        self.time_limit_factor = factor;
        self
    }

    /// Marks a method with a body as one that changes nothing.
    pub(crate) fn only_reads(mut self) -> Self {
        self.only_reads = true;
        self
    }

    /// Adds `status` to the error statuses.
    pub(crate) fn or(mut self, status: StatusCode) -> Self {
        self.statuses.insert(status.as_u16());
        self
    }

    /// Adds the status of a resource that does not exist.
    pub(crate) fn or_not_found(self) -> Self {
        self.or(StatusCode::NOT_FOUND)
    }

    /// Adds the status of a resource that exists already or was changed concurrently.
    pub(crate) fn or_conflict(self) -> Self {
        self.or(StatusCode::CONFLICT)
    }

    /// Adds an example of the body, as JSON.
    pub(crate) fn example(mut self, body: &'static str) -> Self {
        self.example = Some(body);
        self
    }

    /// Marks the method as one that creates the resource `{name}` of other paths; `expression` is the OpenAPI link
    /// expression for its value.
    pub(crate) fn makes(mut self, name: &'static str, expression: &'static str) -> Self {
        self.makes = Some((name, expression));
        self
    }

    /// Requires the token of a running trial.
    pub(crate) fn of_trial_program(mut self) -> Self {
        self.access = RequiredAccess::TrialToken;
        self
    }

    /// Requires no token. For methods without confidential data.
    pub(crate) fn open(mut self) -> Self {
        self.access = RequiredAccess::None;
        self.statuses = BTreeSet::from([400, 500, 504]);
        self
    }
}

/// An input of a handler.
pub(crate) trait Input {
    /// Adds the input to the description of a method.
    fn describe(_: &mut Operation) {}
}

impl<S> Input for State<S> {}
impl<T> Input for Extension<T> {}
impl Input for HeaderMap {}
impl<const N: usize> Input for Names<N> {}
impl Input for AgentRun {}
impl Input for ReportingTrial {}

/// Arbitrary bytes.
impl Input for axum::body::Body {
    fn describe(operation: &mut Operation) {
        operation.takes_bytes = true;
        operation.statuses.insert(413);
    }
}

impl Input for RequestKey {
    fn describe(operation: &mut Operation) {
        operation.takes_key = true;
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

impl<T: JsonSchema> Input for Report<T> {
    fn describe(operation: &mut Operation) {
        Body::<T>::describe(operation);
    }
}

/// An output of a handler.
pub(crate) trait Answer {
    /// Adds the output to the description of a method.
    fn describe(operation: &mut Operation);
}

impl<T: JsonSchema> Answer for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.answer = Some(SchemaGenerator::subschema_for::<T>);
    }
}

impl<T: JsonSchema> Answer for Rendered<T> {
    fn describe(operation: &mut Operation) {
        Json::<T>::describe(operation);
    }
}

/// The response to a request that created the resource with this name.
pub(crate) struct Created<T>(pub(crate) String, pub(crate) Json<T>);

impl<T: serde::Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let Self(name, message) = self;
        (axum::Extension(CreatedResource(name)), message).into_response()
    }
}

impl<T: JsonSchema> Answer for Created<T> {
    fn describe(operation: &mut Operation) {
        Json::<T>::describe(operation);
    }
}

/// A text response.
pub(crate) struct Text {
    pub(crate) content_type: &'static str,
    pub(crate) text: String,
}

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, self.content_type)], self.text).into_response()
    }
}

impl Answer for Text {
    fn describe(operation: &mut Operation) {
        // The only text response of the server.
        operation.text = Some("application/openmetrics-text");
    }
}

/// The first `length` bytes of a file.
pub(crate) struct Bytes {
    pub(crate) file: std::fs::File,
    pub(crate) length: u64,
}

/// Number of bytes that are read at once.
const BYTES_PER_READ: usize = 256 << 10;

impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        let Self { file, length } = self;
        // A file that grows meanwhile has no more than the stated length.
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

impl Answer for Bytes {
    fn describe(operation: &mut Operation) {
        operation.returns_bytes = true;
    }
}

impl Answer for StatusCode {
    fn describe(_: &mut Operation) {}
}

impl<A: Answer> Answer for Result<A, ApiError> {
    fn describe(operation: &mut Operation) {
        A::describe(operation);
    }
}

/// A handler with the inputs `I` and the output `A`.
pub(crate) trait Documented<I, A> {
    /// Adds inputs and output to the description of a method.
    fn describe(operation: &mut Operation);
}

macro_rules! documented {
    ($($input:ident)*) => {
        impl<F, Fut, A, $($input),*> Documented<($($input,)*), A> for F
        where
            F: Fn($($input),*) -> Fut,
            Fut: Future<Output = A>,
            A: Answer,
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
