//! The table of the server's methods, each with its path, permission, handler and OpenAPI description.
//!
//! Paths are as published, `/v1/projects/{project}/jobs/{job}:cancel`. Text after a colon is part of the last segment,
//! so methods that differ only in it share a route of the axum router and are distinguished here. A request is routed
//! once: the names in its path are decoded, the request is authorised, and its handler gets the same names.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::handler::Handler;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::timeout;

use super::authorization::{Admission, Authorization, Call};
use super::completion::{self, NoAnswer};
use super::large_requests::Progress;
use super::names::{PathNames, decode, no_method, wrong_method};
use super::openapi::{Documented, Operation, answer_schema, query_names};
use super::query;
use super::request_log::MethodName;
use super::status::{ApiError, Code};
use tunesmith_access::{PerPrincipal, SuggestionPermit};

/// The parts that all methods share.
pub(super) struct Dispatch {
    pub(super) authorization: Authorization,
    /// Time limit of a request.
    pub(super) time_limit: Duration,
    /// The large requests of each caller.
    pub(super) lanes: Arc<PerPrincipal>,
}

/// The permit of a suggestion, which a handler keeps while the suggestion continues in the background.
#[derive(Clone)]
pub(super) struct Permit(Arc<Option<SuggestionPermit>>);

impl Permit {
    /// Counts `count` trials of the suggestion, too, until the returned value is dropped.
    ///
    /// # Errors
    /// If the caller waits for too many.
    pub(super) fn of_trials(&self, count: usize) -> Result<impl Send + Sync + use<>, ApiError> {
        let trials = self.0.as_ref().as_ref().map(|permit| permit.trials(count)).transpose()?;
        Ok((self.clone(), trials))
    }
}

/// Methods whose handlers share a state.
pub(super) struct Routes<S> {
    entries: Vec<Entry<S>>,
}

struct Entry<S> {
    operation: Operation,
    /// Names of its query parameters.
    query: Vec<String>,
    /// The JSON schema of its responses, once a request has selected fields of them.
    answer: OnceLock<Option<Value>>,
    handler: ErasedHandler<S>,
}

type ErasedHandler<S> = Box<dyn Fn(Request, S) -> BoxFuture<'static, Response> + Send + Sync>;

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds a method. Its OpenAPI description is completed from the types of its handler.
    pub(super) fn add<H, T, I, A>(mut self, mut operation: Operation, handler: H) -> Self
    where
        H: Handler<T, S> + Documented<I, A> + Sync,
        T: 'static,
    {
        H::describe(&mut operation);
        let handler: ErasedHandler<S> = Box::new(move |request, state| Box::pin(handler.clone().call(request, state)));
        let query = query_names(&operation);
        self.entries.push(Entry { query, answer: OnceLock::new(), operation, handler });
        self
    }

    /// The descriptions of the methods.
    pub(super) fn operations(self) -> impl Iterator<Item = Operation> {
        self.entries.into_iter().map(|entry| entry.operation)
    }

    /// The router of the methods, whose handlers get `state`.
    pub(super) fn with_state(self, state: S, dispatch: &Arc<Dispatch>) -> Router {
        let mut groups: BTreeMap<String, (LastSegment, Vec<Entry<S>>)> = BTreeMap::new();
        for entry in self.entries {
            let (route, last) = route(entry.operation.path);
            groups.entry(route).or_insert((last, Vec::new())).1.push(entry);
        }
        let mut router = Router::new();
        for (route, (last, entries)) in groups {
            let group = Arc::new(Group { last, entries, state: state.clone(), dispatch: Arc::clone(dispatch) });
            router = router.route(&route, any(move |request: Request| answer(Arc::clone(&group), request)));
        }
        router
    }
}

/// Methods that are one route of the axum router.
struct Group<S> {
    last: LastSegment,
    entries: Vec<Entry<S>>,
    state: S,
    dispatch: Arc<Dispatch>,
}

/// The form of the last segment of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastSegment {
    /// Fixed text.
    Fixed,
    /// A name, optionally followed by a custom method.
    Name,
    /// Fixed text followed by a custom method.
    FixedWithMethod,
}

/// The route of the axum router for `path`.
fn route(path: &str) -> (String, LastSegment) {
    let (parent, segment) = path.rsplit_once('/').unwrap_or(("", path));
    match segment.split_once(':') {
        Some((name, _)) if name.starts_with('{') => (format!("{parent}/{name}"), LastSegment::Name),
        Some(_) => (format!("{parent}/{{custom_method}}"), LastSegment::FixedWithMethod),
        None if segment.starts_with('{') => (path.to_owned(), LastSegment::Name),
        None => (path.to_owned(), LastSegment::Fixed),
    }
}

/// The part of a last segment that distinguishes the methods of one route: `cancel` of `{job}:cancel`, the whole of
/// `trials:suggest`.
fn custom_method(segment: &str, last: LastSegment) -> &str {
    match last {
        LastSegment::Fixed => "",
        LastSegment::Name => segment.rsplit_once(':').map_or("", |(_, method)| method),
        LastSegment::FixedWithMethod => segment,
    }
}

async fn answer<S: Clone + Send + Sync + 'static>(group: Arc<Group<S>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let (entry, names) = match group.find(&mut parts).await {
        Ok(found) => found,
        Err(refusal) => return unknown(&group.dispatch, &parts, refusal).await,
    };
    let dispatch = &group.dispatch;
    let call = Call::new(&entry.operation, &names, &parts);
    let begin = Instant::now();
    let limit = dispatch.time_limit * entry.operation.time_limit_factor;
    let admission = match timeout(limit, dispatch.authorization.admit(&call, &parts.headers)).await {
        Ok(admission) => admission,
        Err(_) => Err(ApiError::timed_out(limit, false)),
    };
    let Admission { caller, permit } = match admission {
        Ok(admission) => admission,
        Err(error) => return named(&call, error.into_response()),
    };
    let principal = caller.principal().to_owned();
    let query = parts.uri.query().unwrap_or_default();
    let checked = query::check(query, &entry.query);
    let answer = || entry.answer.get_or_init(|| answer_schema(&entry.operation)).as_ref();
    let checked = checked.and_then(|()| query::check_fields(query, answer));
    if let Err(error) = checked {
        let response = error.into_response();
        dispatch.authorization.record(&call, &principal, &response);
        return named(&call, response);
    }
    let progress = Progress::new(Arc::clone(&dispatch.lanes), call.lane(&caller));
    let reads_body = entry.operation.body.is_some();
    if !reads_body && entry.operation.method != Method::GET {
        progress.begin_change();
    }
    let permit = Permit(Arc::new(permit));
    let query_bytes = query.len();
    parts.extensions.insert(caller);
    parts.extensions.insert(permit.clone());
    parts.extensions.insert(names);
    parts.extensions.insert(progress.clone());
    let handler = (entry.handler)(Request::from_parts(parts, body), group.state.clone());
    // The record and the permit belong to the handler, which outlives a client that disconnects.
    let work = {
        let (dispatch, call, principal) = (Arc::clone(dispatch), call.clone(), principal.clone());
        let progress = progress.clone();
        async move {
            let _permit = permit;
            progress.expect(query_bytes).await;
            let response = handler.await;
            dispatch.authorization.record(&call, &principal, &response);
            response
        }
    };
    let answer = completion::run(work, progress, limit.saturating_sub(begin.elapsed())).await;
    let response = answer.unwrap_or_else(|no_answer| {
        let (error, is_recorded) = match no_answer {
            NoAnswer::Panicked => {
                tracing::error!("a handler panicked");
                (ApiError::new(Code::Internal, "internal error; see the server's log"), false)
            }
            NoAnswer::TimedOut { continues } => (ApiError::timed_out(limit, continues), continues),
        };
        let response = error.into_response();
        if !is_recorded {
            dispatch.authorization.record(&call, &principal, &response);
        }
        response
    });
    named(&call, response)
}

/// Responds to a request for a method that does not exist: with `refusal`, if the caller is authenticated.
pub(super) async fn unknown(dispatch: &Dispatch, parts: &Parts, refusal: Response) -> Response {
    let call = Call::unknown(parts);
    match dispatch.authorization.admit(&call, &parts.headers).await {
        Ok(Admission { caller, .. }) => {
            dispatch.authorization.record(&call, caller.principal(), &refusal);
            named(&call, refusal)
        }
        Err(error) => named(&call, error.into_response()),
    }
}

fn named(call: &Call, mut response: Response) -> Response {
    response.extensions_mut().insert(MethodName(call.method));
    response
}

impl<S> Group<S> {
    /// The called method, and the names in the path.
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

#[cfg(test)]
mod tests;
