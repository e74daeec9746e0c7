//! A lease of a worker in a pod.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tunesmith_executor::{WorkerEnd, WorkerPodsError};

use super::connection::Connection;
use super::{FailedStart, Group, WorkerGroup};
use crate::runner::LoadReport;
use crate::worker::{Reply, StartError};

/// Time for which a failure has to last before a start fails: the cluster may have told of an earlier one.
const SETTLED: Duration = Duration::from_secs(3);

/// Time within which the process of a pod that runs has to contact this server.
const CONTACT: Duration = Duration::from_secs(60);

/// Refusals of the cluster in a row before a start fails: an API server that starts refuses for a moment.
const REFUSALS: u32 = 3;

/// Longest wait for the reason of an end, above the time within which the group has one.
const END: Duration = Duration::from_secs(5);

/// A leased worker. Dropping it gives the pod up.
#[derive(Debug)]
pub(crate) struct PodWorker {
    connection: Arc<Connection>,
    lease: Lease,
}

/// Right to a pod of a group.
#[derive(Debug)]
struct Lease {
    group: Arc<Group>,
    /// Keeps the group.
    _owner: Arc<WorkerGroup>,
}

impl Lease {
    fn new(owner: &Arc<WorkerGroup>) -> Self {
        let group = Arc::clone(&owner.0);
        group.state.lock().leases += 1;
        group.notify();
        Self { group, _owner: Arc::clone(owner) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.group.state.lock().leases -= 1;
        self.group.notify();
    }
}

impl PodWorker {
    /// Waits up to `limit` for a pod that has loaded the model.
    pub(crate) async fn start(owner: &Arc<WorkerGroup>, limit: Duration) -> Result<(Self, LoadReport), StartError> {
        let lease = Lease::new(owner);
        let group = Arc::clone(&lease.group);
        group.engine.check(&group.spec).map_err(StartError::System)?;
        let until = Instant::now() + limit;
        let (mut changed, mut seen) = (group.changed.subscribe(), group.engine.changes(&group.spec.id));
        let (mut failing, mut unreached): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            changed.mark_unchanged();
            seen.begin();
            if *group.closing.borrow() {
                return Err(StartError::System("the server ends".to_owned()));
            }
            if let Some((connection, report)) = group.lease() {
                return Ok((Self { connection, lease }, report));
            }
            if let Some(failure) = group.failed_start() {
                return Err(failure);
            }
            let now = Instant::now();
            let (refusal, waiting) = group.obstacle();
            if refusal.is_none() {
                failing = None;
            }
            if let Some(reason) = refusal
                && now >= *failing.get_or_insert(now) + SETTLED
            {
                return Err(StartError::System(reason));
            }
            let is_unreached = group.has_unreached_pod();
            if !is_unreached {
                unreached = None;
            } else if now >= *unreached.get_or_insert(now) + CONTACT {
                let (seconds, server) = (CONTACT.as_secs(), &group.server);
                let text = format!(
                    "its pod runs, and has not contacted the server for {seconds} s; it reaches the server at {server}"
                );
                return Err(StartError::System(text));
            }
            if now >= until {
                let text = format!("the model was not loaded within {} s", limit.as_secs());
                let text = format!("Failed to load model: {text} (Error code: 0)");
                return Err(StartError::NotLoaded { text, detail: waiting.unwrap_or_default() });
            }
            let times = [failing.map(|since| since + SETTLED), unreached.map(|since| since + CONTACT), Some(until)];
            let next = times.into_iter().flatten().min().unwrap_or(until);
            tokio::select! {
                _ = changed.changed() => {}
                () = seen.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Sends a request and waits for its reply. After an error, or if the future is dropped, the worker is unusable.
    pub(crate) async fn predict(&self, body: &[u8]) -> io::Result<Reply> {
        let reply = self.connection.ask(Bytes::copy_from_slice(body));
        let mut reply = std::pin::pin!(reply);
        tokio::select! {
            biased;
            reply = &mut reply => reply.map_err(|_| self.end_of_connection()),
            () = self.ended() => Err(self.end_of_connection()),
        }
    }

    fn end_of_connection(&self) -> io::Error {
        let (how, _) = self.connection.ended().unwrap_or_default();
        io::Error::new(io::ErrorKind::ConnectionReset, how)
    }

    /// Waits until the process has ended, or cannot be reached.
    pub(crate) async fn ended(&self) {
        let mut changed = self.connection.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if self.connection.ended().is_some() || changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Gives the worker up, with `at_once` if it does not answer any more. Returns how it ended, and its last output.
    pub(crate) async fn end(self, at_once: bool) -> (String, String) {
        if at_once {
            self.connection.state.lock().is_condemned = true;
            self.lease.group.notify();
            return ("its pod is replaced".to_owned(), String::new());
        }
        let mut changed = self.connection.changed.subscribe();
        let told = async {
            loop {
                changed.mark_unchanged();
                match self.connection.ended() {
                    Some((how, output)) if !how.is_empty() => return (how, output),
                    _ => drop(changed.changed().await),
                }
            }
        };
        tokio::time::timeout(END, told).await.unwrap_or_default()
    }
}

impl Drop for PodWorker {
    fn drop(&mut self) {
        let mut state = self.connection.state.lock();
        state.is_leased = false;
        if state.outstanding.take().is_some() {
            // A request that was given up keeps the process.
            state.is_condemned = true;
        }
    }
}

impl Group {
    /// Leases a free worker.
    fn lease(&self) -> Option<(Arc<Connection>, LoadReport)> {
        let state = self.state.lock();
        state.connections.values().find_map(|connection| Some((Arc::clone(connection), connection.lease()?)))
    }

    /// The oldest failure to load the model.
    fn failed_start(&self) -> Option<StartError> {
        let failed = self.state.lock().failed_starts.pop_front()?;
        Some(match failed {
            FailedStart::Reported(failure) => StartError::NotLoaded { text: failure.error, detail: failure.traceback },
            FailedStart::Ended(WorkerEnd { status, output }) => {
                let what = "Unexpected error when loading the model: the process ended";
                let text = format!("Failed to load model: {what} ({status}) (Error code: 0)");
                StartError::NotLoaded { text, detail: output }
            }
        })
    }

    /// Whether a pod runs whose process has never contacted this server.
    fn has_unreached_pod(&self) -> bool {
        let pods = self.seen().pods.unwrap_or_default();
        let state = self.state.lock();
        pods.iter().any(|pod| pod.is_running && !pod.is_leaving && !state.connections.contains_key(&pod.name))
    }

    /// Why no pod starts, if that lasts; and why one has not started yet.
    fn obstacle(&self) -> (Option<String>, Option<String>) {
        let refusal = self.state.lock().refusal.clone();
        let seen = self.seen();
        let (refused, unreached) = match refusal {
            Some((WorkerPodsError::Refused(reason), times)) if times >= REFUSALS => (Some(reason), None),
            Some((WorkerPodsError::Refused(reason) | WorkerPodsError::Unreachable(reason), _)) => (None, Some(reason)),
            None => (None, None),
        };
        (refused.or(seen.failure), unreached.or(seen.waiting))
    }
}
