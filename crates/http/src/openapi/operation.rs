//! What is told of one method of the service: partly said where its route is, partly read off its handler.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use tunesmith_access::Permission;

use crate::body::{Body, Report};
use crate::names::Names;
use crate::query::Query;
use crate::request_key::RequestKey;
use crate::status::ApiError;

/// Makes the schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A method of the service.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// With names in braces; what follows a colon is a custom method.
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(super) summary: &'static str,
    /// Besides 200.
    pub(super) statuses: BTreeSet<u16>,
    pub(super) query: Option<SchemaOf>,
    pub(super) body: Option<SchemaOf>,
    /// Whether its body is bytes of any kind.
    pub(super) takes_bytes: bool,
    /// An example of the body, as JSON.
    pub(super) example: Option<&'static str>,
    pub(super) answer: Option<SchemaOf>,
    /// The content type of an answer that is text.
    pub(super) text: Option<&'static str>,
    /// Whether a request that is sent again under the same `Idempotency-Key` is known as such.
    pub(super) takes_key: bool,
    /// What the thing that it makes is called in the paths of others, and where the answer or the request has its name.
    pub(super) makes: Option<(&'static str, &'static str)>,
    pub(crate) access: RequiredAccess,
    /// Factor by which it may take longer than other methods.
    pub(crate) time_limit_factor: u32,
}

/// What the caller of a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredAccess {
    /// Nothing.
    None,
    /// The token of the running trial, which the handler checks.
    TrialToken,
    /// Any token, if the server requires tokens.
    Token,
    /// A token whose principal has this permission, if the server requires tokens.
    Permission(Permission),
}

impl Operation {
    /// The method `id`, which reads.
    pub(crate) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::GET, path, id, summary)
    }

    /// The method `id`, which acts.
    pub(crate) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::POST, path, id, summary)
    }

    /// The method `id`, which puts something in its place.
    pub(crate) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PUT, path, id, summary)
    }

    /// The method `id`, which changes.
    pub(crate) fn patch(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PATCH, path, id, summary)
    }

    /// The method `id`, which removes.
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
            takes_key: false,
            makes: None,
            access: RequiredAccess::Token,
            time_limit_factor: 1,
        }
    }

    /// Requires `permission` on the project or the job in the path.
    pub(crate) fn permission(mut self, permission: Permission) -> Self {
        self.access = RequiredAccess::Permission(permission);
        self
    }

    /// Allows it `factor` times the time limit of other methods.
    pub(crate) fn time_limit_factor(mut self, factor: u32) -> Self {
        self.time_limit_factor = factor;
        self
    }

    /// It may also be answered with `status`.
    pub(crate) fn or(mut self, status: StatusCode) -> Self {
        self.statuses.insert(status.as_u16());
        self
    }

    /// What it names may not be there.
    pub(crate) fn or_not_found(self) -> Self {
        self.or(StatusCode::NOT_FOUND)
    }

    /// What it names may be there already, or have been changed by somebody else.
    pub(crate) fn or_conflict(self) -> Self {
        self.or(StatusCode::CONFLICT)
    }

    /// A body that it may be sent, as JSON.
    pub(crate) fn example(mut self, body: &'static str) -> Self {
        self.example = Some(body);
        self
    }

    /// It makes what is `{name}` in the paths of others; `expression` (of an OpenAPI link) says where its name stands.
    pub(crate) fn makes(mut self, name: &'static str, expression: &'static str) -> Self {
        self.makes = Some((name, expression));
        self
    }

    /// It is for the program of a trial.
    pub(crate) fn of_trial_program(mut self) -> Self {
        self.access = RequiredAccess::TrialToken;
        self
    }

    /// It is for anybody, and says nothing that is worth protecting.
    pub(crate) fn open(mut self) -> Self {
        self.access = RequiredAccess::None;
        self.statuses = BTreeSet::from([400, 500, 504]);
        self
    }
}

/// What a handler takes out of a request.
pub(crate) trait Input {
    /// Says so.
    fn describe(_: &mut Operation) {}
}

impl<S> Input for State<S> {}
impl<T> Input for Extension<T> {}
impl Input for HeaderMap {}
impl<const N: usize> Input for Names<N> {}

/// Bytes as they are.
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

/// What a handler answers.
pub(crate) trait Answer {
    /// Says so.
    fn describe(operation: &mut Operation);
}

impl<T: JsonSchema> Answer for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.answer = Some(SchemaGenerator::subschema_for::<T>);
    }
}

/// An answer that is text, not JSON.
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
        // The only text that is answered.
        operation.text = Some("application/openmetrics-text");
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

/// A handler that takes `I` and answers `A`.
pub(crate) trait Documented<I, A> {
    /// Says so.
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
