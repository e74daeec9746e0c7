//! Builds the application on one data folder.
//!
//! This is the only module that names the concrete executor; [`DataDir`] names the concrete stores. `tunesmith run`,
//! `tunesmith serve` and the commands on a data folder use the same [`Application`].

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::data_dir::DataDir;
use tunesmith_access::{AuditLog, Authenticator, Limits, TokenFile, TokenFileError};
use tunesmith_executor::local::{LocalExecutor, LocalSettings};
use tunesmith_http::authorization::Access;
use tunesmith_http::server::Service;
use tunesmith_packages::Environments;
use tunesmith_service::clock::{Clock, SystemClock};
use tunesmith_service::jobs::{Jobs, RETRY_PAUSES};
use tunesmith_service::packages::Packages;
use tunesmith_service::search_policy::SearchPolicy;
use tunesmith_service::studies::Studies;
use tunesmith_service::{JobServices, LiveTrials, TrialReports};
use tunesmith_store::Store;

/// Options of the container engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContainerOptions {
    /// Before `run`.
    pub(crate) engine: Vec<String>,
    /// After `run`.
    pub(crate) run: Vec<String>,
}

/// Limits and records of a server with tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessSettings {
    /// Maximum number of requests per second and principal; `None` for any number.
    pub(crate) request_rate: Option<NonZeroU32>,
    /// Maximum number of suggestions that a principal waits for at once; `None` for any number.
    pub(crate) concurrent_suggestions: Option<NonZeroU32>,
    /// Whether reading requests are recorded, too.
    pub(crate) records_reads: bool,
}

/// The services on one data folder.
pub(crate) struct Application {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) studies: Arc<Studies>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) packages: Packages,
    pub(crate) reports: TrialReports,
}

/// Builds the services on `data_dir`. Starts no task and no program, and queues no job.
pub(crate) async fn compose(data_dir: &Arc<DataDir>, container: ContainerOptions) -> anyhow::Result<Application> {
    let store = data_dir.store().await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let policy = Arc::new(SearchPolicy::new(Arc::clone(&store), processors().get()));
    let live = Arc::new(LiveTrials::default());
    let jobs = Jobs::new(JobServices {
        store: Arc::clone(&store),
        executor: Arc::new(local_executor(data_dir.path(), container)?),
        policy: Arc::clone(&policy),
        environments: Arc::new(Environments::new(data_dir.environments())),
        live: Arc::clone(&live),
        clock: Arc::clone(&clock),
        directory: Box::new({
            let data_dir = Arc::clone(data_dir);
            move |job| data_dir.job(job)
        }),
        retry_pauses: RETRY_PAUSES.to_vec(),
    });
    Ok(Application {
        studies: Arc::new(Studies::new(Arc::clone(&store), policy, Arc::clone(&clock))),
        jobs: Arc::new(jobs),
        packages: Packages::new(data_dir.packages(), Packages::MAX_BYTES),
        reports: TrialReports::new(Arc::clone(&store), live),
        store,
        clock,
    })
}

impl Application {
    /// Returns the services in the form that the HTTP interface takes. Without `access` every request is allowed.
    ///
    /// # Errors
    /// If the current folder cannot be read.
    pub(crate) fn http_service(self, access: Option<Access>, request_timeout: Duration) -> anyhow::Result<Service> {
        Ok(Service {
            studies: self.studies,
            jobs: self.jobs,
            packages: self.packages,
            reports: self.reports,
            clock: self.clock,
            working_directory: std::env::current_dir().context("the current folder cannot be read")?,
            access,
            request_timeout,
        })
    }
}

/// Builds the authenticator of the tokens in `data_dir`.
///
/// # Errors
/// If the tokens cannot be read.
pub(crate) fn authenticator(data_dir: &DataDir) -> Result<Authenticator, TokenFileError> {
    Authenticator::new(TokenFile::new(data_dir.tokens()))
}

/// Builds the access rules of a server on `data_dir`: authentication, limits and audit logs.
///
/// # Errors
/// If an audit log cannot be written.
pub(crate) fn access(
    data_dir: &DataDir,
    authenticator: Authenticator,
    settings: AccessSettings,
) -> anyhow::Result<Access> {
    let log = |name: &str| {
        let path = data_dir.audit().join(name);
        AuditLog::open(&path).with_context(|| format!("{} cannot be written", path.display()))
    };
    Ok(Access {
        authenticator,
        limits: Limits::new(settings.request_rate, settings.concurrent_suggestions),
        admin_activity: log("admin_activity.jsonl")?,
        data_access: settings.records_reads.then(|| log("data_access.jsonl")).transpose()?,
    })
}

/// Builds the executor that runs programs on this machine and keeps its registry in `folder`.
///
/// # Errors
/// If the path of this program cannot be determined.
pub(crate) fn local_executor(folder: &Path, container: ContainerOptions) -> anyhow::Result<LocalExecutor> {
    Ok(LocalExecutor::new(LocalSettings {
        supervisor: std::env::current_exe().context("this program's own file cannot be found")?,
        registry: folder.join("executions"),
        container_options: container.engine,
        container_run_options: container.run,
    }))
}

/// Returns the number of processors, at least 1.
pub(crate) fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
