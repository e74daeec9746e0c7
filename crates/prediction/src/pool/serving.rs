//! Workers at work: requests from the queue, one by one or several at a time.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Pool, ReplySender, State, Waiting};
use crate::container::{ContainerWorker, SLOTS};
use crate::pool_status::PredictError;
use crate::python_worker::PythonWorker;

/// Longest wait for the notice that a container has ended.
const END_NOTICED: Duration = Duration::from_millis(500);

impl Pool {
    /// Answers requests one by one until the worker is no longer needed (`None`), or unusable.
    pub(super) async fn serve_singly(&self, worker: &mut PythonWorker) -> Option<Unusable> {
        let mut wanted = self.nodes.wanted();
        loop {
            let request = match self.next(worker.ended(), &mut wanted, 1, true).await {
                Next::Request(request) => request,
                Next::Stop => return None,
                Next::Ended => return Some(Unusable { unanswered: Vec::new(), reason: Reason::Ended }),
            };
            match tokio::time::timeout_at(request.deadline, worker.predict(&request.content.body)).await {
                Ok(Ok(reply)) => {
                    let _ = request.reply.send(Ok(reply));
                }
                Ok(Err(_)) => return Some(Unusable { unanswered: vec![request.reply], reason: Reason::Ended }),
                Err(_) => {
                    let _ = request.reply.send(Err(PredictError::TimedOut(self.times.request)));
                    return Some(Unusable { unanswered: Vec::new(), reason: Reason::Late });
                }
            }
        }
    }

    /// Passes requests on, several at a time, until the container is no longer needed (`None`), or unusable.
    pub(super) async fn serve_concurrently(&self, worker: &ContainerWorker) -> Option<Unusable> {
        let mut wanted = self.nodes.wanted();
        let (mut running, mut unanswered) = (FuturesUnordered::new(), Vec::new());
        let (stop, stopped) = watch::channel(false);
        let unhealthy = worker.unhealthy();
        let mut unhealthy = std::pin::pin!(unhealthy);
        let reason = loop {
            let (free, is_unused) = (SLOTS - running.len(), running.is_empty());
            let next = tokio::select! {
                Some(left) = running.next() => {
                    unanswered.extend(left);
                    continue;
                }
                how = &mut unhealthy => break Reason::Unhealthy(how),
                next = self.next(worker.ended(), &mut wanted, free, is_unused), if free > 0 => next,
            };
            match next {
                Next::Request(request) => running.push(self.pass_on(worker, request, stopped.clone())),
                Next::Stop => {
                    while let Some(left) = running.next().await {
                        unanswered.extend(left);
                    }
                    if unanswered.is_empty() {
                        return None;
                    }
                    break Reason::Ended;
                }
                Next::Ended => break Reason::Ended,
            }
        };
        stop.send_replace(true);
        while let Some(left) = running.next().await {
            unanswered.extend(left);
        }
        Some(Unusable { unanswered, reason })
    }

    /// Passes a request on. Returns where to state the reason if the container ended or is to be replaced.
    async fn pass_on(
        &self,
        worker: &ContainerWorker,
        request: Waiting,
        mut stopped: watch::Receiver<bool>,
    ) -> Option<ReplySender> {
        let Waiting { content, deadline, reply } = request;
        let predicted = tokio::select! {
            predicted = tokio::time::timeout_at(deadline, worker.predict(&content)) => predicted,
            () = worker.ended() => return Some(reply),
            _ = stopped.wait_for(|stopped| *stopped) => return Some(reply),
        };
        let result = match predicted {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => {
                // The status of a container that ended is the better reason, and follows within moments.
                if tokio::time::timeout(END_NOTICED, worker.ended()).await.is_ok() {
                    return Some(reply);
                }
                Err(PredictError::Died(failure))
            }
            Err(_) => Err(PredictError::TimedOut(self.times.request)),
        };
        let _ = reply.send(result);
        None
    }

    /// The next request of a worker with `free` slots. A worker that `is_unused` stops if it is not needed.
    async fn next(
        &self,
        ended: impl Future<Output = ()>,
        wanted: &mut watch::Receiver<u64>,
        free: usize,
        is_unused: bool,
    ) -> Next {
        let mut idle_until = Instant::now() + self.times.idle;
        let mut ended = std::pin::pin!(ended);
        loop {
            let queued = self.queued.notified();
            let mut queued = std::pin::pin!(queued);
            queued.as_mut().enable();
            {
                let mut state = self.state.lock();
                while let Some(request) = state.queue.pop_front() {
                    if !request.reply.is_closed() && request.deadline > Instant::now() {
                        return Next::Request(request);
                    }
                }
                let is_wanted_elsewhere = is_unused && state.live > state.min && self.nodes.has_waiting();
                if state.is_closed || is_wanted_elsewhere || state.live > state.max.max(state.min) {
                    return Next::Stop;
                }
                state.idle += free;
            }
            let idle = Idle { state: &self.state, slots: free };
            let mut is_spare = false;
            let has_ended = tokio::select! {
                () = queued => false,
                () = &mut ended => true,
                () = tokio::time::sleep_until(idle_until) => { is_spare = true; false }
                Ok(()) = wanted.changed() => { is_spare = true; false }
            };
            drop(idle);
            if has_ended {
                return Next::Ended;
            }
            let state = self.state.lock();
            if is_spare && is_unused && state.live > state.min && state.queue.is_empty() {
                return Next::Stop;
            }
            if idle_until <= Instant::now() {
                // At the minimum, a worker waits on.
                idle_until = Instant::now() + self.times.idle;
            }
        }
    }
}

/// A worker that cannot go on.
pub(super) struct Unusable {
    /// Requests that wait for the reason.
    pub(super) unanswered: Vec<ReplySender>,
    pub(super) reason: Reason,
}

#[derive(PartialEq, Eq)]
pub(super) enum Reason {
    Ended,
    /// A request exceeded its time.
    Late,
    /// Health checks of a container failed: how.
    Unhealthy(String),
}

/// Counts free slots of a worker as idle until it is dropped.
struct Idle<'a> {
    state: &'a Mutex<State>,
    slots: usize,
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.state.lock().idle -= self.slots;
    }
}

enum Next {
    Request(Waiting),
    Stop,
    Ended,
}
