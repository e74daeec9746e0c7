//! Builds the application on one data folder.
//!
//! [`executors`] names the concrete executors, [`DataDir`] the concrete stores. `tunesmith run`,
//! `tunesmith serve` and the commands on a data folder use the same [`Application`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::data_dir::{DataDir, audit_of};
use crate::executors::{self, ExecutorKind, ExecutorOptions};
use crate::server_settings::ServerSettings;
use crate::sharing::{self, Sharing};
use tunesmith_access::{AuditLog, Authenticator, Limits, Record, TokenFile, TokenFileError};
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_executor::local::{Identities, Identity, LocalExecutor, LocalSettings, PassedEnvironment};
use tunesmith_executor::remote::Inbox;
use tunesmith_http::authorization::{Access, Owner};
use tunesmith_http::server::{Service, ServiceAccess};
use tunesmith_http::web_pages::AllowedHosts;
use tunesmith_objects::Buckets;
use tunesmith_packages::{Environments, PackageRules, ProgramUser};
use tunesmith_service::allowed_folders::AllowedFolders;
use tunesmith_service::clock::{Clock, SystemClock};
use tunesmith_service::jobs::{Jobs, RETRY_PAUSES, SlotCounts};
use tunesmith_service::packages::Packages;
use tunesmith_service::resource_pool::{Capacity, PoolSettings};
use tunesmith_service::search_policy::SearchPolicy;
use tunesmith_service::studies::{PendingSuggestions, Studies};
use tunesmith_service::{AgentReports, DirectoryOf, JobServices, LiveTrials, ResourcePool, TrialReports};
use tunesmith_store::Store;

/// The log of every change in the folder of audit logs.
const ADMIN_ACTIVITY: &str = "admin_activity.jsonl";

/// Options of the container engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContainerOptions {
    /// Before `run`.
    pub(crate) engine: Vec<String>,
    /// After `run`.
    pub(crate) run: Vec<String>,
}

/// Environment and user of the programs of jobs, and the folders that jobs may name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Isolation {
    /// The variables of this process that programs inherit.
    pub(crate) environment: PassedEnvironment,
    /// The users of programs.
    pub(crate) identities: Identities,
    /// The folders and buckets that jobs may name; any by default.
    pub(crate) allowed_folders: Arc<AllowedFolders>,
    /// Whether packages may be fetched from addresses that are not public.
    pub(crate) private_packages: bool,
    /// Maximum disk space of the logs of one attempt in bytes; `None` for any.
    pub(crate) log_quota_bytes: Option<u64>,
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
    /// Whether changes are refused while they cannot be recorded.
    pub(crate) refuses_unrecorded: bool,
}

/// The memory budget in bytes of commands that have no option for it.
pub(crate) const MEMORY: usize = 256 << 20;

/// Default number of jobs that run at once on other machines. A guess: each takes memory for its trials, and no processor.
const REMOTE_JOB_SLOTS: NonZeroUsize = NonZeroUsize::new(256).expect("it is not 0");

/// The slots of jobs, as far as they are given.
pub(crate) fn slots(local: Option<NonZeroU16>, remote: Option<NonZeroU16>) -> SlotCounts {
    SlotCounts {
        local: local.map_or_else(processors, NonZeroUsize::from),
        remote: remote.map_or(REMOTE_JOB_SLOTS, NonZeroUsize::from),
    }
}

/// The services on one data folder.
pub(crate) struct Application {
    /// The executor of jobs that name none, for people.
    pub(crate) executor: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) studies: Arc<Studies>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) packages: Packages,
    pub(crate) machines: Arc<MachineMap>,
    pub(crate) environments: Arc<Environments>,
    pub(crate) reports: TrialReports,
    pub(crate) agents: AgentReports,
}

/// Builds the services on `data_dir`. Starts no task and no program of a job, and queues no job.
/// Histories that are kept between requests take at most about half of `memory` bytes.
pub(crate) async fn compose(
    data_dir: &Arc<DataDir>,
    container: ContainerOptions,
    isolation: Isolation,
    executor: ExecutorOptions,
    settings: ServerSettings,
    memory: usize,
) -> anyhow::Result<Application> {
    compose_shared(data_dir, container, isolation, executor, settings, memory, sharing::JOB_LEASE).await
}

/// As [`compose`], for a server whose jobs are continued by other servers `job_lease` after it has died.
pub(crate) async fn compose_shared(
    data_dir: &Arc<DataDir>,
    container: ContainerOptions,
    isolation: Isolation,
    executor: ExecutorOptions,
    settings: ServerSettings,
    memory: usize,
    job_lease: Duration,
) -> anyhow::Result<Application> {
    let store = data_dir.store().await?;
    store.finish_deletions().await?;
    let inbox = Arc::new(Inbox::new(data_dir.path().join("agents")).with_log_quota(isolation.log_quota_bytes));
    let others = executor.names_beside(&settings.machines.other_executors());
    let executor =
        ExecutorOptions { queues: settings.machines.queues(), store: data_dir.shared_identity(), ..executor };
    let limits = executor.max_running_trials.clone();
    let (kinds, default) = (executor.kinds(&others), executor.default.clone());
    let (kind, executor) =
        executors::executor(data_dir.path(), executor, &others, container, isolation.clone(), &inbox).await?;
    let shown = match default.as_ref().and_then(|name| Some((name, kinds.get(name)?))) {
        Some((name, kind)) => format!("{name} ({})", kind.as_str()),
        None => kind.as_str().to_owned(),
    };
    let pool = counted(settings.pool, kind, kinds, default);
    let pool = PoolSettings { executor_limits: limits, ..pool };
    let Sharing { claims, running, relay, documents, clock } = sharing::open(data_dir, &store, job_lease).await?;
    let policy = Arc::new(SearchPolicy::with_memory(Arc::clone(&store), processors().get(), memory / 2));
    let live = Arc::new(LiveTrials::default());
    let environments = Arc::new(environments(data_dir, &isolation));
    let packages = Packages::new(data_dir.packages(), Packages::MAX_BYTES).shared(documents.clone());
    let jobs = Jobs::new(JobServices {
        store: Arc::clone(&store),
        claims: Arc::clone(&claims),
        documents: documents.clone(),
        program_user: Box::new({
            let identities = isolation.identities.clone();
            move |project| {
                let Identity { uid, gid, groups, home, .. } = identities.of(project)?.clone();
                Some(ProgramUser { uid, gid, groups, home: home.into() })
            }
        }),
        policy: Arc::clone(&policy),
        packages: packages.clone(),
        environments: Arc::clone(&environments),
        buckets: Buckets::of_environment(),
        allowed_folders: isolation.allowed_folders,
        pool: match running {
            Some(running) => ResourcePool::of_servers(pool, running),
            None => ResourcePool::new(pool),
        },
        executor,
        live: Arc::clone(&live),
        clock: Arc::clone(&clock),
        directory: directory_of(data_dir),
        retry_pauses: RETRY_PAUSES.to_vec(),
    });
    let studies = Studies::new(Arc::clone(&store), policy, Arc::clone(&clock));
    let studies = match &documents {
        Some(documents) => studies.with_servers(Arc::clone(documents)),
        None => studies.with_pending(PendingSuggestions::new(data_dir.suggestions())),
    };
    let reports = TrialReports::new(Arc::clone(&store), Arc::clone(&live));
    let reports = match &documents {
        Some(documents) => reports.with_servers(Arc::clone(&claims), Arc::clone(documents)),
        None => reports,
    };
    Ok(Application {
        executor: shown,
        studies: Arc::new(studies),
        jobs: Arc::new(jobs.with_queue_limits(settings.queue)),
        machines: settings.machines,
        packages,
        environments,
        reports,
        agents: AgentReports::new(
            Arc::clone(&store),
            live,
            inbox,
            Arc::clone(&clock),
            directory_of(data_dir),
            documents.clone(),
            claims,
        )
        .with_relay(relay),
        store,
        clock,
    })
}

/// `pool`, in which only the resources of this machine are counted: other executors count what their nodes have.
///
/// The executor of the data folder is of the kind `own`; the others are given with their kinds. Jobs that name none run on
/// `default`, or on the own one.
fn counted(
    mut pool: PoolSettings,
    own: ExecutorKind,
    mut kinds: BTreeMap<String, ExecutorKind>,
    default: Option<String>,
) -> PoolSettings {
    pool.default_executor = default.unwrap_or_else(|| own.as_str().to_owned());
    // Jobs of an earlier configuration may name a kind that this one does not.
    kinds.extend(
        ExecutorKind::value_variants()
            .iter()
            .map(|kind| (kind.as_str().to_owned(), *kind))
            .filter(|(_, kind)| *kind != ExecutorKind::Local || own == ExecutorKind::Local),
    );
    let is_here = |name: &str| kinds.get(name) == Some(&ExecutorKind::Local);
    pool.scheduled = kinds.keys().filter(|name| !is_here(name)).map(|name| Some(name.clone())).collect();
    if !is_here(&pool.default_executor) {
        pool.scheduled.insert(None);
    }
    if !kinds.values().any(|kind| *kind == ExecutorKind::Local) {
        pool.capacity = Capacity::default();
    }
    pool
}

impl Application {
    /// Returns the services in the form that the HTTP interface takes. Without `hosts`, requests come from this
    /// process.
    ///
    /// # Errors
    /// If the current folder cannot be read.
    pub(crate) fn http_service(
        self,
        access: ServiceAccess,
        hosts: Option<AllowedHosts>,
        request_timeout: Duration,
    ) -> anyhow::Result<Service> {
        Ok(Service {
            studies: self.studies,
            jobs: self.jobs,
            packages: self.packages,
            machines: self.machines,
            reports: self.reports,
            agents: self.agents,
            clock: self.clock,
            working_directory: std::env::current_dir().context("the current folder cannot be read")?,
            access,
            hosts,
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
    let log = |name: &str| open_log(&data_dir.audit().join(name));
    Ok(Access {
        authenticator,
        limits: Limits::new(settings.request_rate, settings.concurrent_suggestions),
        admin_activity: Arc::new(log(ADMIN_ACTIVITY)?),
        data_access: settings.records_reads.then(|| log("data_access.jsonl")).transpose()?.map(Arc::new),
        refuses_unrecorded: settings.refuses_unrecorded,
    })
}

/// The user of this process as the owner of the data folder `path`: the principal of changes without a server.
///
/// # Errors
/// If the audit log cannot be written.
pub(crate) fn owner(path: &Path) -> anyhow::Result<Owner> {
    let admin_activity = open_log(&audit_of(path).join(ADMIN_ACTIVITY))?;
    admin_activity.prepare().with_context(|| format!("{} cannot be written", audit_of(path).display()))?;
    let principal = format!("uid:{}", rustix::process::getuid().as_raw());
    Ok(Owner { principal, admin_activity: Arc::new(admin_activity) })
}

/// Records a change that `owner` made without a request.
///
/// # Errors
/// If the audit log cannot be written.
pub(crate) fn record(owner: &Owner, method: &str, resource: &str, status: u16) -> anyhow::Result<()> {
    let recorded = owner.admin_activity.write(&Record {
        time: SystemClock.now(),
        principal: &owner.principal,
        caller_ip: None,
        method,
        resource,
        permission: None,
        status,
        request_id: "",
        count: None,
    });
    recorded.context("the change was made, but is not in the audit log")
}

fn open_log(path: &Path) -> anyhow::Result<AuditLog> {
    AuditLog::open(path).with_context(|| format!("{} cannot be written", path.display()))
}

pub(crate) fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this program's own file cannot be found")
}

/// Returns the program of agents on other machines: `tunesmith-agent` beside this program, which needs no C library of theirs, or else
/// this program.
pub(crate) fn agent_program() -> anyhow::Result<PathBuf> {
    let this = this_program()?;
    let agent = this.with_file_name("tunesmith-agent");
    Ok(if agent.is_file() { agent } else { this })
}

/// The folders of the files of jobs.
fn directory_of(data_dir: &Arc<DataDir>) -> DirectoryOf {
    let data_dir = Arc::clone(data_dir);
    Box::new(move |job| data_dir.job(job))
}

/// Builds the executor that runs programs on this machine and keeps its registry in `folder`.
///
/// # Errors
/// If the path of this program cannot be determined.
pub(crate) fn local_executor(
    folder: &Path,
    container: ContainerOptions,
    isolation: Isolation,
) -> anyhow::Result<LocalExecutor> {
    Ok(LocalExecutor::new(LocalSettings {
        supervisor: this_program()?,
        registry: folder.join("executions"),
        container_options: container.engine,
        container_run_options: container.run,
        environment: isolation.environment,
        identities: isolation.identities,
        log_quota_bytes: isolation.log_quota_bytes,
        ends_with_this_process: false,
    }))
}

/// Builds the cache of Python environments. Installers run code of the packages, so they inherit what programs inherit,
/// and the settings of pip and uv.
fn environments(data_dir: &DataDir, isolation: &Isolation) -> Environments {
    let rules = PackageRules { allow_private_addresses: isolation.private_packages, ..PackageRules::default() };
    let is_setting =
        |name: &OsStr| ["PIP_", "UV_"].iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
    let variables = std::env::vars_os().filter(|(name, _)| isolation.environment.selects(name) || is_setting(name));
    Environments::new(data_dir.environments()).with_installer_variables(variables.collect()).with_rules(rules)
}

/// Returns the number of processors, at least 1.
pub(crate) fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
