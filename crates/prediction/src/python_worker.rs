//! A process of an interpreter that has loaded a model and answers requests one by one, on this machine or in a pod.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tunesmith_executor::local::{Identity, confine, limit};

use crate::limits::{self, WorkerLimits};
use crate::pods::{PodWorker, WorkerGroup};
use crate::runner::{LoadFailure, LoadReport, RunnerSettings};
use crate::worker::{Reply, StartError};
use crate::worker_log::WorkerLog;

/// Maximum size of a response of a worker in bytes. A guess, far above that of a page of results.
pub(crate) const MAX_RESPONSE: u32 = 64 << 20;

/// Settings of a worker's process.
#[derive(Debug, Clone)]
pub(crate) struct PythonSettings {
    pub(crate) runner: RunnerSettings,
    pub(crate) python: PathBuf,
    pub(crate) variables: BTreeMap<OsString, OsString>,
    /// User of the process; `None` for that of this process.
    pub(crate) identity: Option<Identity>,
    pub(crate) limits: WorkerLimits,
    /// Parent of the working folders, one for each worker.
    pub(crate) work: PathBuf,
    pub(crate) log: Arc<WorkerLog>,
    /// Pods that replace the process.
    pub(crate) pods: Option<Arc<WorkerGroup>>,
}

/// A running worker, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct PythonWorker {
    pub(crate) report: LoadReport,
    backend: Backend,
}

/// Place where the process of a worker runs.
#[derive(Debug)]
enum Backend {
    Local(LocalWorker),
    Pod(PodWorker),
}

impl PythonWorker {
    /// Starts a worker and waits up to `limit` until it has loaded the model.
    pub(crate) async fn start(settings: &PythonSettings, limit: Duration) -> Result<Self, StartError> {
        match &settings.pods {
            Some(pods) => {
                let (worker, report) = PodWorker::start(pods, limit).await?;
                Ok(Self { report, backend: Backend::Pod(worker) })
            }
            None => {
                let (worker, report) = LocalWorker::start(settings, limit).await?;
                Ok(Self { report, backend: Backend::Local(worker) })
            }
        }
    }

    /// Sends a request and waits for its response. After an error, or if the future is dropped, the worker is unusable.
    pub(crate) async fn predict(&mut self, body: &[u8]) -> io::Result<Reply> {
        match &mut self.backend {
            Backend::Local(worker) => worker.predict(body).await,
            Backend::Pod(worker) => worker.predict(body).await,
        }
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&self) {
        match &self.backend {
            Backend::Local(worker) => worker.ended().await,
            Backend::Pod(worker) => worker.ended().await,
        }
    }

    /// Ends the worker, with `at_once` even if it is about to end by itself. Returns how it ended and what it had printed
    /// last.
    pub(crate) async fn end(self, at_once: bool) -> (String, String) {
        match self.backend {
            Backend::Local(worker) => worker.end(at_once).await,
            Backend::Pod(worker) => worker.end(at_once).await,
        }
    }
}

/// A process of this machine. Dropping it kills the process with its children.
#[derive(Debug)]
struct LocalWorker {
    stream: UnixStream,
    process: Process,
}

#[derive(Debug)]
struct Process {
    child: Option<Child>,
    /// Last output, once the process has ended.
    tail: Arc<Mutex<Vec<u8>>>,
    /// Working folder, removed after the end of the process.
    folder: Option<tempfile::TempDir>,
}

impl LocalWorker {
    /// Starts a process and waits up to `limit` until it has loaded the model.
    async fn start(settings: &PythonSettings, limit: Duration) -> Result<(Self, LoadReport), StartError> {
        let system = |error: io::Error| StartError::System(error.to_string());
        let (stream, theirs) = BlockingStream::pair().map_err(system)?;
        stream.set_nonblocking(true).map_err(system)?;
        let stream = UnixStream::from_std(stream).map_err(system)?;
        let process = Process::start(settings, theirs.into()).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                StartError::System(format!("the interpreter {} does not exist", settings.python.display()))
            }
            _ => StartError::System(format!("{} cannot be started: {error}", settings.python.display())),
        })?;
        let mut worker = Self { stream, process };
        let text = |what: &str| format!("Failed to load model: {what} (Error code: 0)");
        match tokio::time::timeout(limit, worker.receive()).await {
            Ok(Ok((b'r', report))) => Ok((worker, serde_json::from_slice(&report).unwrap_or_default())),
            Ok(Ok((_, failure))) => {
                let failure: LoadFailure = serde_json::from_slice(&failure).unwrap_or_default();
                Err(StartError::NotLoaded { text: failure.error, detail: failure.traceback })
            }
            Ok(Err(_)) => {
                let (end, output) = worker.process.end(false).await;
                let text = text(&format!("Unexpected error when loading the model: the process ended ({end})"));
                Err(StartError::NotLoaded { text, detail: output })
            }
            Err(_) => {
                let (_, output) = worker.process.end(true).await;
                let text = text(&format!("the model was not loaded within {} s", limit.as_secs()));
                Err(StartError::NotLoaded { text, detail: output })
            }
        }
    }

    async fn predict(&mut self, body: &[u8]) -> io::Result<Reply> {
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        self.stream.write_all(&length.to_be_bytes()).await?;
        self.stream.write_all(body).await?;
        let (kind, body) = self.receive().await?;
        Ok(Reply { body: body.into(), is_success: kind == b'p', status: 200, content_type: None })
    }

    /// Waits until the process has closed its stream. An idle worker sends nothing.
    async fn ended(&self) {
        let mut byte = [0];
        loop {
            if self.stream.readable().await.is_err() {
                return;
            }
            match self.stream.try_read(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }

    async fn end(mut self, at_once: bool) -> (String, String) {
        self.process.end(at_once).await
    }

    async fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let length = self.stream.read_u32().await?;
        if length == 0 || length > MAX_RESPONSE {
            let text = format!("the response has {length} bytes; up to {MAX_RESPONSE} are allowed");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let kind = self.stream.read_u8().await?;
        let mut body = vec![0; length as usize - 1];
        self.stream.read_exact(&mut body).await?;
        Ok((kind, body))
    }
}

impl Process {
    async fn start(settings: &PythonSettings, stream: OwnedFd) -> io::Result<Self> {
        let settings = settings.clone();
        on_starter(move || Self::spawn(&settings, stream)).await
    }

    fn spawn(settings: &PythonSettings, stream: OwnedFd) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("worker-").tempdir_in(&settings.work)?;
        let (output, sink) = io::pipe()?;
        let mut command = Command::new(&settings.python);
        command
            .args(settings.runner.arguments())
            .env_clear()
            .envs(&settings.variables)
            .env("PYTHONUNBUFFERED", "1")
            .env("TMPDIR", folder.path())
            .envs(threads(settings))
            .current_dir(folder.path())
            .stdin(stream)
            .stdout(sink.try_clone()?)
            .stderr(sink);
        if let Some(identity) = &settings.identity {
            std::os::unix::fs::chown(folder.path(), Some(identity.uid), Some(identity.gid))?;
            command.envs(identity.variables());
        }
        confine(&mut command, settings.identity.as_ref());
        limit(&mut command, settings.limits.memory_bytes, settings.limits.disk_bytes);
        let child = command.spawn()?;
        if let Some(leader) = id_of(&child) {
            limits::watch(leader, folder.path(), settings.limits);
        }
        // Closes this process's ends of the pipe and the socket.
        drop(command);
        let tail = Arc::new(Mutex::new(Vec::new()));
        let (log, shared) = (Arc::clone(&settings.log), Arc::clone(&tail));
        let follow = move |output: PipeReader| *shared.lock() = log.follow(output);
        std::thread::Builder::new().name("worker-log".to_owned()).spawn(move || follow(output))?;
        Ok(Self { child: Some(child), tail, folder: Some(folder) })
    }

    /// Kills the process group and waits for the process. Returns how it had ended, and the last lines of its output.
    async fn end(&mut self, at_once: bool) -> (String, String) {
        let (Some(mut child), folder) = (self.child.take(), self.folder.take()) else { return Default::default() };
        let tail = Arc::clone(&self.tail);
        let ended = tokio::task::spawn_blocking(move || {
            // A process that closes its stream is about to end by itself, with a status that states the reason.
            let mut waited = Duration::ZERO;
            while !at_once && matches!(child.try_wait(), Ok(None)) && waited < LAST_STATUS {
                std::thread::sleep(STATUS_TICK);
                waited += STATUS_TICK;
            }
            let status = kill(&mut child);
            // The log's thread stores the output at the end of the pipe.
            while Arc::strong_count(&tail) > 2 && waited < 2 * LAST_STATUS {
                std::thread::sleep(STATUS_TICK);
                waited += STATUS_TICK;
            }
            drop(folder);
            let output = String::from_utf8_lossy(&tail.lock()).trim().to_owned();
            (status, output)
        });
        ended.await.unwrap_or_default()
    }
}

/// Longest wait for the status of a process that has closed its stream.
const LAST_STATUS: Duration = Duration::from_millis(500);
const STATUS_TICK: Duration = Duration::from_millis(5);

/// Kills the process with its group, and returns its status.
fn kill(child: &mut Child) -> String {
    // The ID belongs to the process until it has been waited for.
    let mut excess = None;
    if let Some(leader) = id_of(child) {
        excess = limits::forget(leader);
        let _ = kill_process_group(leader, Signal::KILL);
    }
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    excess.unwrap_or(status)
}

fn id_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Variables that limit the threads of numeric libraries.
pub(crate) const THREAD_VARIABLES: [&str; 5] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "LOKY_MAX_CPU_COUNT"];

/// [`THREAD_VARIABLES`], except those that the operator has set.
fn threads(settings: &PythonSettings) -> impl Iterator<Item = (&'static str, String)> {
    let number = settings.limits.threads.to_string();
    let unset = THREAD_VARIABLES.into_iter().filter(|name| !settings.variables.contains_key(OsStr::new(name)));
    unset.map(move |name| (name, number.clone()))
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // SIGKILL ends it within moments.
            kill(&mut child);
        }
    }
}

/// Runs `spawn` on the thread whose end ends all workers.
pub(crate) async fn on_starter<T: Send + 'static>(
    spawn: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (send, receive) = oneshot::channel();
    let start = move || {
        let _ = send.send(spawn());
    };
    if STARTER.send(Box::new(start)).is_err() {
        return Err(io::Error::other("the thread that starts workers has ended"));
    }
    receive.await.map_err(io::Error::other)?
}

type Job = Box<dyn FnOnce() + Send>;

/// Thread that starts all workers: the kernel kills a worker when the thread that started it ends.
static STARTER: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
    let (send, receive) = mpsc::channel::<Job>();
    let run = move || receive.into_iter().for_each(|start| start());
    if let Err(error) = std::thread::Builder::new().name("worker-start".to_owned()).spawn(run) {
        tracing::error!(%error, "workers cannot be started");
    }
    send
});
