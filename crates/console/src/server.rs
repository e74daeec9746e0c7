//! Server page: readiness, limits, resources and metrics.

use askama::Template;
use axum::response::Response;
use jiff::Timestamp;
use tokio::sync::watch;

use super::console::{Console, rendered};
use super::errors::PageError;
use super::format::{Size, Span, Time, count};
use super::frame::{Frame, Section};
use super::metrics::{self, MetricRow};
use super::visit::Visit;
use tunesmith_jobs::QueueLimits;
use tunesmith_jobs::resource_pool::PoolLoad;
use tunesmith_telemetry::telemetry;

#[derive(Debug, Clone)]
pub struct ServerFacts {
    pub version: &'static str,
    /// Time at which the process started to serve.
    pub started: Timestamp,
    pub listen: String,
    /// Base URL for programs.
    pub endpoint: String,
    pub data_dir: String,
    pub store: &'static str,
    /// Default executor of jobs.
    pub executor: String,
    /// Path of the server configuration, if any.
    pub server_config: Option<String>,
    /// Memory budget in bytes.
    pub memory_budget: u64,
    /// Values of the flags, as far as they hold after a reload.
    pub settings: watch::Receiver<Vec<Setting>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub option: &'static str,
    pub meaning: &'static str,
    pub value: String,
}

#[derive(Template)]
#[template(path = "server.html")]
struct ServerPage {
    frame: Frame,
    facts: std::sync::Arc<ServerFacts>,
    start_time: Time,
    uptime: Span,
    reasons: Vec<String>,
    slots: Option<(usize, usize)>,
    queued: usize,
    budget: Size,
    held: Option<Size>,
    resident: Option<Size>,
    pool: PoolLoad,
    limits: Vec<Limit>,
    sessions: usize,
    metrics: Vec<MetricRow>,
}

struct Limit {
    name: &'static str,
    value: String,
}

pub(crate) async fn show(console: Console, visit: Visit, (): ()) -> Result<Response, PageError> {
    let facts = console.server()?;
    let mut metrics = metrics::rows(&telemetry().text());
    // The page shows both above.
    metrics.retain(|row| !matches!(row.name.as_str(), "build" | "start_time_seconds"));
    let bytes =
        |name: &str| metrics::value(&metrics, name).filter(|bytes| *bytes > 0.0).map(|bytes| Size(bytes as u64));
    let load = console.jobs.load();
    let pool = console.jobs.resources();
    let mut reasons = console.jobs.store_faults().await;
    reasons.extend(console.control.check_ready().err());
    // A failure is among the reasons.
    let credentials = console.control.credentials().ok().flatten();
    let page = ServerPage {
        frame: visit.frame("Server", Section::Server),
        start_time: Time(facts.started),
        uptime: Span::between(facts.started, console.clock.now()).whole(),
        reasons,
        slots: load.slots,
        queued: load.queued.len(),
        budget: Size(facts.memory_budget),
        held: bytes("memory_held_bytes"),
        resident: bytes("memory_resident_bytes"),
        limits: limits(&pool, console.jobs.queue_limits()),
        pool,
        sessions: credentials.iter().flat_map(|given| &given.tokens).map(|token| token.sessions).sum(),
        metrics,
        facts,
    };
    Ok(rendered(&page))
}

impl ServerPage {
    /// Settings, with numbers of things as on other pages.
    fn settings(&self) -> Vec<Setting> {
        let mut settings = self.facts.settings.borrow().clone();
        for setting in settings.iter_mut().filter(|setting| setting.value.bytes().all(|byte| byte.is_ascii_digit())) {
            setting.value = count(&setting.value);
        }
        settings
    }

    fn counts_resources(&self) -> bool {
        let capacity = &self.pool.capacity;
        capacity.milli_cpus.is_some() || capacity.memory_bytes.is_some() || capacity.devices.is_some()
    }

    fn memory(&self) -> Size {
        Size(self.pool.memory_bytes)
    }

    fn cpus(milli_cpus: &u64) -> f64 {
        *milli_cpus as f64 / 1000.0
    }

    fn size(bytes: &u64) -> Size {
        Size(*bytes)
    }
}

fn limits(pool: &PoolLoad, queue: QueueLimits) -> Vec<Limit> {
    let numbers = [
        ("running trials in all", pool.limits.cluster),
        ("running trials of a project", pool.limits.project),
        ("running trials of a principal", pool.limits.principal),
        ("running trials of a study", pool.limits.study),
        ("queued jobs in all", queue.cluster),
        ("queued jobs of a project", queue.project),
        ("queued jobs of a principal", queue.principal),
    ];
    let limit = |(name, number): (&'static str, Option<u32>)| Some(Limit { name, value: number?.to_string() });
    let deadline = pool
        .queue_deadline
        .map(|deadline| Limit { name: "time in the queue", value: format!("{} s", deadline.as_secs()) });
    let executors = pool.executors.iter().map(|executor| Limit {
        name: "running trials on an executor",
        value: format!("{} of {} run on {}", executor.running, executor.limit, executor.name),
    });
    numbers.into_iter().filter_map(limit).chain(executors).chain(deadline).collect()
}
