//! Lifecycle of a server.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Url;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::background::{self, SWEEP_INTERVAL};
use super::expiry::Expiry;
#[cfg(feature = "console")]
use super::facts;
#[cfg(feature = "optuna")]
use super::grpc;
#[cfg(feature = "vizier")]
use super::listeners;
use super::listeners::{Listeners, until_ended};
use super::reload::{self, Reload, ReloadParts};
use super::signals::{EndSignals, failing_writes_beyond_limits};
use super::{AuditFailure, ServeArgs, service_manager};
use crate::cli::output::notice;
use crate::composition::{self, AccessSettings, Application, Isolation};
use crate::copied;
use crate::executors::{self, ExecutorOptions};
use crate::pages::{self, Pages};
use crate::server_settings::{PredictionSettings, ServerSettings};
use tunesmith_access::Authenticator;
use tunesmith_admission::{Access, ServiceAccess};
use tunesmith_data_dir::DataDir;
#[cfg(feature = "postgres")]
use tunesmith_data_dir::StoreKind;
use tunesmith_http::{AllowedHosts, answer_other_servers};
use tunesmith_jobs::Control;
use tunesmith_jobs::QueueSettings;
use tunesmith_jobs::allowed_folders::AllowedFolders;
use tunesmith_prediction::{PredictionTimes, WorkerLimits};
use tunesmith_store::{Condition, StoreFault};
use tunesmith_studies::clock::{Clock, SystemClock};

/// Grace period for responses after the store has stopped.
const LAST_RESPONSES: Duration = Duration::from_millis(500);

/// Maximum time for predictions in pods, and then for the removal of the pods.
const LAST_REMOVALS: Duration = Duration::from_secs(5);

/// Serves until SIGINT or SIGTERM, or until the store stops.
pub(super) async fn run(args: &ServeArgs, settings: ServerSettings, kept: Option<&'static str>) -> anyhow::Result<()> {
    #[cfg(feature = "optuna")]
    grpc::check(args)?;
    let data_dir = open(args).await?;
    let access = access(args, &settings, &data_dir)?;
    #[cfg(feature = "vizier")]
    listeners::check_vertex_address(args, &access)?;
    let executor = args.executor.options(&settings.executor);
    let hosts = hosts(args, &executor)?;
    #[cfg(feature = "console")]
    let hosts = match settings.single_sign_on {
        Some(_) => hosts.with_landing_page(tunesmith_console::LOGIN_CALLBACK),
        None => hosts,
    };
    let isolation = isolation(args, &settings, &data_dir, &access, &executor)?;
    #[cfg(feature = "console")]
    let (set_shown, shown) = watch::channel(facts::settings(args, &settings.allowed_folders));
    let listeners = Listeners::open(args, &data_dir, &access).await?;
    let (set_retention, retention) = watch::channel(settings.retention);
    let parts = ReloadParts {
        identity: listeners.identity.clone(),
        kept,
        allowed_folders: Arc::clone(&isolation.allowed_folders),
        audit_logs: access.audit_logs(),
        retention: set_retention,
    };
    let source = settings.source.clone();
    #[cfg(feature = "console")]
    let single_sign_on =
        settings.single_sign_on.clone().map(|sign_on| sign_on.provider(&listeners.endpoint)).transpose()?;
    #[cfg(not(feature = "console"))]
    anyhow::ensure!(settings.single_sign_on.is_none(), "openIdConnect: this program was built without the console");
    let settings = ServerSettings { prediction: prediction(args, listeners.endpoint.clone()), ..settings };
    let (container, lease) = (args.container.options()?, Duration::from_secs(args.job_lease));
    let composed =
        composition::compose_shared(&data_dir, container, isolation, executor, settings, args.memory_bytes(), lease);
    let application = composed.await?;
    resume(&application).await?;

    let (end, ended) = watch::channel(false);
    let pages = Pages {
        #[cfg(feature = "console")]
        server: Some(facts::facts(args, shown, &data_dir, &application, &listeners)),
        #[cfg(feature = "console")]
        single_sign_on,
        is_secure: listeners.endpoint.starts_with("https:"),
        ended: ended.clone(),
    };
    let expiry = Expiry {
        jobs: Arc::clone(&application.jobs),
        studies: Arc::clone(&application.studies),
        clock: Arc::clone(&application.clock),
        retention,
        admin_activity: Arc::clone(&access.admin_activity),
        audit_logs: parts.audit_logs.clone(),
    };
    let mut tasks = background::start(args, &data_dir, &application, expiry);
    let reload = Reload::new(source, &data_dir, &application, parts)?;
    let signals = EndSignals::new()?;
    let _writes_beyond_limits_fail = failing_writes_beyond_limits()?;
    let (set_control, running) = run_jobs(args, &application, listeners.endpoint.clone());
    let models = application.models.clone();
    let ending = async {
        end_jobs(signals, args.ends(), &set_control, running).await;
        models.close(LAST_REMOVALS).await;
        end.send_replace(true);
    };

    let timeout = Duration::from_secs(args.request_timeout);
    let store_stopped = until_stopped(application.store.condition());
    let service = application.http_service(ServiceAccess::Checked(Box::new(access)), Some(hosts), timeout)?;
    tasks.spawn(answer_other_servers(service.agents.clone()));
    let clock = Arc::clone(&service.clock);
    let router = pages::router(service, pages);
    let reloading = reload.run(args, |_settings| {
        #[cfg(feature = "console")]
        set_shown.send_replace(facts::settings(args, &_settings.allowed_folders));
    });
    // Signals are handled, so that a client that reads the address may end the server.
    listeners.announce()?;
    service_manager::started(&listeners.url);
    let serving = listeners.serve(args, router, clock, &ended);
    // Closes connections open longer than any request may take.
    let cut_off = async {
        until_ended(ended.clone()).await;
        tokio::time::sleep(timeout + SWEEP_INTERVAL).await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(ending, serving) } => {}
        () = reloading => {}
        fault = store_stopped => {
            // Sends responses that wait for the store before exiting.
            tokio::time::sleep(LAST_RESPONSES).await;
            return Err(anyhow::Error::from(fault)).context("the store has stopped; restart the server");
        }
        () = cut_off => tracing::warn!("connections were closed before they ended"),
    }
    Ok(())
}

/// Runs the jobs of the queue, as the returned sender specifies.
fn run_jobs(args: &ServeArgs, application: &Application, endpoint: String) -> (watch::Sender<Control>, JoinHandle<()>) {
    let (set_control, control) = watch::channel(Control::Run);
    let slots = composition::slots(args.job_slots, args.remote_job_slots);
    let jobs = Arc::clone(&application.jobs);
    let running = tokio::spawn(async move { jobs.run(QueueSettings { endpoint, slots }, control).await });
    (set_control, running)
}

fn prediction(args: &ServeArgs, endpoint: String) -> PredictionSettings {
    let times = PredictionTimes {
        request: Duration::from_secs(args.prediction_timeout),
        idle: Duration::from_secs(args.prediction_idle_timeout),
        ..PredictionTimes::default()
    };
    let own = WorkerLimits::of_this_machine();
    let limits = WorkerLimits {
        memory_bytes: args.prediction_memory.map_or(own.memory_bytes, |mib| u64::from(mib.get()) << 20),
        disk_bytes: u64::from(args.prediction_disk.get()) << 20,
        threads: (composition::processors().get() / usize::from(args.prediction_workers)).max(1),
    };
    PredictionSettings { times, max_workers: args.prediction_workers.into(), limits, endpoint: Some(endpoint) }
}

async fn open(args: &ServeArgs) -> anyhow::Result<Arc<DataDir>> {
    let who = format!("tunesmith serve --listen {}", args.listen);
    let data_dir = Arc::new(DataDir::open(&args.data_dir, args.store.source()?, &who)?);
    copied::settle(&data_dir, &*data_dir.store().await?, args.copy.resume_copied, |_| true).await?;
    share_tokens(&data_dir).await?;
    Ok(data_dir)
}

/// Whether programs of several principals are isolated from each other, or need not be.
fn accepts_several_principals(args: &ServeArgs, settings: &ServerSettings, data_dir: &DataDir) -> anyhow::Result<bool> {
    let executor = args.executor.options(&settings.executor);
    let unisolated = executors::unisolated(data_dir.path(), &executor, &settings.machines.other_executors())?;
    Ok(args.identity.isolation(&args.environment, 2, unisolated.as_deref()).is_ok())
}

/// Isolation of programs from the server, and the folders they may name.
fn isolation(
    args: &ServeArgs,
    settings: &ServerSettings,
    data_dir: &DataDir,
    access: &Access,
    executor: &ExecutorOptions,
) -> anyhow::Result<Isolation> {
    let principals = access.authenticator.valid_principals(SystemClock.now())?;
    // Anyone with an account can sign in.
    let principals = if settings.single_sign_on.is_some() { principals.max(2) } else { principals };
    let unisolated = executors::unisolated(data_dir.path(), executor, &settings.machines.other_executors())?;
    let isolation = args.identity.isolation(&args.environment, principals, unisolated.as_deref())?;
    let allowed_folders = Arc::new(allowed_folders(args, settings, data_dir)?);
    Ok(Isolation { allowed_folders, ..isolation })
}

/// Resumes unfinished work of an earlier server on the data folder.
async fn resume(application: &Application) -> anyhow::Result<()> {
    application.packages.remove_unfinished()?;
    application.studies.check_leases().await?;
    application.jobs.stop_jobs_of_other_servers().await?;
    application.jobs.resume_unfinished().await?;
    application.studies.resume_suggestions().await?;
    Ok(())
}

/// Waits for a signal, then until jobs end as `ends` specifies for the first and second signal. Reports are accepted
/// until the awaited programs have ended.
async fn end_jobs(
    mut signals: EndSignals,
    ends: [Control; 2],
    set_control: &watch::Sender<Control>,
    running: JoinHandle<()>,
) {
    signals.next().await;
    service_manager::stopping(ending_text(ends[0]));
    notice(ending_text(ends[0]));
    set_control.send_replace(ends[0]);
    let second = async {
        signals.next().await;
        notice(ending_text(ends[1]));
        set_control.send_replace(ends[1]);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = running => if let Err(error) = ended {
            tracing::error!(error = &error as &dyn std::error::Error, "running the jobs stopped unexpectedly");
        },
        () = second => {}
    }
}

/// Host names of the server, including those that executor settings give to agents.
fn hosts(args: &ServeArgs, executor: &ExecutorOptions) -> anyhow::Result<AllowedHosts> {
    let mut configured = args.allowed_host.clone();
    // An address without a host is rejected when the executor is built.
    let of_agents = executor.servers().filter_map(|server| server.parse::<Url>().ok()?.host_str()?.parse().ok());
    configured.extend(of_agents);
    #[cfg(feature = "vizier")]
    if let Some(address) = args.vertex_listen {
        configured.push(address.ip().to_string().parse()?);
    }
    if let Some(url) = &args.public_url {
        let host = url.host_str().with_context(|| format!("--public-url {url}: a host is missing"))?;
        configured.push(host.parse().with_context(|| format!("--public-url {url}"))?);
    }
    Ok(AllowedHosts::new(args.listen.ip(), configured))
}

/// Authenticator for the tokens in `data_dir`, which are required if people can sign in without one.
fn authenticator(settings: &ServerSettings, data_dir: &DataDir) -> anyhow::Result<Authenticator> {
    let authenticator = composition::authenticator(data_dir)?;
    if settings.single_sign_on.is_some() {
        authenticator.require();
    }
    Ok(authenticator)
}

/// Builds the access rules. Without a valid token, only loopback clients are allowed.
fn access(args: &ServeArgs, settings: &ServerSettings, data_dir: &DataDir) -> anyhow::Result<Access> {
    let authenticator = authenticator(settings, data_dir)?;
    let is_open = settings.single_sign_on.is_none() && authenticator.has_no_valid_token(SystemClock.now())?;
    if !args.listen.ip().is_loopback() && is_open {
        bail!(
            "--listen {}: without a token, every client that reaches this address has all permissions; make a token \
             first (tunesmith tokens create --data-dir {}) or listen on the loopback interface (127.0.0.1 or [::1])",
            args.listen,
            args.data_dir.display()
        );
    }
    let settings = AccessSettings {
        request_rate: NonZeroU32::new(args.request_rate),
        concurrent_suggestions: NonZeroU32::new(args.concurrent_suggestions),
        records_reads: args.data_access_log,
        refuses_unrecorded: args.on_audit_failure == AuditFailure::Refuse,
        accepts_several_principals: accepts_several_principals(args, settings, data_dir)?,
        audit: settings.audit,
    };
    composition::access(data_dir, authenticator, settings)
}

/// Folders and buckets that jobs may name: any, until the first token is created.
fn allowed_folders(args: &ServeArgs, settings: &ServerSettings, data_dir: &DataDir) -> anyhow::Result<AllowedFolders> {
    let listed = reload::allowed_folders(args, settings);
    let authenticator = authenticator(settings, data_dir)?;
    let applies = Box::new(move || authenticator.requires_tokens());
    AllowedFolders::new(listed, data_dir.path(), applies).context("allowed folders")
}

/// Mirrors tokens shared between servers to the data folder, immediately and from then on.
#[cfg(feature = "postgres")]
async fn share_tokens(data_dir: &DataDir) -> anyhow::Result<()> {
    if data_dir.kind() == StoreKind::Postgres {
        data_dir.store().await?;
    }
    if let Some(shared) = data_dir.shared_store() {
        let documents = Arc::new(tunesmith_store::PostgresDocuments::new(shared));
        let tokens = crate::shared_tokens::SharedTokens::new(documents, data_dir.path());
        tokens.pull().await?;
        tokio::spawn(tokens.follow());
    }
    Ok(())
}

#[cfg(not(feature = "postgres"))]
async fn share_tokens(_data_dir: &DataDir) -> anyhow::Result<()> {
    Ok(())
}

/// Message on the fate of running trials when the server exits.
fn ending_text(control: Control) -> &'static str {
    match control {
        Control::Drain => "ending after the running trials; another signal leaves them to the next server",
        Control::Interrupt => "ending, and stopping the running trials; another signal kills them",
        Control::Kill => "killing the running trials",
        Control::Run | Control::Detach => "ending; running trials go on, and the next server adopts them",
    }
}

/// Waits until the store is read-only until reopened, and returns the reason.
async fn until_stopped(mut condition: watch::Receiver<Condition>) -> StoreFault {
    match condition.wait_for(|now| matches!(now, Condition::Stopped(_))).await.as_deref() {
        Ok(Condition::Stopped(fault)) => fault.clone(),
        Ok(_) | Err(_) => std::future::pending().await,
    }
}
