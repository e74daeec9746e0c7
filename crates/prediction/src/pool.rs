//! Workers of one version: queue of requests, scaling, restarts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};
use tokio::time::Instant;
use tunesmith_telemetry::telemetry;

use crate::container::{ContainerWorker, SLOTS};
use crate::nodes::{Nodes, PredictionTimes, Use};
use crate::pool_status::{Counts, PoolStatus, PredictError};
use crate::python_worker::PythonWorker;
use crate::runner::LoadReport;
use crate::worker::{Content, Reply, StartError, Worker, WorkerSettings};

/// Requests that may wait for each worker that a version may have. A guess.
const WAITING_PER_WORKER: usize = 32;

/// Life of a worker below which its end delays the next start.
const STABLE: Duration = Duration::from_secs(10);

/// Bounds of the delay between starts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Longest wait for the notice that a container has ended.
const END_NOTICED: Duration = Duration::from_millis(500);

type ReplySender = oneshot::Sender<Result<Reply, PredictError>>;

struct Waiting {
    content: Content,
    deadline: Instant,
    reply: ReplySender,
}

/// Workers of one version.
pub(crate) struct Pool {
    /// For the log: the version.
    name: String,
    settings: WorkerSettings,
    times: PredictionTimes,
    nodes: Arc<Nodes>,
    state: Mutex<State>,
    /// Wakes one idle worker.
    queued: Notify,
    /// Number of workers, including those that start.
    live: watch::Sender<usize>,
    counts: Counts,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Waiting>,
    min: usize,
    max: usize,
    live: usize,
    ready: usize,
    /// Requests that running workers could take at once.
    idle: usize,
    is_closed: bool,
    /// Consecutive early ends.
    early_ends: u32,
    failure: Option<String>,
    /// Time before which no worker starts.
    pause_until: Option<Instant>,
}

impl Pool {
    /// A pool without workers.
    pub(crate) fn new(
        name: String,
        settings: WorkerSettings,
        times: PredictionTimes,
        nodes: Arc<Nodes>,
        min: usize,
        max: usize,
    ) -> Self {
        let state = State { min, max, ..State::default() };
        let (live, counts) = (watch::channel(0).0, Counts::default());
        Self { name, settings, times, nodes, state: Mutex::new(state), queued: Notify::new(), live, counts }
    }

    /// Starts a first worker and returns how it has loaded the model.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<LoadReport, StartError> {
        self.state.lock().live += 1;
        self.live.send_modify(|live| *live += 1);
        let cancelled = Cancelled(self);
        let permit = self.nodes.acquire(Use::Online).await;
        let worker = match permit {
            Some(permit) => Worker::start(&self.settings, self.times.load).await.map(|worker| (worker, permit)),
            None => Err(StartError::System("the server ends".to_owned())),
        };
        std::mem::forget(cancelled);
        match worker {
            Ok((worker, permit)) => {
                let report = worker.report();
                self.state.lock().ready += 1;
                telemetry().prediction_workers.inc();
                tokio::spawn(Arc::clone(self).serve_and_end(worker, permit));
                self.fill();
                Ok(report)
            }
            Err(error) => {
                self.ended(Duration::ZERO, None);
                Err(error)
            }
        }
    }

    /// Starts workers up to the minimum.
    pub(crate) fn fill(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while !state.is_closed && state.live < state.min {
            self.start(&mut state);
        }
    }

    /// Changes the number of workers.
    pub(crate) fn scale(self: &Arc<Self>, min: usize, max: usize) {
        {
            let mut state = self.state.lock();
            (state.min, state.max) = (min, max);
        }
        self.fill();
        // Idle workers above the maximum end.
        self.queued.notify_waiters();
    }

    /// Ends all workers. Requests that wait are refused, those in workers are answered first.
    pub(crate) async fn close(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.queue)
        };
        for request in waiting {
            let _ = request.reply.send(Err(PredictError::Closed));
        }
        self.queued.notify_waiters();
        let mut live = self.live.subscribe();
        let _ = live.wait_for(|live| *live == 0).await;
    }

    /// Sends a request to a worker.
    pub(crate) async fn predict(self: &Arc<Self>, content: Content) -> Result<Reply, PredictError> {
        let (begin, limit) = (Instant::now(), self.times.request);
        let (reply, received) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(PredictError::Closed);
            }
            if state.queue.len() >= WAITING_PER_WORKER * state.max.max(1) {
                return Err(self.refused(begin, PredictError::Overloaded));
            }
            if let (0, Some(failure), Some(until)) = (state.ready, &state.failure, state.pause_until)
                && until > begin
            {
                let failure = PredictError::NotStarted(failure.clone());
                return Err(self.refused(begin, failure));
            }
            state.queue.push_back(Waiting { content, deadline: begin + limit, reply });
            // Workers that start take one request each.
            let starting = state.live - state.ready;
            if state.queue.len() > state.idle + starting && state.live < state.max {
                self.start(&mut state);
            }
        }
        self.queued.notify_one();
        let result = match tokio::time::timeout_at(begin + limit, received).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(PredictError::Closed),
            Err(_) => Err(PredictError::TimedOut(limit)),
        };
        match result {
            Ok(reply) => {
                self.counts.answered(begin.elapsed(), &reply);
                Ok(reply)
            }
            Err(error) => Err(self.refused(begin, error)),
        }
    }

    /// Counts a request without an answer of the model.
    fn refused(&self, begin: Instant, error: PredictError) -> PredictError {
        self.counts.failed(begin.elapsed(), &error);
        error
    }

    pub(crate) fn status(&self) -> PoolStatus {
        let state = self.state.lock();
        PoolStatus {
            ready: state.ready,
            starting: state.live - state.ready,
            waiting: state.queue.len(),
            failure: state.failure.clone(),
            ..self.counts.status()
        }
    }

    pub(crate) fn log(&self) -> &crate::worker_log::WorkerLog {
        self.settings.log()
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        state.live += 1;
        self.live.send_modify(|live| *live += 1);
        tokio::spawn(Arc::clone(self).run(state.pause_until));
    }

    /// Runs one worker from its start to its end.
    async fn run(self: Arc<Self>, not_before: Option<Instant>) {
        if let Some(until) = not_before {
            tokio::time::sleep_until(until).await;
        }
        let permit = self.nodes.acquire(Use::Online).await;
        let is_needed = {
            let state = self.state.lock();
            !state.is_closed && (state.live <= state.min || !state.queue.is_empty())
        };
        let Some(permit) = permit.filter(|_| is_needed) else { return self.ended(Duration::MAX, None) };
        let begin = Instant::now();
        match Worker::start(&self.settings, self.times.load).await {
            Ok(worker) => {
                {
                    let mut state = self.state.lock();
                    state.ready += 1;
                    state.failure = None;
                }
                telemetry().prediction_workers.inc();
                self.serve_and_end(worker, permit).await;
            }
            Err(error) => {
                drop(permit);
                let failure = match error {
                    StartError::NotLoaded { text, detail } if detail.is_empty() => text,
                    StartError::NotLoaded { text, detail } => format!("{text}\n{detail}"),
                    StartError::System(text) => text,
                };
                tracing::warn!(version = self.name, failure, "a worker cannot be started");
                self.ended(begin.elapsed().min(STABLE / 2), Some(failure));
            }
        }
    }

    async fn serve_and_end(self: Arc<Self>, mut worker: Worker, permit: OwnedSemaphorePermit) {
        let begin = Instant::now();
        let unusable = match &mut worker {
            Worker::Python(python) => self.serve_singly(python).await,
            Worker::Container(container) => self.serve_concurrently(container).await,
        };
        let life = begin.elapsed();
        {
            let mut state = self.state.lock();
            state.ready -= 1;
        }
        telemetry().prediction_workers.dec();
        let Some(Unusable { unanswered, reason }) = unusable else {
            worker.stop().await;
            drop(permit);
            return self.ended(Duration::MAX, None);
        };
        let (end, output) = worker.end(reason != Reason::Ended).await;
        let mut text = match reason {
            Reason::Ended => format!("the worker ended ({end})"),
            Reason::Late => "the worker was ended after the time limit".to_owned(),
            Reason::Unhealthy(how) => format!("the container was replaced: it {how}"),
        };
        if let Some(line) = output.lines().last() {
            text.push_str(&format!("; its last output: {line}"));
        }
        tracing::warn!(version = self.name, "{text}");
        for reply in unanswered {
            let _ = reply.send(Err(PredictError::Died(text.clone())));
        }
        drop(permit);
        self.ended(life, Some(text));
    }

    /// Answers requests one by one until the worker is no longer needed (`None`), or unusable.
    async fn serve_singly(&self, worker: &mut PythonWorker) -> Option<Unusable> {
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
    async fn serve_concurrently(&self, worker: &ContainerWorker) -> Option<Unusable> {
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

    /// Notes the end of a worker after `life`, and starts another one if it is needed.
    fn ended(self: &Arc<Self>, life: Duration, failure: Option<String>) {
        let mut refused = Vec::new();
        {
            let mut state = self.state.lock();
            state.live -= 1;
            if let Some(failure) = failure {
                state.early_ends = if life < STABLE { state.early_ends.saturating_add(1) } else { 0 };
                // The first end is followed by a start at once.
                let doubled = FIRST_PAUSE.saturating_mul(1 << state.early_ends.min(10));
                let pause = if state.early_ends <= 1 { Duration::ZERO } else { doubled.min(LONGEST_PAUSE) };
                state.pause_until = Some(Instant::now() + pause);
                if state.live == 0 && state.early_ends > 1 {
                    refused.extend(state.queue.drain(..).map(|request| (request, failure.clone())));
                }
                state.failure = Some(failure);
            }
            if !state.is_closed && (state.live < state.min || (state.live == 0 && !state.queue.is_empty())) {
                self.start(&mut state);
            }
        }
        self.live.send_modify(|live| *live -= 1);
        for (request, failure) in refused {
            let _ = request.reply.send(Err(PredictError::NotStarted(failure)));
        }
    }
}

/// A worker that cannot go on.
struct Unusable {
    /// Requests that wait for the reason.
    unanswered: Vec<ReplySender>,
    reason: Reason,
}

#[derive(PartialEq, Eq)]
enum Reason {
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

/// A first worker, which is not live if its start is cancelled.
struct Cancelled<'a>(&'a Pool);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        self.0.state.lock().live -= 1;
        self.0.live.send_modify(|live| *live -= 1);
    }
}

enum Next {
    Request(Waiting),
    Stop,
    Ended,
}
