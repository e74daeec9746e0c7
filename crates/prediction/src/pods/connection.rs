//! One process of a worker in a pod, as far as its messages tell.

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::runner::LoadReport;
use crate::worker::Reply;

/// A process in a pod. A restart of the container is another one.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) pod: String,
    /// Number of the start in the pod, from 1.
    pub(super) start: u32,
    pub(super) state: Mutex<ConnectionState>,
    /// Wakes the requests of the worker, and the lease.
    pub(super) changed: watch::Sender<()>,
}

#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) phase: Phase,
    pub(super) is_leased: bool,
    /// Whether the cluster was told to remove the pod first.
    pub(super) is_preferred_for_removal: bool,
    /// Whether the pod is of no use.
    pub(super) is_condemned: bool,
    /// Whether it was killed for that.
    pub(super) is_killed: bool,
    pub(super) outstanding: Option<Outstanding>,
    last_request: u64,
    /// Whether the cluster has listed the pod.
    pub(super) was_listed: bool,
    /// Requests of the worker that wait.
    pub(super) waiting: usize,
    pub(super) last_contact: Instant,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    Loading,
    Ready(LoadReport),
    Failed,
    /// Reason of the end, and the last output. Both are empty until the cluster reports them.
    Ended(String, String),
}

/// A request that the worker has not answered.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) id: u64,
    pub(super) body: Bytes,
    pub(super) reply: oneshot::Sender<Reply>,
}

impl Connection {
    pub(super) fn new(pod: String, start: u32, phase: Phase) -> Self {
        let state = ConnectionState {
            phase,
            is_leased: false,
            is_preferred_for_removal: false,
            is_condemned: false,
            is_killed: false,
            outstanding: None,
            last_request: 0,
            was_listed: false,
            waiting: 0,
            last_contact: Instant::now(),
        };
        Self { pod, start, state: Mutex::new(state), changed: watch::channel(()).0 }
    }

    /// Leases the worker, if it is ready and free.
    pub(super) fn lease(&self) -> Option<LoadReport> {
        let mut state = self.state.lock();
        let Phase::Ready(report) = &state.phase else { return None };
        if state.is_leased || state.is_condemned {
            return None;
        }
        let report = report.clone();
        state.is_leased = true;
        Some(report)
    }

    /// Gives the worker a request. The reply never comes if the worker ends.
    pub(super) fn ask(&self, body: Bytes) -> oneshot::Receiver<Reply> {
        let (reply, received) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.last_request += 1;
            let id = state.last_request;
            state.outstanding = Some(Outstanding { id, body, reply });
        }
        self.changed.send_replace(());
        received
    }

    pub(super) fn end(&self, how: &str, output: &str) {
        {
            let mut state = self.state.lock();
            if matches!(state.phase, Phase::Ended(..)) {
                return;
            }
            state.phase = Phase::Ended(how.to_owned(), output.to_owned());
            state.outstanding = None;
        }
        self.changed.send_replace(());
    }

    /// Adds the reason of an end that was noticed before.
    pub(super) fn explain(&self, how: &str, output: &str) {
        self.state.lock().phase = Phase::Ended(how.to_owned(), output.to_owned());
        self.changed.send_replace(());
    }

    /// Reason for the end of the worker, and its last output; `None` while it runs.
    pub(super) fn ended(&self) -> Option<(String, String)> {
        match &self.state.lock().phase {
            Phase::Ended(how, output) => Some((how.clone(), output.clone())),
            Phase::Loading | Phase::Ready(_) | Phase::Failed => None,
        }
    }
}
