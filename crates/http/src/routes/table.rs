//! Route table: path, permission, handler and OpenAPI description of each method.
//!
//! Paths are as published, `/v1/projects/{project}/jobs/{job}:cancel`. Text after a colon is part of the last segment,
//! so methods that differ only in it share an axum route and are distinguished here. Routing decodes the names in the
//! path once, for both authorisation and the handler.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::handler::Handler;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::future::BoxFuture;
use tunesmith_admission::tools::{TOOL_HEADER, called_as};
use tunesmith_admission::{AccessControl, Admission, Call, CalledAs, Client, Outcome, UseCase};

use crate::openapi::{CreatedResource, Documented, Operation, query_names};
use crate::request::names::{PathNames, decode, no_method, wrong_method};
use crate::request::query;
use crate::response::error::{ApiError, Code};

/// Header with a client-chosen key for a change that the client may retry.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Published API whose clients this server supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Methods for operators, outside `/v1`.
    Server,
    /// AI Platform's `ml v1` and Tunesmith's extensions.
    MlV1,
}

impl Dialect {
    fn prefix(self) -> &'static str {
        match self {
            Self::Server => "/",
            Self::MlV1 => "/v1/",
        }
    }
}

/// Methods of a dialect whose handlers share a state.
pub(crate) struct Routes<S> {
    dialect: Dialect,
    entries: Vec<Entry<S>>,
}

struct Entry<S> {
    operation: Operation,
    query: Vec<String>,
    handler: ErasedHandler<S>,
}

/// Handler. Callable only with an [`Admission`], which only admission creates.
type ErasedHandler<S> = Box<dyn Fn(Admission, Request, S) -> BoxFuture<'static, Response> + Send + Sync>;

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, entries: Vec::new() }
    }

    /// Adds a method, and completes its OpenAPI description from the handler's types.
    pub(crate) fn add<H, T, I, A>(mut self, mut operation: Operation, handler: H) -> Self
    where
        H: Handler<T, S> + Documented<I, A> + Sync,
        T: 'static,
    {
        debug_assert!(operation.path.starts_with(self.dialect.prefix()), "{}", operation.path);
        H::describe(&mut operation);
        let handler: ErasedHandler<S> = Box::new(move |admission, mut request, state| {
            request.extensions_mut().insert(admission);
            Box::pin(handler.clone().call(request, state))
        });
        self.entries.push(Entry { query: query_names(&operation), operation, handler });
        self
    }

    pub(crate) fn operations(self) -> impl Iterator<Item = Operation> {
        self.entries.into_iter().map(|entry| entry.operation)
    }

    pub(crate) fn with_state(self, state: &S, control: &Arc<AccessControl>) -> Router {
        let mut router = Router::new();
        let mut groups: BTreeMap<String, (LastSegment, Vec<Entry<S>>)> = BTreeMap::new();
        for entry in self.entries {
            let (route, last) = route(entry.operation.path);
            groups.entry(route).or_insert((last, Vec::new())).1.push(entry);
        }
        for (route, (last, entries)) in groups {
            let group = Arc::new(Group { last, entries, state: state.clone(), control: Arc::clone(control) });
            router = router.route(&route, any(move |request: Request| respond(Arc::clone(&group), request)));
        }
        router
    }
}

/// Methods that share an axum route.
struct Group<S> {
    last: LastSegment,
    entries: Vec<Entry<S>>,
    state: S,
    control: Arc<AccessControl>,
}

/// Format of a route's last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastSegment {
    Fixed,
    /// Name, optionally followed by a custom method.
    Name,
    /// Fixed text followed by a custom method.
    FixedWithMethod,
}

/// Axum route for `path`.
fn route(path: &str) -> (String, LastSegment) {
    let (parent, segment) = path.rsplit_once('/').unwrap_or(("", path));
    match segment.split_once(':') {
        Some((name, _)) if name.starts_with('{') => (format!("{parent}/{name}"), LastSegment::Name),
        Some(_) => (format!("{parent}/{{custom_method}}"), LastSegment::FixedWithMethod),
        None if segment.starts_with('{') => (path.to_owned(), LastSegment::Name),
        None => (path.to_owned(), LastSegment::Fixed),
    }
}

/// Part of the last segment that selects the method: `cancel` of `{job}:cancel`, all of `trials:suggest`.
fn custom_method(segment: &str, last: LastSegment) -> &str {
    match last {
        LastSegment::Fixed => "",
        LastSegment::Name => segment.rsplit_once(':').map_or("", |(_, method)| method),
        LastSegment::FixedWithMethod => segment,
    }
}

async fn respond<S: Clone + Send + Sync + 'static>(group: Arc<Group<S>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let (entry, names) = match group.find(&mut parts).await {
        Ok(found) => found,
        Err(refusal) => return unknown(&group.control, &parts, refusal).await,
    };
    let operation = &entry.operation;
    let named = |parameter: &str| names.get(operation.path, parameter);
    let (project, job) = (named("project").unwrap_or_default(), named("job").or_else(|| named("model")));
    let admission = match group.control.admit(call(operation.use_case, project, job, &parts)).await {
        Ok(admission) => admission,
        Err(refusal) => return of(operation.use_case, ApiError::from(refusal).into_response()),
    };
    let query = parts.uri.query().unwrap_or_default();
    let (query_bytes, checked) = (query.len(), query::check(query, &entry.query));
    let begins_change = operation.body.is_none() && operation.method != Method::GET;
    parts.extensions.insert(names);
    let handle = |admission: Admission| {
        let begin = begins_change.then(|| admission.clone());
        let handler = (entry.handler)(admission, Request::from_parts(parts, body), group.state.clone());
        async move {
            if let Err(error) = checked {
                return error.into_response();
            }
            if let Some(admission) = begin {
                admission.begin_change();
            }
            handler.await
        }
    };
    let response = admission.run(query_bytes, handle, outcome).await;
    of(operation.use_case, response.unwrap_or_else(|refusal| ApiError::from(refusal).into_response()))
}

/// Responds to a request for an unknown method: with `refusal`, if the caller is authenticated.
pub(crate) async fn unknown(control: &Arc<AccessControl>, parts: &Parts, refusal: Response) -> Response {
    let use_case = UseCase::unknown(!matches!(parts.method, Method::GET | Method::HEAD));
    let response = match control.admit(call(use_case, String::new(), None, parts)).await {
        Ok(admission) => admission.run(0, |_| async { refusal }, outcome).await,
        Err(error) => Err(error),
    };
    of(use_case, response.unwrap_or_else(|refusal| ApiError::from(refusal).into_response()))
}

fn call(use_case: UseCase, project: String, job: Option<String>, parts: &Parts) -> Call {
    let key = parts.headers.get(IDEMPOTENCY_KEY);
    let of_header = || {
        let name = parts.headers.get(TOOL_HEADER)?;
        called_as(name.to_str().ok()?, use_case)
    };
    let use_case = match parts.extensions.get::<CalledAs>().copied().or_else(of_header) {
        Some(CalledAs(name)) => use_case.shown_as(name),
        None => use_case,
    };
    Call {
        use_case,
        project,
        job,
        resource: parts.uri.path().trim_start_matches("/v1/").to_owned(),
        client: parts.extensions.get::<Client>().cloned().unwrap_or_default(),
        idempotency_key: key.map(|key| key.to_str().unwrap_or_default().to_owned()),
    }
}

fn outcome(response: &Response) -> Outcome {
    let created = response.extensions().get::<CreatedResource>();
    Outcome { status: response.status().as_u16(), resource: created.map(|CreatedResource(name)| name.clone()) }
}

/// Records the called use case in `response`, for the log.
fn of(use_case: UseCase, mut response: Response) -> Response {
    response.extensions_mut().insert(use_case);
    response
}

impl<S> Group<S> {
    async fn find(&self, parts: &mut Parts) -> Result<(&Entry<S>, PathNames), Response> {
        let bad_path = |text: String| ApiError::new(Code::InvalidArgument, text).into_response();
        if decode(parts.uri.path()).is_none() {
            return Err(bad_path(format!("the path {:?} is not percent-encoded UTF-8", parts.uri.path())));
        }
        let given = RawPathParams::from_request_parts(parts, &()).await;
        let given = given.map_err(|error| bad_path(format!("invalid path: {error}")))?;
        let mut names: Vec<String> = given.iter().map(|(_, name)| name.to_owned()).collect();
        let method = match self.last {
            LastSegment::Fixed => String::new(),
            LastSegment::Name => names.last_mut().map_or_else(String::new, |last| {
                let method = custom_method(last, self.last).to_owned();
                if !method.is_empty() {
                    last.truncate(last.len() - method.len() - 1);
                }
                method
            }),
            LastSegment::FixedWithMethod => names.pop().unwrap_or_default(),
        };
        let path = parts.uri.path();
        let http_method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
        let mut allowed = Vec::new();
        for entry in self.entries.iter().filter(|entry| self.custom_method(entry) == method) {
            if entry.operation.method == *http_method {
                return Ok((entry, PathNames(names)));
            }
            allowed.push(&entry.operation.method);
        }
        if allowed.is_empty() {
            return Err(no_method(&format!("{} {path}", parts.method)).into_response());
        }
        Err(wrong_method(path, &parts.method, &allowed))
    }

    fn custom_method<'a>(&self, entry: &'a Entry<S>) -> &'a str {
        custom_method(entry.operation.path.rsplit('/').next().unwrap_or_default(), self.last)
    }
}
