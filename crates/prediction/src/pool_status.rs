//! State and counts of the workers of a version, and failures of requests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_telemetry::telemetry;

use crate::latency::{Latencies, LatencyCounter};
use crate::worker::Reply;

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
    /// Why the last worker ended or was not started, until another one has loaded the model; or why its pod waits.
    pub failure: Option<String>,
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

impl Counts {
    pub(crate) fn answered(&self, elapsed: Duration, reply: &Reply) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(!reply.is_success), Ordering::Relaxed);
        self.microseconds.fetch_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.latencies.count(elapsed);
        self.last_use.store(Timestamp::now().as_millisecond(), Ordering::Relaxed);
        telemetry().predicted(if reply.is_success { "success" } else { "model_error" }, elapsed);
    }

    /// Counts a request without an answer of the model.
    pub(crate) fn failed(&self, elapsed: Duration, error: &PredictError) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let result = match error {
            PredictError::Overloaded => "overloaded",
            PredictError::TimedOut(_) => "timeout",
            PredictError::NotStarted(_) | PredictError::Died(_) | PredictError::Closed => "unavailable",
        };
        telemetry().predicted(result, elapsed);
    }

    /// A status with these counts.
    pub(crate) fn status(&self) -> PoolStatus {
        let last_use = self.last_use.load(Ordering::Relaxed);
        PoolStatus {
            requests: self.requests.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            time: Duration::from_micros(self.microseconds.load(Ordering::Relaxed)),
            latencies: self.latencies.read(),
            last_use: Some(last_use).filter(|time| *time > 0).and_then(|time| Timestamp::from_millisecond(time).ok()),
            ..PoolStatus::default()
        }
    }
}
