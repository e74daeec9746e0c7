//! Workers of one version: queue of requests, scaling, restarts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;
use tunesmith_telemetry::telemetry;

use crate::latency::{Latencies, LatencyCounter};
use crate::runner::LoadReport;
use crate::worker::{Reply, StartError, Worker, WorkerSettings};

/// Time limits of predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictionTimes {
    /// From the arrival of a request to its response; 60 s in AI Platform, from memory.
    pub request: Duration,
    /// Loading of a model. A guess.
    pub load: Duration,
    /// After which an idle worker above the minimum ends. A guess.
    pub idle: Duration,
}

impl Default for PredictionTimes {
    fn default() -> Self {
        Self { request: Duration::from_secs(60), load: Duration::from_secs(600), idle: Duration::from_secs(300) }
    }
}

/// Requests that may wait for each worker that a version may have. A guess.
const WAITING_PER_WORKER: usize = 32;

/// Life of a worker below which its end delays the next start.
const STABLE: Duration = Duration::from_secs(10);

/// Bounds of the delay between starts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Workers of all versions on this server.
#[derive(Debug)]
pub(crate) struct Nodes {
    free: Arc<Semaphore>,
    pub(crate) limit: usize,
    /// Changes when a version waits for a worker that others may give up.
    wanted: watch::Sender<u64>,
}

impl Nodes {
    pub(crate) fn new(limit: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(limit)), limit, wanted: watch::channel(0).0 }
    }

    async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        self.wanted.send_modify(|wanted| *wanted += 1);
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

/// Why a request has no response of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PredictError {
    /// Too many requests wait.
    Overloaded,
    /// No worker can be started: the reason.
    NotStarted(String),
    /// The worker of this request ended: how, and its last output.
    Died(String),
    TimedOut(Duration),
    /// The version was deleted, or the server ends.
    Closed,
}

struct Waiting {
    body: Bytes,
    deadline: Instant,
    reply: oneshot::Sender<Result<Reply, PredictError>>,
}

/// Counts of a version since the start of its pool.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    errors: AtomicU64,
    failures: AtomicU64,
    microseconds: AtomicU64,
    latencies: LatencyCounter,
    last_use: AtomicI64,
}

/// State of a version's workers on this server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Workers that have loaded the model.
    pub ready: usize,
    /// Workers that load it, or wait for a node.
    pub starting: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests with predictions or an error of the model.
    pub requests: u64,
    /// Requests that the model answered with an error.
    pub errors: u64,
    /// Requests without an answer of the model.
    pub failures: u64,
    /// Total time of the answered requests.
    pub time: Duration,
    /// Latencies of the answered requests.
    pub latencies: Latencies,
    pub last_use: Option<Timestamp>,
    /// Why the last worker ended or was not started, until another one has loaded the model.
    pub failure: Option<String>,
}

/// Workers of one version.
pub(crate) struct Pool {
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
        settings: WorkerSettings,
        times: PredictionTimes,
        nodes: Arc<Nodes>,
        min: usize,
        max: usize,
    ) -> Self {
        let state = State { min, max, ..State::default() };
        let (live, counts) = (watch::channel(0).0, Counts::default());
        Self { settings, times, nodes, state: Mutex::new(state), queued: Notify::new(), live, counts }
    }

    /// Starts a first worker and returns how it has loaded the model.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<LoadReport, StartError> {
        self.state.lock().live += 1;
        self.live.send_modify(|live| *live += 1);
        let permit = self.nodes.acquire().await;
        let worker = match permit {
            Some(permit) => Worker::start(&self.settings, self.times.load).await.map(|worker| (worker, permit)),
            None => Err(StartError::System("the server ends".to_owned())),
        };
        match worker {
            Ok((worker, permit)) => {
                let report = worker.report.clone();
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
    pub(crate) async fn predict(self: &Arc<Self>, body: Bytes) -> Result<Reply, PredictError> {
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
            state.queue.push_back(Waiting { body, deadline: begin + limit, reply });
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
                self.answered(begin, &reply);
                Ok(reply)
            }
            Err(error) => Err(self.refused(begin, error)),
        }
    }

    fn answered(&self, begin: Instant, reply: &Reply) {
        let elapsed = begin.elapsed();
        let counts = &self.counts;
        counts.requests.fetch_add(1, Ordering::Relaxed);
        counts.errors.fetch_add(u64::from(!reply.is_success), Ordering::Relaxed);
        counts.microseconds.fetch_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        counts.latencies.count(elapsed);
        counts.last_use.store(Timestamp::now().as_millisecond(), Ordering::Relaxed);
        telemetry().predicted(if reply.is_success { "success" } else { "model_error" }, elapsed);
    }

    /// Counts a request without an answer of the model.
    fn refused(&self, begin: Instant, error: PredictError) -> PredictError {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let result = match &error {
            PredictError::Overloaded => "overloaded",
            PredictError::TimedOut(_) => "timeout",
            PredictError::NotStarted(_) | PredictError::Died(_) | PredictError::Closed => "unavailable",
        };
        telemetry().predicted(result, begin.elapsed());
        error
    }

    pub(crate) fn status(&self) -> PoolStatus {
        let state = self.state.lock();
        let counts = &self.counts;
        let last_use = counts.last_use.load(Ordering::Relaxed);
        PoolStatus {
            ready: state.ready,
            starting: state.live - state.ready,
            waiting: state.queue.len(),
            requests: counts.requests.load(Ordering::Relaxed),
            errors: counts.errors.load(Ordering::Relaxed),
            failures: counts.failures.load(Ordering::Relaxed),
            time: Duration::from_micros(counts.microseconds.load(Ordering::Relaxed)),
            latencies: counts.latencies.read(),
            last_use: Some(last_use).filter(|time| *time > 0).and_then(|time| Timestamp::from_millisecond(time).ok()),
            failure: state.failure.clone(),
        }
    }

    pub(crate) fn log(&self) -> &crate::worker_log::WorkerLog {
        &self.settings.log
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
        let permit = self.nodes.acquire().await;
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
                tracing::warn!(model = %self.settings.runner.model_dir.display(), failure, "a worker cannot be started");
                self.ended(begin.elapsed().min(STABLE / 2), Some(failure));
            }
        }
    }

    async fn serve_and_end(self: Arc<Self>, mut worker: Worker, permit: OwnedSemaphorePermit) {
        let begin = Instant::now();
        let failure = self.serve(&mut worker).await;
        let life = begin.elapsed();
        {
            let mut state = self.state.lock();
            state.ready -= 1;
        }
        telemetry().prediction_workers.dec();
        let failure = match failure {
            None => {
                drop(worker);
                None
            }
            Some((reply, is_late)) => {
                let (end, output) = worker.end(is_late).await;
                let what = if is_late { "was ended after the time limit".to_owned() } else { format!("ended ({end})") };
                let mut text = format!("the worker {what}");
                if let Some(line) = output.lines().last() {
                    text.push_str(&format!("; its last output: {line}"));
                }
                tracing::warn!(model = %self.settings.runner.model_dir.display(), "{text}");
                if let Some(reply) = reply.filter(|_| !is_late) {
                    let _ = reply.send(Err(PredictError::Died(text.clone())));
                }
                Some(text)
            }
        };
        drop(permit);
        let life = if failure.is_none() { Duration::MAX } else { life };
        self.ended(life, failure);
    }

    /// Answers requests until the worker is no longer needed (`None`), or unusable: with the request that it had, and
    /// whether that was too late.
    async fn serve(&self, worker: &mut Worker) -> Option<(Option<oneshot::Sender<Result<Reply, PredictError>>>, bool)> {
        let mut wanted = self.nodes.wanted.subscribe();
        loop {
            let request = match self.next(worker, &mut wanted).await {
                Next::Request(request) => request,
                Next::Stop => return None,
                Next::Ended => return Some((None, false)),
            };
            match tokio::time::timeout_at(request.deadline, worker.predict(&request.body)).await {
                Ok(Ok(reply)) => {
                    let _ = request.reply.send(Ok(reply));
                }
                Ok(Err(_)) => return Some((Some(request.reply), false)),
                Err(_) => return Some((Some(request.reply), true)),
            }
        }
    }

    async fn next(&self, worker: &Worker, wanted: &mut watch::Receiver<u64>) -> Next {
        let mut idle_until = Instant::now() + self.times.idle;
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
                if state.is_closed || state.live > state.max.max(state.min) {
                    return Next::Stop;
                }
                state.idle += 1;
            }
            let mut is_spare = false;
            let has_ended = tokio::select! {
                () = queued => false,
                () = worker.ended() => true,
                () = tokio::time::sleep_until(idle_until) => { is_spare = true; false }
                Ok(()) = wanted.changed() => { is_spare = true; false }
            };
            let mut state = self.state.lock();
            state.idle -= 1;
            if has_ended {
                return Next::Ended;
            }
            if is_spare && state.live > state.min && state.queue.is_empty() {
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

enum Next {
    Request(Waiting),
    Stop,
    Ended,
}
