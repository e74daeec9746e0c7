//! A server of the part of the Kubernetes API that the engine uses: create, get, list with pages and selectors, watch with bookmarks,
//! patch, delete with preconditions, `Status` errors and `410 Gone`. Its controllers and its kubelet are in `kubelet`, and for
//! Deployments in `workers_node`.
//! It shows the form of the engine's requests, and that watches survive what an API server does. It validates and authorises nothing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::api_answers::{failure, is_selected, merge, status};

/// The namespaces that exist.
pub(super) const NAMESPACES: [&str; 2] = ["tests", "gpu"];

/// The resource with its namespace and the name of an object.
pub(super) type Key = (String, String, String);

#[derive(Default)]
struct Objects {
    version: u64,
    /// Watches from before this version are too old.
    compacted: u64,
    /// Whether those get the answer 410, in place of an event with it.
    refuses_old_watches: bool,
    /// Open watches of an earlier generation end.
    generation: u64,
    current: BTreeMap<Key, Value>,
    /// Every change since the last compaction: version, type, key, object.
    changes: Vec<(u64, &'static str, Key, Value)>,
    /// The requests so far, such as `POST jobs`.
    requests: Vec<String>,
    /// The answers to the next requests: code, and the time after which to try again.
    faults: Vec<(u16, u32)>,
    is_down: bool,
    /// The server goes down before it answers such a request.
    goes_down_at: Option<String>,
    /// The resources whose objects cannot be created, although this user may.
    refused: Vec<String>,
    /// What this user may not do, such as `create jobs`.
    forbidden: Vec<String>,
    /// The refusals of new objects, by resource: the field, and what is wrong with it.
    invalid: BTreeMap<String, (String, String)>,
    /// Whether pods have to comply with the Pod Security Standard `restricted`.
    is_restricted: bool,
    /// Whether watches stay open and report nothing.
    is_stalled: bool,
    /// Changes new objects, with their resource.
    admission: Option<fn(&str, &mut Value)>,
}

#[derive(Clone)]
pub(super) struct ApiServer {
    objects: Arc<Mutex<Objects>>,
    changed: watch::Sender<u64>,
    pub(super) url: String,
}

impl ApiServer {
    /// Starts a server on a free port of the loopback interface, which lives as long as the runtime.
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { objects: Arc::default(), changed: watch::Sender::new(0), url };
        let mut routes = Router::new();
        for group in ["/api/v1", "/apis/apps/v1", "/apis/batch/v1"] {
            let collections = format!("{group}/namespaces/{{namespace}}/{{plural}}");
            routes = routes.route(&format!("{collections}/{{name}}"), any(single)).route(&collections, any(collection));
        }
        let routes = routes
            .route("/api/v1/namespaces/{namespace}/pods/{name}/log", get(super::workers_node::log))
            .route("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", post(review))
            .with_state(server.clone());
        tokio::spawn(async move {
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), routes).await.unwrap();
        });
        server
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap()
    }

    /// Notified of every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Adds or replaces an object, as a controller does.
    pub(super) fn put(&self, plural: &str, namespace: &str, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut objects = self.objects();
        objects.put((plural.to_owned(), namespace.to_owned(), name), &mut object);
        self.changed.send_replace(objects.version);
    }

    pub(super) fn get(&self, key: &Key) -> Option<Value> {
        self.objects().current.get(key).cloned()
    }

    /// All objects of the resource `plural`.
    pub(super) fn all(&self, plural: &str) -> Vec<(Key, Value)> {
        self.view(plural, |key, object| Some((key.clone(), object.clone())))
    }

    /// Results of `look` for the objects of the resource `plural`.
    pub(super) fn view<T>(&self, plural: &str, mut look: impl FnMut(&Key, &Value) -> Option<T>) -> Vec<T> {
        let objects = self.objects();
        let of_this = objects.current.iter().filter(|(key, _)| key.0 == plural);
        of_this.filter_map(|(key, object)| look(key, object)).collect()
    }

    /// All objects of the resource `plural` that were ever created.
    pub(super) fn created(&self, plural: &str) -> Vec<(Key, Value)> {
        let made = self.history(plural).into_iter().filter(|(kind, ..)| *kind == "ADDED");
        made.map(|(_, key, object)| (key, object)).collect()
    }

    /// The changes of the resource `plural` since the last compaction: `ADDED`, `MODIFIED` or `DELETED`, and the object.
    pub(super) fn history(&self, plural: &str) -> Vec<(&'static str, Key, Value)> {
        let objects = self.objects();
        let of_this = objects.changes.iter().filter(|(_, _, key, _)| key.0 == plural);
        of_this.map(|(_, kind, key, object)| (*kind, key.clone(), object.clone())).collect()
    }

    /// Has the namespaces enforce the Pod Security Standard `restricted`.
    pub(super) fn enforce_restricted(&self) {
        self.objects().is_restricted = true;
    }

    pub(super) fn is_restricted(&self) -> bool {
        self.objects().is_restricted
    }

    /// Keeps the watches open, which report no more changes.
    pub(super) fn stall_watches(&self) {
        self.objects().is_stalled = true;
    }

    /// Changes the object `key`, if it exists.
    pub(super) fn change(&self, key: &Key, change: impl FnOnce(&mut Value)) {
        let mut objects = self.objects();
        let Some(mut object) = objects.current.get(key).cloned() else { return };
        change(&mut object);
        objects.put(key.clone(), &mut object);
        self.changed.send_replace(objects.version);
    }

    pub(super) fn remove(&self, key: &Key) -> Option<Value> {
        let mut objects = self.objects();
        let removed = objects.remove(key);
        self.changed.send_replace(objects.version);
        removed
    }

    /// Forgets the history. Watches that continue from before get the event 410, or the answer 410.
    pub(super) fn compact(&self, refuses_old_watches: bool) {
        let mut objects = self.objects();
        objects.version += 1;
        objects.compacted = objects.version;
        objects.refuses_old_watches = refuses_old_watches;
        objects.changes.clear();
        self.changed.send_replace(objects.version);
    }

    /// Ends all open watches, as a load balancer does.
    pub(super) fn end_watches(&self) {
        let mut objects = self.objects();
        objects.generation += 1;
        self.changed.send_replace(objects.version);
    }

    /// Sends a bookmark to the watches, for changes that they do not see.
    pub(super) fn bookmark(&self) {
        let mut objects = self.objects();
        objects.version += 1;
        let version = objects.version;
        let object = json!({"metadata": {"resourceVersion": version.to_string()}});
        objects.changes.push((version, "BOOKMARK", Key::default(), object));
        self.changed.send_replace(version);
    }

    /// Answers every request with 503, or no longer.
    pub(super) fn set_down(&self, is_down: bool) {
        self.objects().is_down = is_down;
    }

    /// Answers the next requests with these codes, each with a time after which to try again.
    pub(super) fn fail_next(&self, faults: &[(u16, u32)]) {
        self.objects().faults = faults.iter().rev().copied().collect();
    }

    pub(super) fn forbid(&self, what: &str) {
        self.objects().forbidden.push(what.to_owned());
    }

    /// Goes down at the next request like `request`, such as `POST jobs`.
    pub(super) fn go_down_at(&self, request: &str) {
        self.objects().goes_down_at = Some(request.to_owned());
    }

    /// Answers the creation of objects of `plural` with 403, as a server does that has just started and has not read its roles.
    pub(super) fn refuse(&self, plural: &str) {
        self.objects().refused.push(plural.to_owned());
    }

    /// Ends all faults.
    pub(super) fn recover(&self) {
        let mut objects = self.objects();
        objects.refused.clear();
        objects.is_down = false;
    }

    /// Refuses new objects of the resource `plural`, whose `field` has a value for which it gives `fault`.
    pub(super) fn invalidate(&self, plural: &str, field: &str, fault: &str) {
        self.objects().invalid.insert(plural.to_owned(), (field.to_owned(), fault.to_owned()));
    }

    /// Has `admission` change new objects, of which it gets the resource, as an admission webhook does.
    pub(super) fn admit_by(&self, admission: fn(&str, &mut Value)) {
        self.objects().admission = Some(admission);
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.objects().requests.clone()
    }
}

impl Objects {
    fn put(&mut self, key: Key, object: &mut Value) {
        let kind = if self.current.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        object["metadata"]["namespace"] = key.1.clone().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
            object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        // A server stores what clients write as text.
        if let Some(texts) = object.as_object_mut().unwrap().remove("stringData") {
            for (name, text) in texts.as_object().unwrap() {
                object["data"][name] = BASE64_STANDARD.encode(text.as_str().unwrap()).into();
            }
        }
        self.changes.push((self.version, kind, key.clone(), object.clone()));
        self.current.insert(key, object.clone());
    }

    fn remove(&mut self, key: &Key) -> Option<Value> {
        let mut object = self.current.remove(key)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.changes.push((self.version, "DELETED", key.clone(), object.clone()));
        Some(object)
    }

    /// Notes a request, and returns the failure that it gets.
    fn begin(&mut self, request: String) -> Option<Response> {
        self.is_down |= self.goes_down_at.take_if(|wanted| *wanted == request).is_some();
        self.requests.push(request);
        if self.is_down {
            return Some(failure(503, "ServiceUnavailable", "the server is down"));
        }
        let (code, after) = self.faults.pop()?;
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Overloaded",
            "message": "too many requests", "code": code, "details": {"retryAfterSeconds": after},
        });
        Some((StatusCode::from_u16(code).unwrap(), Json(status)).into_response())
    }
}

async fn review(State(server): State<ApiServer>, Json(mut review): Json<Value>) -> Response {
    let mut objects = server.objects();
    if let Some(failure) = objects.begin("POST selfsubjectaccessreviews".to_owned()) {
        return failure;
    }
    let attributes = &review["spec"]["resourceAttributes"];
    let asked = format!("{} {}", attributes["verb"].as_str().unwrap(), attributes["resource"].as_str().unwrap());
    let there = format!("{asked} in {}", attributes["namespace"].as_str().unwrap());
    let is_allowed = !objects.forbidden.contains(&asked) && !objects.forbidden.contains(&there);
    review["status"] = json!({"allowed": is_allowed});
    (StatusCode::CREATED, Json(review)).into_response()
}

async fn collection(
    State(server): State<ApiServer>,
    Path((namespace, plural)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
    method: Method,
    body: Bytes,
) -> Response {
    let is_watch = query.get("watch").is_some_and(|value| value == "true" || value == "1");
    let mut objects = server.objects();
    let verb = if is_watch { "WATCH" } else { method.as_str() };
    if let Some(failure) = objects.begin(format!("{verb} {plural}")) {
        return failure;
    }
    if method == Method::POST {
        let mut object: Value = serde_json::from_slice(&body).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if objects.refused.contains(&plural) {
            let message = format!("{plural} is forbidden: User \"tunesmith\" cannot create resource \"{plural}\"");
            return failure(403, "Forbidden", &message);
        }
        if let Some((field, fault)) = objects.invalid.get(&plural) {
            let mut answer = status(422, "Invalid", &format!("{field}: {fault}"));
            answer["details"] = json!({"causes": [{"reason": "FieldValueInvalid", "message": fault, "field": field}]});
            return (StatusCode::UNPROCESSABLE_ENTITY, Json(answer)).into_response();
        }
        if !NAMESPACES.contains(&&*namespace) {
            return failure(404, "NotFound", &format!("namespaces \"{namespace}\" not found"));
        }
        let key = (plural.clone(), namespace, name.clone());
        if objects.current.contains_key(&key) {
            return failure(409, "AlreadyExists", &format!("{plural} \"{name}\" already exists"));
        }
        if let Some(admission) = objects.admission {
            admission(&plural, &mut object);
        }
        objects.put(key, &mut object);
        server.changed.send_replace(objects.version);
        return (StatusCode::CREATED, Json(object)).into_response();
    }
    let (labels, fields) = (query.get("labelSelector"), query.get("fieldSelector"));
    if is_watch {
        let from: u64 = query["resourceVersion"].parse().unwrap();
        if from < objects.compacted && objects.refuses_old_watches {
            return failure(410, "Expired", "too old resource version");
        }
        let open = Open {
            server: server.clone(),
            changed: server.changed.subscribe(),
            key: (plural, namespace),
            labels: labels.cloned(),
            fields: fields.cloned(),
            generation: objects.generation,
            from,
            has_bookmarks: query.get("allowWatchBookmarks").is_some_and(|value| value == "true"),
            is_over: false,
        };
        drop(objects);
        return Body::from_stream(futures::stream::unfold(open, Open::next)).into_response();
    }
    let of_this = objects.current.iter().filter(|(key, _)| key.0 == plural && key.1 == namespace);
    let selected: Vec<&Value> =
        of_this.map(|(_, object)| object).filter(|object| is_selected(object, labels, fields)).collect();
    let limit = query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
    let begin: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
    let end = begin.saturating_add(limit).min(selected.len());
    let mut metadata = json!({"resourceVersion": objects.version.to_string()});
    if end < selected.len() {
        metadata["continue"] = end.to_string().into();
    }
    Json(json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": selected[begin..end]}))
        .into_response()
}

/// A watch.
struct Open {
    server: ApiServer,
    changed: watch::Receiver<u64>,
    key: (String, String),
    labels: Option<String>,
    fields: Option<String>,
    generation: u64,
    from: u64,
    has_bookmarks: bool,
    is_over: bool,
}

impl Open {
    /// The next lines, and the watch that continues after them.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        loop {
            self.changed.mark_unchanged();
            let lines = self.lines();
            if self.is_over && lines.is_empty() {
                return None;
            }
            if !lines.is_empty() {
                return Some((Ok(lines), self));
            }
            self.changed.changed().await.ok()?;
        }
    }

    fn lines(&mut self) -> String {
        let server = self.server.clone();
        let objects = server.objects();
        if objects.is_stalled {
            return String::new();
        }
        if self.is_over || self.generation < objects.generation {
            self.is_over = true;
            return String::new();
        }
        if self.from < objects.compacted {
            self.is_over = true;
            return format!(
                "{}\n",
                json!({"type": "ERROR", "object": status(410, "Expired", "too old resource version")})
            );
        }
        let mut lines = String::new();
        let seen = objects.changes.partition_point(|(version, ..)| *version <= self.from);
        for (_, kind, key, object) in &objects.changes[seen..] {
            if *kind == "BOOKMARK" {
                if self.has_bookmarks {
                    lines.push_str(&format!("{}\n", json!({"type": kind, "object": object})));
                }
            } else if key.0 == self.key.0
                && key.1 == self.key.1
                && is_selected(object, self.labels.as_ref(), self.fields.as_ref())
            {
                lines.push_str(&format!("{}\n", json!({"type": kind, "object": object})));
            }
        }
        self.from = objects.version;
        lines
    }
}

async fn single(
    State(server): State<ApiServer>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
    method: Method,
    body: Bytes,
) -> Response {
    let mut objects = server.objects();
    if let Some(failure) = objects.begin(format!("{method} {plural}/{name}")) {
        return failure;
    }
    let key = (plural.clone(), namespace, name.clone());
    let Some(mut object) = objects.current.get(&key).cloned() else {
        return failure(404, "NotFound", &format!("{plural} \"{name}\" not found"));
    };
    if method == Method::DELETE {
        let options: Value = serde_json::from_slice(&body).unwrap_or_default();
        let wanted = &options["preconditions"]["uid"];
        if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
            return failure(409, "Conflict", "the UID in the precondition does not match the UID in record");
        }
        if plural == "pods" && !object["spec"]["nodeName"].is_null() {
            // Its node removes it.
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into();
            objects.put(key, &mut object);
        } else {
            objects.remove(&key);
        }
        server.changed.send_replace(objects.version);
    } else if method == Method::PATCH {
        merge(&mut object, serde_json::from_slice(&body).unwrap());
        objects.put(key, &mut object);
        server.changed.send_replace(objects.version);
    }
    Json(object).into_response()
}
