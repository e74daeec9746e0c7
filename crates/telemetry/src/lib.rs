#![doc = include_str!("../README.md")]

use std::sync::LazyLock;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The content type of [`Telemetry::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(Telemetry::new);

/// The metrics of this process since its start.
pub fn telemetry() -> &'static Telemetry {
    &TELEMETRY
}

/// The counters, gauges and histograms of a process.
pub struct Telemetry {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<MethodLabels, Histogram, Buckets>,
    suggestion_seconds: Family<SuggestionLabels, Histogram, Buckets>,
    suggestions: Family<SourceLabels, Counter>,
    trials_waiting: Family<WaitLabels, Gauge>,
    trials: Family<StateLabels, Counter>,
    commit_seconds: Histogram,
    changes_committed: Counter,
    /// Leases that expired.
    pub leases_expired: Counter,
    /// Records that could not be written to an audit log.
    pub audit_failures: Counter,
    /// Requests of callers without a valid token that are only counted in an audit log.
    pub audit_suppressed: Counter,
    /// Queued jobs.
    pub jobs_queued: Gauge,
    /// Running jobs.
    pub jobs_running: Gauge,
    /// Maximal number of jobs that run at once.
    pub job_slots: Gauge,
    /// Bytes in allocations of this process.
    pub memory_held: Gauge,
    /// Bytes of this process in main memory.
    pub memory_resident: Gauge,
}

/// Histograms from 100 microseconds to 100 seconds.
#[derive(Clone)]
struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        // 0.1 ms, doubled 20 times.
        Histogram::new(exponential_buckets(1e-4, 2.0, 21))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SuggestionLabels {
    algorithm: &'static str,
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    algorithm: &'static str,
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    reason: &'static str,
}

/// The kind of a reason for which something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// A limit on what runs at the same time.
    Limit,
    /// The limit of one executor on what runs on it.
    ExecutorLimit,
    /// Resources that are in use.
    Resources,
    /// A free job slot.
    JobSlot,
    /// The engine that runs the program.
    Engine,
}

impl WaitKind {
    /// The name of the kind, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::ExecutorLimit => "executor_limit",
            Self::Resources => "resources",
            Self::JobSlot => "job_slot",
            Self::Engine => "engine",
        }
    }
}

/// A phase of computing suggestions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuggestionPhase {
    /// Waiting for the study and a processor.
    Wait,
    /// Reading the changes of the study.
    History,
    /// The search algorithm.
    Compute,
}

/// The source of a suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuggestionSource {
    /// Computed in advance.
    Prepared,
    /// Computed on demand.
    Computed,
    /// Random search, after the algorithm failed.
    Fallback,
}

impl Telemetry {
    fn new() -> Self {
        let mut registry = Registry::with_prefix("tunesmith");
        let requests = Family::default();
        registry.register("http_requests", "Requests by method and status", requests.clone());
        let request_seconds = Family::new_with_constructor(Buckets);
        let help = "Time from a request to its response";
        registry.register_with_unit("http_request", help, Unit::Seconds, request_seconds.clone());
        let suggestion_seconds = Family::new_with_constructor(Buckets);
        let help = "Time of suggestions by algorithm and phase";
        registry.register_with_unit("suggestion", help, Unit::Seconds, suggestion_seconds.clone());
        let suggestions = Family::default();
        let help = "Suggestions by algorithm and source";
        registry.register("suggestions", help, suggestions.clone());
        let trials = Family::default();
        registry.register("trials", "Transitions of trials by new state", trials.clone());
        let commit_seconds = Buckets.new_metric();
        let help = "Time of the store's transactions";
        registry.register_with_unit("store_commit", help, Unit::Seconds, commit_seconds.clone());
        let changes_committed = Counter::default();
        let help = "Changes in the store's transactions";
        registry.register("store_changes", help, changes_committed.clone());
        let leases_expired = Counter::default();
        let help = "Expired leases of trials";
        registry.register("leases_expired", help, leases_expired.clone());
        let audit_failures = Counter::default();
        let help = "Records that could not be written to an audit log";
        registry.register("audit_failures", help, audit_failures.clone());
        let audit_suppressed = Counter::default();
        let help = "Requests of callers without a valid token that are only counted in an audit log";
        registry.register("audit_suppressed", help, audit_suppressed.clone());
        let trials_waiting = Family::default();
        registry.register("trials_waiting", "Trials of jobs that wait to start, by reason", trials_waiting.clone());
        let [jobs_queued, jobs_running, job_slots] = [(); 3].map(|()| Gauge::default());
        registry.register("jobs_queued", "Queued jobs", jobs_queued.clone());
        registry.register("jobs_running", "Running jobs", jobs_running.clone());
        registry.register("job_slots", "Maximal number of jobs that run at once", job_slots.clone());
        let [memory_held, memory_resident] = [(); 2].map(|()| Gauge::default());
        registry.register_with_unit("memory_held", "Allocations of the process", Unit::Bytes, memory_held.clone());
        let help = "Main memory of the process";
        registry.register_with_unit("memory_resident", help, Unit::Bytes, memory_resident.clone());
        Self {
            registry,
            requests,
            request_seconds,
            suggestion_seconds,
            suggestions,
            trials,
            trials_waiting,
            commit_seconds,
            changes_committed,
            leases_expired,
            audit_failures,
            audit_suppressed,
            jobs_queued,
            jobs_running,
            job_slots,
            memory_held,
            memory_resident,
        }
    }

    /// Counts a request of the API method `method` with the response `status` after `time`.
    pub fn request(&self, method: &'static str, status: u16, time: Duration) {
        self.requests.get_or_create(&RequestLabels { method, status }).inc();
        self.request_seconds.get_or_create(&MethodLabels { method }).observe(time.as_secs_f64());
    }

    /// Counts `time` that suggestions of `algorithm` took in `phase`.
    pub fn suggestion_time(&self, algorithm: &'static str, phase: SuggestionPhase, time: Duration) {
        let phase = match phase {
            SuggestionPhase::Wait => "wait",
            SuggestionPhase::History => "history",
            SuggestionPhase::Compute => "compute",
        };
        self.suggestion_seconds.get_or_create(&SuggestionLabels { algorithm, phase }).observe(time.as_secs_f64());
    }

    /// Counts `count` suggestions of `algorithm`.
    pub fn suggested(&self, algorithm: &'static str, source: SuggestionSource, count: usize) {
        let source = match source {
            SuggestionSource::Prepared => "prepared",
            SuggestionSource::Computed => "computed",
            SuggestionSource::Fallback => "fallback",
        };
        self.suggestions.get_or_create(&SourceLabels { algorithm, source }).inc_by(count as u64);
    }

    /// Counts `count` transitions of trials to `state`.
    pub fn trials(&self, state: &'static str, count: usize) {
        self.trials.get_or_create(&StateLabels { state }).inc_by(count as u64);
    }

    /// Sets the number of trials that wait for a reason of `kind`.
    pub fn trials_waiting(&self, kind: WaitKind, count: u64) {
        let labels = WaitLabels { reason: kind.as_str() };
        self.trials_waiting.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Changes the number of trials that wait for a reason of `kind` by `change`.
    pub fn change_trials_waiting(&self, kind: WaitKind, change: i64) {
        self.trials_waiting.get_or_create(&WaitLabels { reason: kind.as_str() }).inc_by(change);
    }

    /// Counts a transaction of `changes` changes that took `time`.
    pub fn commit(&self, changes: usize, time: Duration) {
        self.commit_seconds.observe(time.as_secs_f64());
        self.changes_committed.inc_by(changes as u64);
    }

    /// All metrics, in the text format of OpenMetrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{SuggestionPhase, SuggestionSource, Telemetry};

    #[test]
    fn counts_appear_in_the_text() {
        let telemetry = Telemetry::new();
        telemetry.request("ml.projects.jobs.list", 200, Duration::from_millis(3));
        telemetry.request("ml.projects.jobs.list", 403, Duration::from_millis(1));
        telemetry.suggestion_time("RANDOM_SEARCH", SuggestionPhase::Compute, Duration::from_micros(150));
        telemetry.suggested("RANDOM_SEARCH", SuggestionSource::Computed, 8);
        telemetry.trials("ACTIVE", 8);
        telemetry.leases_expired.inc();
        telemetry.job_slots.set(2);
        telemetry.memory_held.set(3 << 20);
        telemetry.commit(5, Duration::from_millis(4));
        let text = telemetry.text();
        for line in [
            "tunesmith_http_requests_total{method=\"ml.projects.jobs.list\",status=\"403\"} 1",
            "tunesmith_http_request_seconds_count{method=\"ml.projects.jobs.list\"} 2",
            "tunesmith_suggestion_seconds_bucket{le=\"0.0002\",algorithm=\"RANDOM_SEARCH\",phase=\"compute\"} 1",
            "tunesmith_suggestions_total{algorithm=\"RANDOM_SEARCH\",source=\"computed\"} 8",
            "tunesmith_trials_total{state=\"ACTIVE\"} 8",
            "tunesmith_leases_expired_total 1",
            "tunesmith_job_slots 2",
            "tunesmith_memory_held_bytes 3145728",
            "tunesmith_store_commit_seconds_count 1",
            "tunesmith_store_changes_total 5",
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }
}
