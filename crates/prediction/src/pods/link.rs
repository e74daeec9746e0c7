//! Messages of the workers in pods.

use std::cmp::Ordering;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tunesmith_domain::{Code, Refusal};
use tunesmith_executor::WorkerEnd;

use super::connection::{Connection, Phase};
use super::files::SentFiles;
use super::{FailedStart, Group};
use crate::models::Models;
use crate::python_worker::MAX_RESPONSE;
use crate::runner::{LoadFailure, LoadReport};
use crate::worker::Reply;

/// Longest time for which the request of a worker waits.
const POLL: Duration = Duration::from_secs(20);

/// Maximum length of a name of a pod.
const MAX_POD_NAME: usize = 253;

/// Pods of which a group remembers connections; far above the number that it can have.
const MAX_CONNECTIONS: usize = 10_000;

/// An authenticated worker.
pub struct WorkerLink {
    group: Arc<Group>,
    closing: watch::Receiver<bool>,
}

/// Head of a message, its first line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    kind: Kind,
    pod: String,
    start: u32,
    /// Of a reply.
    #[serde(default)]
    request: u64,
    #[serde(default)]
    success: bool,
    #[serde(default)]
    last: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Start,
    Ready,
    Failed,
    Poll,
    Reply,
}

impl Models {
    /// Authenticates a worker in a pod.
    ///
    /// # Errors
    /// [`Code::NotFound`] for a worker of another server, or one that is no longer needed; [`Code::Unauthenticated`].
    pub fn worker(&self, id: &str, token: &str) -> Result<WorkerLink, Refusal> {
        let group = self.0.worker_groups.lock().get(id).and_then(std::sync::Weak::upgrade);
        let unknown = || Refusal::new(Code::NotFound, format!("worker {id} is none of this server"));
        let group = group.filter(|group| !group.state.lock().is_closed).ok_or_else(unknown)?;
        if !is_same(&group.token, token) {
            return Err(Refusal::new(Code::Unauthenticated, format!("the token is not that of worker {id}")));
        }
        Ok(WorkerLink { group, closing: self.0.is_closing.subscribe() })
    }
}

/// Compares in a time that does not depend on the contents.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

impl WorkerLink {
    /// Maximum size of a message in bytes.
    pub const MAX_MESSAGE: usize = MAX_RESPONSE as usize + (1 << 16);

    /// Receives a message, and returns the next request for the worker, if one comes in time.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]; [`Code::Internal`] if the files of the version cannot be read.
    pub async fn exchange(&self, message: Bytes) -> Result<Option<Bytes>, Refusal> {
        let invalid = |what: &str| Refusal::new(Code::InvalidArgument, format!("invalid message of a worker: {what}"));
        let end = message.iter().position(|byte| *byte == b'\n').ok_or_else(|| invalid("it has no head"))?;
        let head: Head = serde_json::from_slice(&message[..end]).map_err(|error| invalid(&error.to_string()))?;
        if head.pod.is_empty() || head.pod.len() > MAX_POD_NAME || head.start == 0 {
            return Err(invalid("it has no pod or no start"));
        }
        let content = message.slice(end + 1..);
        let connection = self.group.connection(&head).map_err(invalid)?;
        let request = match head.kind {
            Kind::Start => Some(self.settings().await?),
            Kind::Failed => {
                self.group.failed(&connection, serde_json::from_slice(&content).unwrap_or_default());
                None
            }
            Kind::Ready => {
                self.group.ready(&connection, serde_json::from_slice(&content).unwrap_or_default());
                self.next(&connection).await
            }
            Kind::Poll => self.next(&connection).await,
            Kind::Reply => {
                received(&connection, &head, content);
                if head.last { None } else { self.next(&connection).await }
            }
        };
        connection.state.lock().last_contact = Instant::now();
        Ok(request)
    }

    /// The file `number` of the settings.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::Internal`].
    pub async fn file(&self, number: &str) -> Result<File, Refusal> {
        let files = self.files().await?;
        let missing = || Refusal::new(Code::NotFound, format!("the version has no file {number}"));
        let path = number.parse().ok().and_then(|number| files.path(number)).ok_or_else(missing)?;
        let opened = tokio::task::spawn_blocking(move || File::open(path)).await;
        opened.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|error| unreadable(&error))
    }

    async fn files(&self) -> Result<&SentFiles, Refusal> {
        let list = || async {
            let folder = self.group.folder.clone();
            let listed = tokio::task::spawn_blocking(move || SentFiles::list(&folder)).await;
            listed.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|error| unreadable(&error))
        };
        self.group.files.get_or_try_init(list).await
    }

    /// Settings for the load of the model.
    async fn settings(&self) -> Result<Bytes, Refusal> {
        let (files, settings) = (self.files().await?, &self.group.settings);
        Ok(framed(
            &json!({
                "framework": if settings.framework.is_unspecified() { json!("") } else { json!(settings.framework) },
                "predictionClass": settings.prediction_class,
                "packageUris": settings.package_uris,
                "requirements": settings.requirements,
                "archives": files.archives,
                "files": files.files,
            }),
            &[],
        ))
    }

    /// Waits for a request.
    async fn next(&self, connection: &Connection) -> Option<Bytes> {
        let (mut changed, mut closing) = (connection.changed.subscribe(), self.closing.clone());
        let _waiting = Waiting::new(connection);
        let until = Instant::now() + POLL;
        loop {
            changed.mark_unchanged();
            let outstanding = connection.state.lock().outstanding.as_ref().map(|one| (one.id, one.body.clone()));
            if let Some((id, body)) = outstanding {
                return Some(framed(&json!({"request": id}), &body));
            }
            tokio::select! {
                changed = changed.changed() => changed.ok()?,
                () = tokio::time::sleep_until(until) => return None,
                _ = closing.wait_for(|closing| *closing) => return None,
            }
        }
    }
}

fn unreadable(error: &std::io::Error) -> Refusal {
    tracing::error!(%error, "files of a version cannot be sent to its workers");
    Refusal::new(Code::Internal, "the files of the version cannot be read; see the server's log")
}

fn framed(head: &Value, content: &[u8]) -> Bytes {
    let mut message = head.to_string().into_bytes();
    message.push(b'\n');
    message.extend_from_slice(content);
    message.into()
}

/// Passes the reply on, unless nothing waits for it any more.
fn received(connection: &Connection, head: &Head, content: Bytes) {
    let outstanding = connection.state.lock().outstanding.take_if(|outstanding| outstanding.id == head.request);
    if let Some(outstanding) = outstanding {
        let reply = Reply { body: content, is_success: head.success, status: 200, content_type: None };
        // The client may have gone.
        let _ = outstanding.reply.send(reply);
    }
    if head.last {
        connection.end("it has reached its memory limit", "");
    }
}

impl Group {
    /// The connection of a message, a new one for a new process.
    fn connection(&self, head: &Head) -> Result<Arc<Connection>, &'static str> {
        let mut state = self.state.lock();
        let before = state.connections.get(&head.pod).cloned();
        let has_loaded = matches!(head.kind, Kind::Poll | Kind::Reply);
        if let Some(before) = &before {
            // A process that was taken for ended may continue, unless its pod is being removed.
            let continues = has_loaded && before.ended().is_some() && !before.state.lock().is_condemned;
            match before.start.cmp(&head.start) {
                Ordering::Equal if !continues => return Ok(Arc::clone(before)),
                Ordering::Greater => return Err("a later process runs in its pod"),
                Ordering::Equal | Ordering::Less => {}
            }
        } else if state.connections.len() >= MAX_CONNECTIONS {
            return Err("its group has too many pods");
        }
        let phase = if has_loaded { Phase::Ready(LoadReport::default()) } else { Phase::Loading };
        if let Some(before) = before.filter(|before| before.start < head.start) {
            let noticed = state.noticed_ends.entry(head.pod.clone()).or_default();
            *noticed = (*noticed).max(head.start - 1);
            match self.end_of(&before) {
                Some(end) => state.note_end(&before, end),
                None => state.note_unexplained(before),
            }
        }
        let connection = Arc::new(Connection::new(head.pod.clone(), head.start, phase));
        state.connections.insert(head.pod.clone(), Arc::clone(&connection));
        drop(state);
        self.notify();
        Ok(connection)
    }

    /// Reason for the end of a process, if the cluster has reported it.
    fn end_of(&self, connection: &Connection) -> Option<WorkerEnd> {
        let mut pods = self.seen().pods.into_iter().flatten();
        let pod = pods.find(|pod| pod.name == connection.pod && pod.ends >= connection.start)?;
        pod.last_end
    }

    fn ready(&self, connection: &Connection, report: LoadReport) {
        {
            let mut state = connection.state.lock();
            if state.phase == Phase::Loading {
                state.phase = Phase::Ready(report);
            }
        }
        self.notify();
    }

    fn failed(&self, connection: &Connection, failure: LoadFailure) {
        {
            let mut state = connection.state.lock();
            // The worker repeats a message whose response was lost.
            if state.phase != Phase::Loading {
                return;
            }
            state.phase = Phase::Failed;
            // It has nothing more to do.
            state.is_condemned = true;
        }
        self.state.lock().failed_starts.push_back(FailedStart::Reported(failure));
        self.notify();
    }
}

/// Counts a waiting request of a worker until dropped.
struct Waiting<'a>(&'a Connection);

impl<'a> Waiting<'a> {
    fn new(connection: &'a Connection) -> Self {
        connection.state.lock().waiting += 1;
        Self(connection)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.waiting -= 1;
        state.last_contact = Instant::now();
    }
}
