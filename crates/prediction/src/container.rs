//! A worker in a container: an HTTP server of the user, which answers several requests at a time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::header::CONTENT_TYPE;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::watch;
use tokio::time::Instant;
use tunesmith_executor::local::{Engine, Identity, confine};

use crate::container_spec::{Container, MODEL_FOLDER};
use crate::engines::{self, Engines};
use crate::python_worker::{MAX_RESPONSE, on_starter};
use crate::runner::LoadReport;
use crate::worker::{Content, Reply, StartError};
use crate::worker_log::WorkerLog;

/// Requests that a container answers at a time. A guess: AI Platform published none.
pub(crate) const SLOTS: usize = 16;

/// Failed health checks in a row after which a container is replaced; of AI Platform.
const MAX_UNHEALTHY: u32 = 4;

/// Seconds from SIGTERM to SIGKILL. A guess; docker sends SIGKILL at once.
const STOP_SECONDS: &str = "1";

/// Bounds of the pause between the health checks of a container that starts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest wait for the end of a container that is removed.
const REMOVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(crate) struct ContainerSettings {
    pub(crate) engines: Arc<Engines>,
    pub(crate) spec: Container,
    /// First part of the names of containers.
    pub(crate) name: String,
    /// Variables that AI Platform defines, without `AIP_STORAGE_URI`.
    pub(crate) own_variables: Vec<(String, String)>,
    /// Folder of the model; `None` without `deploymentUri`.
    pub(crate) model: Option<PathBuf>,
    /// User that runs the engine.
    pub(crate) identity: Option<Identity>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) milli_cpus: Option<u32>,
    /// Interval and time limit of health checks.
    pub(crate) health: Duration,
    pub(crate) log: Arc<WorkerLog>,
}

/// A running container, which is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ContainerWorker {
    http: reqwest::Client,
    predict: String,
    health: String,
    /// Interval and time limit of health checks.
    interval: Duration,
    process: EngineProcess,
}

/// The engine's process in the foreground, with the name of its container.
#[derive(Debug)]
struct EngineProcess {
    child: Arc<Mutex<Child>>,
    /// End of the container, and its last output.
    ended: watch::Receiver<Option<(String, String)>>,
    engines: Arc<Engines>,
    engine: Engine,
    identity: Option<Identity>,
    name: String,
    is_removed: bool,
}

impl ContainerWorker {
    /// Starts a container and waits up to `limit` until its health route answers.
    pub(crate) async fn start(settings: &ContainerSettings, limit: Duration) -> Result<Self, StartError> {
        let engine = settings
            .engines
            .engine()
            .await
            .map_err(|reason| StartError::System(format!("the server cannot run containers: {reason}")))?;
        let system =
            |error: &dyn std::fmt::Display| StartError::System(format!("a container cannot be started: {error}"));
        let http = client().map_err(|error| system(&error))?;
        let port = free_port().map_err(|error| system(&error))?;
        let process =
            EngineProcess::start(settings.clone(), engine.clone(), port).await.map_err(|error| system(&error))?;
        let url = |route: &str| format!("http://127.0.0.1:{port}{route}");
        let mut worker = Self {
            http,
            predict: url(&settings.spec.predict_route),
            health: url(&settings.spec.health_route),
            interval: settings.health,
            process,
        };
        let never =
            |reason: String| format!("Failed to load model: Model server never became ready: {reason} (Error code: 0)");
        match worker.until_healthy(Instant::now() + limit).await {
            Ok(()) => Ok(worker),
            Err(None) => {
                let (end, output) = worker.process.end().await;
                Err(StartError::NotLoaded { text: never(format!("the container ended ({end})")), detail: output })
            }
            Err(Some(failure)) => {
                let (_, output) = worker.process.end().await;
                let reason = format!("after {} s, the health route {failure}", limit.as_secs());
                Err(StartError::NotLoaded { text: never(reason), detail: output })
            }
        }
    }

    pub(crate) fn report() -> LoadReport {
        LoadReport { framework: "CUSTOM_CONTAINER".to_owned(), ..LoadReport::default() }
    }

    /// Passes a request on. `Err` has the reason why there is no response.
    pub(crate) async fn predict(&self, content: &Content) -> Result<Reply, String> {
        let mut request = self.http.post(&self.predict).body(content.body.clone());
        if let Some(kind) = &content.content_type {
            request = request.header(CONTENT_TYPE, kind);
        }
        let mut response = request.send().await.map_err(|error| text(error, "the container has not answered"))?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        let cut = |error| text(error, "the response of the container ended early");
        while let Some(chunk) = response.chunk().await.map_err(cut)? {
            if body.len() + chunk.len() > MAX_RESPONSE as usize {
                return Err(format!("the response of the container has more than {} MiB", MAX_RESPONSE >> 20));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply {
            body: Bytes::from(body),
            is_success: status.is_success(),
            status: status.as_u16(),
            content_type: kind,
        })
    }

    /// Waits until the container has ended.
    pub(crate) async fn ended(&self) {
        self.process.ended().await;
    }

    /// Checks the health route regularly, and returns once the container must be replaced: with the reason.
    pub(crate) async fn unhealthy(&self) -> String {
        let mut failures = 0;
        loop {
            tokio::time::sleep(self.interval).await;
            match self.check().await {
                Ok(()) => failures = 0,
                Err(failure) => {
                    failures += 1;
                    if failures == MAX_UNHEALTHY {
                        return format!("failed {failures} health checks: its health route {failure}");
                    }
                }
            }
        }
    }

    /// Removes the container. Returns how it ended, and its last output.
    pub(crate) async fn end(mut self) -> (String, String) {
        self.process.end().await
    }

    /// `Err` has the last failure of the health route, or `None` if the container ended.
    async fn until_healthy(&self, deadline: Instant) -> Result<(), Option<String>> {
        let mut pause = FIRST_PAUSE;
        loop {
            let checked = tokio::select! {
                () = self.process.ended() => return Err(None),
                checked = self.check() => checked,
            };
            match checked {
                Ok(()) => return Ok(()),
                Err(failure) if Instant::now() >= deadline => return Err(Some(failure)),
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One health check: status 200 within the interval is a success. `Err` completes "the health route ...".
    async fn check(&self) -> Result<(), String> {
        match self.http.get(&self.health).timeout(self.interval).send().await {
            Ok(response) if response.status().as_u16() == 200 => Ok(()),
            Ok(response) => Err(format!("answered with status {}", response.status().as_u16())),
            Err(error) if error.is_timeout() => {
                Err(format!("has not answered within {} s", self.interval.as_secs_f64()))
            }
            Err(error) => Err(text(error, "has not answered")),
        }
    }
}

/// A client for one container, whose connections are kept open.
fn client() -> reqwest::Result<reqwest::Client> {
    // An error means that a provider is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()
}

/// A failure of HTTP with its innermost cause, without the address.
fn text(error: reqwest::Error, what: &str) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    format!("{what}: {cause}")
}

/// A port that nothing listens on. If another process takes it first, the container does not start, and is retried.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

impl EngineProcess {
    async fn start(settings: ContainerSettings, engine: Engine, port: u16) -> io::Result<Self> {
        on_starter(move || Self::spawn(&settings, engine, port)).await
    }

    fn spawn(settings: &ContainerSettings, engine: Engine, port: u16) -> io::Result<Self> {
        let name = format!("tunesmith-{}-{}", settings.name, hex::encode(rand::random::<[u8; 4]>()));
        let (output, sink) = io::pipe()?;
        let mut command = settings.engines.command(&engine, settings.identity.as_ref());
        command.args(arguments(settings, &engine, &name, port)).stdout(sink.try_clone()?).stderr(sink);
        confine(&mut command, settings.identity.as_ref());
        let child = Arc::new(Mutex::new(command.spawn()?));
        // Closes this process's end of the pipe.
        drop(command);
        let (send, ended) = watch::channel(None);
        let (log, waiting) = (Arc::clone(&settings.log), Arc::clone(&child));
        let follow = move || {
            let output = String::from_utf8_lossy(&log.follow(output)).trim().to_owned();
            let end = loop {
                match waiting.lock().try_wait() {
                    Ok(Some(status)) => break status.to_string(),
                    Ok(None) => {}
                    Err(error) => break error.to_string(),
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            send.send_replace(Some((end, output)));
        };
        let process = Self {
            child,
            ended,
            engines: Arc::clone(&settings.engines),
            engine,
            identity: settings.identity.clone(),
            name,
            is_removed: false,
        };
        std::thread::Builder::new().name("container-log".to_owned()).spawn(follow)?;
        Ok(process)
    }

    async fn ended(&self) {
        // Without its thread, the container counts as ended.
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    async fn end(&mut self) -> (String, String) {
        if let Some(removal) = self.remove() {
            let joined = tokio::task::spawn_blocking(move || drop(removal.join()));
            let _ = tokio::time::timeout(REMOVAL, joined).await;
        }
        let _ = tokio::time::timeout(REMOVAL, self.ended()).await;
        let ended = self.ended.borrow().clone();
        ended.unwrap_or_else(|| ("it has not ended yet".to_owned(), String::new()))
    }

    /// Starts the removal of the container. Returns a thread that waits for it.
    fn remove(&mut self) -> Option<JoinHandle<()>> {
        if std::mem::replace(&mut self.is_removed, true) {
            return None;
        }
        {
            // The engine may still pull the image. The ID belongs to the process until it has been waited for.
            let mut child = self.child.lock();
            let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let (Ok(None), Some(leader)) = (child.try_wait(), leader) {
                let _ = kill_process_group(leader, Signal::KILL);
            }
        }
        let removal = engines::remove(&self.engines, &self.engine, &self.name, self.identity.as_ref());
        removal.inspect_err(|error| tracing::warn!(container = self.name, %error, "it cannot be removed")).ok()
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

/// Arguments of the engine that run the container in the foreground.
fn arguments(settings: &ContainerSettings, engine: &Engine, name: &str, port: u16) -> Vec<OsString> {
    let spec = &settings.spec;
    let mut own = settings.own_variables.clone();
    own.push(("AIP_STORAGE_URI".to_owned(), settings.model.as_ref().map_or("", |_| MODEL_FOLDER).to_owned()));
    let expanded = spec.expanded(own);
    // Output comes through the pipe: the engine would keep a copy without limit.
    let mut line: Vec<OsString> = ["run", "--rm", "--log-driver", "none", "--name", name].map(OsString::from).into();
    let mut option = |name: &str, value: OsString| line.extend([name.into(), value]);
    option("--label", settings.engines.label().into());
    option("--stop-timeout", STOP_SECONDS.into());
    option("--publish", format!("127.0.0.1:{port}:{}", spec.port).into());
    if let Some(bytes) = settings.memory_bytes {
        option("--memory", format!("{}k", bytes >> 10).into());
    }
    if let Some(cpus) = settings.milli_cpus {
        option("--cpus", format!("{}", f64::from(cpus) / 1000.0).into());
    }
    for (name, value) in &expanded.env {
        option("--env", format!("{name}={value}").into());
    }
    if let Some(model) = &settings.model {
        let mut volume = model.as_os_str().to_owned();
        volume.push(format!(":{MODEL_FOLDER}:ro"));
        option("--volume", volume);
    }
    line.extend(engine.run_options().iter().map(OsString::from));
    let mut command = expanded.command.iter();
    if let Some(entry_point) = command.next() {
        line.extend(["--entrypoint".into(), entry_point.into()]);
    }
    line.push(spec.image.as_str().into());
    line.extend(command.chain(&expanded.args).map(OsString::from));
    line
}

/// Variables that AI Platform defines for containers, as far as this server knows them.
pub(crate) fn own_variables(model: &str, version: &str, machine_type: &str, spec: &Container) -> Vec<(String, String)> {
    let variables = BTreeMap::from([
        ("AIP_FRAMEWORK", "CUSTOM_CONTAINER".to_owned()),
        ("AIP_HEALTH_ROUTE", spec.health_route.clone()),
        ("AIP_HTTP_PORT", spec.port.to_string()),
        ("AIP_MACHINE_TYPE", machine_type.to_owned()),
        ("AIP_MODE", "PREDICTION".to_owned()),
        ("AIP_MODEL_NAME", model.to_owned()),
        ("AIP_PREDICT_ROUTE", spec.predict_route.clone()),
        ("AIP_VERSION_NAME", version.to_owned()),
    ]);
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
