#![doc = include_str!("../README.md")]

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Content type of [`Telemetry::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(Telemetry::new);

/// Metrics of this process since its start.
pub fn telemetry() -> &'static Telemetry {
    &TELEMETRY
}

pub struct Telemetry {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<MethodLabels, Histogram, Buckets>,
    suggestion_seconds: Family<SuggestionLabels, Histogram, Buckets>,
    suggestions: Family<SourceLabels, Counter>,
    trials_waiting: Family<WaitLabels, Gauge>,
    prediction_seconds: Family<ResultLabels, Histogram, Buckets>,
    batch_instances: Family<ResultLabels, Counter>,
    trials: Family<StateLabels, Counter>,
    jobs: Family<StateLabels, Counter>,
    webhook_deliveries: Family<WebhookLabels, Counter>,
    webhook_events_dropped: Family<DropLabels, Counter>,
    webhook_events_pending: Family<PendingLabels, Gauge>,
    commit_seconds: Histogram,
    changes_committed: Counter,
    pub leases_expired: Counter,
    /// Records that could not be written to an audit log.
    pub audit_failures: Counter,
    /// Unauthenticated requests that an audit log only counts.
    pub audit_suppressed: Counter,
    pub jobs_queued: Gauge,
    pub jobs_running: Gauge,
    /// Maximum number of concurrent jobs.
    pub job_slots: Gauge,
    /// Processes that have loaded a model.
    pub prediction_workers: Gauge,
    /// Allocated bytes.
    pub memory_held: Gauge,
    /// Resident set size in bytes.
    pub memory_resident: Gauge,
    /// Free bytes on the file system of the data folder, for users without privileges.
    pub disk_free: Gauge,
    /// Size of that file system in bytes.
    pub disk_size: Gauge,
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabels {
    webhook: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DropLabels {
    webhook: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PendingLabels {
    webhook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// A phase of a suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuggestionPhase {
    /// Waiting for the study and a processor.
    Wait,
    /// Reading the study's changes.
    History,
    /// Running the search algorithm.
    Compute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuggestionSource {
    /// Computed in advance.
    Prepared,
    /// Computed on demand.
    Computed,
    /// Random search after a failure of the algorithm.
    Fallback,
}

impl Telemetry {
    fn new() -> Self {
        let mut registry = Registry::with_prefix("tunesmith");
        registry.register("build", "Version of the program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let start = Gauge::<i64>::default();
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        start.set(i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX));
        registry.register_with_unit("start_time", "Start of the process since the Unix epoch", Unit::Seconds, start);
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
        let jobs = Family::default();
        registry.register("jobs", "Transitions of jobs by new state", jobs.clone());
        let webhook_deliveries = Family::default();
        let help = "Deliveries of events by webhook and result";
        registry.register("webhook_deliveries", help, webhook_deliveries.clone());
        let webhook_events_dropped = Family::default();
        let help = "Undelivered events dropped by webhook and reason";
        registry.register("webhook_events_dropped", help, webhook_events_dropped.clone());
        let webhook_events_pending = Family::default();
        let help = "Events waiting for delivery by webhook";
        registry.register("webhook_events_pending", help, webhook_events_pending.clone());
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
        let prediction_seconds = Family::new_with_constructor(Buckets);
        let help = "Time of online predictions by result";
        registry.register_with_unit("prediction", help, Unit::Seconds, prediction_seconds.clone());
        let batch_instances = Family::default();
        let help = "Instances of finished shards of batch predictions by result";
        registry.register("batch_prediction_instances", help, batch_instances.clone());
        let prediction_workers = Gauge::default();
        registry.register("prediction_workers", "Processes that have loaded a model", prediction_workers.clone());
        let [memory_held, memory_resident] = [(); 2].map(|()| Gauge::default());
        registry.register_with_unit("memory_held", "Allocations of the process", Unit::Bytes, memory_held.clone());
        let help = "Main memory of the process";
        registry.register_with_unit("memory_resident", help, Unit::Bytes, memory_resident.clone());
        let [disk_free, disk_size] = [(); 2].map(|()| Gauge::default());
        let help = "Free space on the file system of the data folder";
        registry.register_with_unit("disk_free", help, Unit::Bytes, disk_free.clone());
        let help = "Size of the file system of the data folder";
        registry.register_with_unit("disk_size", help, Unit::Bytes, disk_size.clone());
        Self {
            registry,
            requests,
            request_seconds,
            suggestion_seconds,
            suggestions,
            trials,
            jobs,
            webhook_deliveries,
            webhook_events_dropped,
            webhook_events_pending,
            trials_waiting,
            prediction_seconds,
            batch_instances,
            prediction_workers,
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
            disk_free,
            disk_size,
        }
    }

    /// Records a request of the API method `method`.
    pub fn request(&self, method: &'static str, status: u16, time: Duration) {
        self.requests.get_or_create(&RequestLabels { method, status }).inc();
        self.request_seconds.get_or_create(&MethodLabels { method }).observe(time.as_secs_f64());
    }

    /// Records the `time` that suggestions of `algorithm` spent in `phase`.
    pub fn suggestion_time(&self, algorithm: &'static str, phase: SuggestionPhase, time: Duration) {
        let phase = match phase {
            SuggestionPhase::Wait => "wait",
            SuggestionPhase::History => "history",
            SuggestionPhase::Compute => "compute",
        };
        self.suggestion_seconds.get_or_create(&SuggestionLabels { algorithm, phase }).observe(time.as_secs_f64());
    }

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

    /// Counts a transition of a job to `state`.
    pub fn job(&self, state: &'static str) {
        self.jobs.get_or_create(&StateLabels { state }).inc();
    }

    pub fn trials_waiting(&self, reason: &'static str, count: u64) {
        let labels = WaitLabels { reason };
        self.trials_waiting.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Adds `change` to the number of trials waiting for `reason`.
    pub fn change_trials_waiting(&self, reason: &'static str, change: i64) {
        self.trials_waiting.get_or_create(&WaitLabels { reason }).inc_by(change);
    }

    /// Counts a delivery by `webhook`: `delivered`, `failed` or `refused`.
    pub fn webhook_delivery(&self, webhook: &str, result: &'static str) {
        self.webhook_deliveries.get_or_create(&WebhookLabels { webhook: webhook.to_owned(), result }).inc();
    }

    /// Counts an event that `webhook` no longer delivers, due to `age`, `count`, `refused` or `unreadable`.
    pub fn webhook_event_dropped(&self, webhook: &str, reason: &'static str) {
        self.webhook_events_dropped.get_or_create(&DropLabels { webhook: webhook.to_owned(), reason }).inc();
    }

    pub fn webhook_events_pending(&self, webhook: &str, count: usize) {
        let labels = PendingLabels { webhook: webhook.to_owned() };
        self.webhook_events_pending.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records an online prediction with `result`.
    pub fn predicted(&self, result: &'static str, time: Duration) {
        self.prediction_seconds.get_or_create(&ResultLabels { result }).observe(time.as_secs_f64());
    }

    /// Records a finished shard of a batch prediction.
    pub fn batch_predicted(&self, predictions: u64, errors: u64) {
        for (result, count) in [("success", predictions), ("error", errors)] {
            self.batch_instances.get_or_create(&ResultLabels { result }).inc_by(count);
        }
    }

    /// Records a store transaction of `changes` changes.
    pub fn commit(&self, changes: usize, time: Duration) {
        self.commit_seconds.observe(time.as_secs_f64());
        self.changes_committed.inc_by(changes as u64);
    }

    /// All metrics in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
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
        telemetry.job("SUCCEEDED");
        telemetry.webhook_delivery("team", "delivered");
        telemetry.webhook_event_dropped("team", "age");
        telemetry.webhook_events_pending("team", 4);
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
            "tunesmith_jobs_total{state=\"SUCCEEDED\"} 1",
            "tunesmith_webhook_deliveries_total{webhook=\"team\",result=\"delivered\"} 1",
            "tunesmith_webhook_events_dropped_total{webhook=\"team\",reason=\"age\"} 1",
            "tunesmith_webhook_events_pending{webhook=\"team\"} 4",
            concat!("tunesmith_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
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
