//! Composition of the application on one data folder.
//!
//! [`executors`] names the concrete executors, [`DataDir`] the concrete stores. `tunesmith run`, `tunesmith serve`
//! and offline commands share the same [`Application`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use jiff::SignedDuration;
use parking_lot::RwLock;

use crate::executors::{self, ExecutorKind, ExecutorOptions};
use crate::server_settings::ServerSettings;
use crate::sharing::{self, Sharing};
use crate::tracking::live_tracking;
use crate::webhooks;
use tunesmith_access::{AuditLog, Authenticator, Limits, Record, Rotation, TokenFile, TokenFileError};
use tunesmith_admission::{Access, ApplyTokenChange, Owner, ServiceAccess, tokens_in};
use tunesmith_config::AuditFiles;
use tunesmith_data_dir::{DataDir, audit_of};
use tunesmith_executor::local::{Identities, Identity, LocalExecutor, LocalSettings, PassedEnvironment};
use tunesmith_executor::remote::Inbox;
use tunesmith_http::AllowedHosts;
use tunesmith_http::server::{Service, SharedMachines};
use tunesmith_jobs::allowed_folders::AllowedFolders;
use tunesmith_jobs::packages::Packages;
use tunesmith_jobs::resource_pool::{Capacity, PoolSettings};
use tunesmith_jobs::{AgentReports, DirectoryOf, JobServices, ResourcePool, TrialReports};
use tunesmith_jobs::{Jobs, RETRY_PAUSES, SlotCounts};
use tunesmith_objects::Buckets;
use tunesmith_packages::{Environments, PackageRules, ProgramUser};
use tunesmith_prediction::{EngineOptions, ModelServices, Models};
use tunesmith_store::{FolderDocuments, Store, observed, observed_claims};
use tunesmith_studies::clock::{Clock, SystemClock};
use tunesmith_studies::search_policy::SearchPolicy;
use tunesmith_studies::{PendingSuggestions, Studies};
use tunesmith_tracking::LiveTracking;
use tunesmith_tracking::mlflow::Operator;
use tunesmith_webhooks::Webhooks;

/// Audit log of all changes.
const ADMIN_ACTIVITY: &str = "admin_activity.jsonl";

/// Options of the container engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContainerOptions {
    /// Options before `run`.
    pub(crate) engine: Vec<String>,
    /// Options after `run`.
    pub(crate) run: Vec<String>,
}

/// Environment, user and permitted folders of programs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Isolation {
    /// Variables that programs inherit from this process.
    pub(crate) environment: PassedEnvironment,
    pub(crate) identities: Identities,
    /// Folders and buckets that jobs may name; any by default.
    pub(crate) allowed_folders: Arc<AllowedFolders>,
    /// Whether models are refused, because their workers would be the only programs that run as the user of this process.
    pub(crate) refuses_models: bool,
    /// Whether packages may be fetched from non-public addresses.
    pub(crate) private_packages: bool,
    /// Log quota per attempt in bytes; `None` for no limit.
    pub(crate) log_quota_bytes: Option<u64>,
}

/// Limits and auditing of a server with tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessSettings {
    /// Requests per second and principal; `None` for no limit.
    pub(crate) request_rate: Option<NonZeroU32>,
    /// Concurrent suggestion requests per principal; `None` for no limit.
    pub(crate) concurrent_suggestions: Option<NonZeroU32>,
    /// Whether reads are audited, too.
    pub(crate) records_reads: bool,
    /// Whether changes are rejected while the audit log cannot be written.
    pub(crate) refuses_unrecorded: bool,
    /// Whether tokens may belong to several principals.
    pub(crate) accepts_several_principals: bool,
    pub(crate) audit: AuditFiles,
}

/// Default memory budget in bytes.
pub(crate) const MEMORY: usize = 256 << 20;

/// Default number of concurrent remote jobs. A guess: each costs memory for its trials, but no processor.
const REMOTE_JOB_SLOTS: NonZeroUsize = NonZeroUsize::new(256).expect("it is not 0");

pub(crate) fn slots(local: Option<NonZeroU16>, remote: Option<NonZeroU16>) -> SlotCounts {
    SlotCounts {
        local: local.map_or_else(processors, NonZeroUsize::from),
        remote: remote.map_or(REMOTE_JOB_SLOTS, NonZeroUsize::from),
    }
}

#[derive(Clone)]
pub(crate) struct Application {
    /// Display name of the default executor.
    #[cfg_attr(not(feature = "console"), expect(dead_code, reason = "only the console shows it"))]
    pub(crate) executor: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) studies: Arc<Studies>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) models: Models,
    pub(crate) packages: Packages,
    pub(crate) machines: SharedMachines,
    pub(crate) environments: Arc<Environments>,
    pub(crate) reports: TrialReports,
    pub(crate) agents: AgentReports,
    pub(crate) tracking: Arc<LiveTracking>,
    /// `None` if none are configured.
    pub(crate) webhooks: Option<Arc<Webhooks>>,
}

/// Composes the services on `data_dir` without starting tasks or programs, or queuing jobs. Cached histories take at
/// most about half of `memory` bytes.
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

/// Like [`compose`], for a shared store: other servers take over jobs and operations `job_lease` after this server
/// has died.
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
    let engine = EngineOptions { global: container.engine.clone(), run: container.run.clone() };
    let executor =
        ExecutorOptions { queues: settings.machines.queues(), store: data_dir.shared_identity(), ..executor };
    let limits = executor.config.max_running_trials.clone();
    let (kinds, default) = (executor.kinds(&others), executor.default.clone());
    let pods = executors::worker_pods(data_dir.path(), &executor, settings.prediction.endpoint.as_deref()).await?;
    let (kind, executor) =
        executors::executor(data_dir.path(), executor, &others, container, isolation.clone(), &inbox).await?;
    let shown = match default.as_ref().and_then(|name| Some((name, kinds.get(name)?))) {
        Some((name, kind)) => format!("{name} ({})", kind.as_str()),
        None => kind.as_str().to_owned(),
    };
    let limits_of_trials = settings.pool.limits;
    let pool = counted(settings.pool, kind, kinds, default);
    let pool = PoolSettings { executor_limits: limits, ..pool };
    let Sharing { claims, running, relay, documents, clock } = sharing::open(data_dir, &store, job_lease).await?;
    let webhooks = webhooks::compose(&settings.webhooks, data_dir, &store, documents.as_ref(), &clock)?;
    let (store, claims) = match &webhooks {
        Some(webhooks) => (observed(store, webhooks.observer()), observed_claims(claims, webhooks.observer())),
        None => (store, claims),
    };
    let policy = Arc::new(SearchPolicy::with_memory(Arc::clone(&store), processors().get(), memory / 2));
    let environments = Arc::new(environments(data_dir, &isolation));
    let packages = Packages::new(data_dir.packages(), Packages::MAX_BYTES).shared(documents.clone());
    let operator = Operator::of_environment(isolation.private_packages);
    let tracking = live_tracking(data_dir, &store, &claims, documents.as_ref(), &clock, operator);
    let tracking = Arc::new(tracking);
    let buckets = Buckets::of_environment();
    let models = Models::new(ModelServices {
        is_shared: documents.is_some(),
        lease: job_lease,
        documents: match &documents {
            Some(documents) => Arc::clone(documents),
            None => Arc::new(FolderDocuments::new(data_dir.models().join("documents"))),
        },
        folder: data_dir.models().join("files"),
        clock: Arc::clone(&clock),
        environments: Arc::clone(&environments),
        packages: packages.clone(),
        buckets: buckets.clone(),
        allowed_folders: Arc::clone(&isolation.allowed_folders),
        identities: isolation.identities.clone(),
        environment: isolation.environment.clone(),
        engine,
        refuses_versions: isolation.refuses_models && pods.is_none(),
        pods,
        limits: settings.prediction.limits,
        times: settings.prediction.times,
        max_nodes: settings.prediction.max_workers,
    });
    let services = Arc::new(JobServices {
        store: Arc::clone(&store),
        claims,
        documents: documents.clone(),
        program_user: Arc::new({
            let identities = isolation.identities.clone();
            move |project| {
                let Identity { uid, gid, groups, home, .. } = identities.of(project)?.clone();
                Some(ProgramUser { uid, gid, groups, home: home.into() })
            }
        }),
        policy: Arc::clone(&policy),
        packages: packages.clone(),
        environments: Arc::clone(&environments),
        buckets,
        allowed_folders: isolation.allowed_folders,
        pool: match running {
            Some(running) => ResourcePool::of_servers(pool, running),
            None => ResourcePool::new(pool),
        },
        executor,
        live: Arc::default(),
        clock: Arc::clone(&clock),
        directory: directory_of(data_dir),
        retry_pauses: RETRY_PAUSES.to_vec(),
        tracking: Arc::clone(&tracking) as _,
        predictions: Arc::new(models.clone()),
    });
    let studies = Studies::new(Arc::clone(&store), policy, Arc::clone(&clock));
    let studies = match &documents {
        Some(documents) => studies.with_servers(Arc::clone(documents)),
        None => studies.with_pending(PendingSuggestions::new(data_dir.suggestions())),
    };
    let jobs = Jobs::new(Arc::clone(&services));
    jobs.set_limits(settings.queue, limits_of_trials);
    Ok(Application {
        executor: shown,
        studies: Arc::new(studies),
        jobs: Arc::new(jobs),
        models,
        machines: Arc::new(RwLock::new(settings.machines)),
        packages,
        environments,
        reports: TrialReports::new(Arc::clone(&services)),
        agents: AgentReports::new(services, inbox).with_relay(relay),
        tracking,
        webhooks,
        store,
        clock,
    })
}

/// Limits `pool` to this machine's resources; other executors do their own accounting.
///
/// The data folder's executor has the kind `own`; the others come with their kinds. Jobs that name none run on
/// `default`, or else on the own one.
fn counted(
    mut pool: PoolSettings,
    own: ExecutorKind,
    mut kinds: BTreeMap<String, ExecutorKind>,
    default: Option<String>,
) -> PoolSettings {
    pool.default_executor = default.unwrap_or_else(|| own.as_str().to_owned());
    // Jobs may name kinds from an earlier configuration.
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
    /// Assembles the services for the HTTP front end. Without `hosts`, requests come from this process.
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
            models: self.models,
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

/// Authenticator for the tokens in `data_dir`.
///
/// # Errors
/// If the tokens cannot be read.
pub(crate) fn authenticator(data_dir: &DataDir) -> Result<Authenticator, TokenFileError> {
    Authenticator::new(TokenFile::new(data_dir.tokens()))
}

/// Authentication, limits and audit logs of a server on `data_dir`.
///
/// # Errors
/// If an audit log cannot be written.
pub(crate) fn access(
    data_dir: &DataDir,
    authenticator: Authenticator,
    settings: AccessSettings,
) -> anyhow::Result<Access> {
    let log = |name: &str| {
        let log = open_log(&data_dir.audit().join(name))?;
        log.set_rotation(rotation(settings.audit));
        anyhow::Ok(log)
    };
    Ok(Access {
        authenticator,
        change_tokens: token_changes(data_dir),
        accepts_several_principals: settings.accepts_several_principals,
        limits: Limits::new(settings.request_rate, settings.concurrent_suggestions),
        admin_activity: Arc::new(log(ADMIN_ACTIVITY)?),
        data_access: settings.records_reads.then(|| log("data_access.jsonl")).transpose()?.map(Arc::new),
        refuses_unrecorded: settings.refuses_unrecorded,
    })
}

/// Changes of the tokens of `data_dir`: those of its database, if other servers share it.
fn token_changes(data_dir: &DataDir) -> ApplyTokenChange {
    #[cfg(feature = "postgres")]
    if let Some(shared) = data_dir.shared_store() {
        let documents = Arc::new(tunesmith_store::PostgresDocuments::new(shared));
        return crate::shared_tokens::SharedTokens::new(documents, data_dir.path()).changes();
    }
    tokens_in(TokenFile::new(data_dir.tokens()))
}

/// Principal of offline changes: the current user as owner of the data folder `path`.
///
/// # Errors
/// If the audit log cannot be written.
pub(crate) fn owner(path: &Path) -> anyhow::Result<Owner> {
    let admin_activity = open_log(&audit_of(path).join(ADMIN_ACTIVITY))?;
    admin_activity.prepare().with_context(|| format!("{} cannot be written", audit_of(path).display()))?;
    let principal = format!("uid:{}", rustix::process::getuid().as_raw());
    let admin_activity = Arc::new(admin_activity);
    Ok(Owner { principal, admin_activity, data_access: None, refuses_unrecorded: true })
}

/// Audits an offline change by `owner`.
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

/// Rotation of audit logs with these `files`.
pub(crate) fn rotation(files: AuditFiles) -> Rotation {
    let span = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    Rotation {
        max_bytes: files.max_bytes,
        max_age: span(files.max_age),
        retention: files.retention.map_or(SignedDuration::MAX, span),
    }
}

fn open_log(path: &Path) -> anyhow::Result<AuditLog> {
    AuditLog::open(path).with_context(|| format!("{} cannot be written", path.display()))
}

pub(crate) fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this program's own file cannot be found")
}

fn directory_of(data_dir: &Arc<DataDir>) -> DirectoryOf {
    let data_dir = Arc::clone(data_dir);
    Arc::new(move |job| data_dir.job(job))
}

/// Local executor with its registry in `folder`.
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

/// Cache of Python environments. Installers execute package code, so they inherit the environment of programs plus
/// the settings of pip and uv.
fn environments(data_dir: &DataDir, isolation: &Isolation) -> Environments {
    let rules = PackageRules { allow_private_addresses: isolation.private_packages, ..PackageRules::default() };
    let is_setting =
        |name: &OsStr| ["PIP_", "UV_"].iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
    let variables = std::env::vars_os().filter(|(name, _)| isolation.environment.selects(name) || is_setting(name));
    Environments::new(data_dir.environments()).with_installer_variables(variables.collect()).with_rules(rules)
}

pub(crate) fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
