//! Workers of one version: queue of requests, scaling, restarts.

mod serving;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};
use tokio::time::Instant;
use tunesmith_telemetry::telemetry;

use self::serving::{Reason, Unusable};
use crate::nodes::{Nodes, PredictionTimes, Use};
use crate::pods::WorkerGroup;
use crate::pool_status::{Counts, PoolStatus, PredictError};
use crate::runner::LoadReport;
use crate::worker::{Content, Reply, StartError, Worker, WorkerSettings};

/// Requests that may wait for each worker that a version may have. A guess.
const WAITING_PER_WORKER: usize = 32;

/// Life of a worker below which its end delays the next start.
const STABLE: Duration = Duration::from_secs(10);

/// Bounds of the delay between starts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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
    /// Whether starts are cancelled.
    closed: watch::Sender<bool>,
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
        let (live, closed) = (watch::channel(0).0, watch::channel(false).0);
        let (state, queued, counts) = (Mutex::new(state), Notify::new(), Counts::default());
        Self { name, settings, times, nodes, state, queued, live, closed, counts }
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

    /// Ends all workers. Requests that wait are refused, those in workers are answered first. Starts are cancelled.
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
        self.closed.send_replace(true);
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
        let starting = state.live - state.ready;
        let waiting = || self.pods().filter(|_| starting > 0).and_then(WorkerGroup::waiting);
        PoolStatus {
            ready: state.ready,
            starting,
            waiting: state.queue.len(),
            failure: state.failure.clone().or_else(waiting),
            ..self.counts.status()
        }
    }

    pub(crate) fn log(&self) -> &crate::worker_log::WorkerLog {
        self.settings.log()
    }

    /// Pods of its workers, if they are no processes of this machine.
    pub(crate) fn pods(&self) -> Option<&WorkerGroup> {
        match &self.settings {
            WorkerSettings::Python(settings) => settings.pods.as_deref(),
            WorkerSettings::Container(_) => None,
        }
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        state.live += 1;
        self.live.send_modify(|live| *live += 1);
        tokio::spawn(Arc::clone(self).run(state.pause_until));
    }

    /// Runs one worker from its start to its end.
    async fn run(self: Arc<Self>, not_before: Option<Instant>) {
        let mut closed = self.closed.subscribe();
        let started = tokio::select! {
            started = self.started(not_before) => started,
            _ = closed.wait_for(|closed| *closed) => None,
        };
        match started {
            None => self.ended(Duration::MAX, None),
            Some(Ok((worker, permit))) => {
                {
                    let mut state = self.state.lock();
                    state.ready += 1;
                    state.failure = None;
                }
                telemetry().prediction_workers.inc();
                self.serve_and_end(worker, permit).await;
            }
            Some(Err((time, failure))) => {
                tracing::warn!(version = self.name, failure, "a worker cannot be started");
                self.ended(time.min(STABLE / 2), Some(failure));
            }
        }
    }

    /// Starts a worker, unless it is no longer needed (`None`). An error is the time of the start, and the reason.
    async fn started(
        &self,
        not_before: Option<Instant>,
    ) -> Option<Result<(Worker, OwnedSemaphorePermit), (Duration, String)>> {
        if let Some(until) = not_before {
            tokio::time::sleep_until(until).await;
        }
        let permit = self.nodes.acquire(Use::Online).await?;
        {
            let state = self.state.lock();
            if state.is_closed || (state.live > state.min && state.queue.is_empty()) {
                return None;
            }
        }
        let begin = Instant::now();
        let started = Worker::start(&self.settings, self.times.load).await;
        Some(started.map(|worker| (worker, permit)).map_err(|error| (begin.elapsed(), error.reason())))
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

/// A first worker, which is not live if its start is cancelled.
struct Cancelled<'a>(&'a Pool);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        self.0.state.lock().live -= 1;
        self.0.live.send_modify(|live| *live -= 1);
    }
}
