//! Everything that answers requests about a data folder, put together.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::run::ContainerArgs;
use crate::data_dir::DataDir;
use tunesmith_executor::local::{LocalExecutor, LocalSettings};
use tunesmith_http::authorization::Access;
use tunesmith_http::server::Service;
use tunesmith_packages::Environments;
use tunesmith_service::clock::{Clock, SystemClock};
use tunesmith_service::jobs::{Jobs, Workplace};
use tunesmith_service::packages::Packages;
use tunesmith_service::search_policy::SearchPolicy;
use tunesmith_service::studies::Studies;
use tunesmith_service::{LiveTrials, TrialReports};

/// What the engine cannot see for itself.
pub(super) struct Settings<'a> {
    /// Base address under which trainers reach the service.
    pub(super) endpoint: String,
    /// How many jobs run at once; as many as there are processors if absent.
    pub(super) job_slots: Option<NonZeroU16>,
    /// How containers are started.
    pub(super) container: &'a ContainerArgs,
    /// Who may ask; `None` for the owner of the data folder.
    pub(super) access: Option<Access>,
    /// How long a request may take.
    pub(super) request_timeout: Duration,
}

/// The service on `data_dir`. Nothing is begun or taken up.
pub(super) async fn compose(data_dir: &Arc<DataDir>, settings: Settings<'_>) -> anyhow::Result<Service> {
    let store = data_dir.store().await?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let policy = Arc::new(SearchPolicy::new(Arc::clone(&store), processors));
    let live = Arc::new(LiveTrials::default());
    let studies = Arc::new(Studies::new(Arc::clone(&store), Arc::clone(&policy), Arc::clone(&clock)));
    let jobs = Arc::new(Jobs::new(Workplace {
        store: Arc::clone(&store),
        executor: Arc::new(LocalExecutor::new(LocalSettings {
            supervisor: std::env::current_exe().context("this program's own file cannot be found")?,
            registry: data_dir.path().join("executions"),
            container_options: settings.container.options.clone(),
            container_run_options: settings.container.run_options.clone(),
        })),
        policy,
        environments: Arc::new(Environments::new(data_dir.environments())),
        live: Arc::clone(&live),
        clock: Arc::clone(&clock),
        endpoint: settings.endpoint,
        directory: Box::new({
            let data_dir = Arc::clone(data_dir);
            move |job| data_dir.job(job)
        }),
        slots: settings.job_slots.map_or(processors, |slots| usize::from(slots.get())),
    }));
    Ok(Service {
        studies,
        jobs,
        packages: Packages::new(data_dir.packages(), Packages::MAX_BYTES),
        reports: TrialReports::new(store, live),
        clock,
        working_directory: std::env::current_dir().context("the current folder cannot be read")?,
        access: settings.access,
        request_timeout: settings.request_timeout,
    })
}
