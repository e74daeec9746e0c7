//! Lifecycle of a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::background::{self, SWEEP_INTERVAL};
use super::expiry::Expiry;
#[cfg(feature = "console")]
use super::facts;
#[cfg(feature = "optuna")]
use super::grpc::{self, GrpcListener};
use super::open_files::connection_limits;
use super::reload::{self, Reload, ReloadParts};
use super::signals::{EndSignals, failing_writes_beyond_limits};
use super::{AuditFailure, ServeArgs, service_manager};
use crate::cli::output::{notice, print};
use crate::cli::self_signed;
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
use tunesmith_http::server::{self, Connections, ServerIdentity};
use tunesmith_http::{AllowedHosts, answer_other_servers};
use tunesmith_jobs::Control;
use tunesmith_jobs::QueueSettings;
use tunesmith_jobs::allowed_folders::AllowedFolders;
use tunesmith_prediction::{PredictionTimes, WorkerLimits};
use tunesmith_store::{Condition, StoreFault};
use tunesmith_studies::clock::{Clock, SystemClock};
#[cfg(feature = "vizier")]
use tunesmith_vizier_server::{WithoutPrefix, without_prefix};

/// Grace period for responses after the store has stopped.
const LAST_RESPONSES: Duration = Duration::from_millis(500);

/// Serves until SIGINT or SIGTERM, or until the store stops.
pub(super) async fn run(args: &ServeArgs, settings: ServerSettings, kept: Option<&'static str>) -> anyhow::Result<()> {
    #[cfg(feature = "optuna")]
    grpc::check(args)?;
    let data_dir = open(args).await?;
    let access = access(args, &settings, &data_dir)?;
    #[cfg(feature = "vizier")]
    check_vertex_address(args, &access)?;
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
    let Listening { connections, url, endpoint, identity } = listen(args).await?;
    #[cfg(feature = "vizier")]
    let vertex = listen_for_vertex(args, identity.as_ref()).await?;
    let (set_retention, retention) = watch::channel(settings.retention);
    let parts = ReloadParts {
        identity,
        kept,
        allowed_folders: Arc::clone(&isolation.allowed_folders),
        audit_logs: access.audit_logs(),
        retention: set_retention,
    };
    let source = settings.source.clone();
    #[cfg(feature = "console")]
    let single_sign_on = settings.single_sign_on.clone().map(|sign_on| sign_on.provider(&endpoint)).transpose()?;
    #[cfg(not(feature = "console"))]
    anyhow::ensure!(settings.single_sign_on.is_none(), "openIdConnect: this program was built without the console");
    #[cfg(feature = "optuna")]
    let grpc = GrpcListener::open(args, &data_dir).await?;
    let settings = ServerSettings { prediction: prediction(args), ..settings };
    let (container, lease) = (args.container.options()?, Duration::from_secs(args.job_lease));
    let composed =
        composition::compose_shared(&data_dir, container, isolation, executor, settings, args.memory_bytes(), lease);
    let application = composed.await?;
    resume(&application).await?;
    #[cfg(feature = "console")]
    let facts = facts::facts(args, shown, &data_dir, &application, url.clone(), endpoint.clone());
    let endpoint_is_secure = endpoint.starts_with("https:");
    let (set_control, control) = watch::channel(Control::Run);
    let slots = composition::slots(args.job_slots, args.remote_job_slots);
    let jobs = Arc::clone(&application.jobs);
    let running = tokio::spawn(async move { jobs.run(QueueSettings { endpoint, slots }, control).await });
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
    #[cfg(feature = "optuna")]
    if let Some(grpc) = &grpc {
        grpc.announce(&access);
    }
    let announced = format!("listening on {url}\n");
    #[cfg(feature = "vizier")]
    let announced = match &vertex {
        Some((_, url)) => format!("{announced}listening for Vertex AI on {url}\n"),
        None => announced,
    };
    print(&announced)?;
    let signals = EndSignals::new()?;
    let _writes_beyond_limits_fail = failing_writes_beyond_limits()?;
    let mut store_stopped = pin!(until_stopped(application.store.condition()));
    let (all_ended, jobs_ended) = oneshot::channel();
    let (end_console, console_ended) = watch::channel(false);
    let ends = args.ends();
    let ended = async move {
        end_jobs(signals, ends, &set_control, running).await;
        end_console.send_replace(true);
        let _ = all_ended.send(());
    };
    let timeout = Duration::from_secs(args.request_timeout);
    #[cfg(feature = "optuna")]
    let serving_grpc = grpc.map(|grpc| {
        let access = GrpcListener::access(&access);
        grpc.serve(access, Arc::clone(&application.clock), timeout, console_ended.clone())
    });
    let service = application.http_service(ServiceAccess::Checked(Box::new(access)), Some(hosts), timeout)?;
    tasks.spawn(answer_other_servers(service.agents.clone()));
    let pages = Pages {
        #[cfg(feature = "console")]
        server: Some(facts),
        #[cfg(feature = "console")]
        single_sign_on,
        is_secure: endpoint_is_secure,
        ended: console_ended.clone(),
    };
    let router = pages::router(service, pages);
    #[cfg(feature = "vizier")]
    let serving_vertex = vertex.map(|(connections, _)| {
        let router = without_prefix(router.clone(), WithoutPrefix::All);
        let mut ended = console_ended;
        let ended = async move {
            let _ = ended.wait_for(|ended| *ended).await;
        };
        server::serve(connections, router, Duration::from_secs(args.idle_timeout), ended)
    });
    #[cfg(feature = "vizier")]
    let router = without_prefix(router, WithoutPrefix::ByHost);
    let serving = server::serve(connections, router, Duration::from_secs(args.idle_timeout), ended);
    #[cfg(feature = "optuna")]
    let serving = async {
        tokio::join!(serving, futures::future::OptionFuture::from(serving_grpc));
    };
    #[cfg(feature = "vizier")]
    let serving = async {
        tokio::join!(serving, futures::future::OptionFuture::from(serving_vertex));
    };
    // Closes connections open longer than any request may take.
    let cut_off = async move {
        let _ = jobs_ended.await;
        tokio::time::sleep(timeout + SWEEP_INTERVAL).await;
    };
    let reloading = reload.run(args, |_settings| {
        #[cfg(feature = "console")]
        set_shown.send_replace(facts::settings(args, &_settings.allowed_folders));
    });
    service_manager::started(&url);
    tokio::select! {
        () = serving => {}
        () = reloading => {}
        fault = &mut store_stopped => {
            // Sends responses that wait for the store before exiting.
            tokio::time::sleep(LAST_RESPONSES).await;
            return Err(anyhow::Error::from(fault)).context("the store has stopped; restart the server");
        }
        () = cut_off => tracing::warn!("connections were closed before they ended"),
    }
    Ok(())
}

fn prediction(args: &ServeArgs) -> PredictionSettings {
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
    PredictionSettings { times, max_workers: args.prediction_workers.into(), limits }
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

struct Listening {
    connections: Connections,
    /// Address with its scheme.
    url: String,
    /// Address under which programs reach the server.
    endpoint: String,
    /// Certificate; `None` without HTTPS.
    identity: Option<Arc<ServerIdentity>>,
}

async fn listen(args: &ServeArgs) -> anyhow::Result<Listening> {
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let limits = connection_limits(args);
    let files = certificate(args)?;
    let identity = files.map(|(certificate, key)| ServerIdentity::read(certificate, key)).transpose()?.map(Arc::new);
    let (scheme, connections) = match &identity {
        Some(identity) => ("https", Connections::tls(listener, limits, Arc::clone(identity))?),
        None => ("http", Connections::plain(listener, limits)),
    };
    let endpoint = match &args.public_url {
        Some(url) => url.as_str().trim_end_matches('/').to_owned(),
        None => format!("{scheme}://{}", reachable(address)),
    };
    Ok(Listening { connections, url: format!("{scheme}://{address}"), endpoint, identity })
}

/// The listener for clients of Vertex AI and its address, with the certificate of the other one.
#[cfg(feature = "vizier")]
async fn listen_for_vertex(
    args: &ServeArgs,
    identity: Option<&Arc<ServerIdentity>>,
) -> anyhow::Result<Option<(Connections, String)>> {
    let Some(address) = args.vertex_listen else { return Ok(None) };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let limits = connection_limits(args);
    Ok(Some(match identity {
        Some(identity) => (Connections::tls(listener, limits, Arc::clone(identity))?, format!("https://{address}")),
        None => (Connections::plain(listener, limits), format!("http://{address}")),
    }))
}

/// Refuses an address that others reach on a server without tokens.
#[cfg(feature = "vizier")]
fn check_vertex_address(args: &ServeArgs, access: &Access) -> anyhow::Result<()> {
    match args.vertex_listen {
        Some(address) if !address.ip().is_loopback() && !access.authenticator.requires_tokens() => bail!(
            "--vertex-listen {address}: without a token, every client that reaches this address has all permissions; make a \
             token first (tunesmith tokens create --data-dir {}) or listen on the loopback interface",
            args.data_dir.display()
        ),
        _ => Ok(()),
    }
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

/// Paths of the certificate and key; `None` without HTTPS.
fn certificate(args: &ServeArgs) -> anyhow::Result<Option<(PathBuf, PathBuf)>> {
    if let Some(folder) = &args.tls_self_signed {
        let host = args.public_url.as_ref().and_then(Url::host_str);
        let names = args.allowed_host.iter().map(ToString::to_string).chain(host.map(str::to_owned));
        let pair = self_signed::pair(folder, args.listen.ip(), names)?;
        return Ok(Some((pair.certificate, pair.key)));
    }
    Ok(args.tls_certificate.clone().zip(args.tls_key.clone()))
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

/// Address under which a local program reaches a server listening on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
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
