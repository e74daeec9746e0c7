//! In-process service on a data folder.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cli::executor_args::executor_options_of_environment;
use crate::cli::folder_args::container_options_of_environment;
use crate::cli::results::shell_word;
use crate::composition::{self, Isolation};
use crate::in_process::InProcess;
use crate::pages::{self, Pages};
use crate::server_settings::ServerSettings;
use tunesmith_admission::ServiceAccess;
use tunesmith_data_dir::{DataDir, DataDirError, StoreKind};
use tunesmith_domain::JobId;
use tunesmith_executor::local::PassedEnvironment;
use tunesmith_http::AllowedHosts;
use tunesmith_http::answer_other_servers;
use tunesmith_http::server;
use tunesmith_jobs::{AgentReports, Control, TrialReports};
use tunesmith_jobs::{Jobs, QueueSettings};
use tunesmith_store::Store;
use tunesmith_tracking::LiveTracking;

/// Command recorded in the data folder's lock.
const WHO: &str = "a tunesmith command";

/// Request timeout. Long, because this process serves no other client.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// Access that a command needs to a data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Read-only. Other processes may have the folder open if the store allows it.
    Look,
    Change,
    /// Adds resources; creates the folder if necessary.
    Add,
    /// Adds a job and runs only that job.
    RunJob,
    /// Adds jobs, and runs them and those that the folder has.
    #[cfg(feature = "mcp")]
    RunJobs,
}

impl Purpose {
    /// Whether programs run, and report to this process.
    fn runs_programs(self) -> bool {
        match self {
            Self::Look | Self::Change | Self::Add => false,
            Self::RunJob => true,
            #[cfg(feature = "mcp")]
            Self::RunJobs => true,
        }
    }
}

pub(super) struct Folder {
    transport: InProcess,
    jobs: Arc<Jobs>,
    store: Arc<dyn Store>,
    data_dir: Arc<DataDir>,
    tracking: Arc<LiveTracking>,
    /// Base address for trial reports; empty unless opened to run jobs.
    endpoint: String,
}

impl Folder {
    pub(super) async fn open(path: &Path, purpose: Purpose) -> anyhow::Result<Self> {
        // Every failure to open counts as invalid input.
        let data_dir = Arc::new(open(path, purpose).map_err(|error| anyhow!("{error}"))?);
        data_dir.store().await.map_err(|error| anyhow!("{error}"))?;
        let listener = match purpose.runs_programs() {
            true => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?),
            false => None,
        };
        let endpoint = match &listener {
            Some(listener) => format!("http://{}", listener.local_addr()?),
            None => String::new(),
        };
        let isolation = Isolation {
            environment: PassedEnvironment::from_variable()?,
            private_packages: true,
            ..Isolation::default()
        };
        let (container, executor) = (container_options_of_environment()?, executor_options_of_environment()?);
        let settings = ServerSettings::default();
        let application =
            composition::compose(&data_dir, container, isolation, executor, settings, composition::MEMORY).await?;
        let jobs = Arc::clone(&application.jobs);
        if purpose != Purpose::RunJob {
            // The queue assigns positions to waiting jobs and lets them be cancelled immediately.
            jobs.resume_unfinished().await?;
        }
        if let Some(listener) = listener {
            serve_reports(listener, application.reports.clone(), application.agents.clone());
        }
        let access = match purpose {
            Purpose::Look => ServiceAccess::Open,
            _ => ServiceAccess::Owner(composition::owner(data_dir.path())?),
        };
        let store = Arc::clone(&application.store);
        let tracking = Arc::clone(&application.tracking);
        let service = application.http_service(access, None, REQUEST_TIMEOUT)?;
        let pages = Pages {
            #[cfg(feature = "console")]
            server: None,
            #[cfg(feature = "console")]
            single_sign_on: None,
            is_secure: false,
            // This process serves no browser.
            ended: watch::channel(true).1,
        };
        let router = pages::router(service, pages);
        let address = data_dir.path().display().to_string();
        let transport = InProcess { router, address, caller: None, max_bytes: usize::MAX, called_as: None };
        Ok(Self { transport, jobs, store, data_dir, tracking, endpoint })
    }

    /// Transport to the service.
    pub(super) fn transport(&self) -> InProcess {
        self.transport.clone()
    }

    pub(super) fn path(&self) -> &Path {
        self.data_dir.path()
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) fn shared_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Waits until the export of the job `id` has everything, and returns its errors.
    pub(super) async fn finish_export(&self, id: &JobId) -> anyhow::Result<Vec<String>> {
        let has_ended = self.store.job(id).await?.state.is_final();
        Ok(self.tracking.finish(id, has_ended).await)
    }

    pub(super) fn job_directory(&self, job: &JobId) -> PathBuf {
        self.data_dir.job(job)
    }

    /// Command line that serves the folder.
    pub(super) fn serve_command(&self) -> String {
        let path = shell_word(&self.path().display().to_string());
        let store = self.data_dir.store_argument();
        let store = store.map_or_else(String::new, |store| format!(" --store {}", shell_word(&store)));
        format!("tunesmith serve --data-dir {path}{store}")
    }

    /// Runs the jobs submitted through this handle until `control` is raised.
    pub(super) fn run_jobs(&self, control: watch::Receiver<Control>) -> impl Future<Output = ()> + Send + use<> {
        let jobs = Arc::clone(&self.jobs);
        let settings = QueueSettings { endpoint: self.endpoint.clone(), slots: composition::slots(None, None) };
        async move { jobs.run(settings, control).await }
    }
}

fn open(path: &Path, purpose: Purpose) -> Result<DataDir, DataDirError> {
    if purpose == Purpose::Look {
        return DataDir::open_read_only(path, WHO);
    }
    // An existing folder keeps its store engine.
    let kind = match DataDir::open_read_only(path, WHO) {
        Ok(folder) => folder.kind(),
        // Reading would be no way out.
        Err(DataDirError::SledInUse { path, holder }) => return Err(DataDirError::InUse { path, holder }),
        Err(DataDirError::NoStore { .. }) if purpose != Purpose::Change => StoreKind::default(),
        Err(error) => return Err(error),
    };
    DataDir::open(path, kind, WHO)
}

fn serve_reports(listener: TcpListener, reports: TrialReports, agents: AgentReports) {
    let hosts = AllowedHosts::new(IpAddr::from(Ipv4Addr::LOCALHOST), Vec::new());
    tokio::spawn(answer_other_servers(agents.clone()));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, server::reports_router(reports, agents, hosts)).await {
            tracing::error!(error = %error, "the server for reports over HTTP stopped");
        }
    });
}
