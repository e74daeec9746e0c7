//! The page about the server: readiness, limits, resources and metrics.

use askama::Template;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use jiff::Timestamp;

use super::errors::PageError;
use super::format::{Size, Span, Time};
use super::frame::{ADMINISTRATION, Frame, Section};
use super::metrics::{self, MetricRow};
use super::router::{Console, Visit, rendered};
use tunesmith_http::pages::PageCall;
use tunesmith_service::jobs::QueueLimits;
use tunesmith_service::resource_pool::PoolLoad;

/// How a server was started.
#[derive(Debug, Clone)]
pub struct ServerFacts {
    /// The version of the program.
    pub version: &'static str,
    /// When the process started to serve.
    pub started: Timestamp,
    /// The address that it listens on.
    pub listen: String,
    /// The base address under which programs reach it.
    pub endpoint: String,
    /// The data folder.
    pub data_dir: String,
    /// The kind of the store.
    pub store: &'static str,
    /// The executor of jobs that name none.
    pub executor: String,
    /// The file of the server configuration; `None` without one.
    pub server_config: Option<String>,
    /// The memory budget in bytes.
    pub memory_budget: u64,
    /// Limits and options.
    pub settings: Vec<Setting>,
}

/// An option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The option of the command line.
    pub option: &'static str,
    /// What it sets.
    pub meaning: &'static str,
    /// The value, for people.
    pub value: String,
}

#[derive(Template)]
#[template(path = "server.html")]
struct ServerPage {
    frame: Frame,
    facts: std::sync::Arc<ServerFacts>,
    start_time: Time,
    uptime: Span,
    /// Why the server is not ready.
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

/// A limit of the server configuration.
struct Limit {
    name: &'static str,
    value: String,
}

pub(crate) async fn page(State(console): State<Console>, parts: Parts) -> Response {
    console.show(PageCall::of_server("console.server", ADMINISTRATION), parts, show).await
}

async fn show(console: Console, visit: Visit) -> Result<Response, PageError> {
    let facts = console.server()?;
    let metrics = metrics::rows(&console.pages.metrics());
    let bytes =
        |name: &str| metrics::value(&metrics, name).filter(|bytes| *bytes > 0.0).map(|bytes| Size(bytes as u64));
    let load = console.jobs.load();
    let pool = console.jobs.resources();
    // A failure is among the reasons.
    let credentials = console.pages.credentials().ok().flatten();
    let page = ServerPage {
        frame: Frame::new("Server", Section::Server, &visit.visitor, &visit.parts),
        start_time: Time(facts.started),
        uptime: Span::between(facts.started, console.clock.now()).whole(),
        reasons: console.pages.unready_reasons(&console.jobs).await,
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
    /// Whether any resource is counted.
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

/// The limits that are set.
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
