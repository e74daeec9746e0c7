//! The table of the service's methods: each with its path, its handler, and what the OpenAPI document tells of it.
//!
//! Paths are as published, `/v1/projects/{project}/jobs/{job}:cancel`. What follows a colon is part of the last segment,
//! so methods that differ by it alone are one route of the router below, which is told apart here.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get, patch, post, put};

use super::names::{CustomMethod, decode, no_method, wrong_method};
use super::openapi::{Documented, Operation, query_names};
use super::query;
use super::status::{ApiError, Code};

/// Methods whose handlers share a state.
pub(super) struct Routes<S> {
    entries: Vec<Entry<S>>,
}

#[derive(Clone)]
struct Entry<S> {
    operation: Operation,
    /// Names of its query parameters.
    query: Vec<String>,
    handler: MethodRouter<S>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds a method. What its handler takes and answers is told of it.
    pub(super) fn add<H, T, I, A>(mut self, mut operation: Operation, handler: H) -> Self
    where
        H: Handler<T, S> + Documented<I, A>,
        T: 'static,
    {
        H::describe(&mut operation);
        let handler = match operation.method {
            Method::POST => post(handler),
            Method::PATCH => patch(handler),
            Method::PUT => put(handler),
            Method::DELETE => delete(handler),
            _ => get(handler),
        };
        self.entries.push(Entry { query: query_names(&operation), operation, handler });
        self
    }

    /// What is told of the methods.
    pub(super) fn operations(self) -> impl Iterator<Item = Operation> {
        self.entries.into_iter().map(|entry| entry.operation)
    }

    /// The methods, answered from `state`.
    pub(super) fn with_state(self, state: S) -> Router {
        let mut routes: BTreeMap<String, (Last, Vec<Entry<S>>)> = BTreeMap::new();
        for entry in self.entries {
            let (route, last) = route(entry.operation.path);
            routes.entry(route).or_insert((last, Vec::new())).1.push(entry);
        }
        let mut router = Router::new();
        for (route, (last, entries)) in routes {
            let (entries, state): (Arc<[Entry<S>]>, S) = (entries.into(), state.clone());
            let answer = move |request: Request| answer(last, Arc::clone(&entries), state.clone(), request);
            router = router.route(&route, any(answer));
        }
        router
    }
}

/// What the last segment of a route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Always the same.
    Fixed,
    /// A name, which a custom method may follow.
    Name,
    /// Always the same, before a custom method.
    FixedWithMethod,
}

/// The route of the router for a path of the table.
fn route(path: &str) -> (String, Last) {
    let (parent, segment) = path.rsplit_once('/').unwrap_or(("", path));
    match segment.split_once(':') {
        Some((name, _)) if name.starts_with('{') => (format!("{parent}/{name}"), Last::Name),
        Some(_) => (format!("{parent}/{{custom_method}}"), Last::FixedWithMethod),
        None if segment.starts_with('{') => (path.to_owned(), Last::Name),
        None => (path.to_owned(), Last::Fixed),
    }
}

/// What tells the methods of one route apart: `cancel` of `{job}:cancel`, the whole of `trials:suggest`.
fn custom_method(path: &str, last: Last) -> &str {
    let segment = path.rsplit('/').next().unwrap_or_default();
    match last {
        Last::Fixed => "",
        Last::Name => segment.rsplit_once(':').map_or("", |(_, method)| method),
        Last::FixedWithMethod => segment,
    }
}

async fn answer<S>(last: Last, entries: Arc<[Entry<S>]>, state: S, mut request: Request) -> Response
where
    S: Clone + Send + Sync + 'static,
{
    match choose(last, &entries, &mut request) {
        Ok(entry) => entry.handler.clone().call(request, state).await,
        Err(refusal) => *refusal,
    }
}

/// The method that `request` asks for, which it is prepared for.
fn choose<'a, S>(last: Last, entries: &'a [Entry<S>], request: &mut Request) -> Result<&'a Entry<S>, Box<Response>> {
    let path = request.uri().path();
    let segment = decode(path.rsplit('/').next().unwrap_or_default()).filter(|_| decode(path).is_some());
    let segment = segment.ok_or_else(|| {
        let text = format!("the path {path:?} is not percent-encoded UTF-8");
        refusal(ApiError::new(Code::InvalidArgument, text))
    })?;
    let method = custom_method(&segment, last);
    let known: Vec<&Entry<S>> =
        entries.iter().filter(|entry| custom_method(entry.operation.path, last) == method).collect();
    if known.is_empty() {
        return Err(refusal(no_method(&format!("{} {path}", request.method()))));
    }
    let http_method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let entry = *known.iter().find(|entry| entry.operation.method == *http_method).ok_or_else(|| {
        let allowed: Vec<&Method> = known.iter().map(|entry| &entry.operation.method).collect();
        Box::new(wrong_method(path, request.method(), &allowed))
    })?;
    query::check(request.uri().query().unwrap_or_default(), &entry.query).map_err(refusal)?;
    match last {
        Last::Name if !method.is_empty() => {
            request.extensions_mut().insert(CustomMethod::AfterName(method.len() + 1));
        }
        Last::FixedWithMethod => {
            request.extensions_mut().insert(CustomMethod::WithoutName);
        }
        Last::Name | Last::Fixed => {}
    }
    Ok(entry)
}

fn refusal(error: ApiError) -> Box<Response> {
    Box::new(error.into_response())
}
