//! The executor contract kit through agents: the checks and the programs have only a server of HTTP between them.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{Path as UrlPath, State};
use axum::routing::post;
use axum::{Json, Router};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tunesmith_agent::process::{ProcessEngine, ProcessSettings};
use tunesmith_api::agent::{SyncRequest, SyncResponse, run_id};
use tunesmith_contract::executor::{Harness, run, shell};
use tunesmith_domain::AgentResponse;
use tunesmith_executor::remote::{AgentEngine, AgentId, AgentState, Inbox, Received, RemoteExecutor};
use tunesmith_executor::{
    Capabilities, Executor, ExecutorError, ExecutorJobSpec, ExecutorJobState, ExitStatus, ProgramEnd, StopMode,
};

/// A place whose agents run on this machine, and whose server receives logs and ends.
struct Agents {
    folder: TempDir,
    inbox: Arc<Inbox>,
    /// The address of the server.
    address: OnceLock<String>,
    working_directory: PathBuf,
}

/// [`ProcessEngine`], with specifications that contain the address of the server.
struct Engine {
    inner: ProcessEngine,
    address: String,
    folder: PathBuf,
}

#[async_trait::async_trait]
impl AgentEngine for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ELSEWHERE
    }

    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError> {
        let text = std::fs::read_to_string(file).unwrap();
        let mut copy: serde_json::Value = serde_json::from_str(&text).unwrap();
        copy["spec"]["server"]["address"] = self.address.clone().into();
        let file = self.folder.join(format!("{}.json", AgentId::of(spec)));
        std::fs::write(&file, copy.to_string()).unwrap();
        self.inner.start(spec, &file).await
    }

    async fn place(&self, id: &AgentId) -> Result<AgentState, ExecutorError> {
        self.inner.place(id).await
    }

    async fn stop(&self, id: &AgentId, how: StopMode) -> Result<(), ExecutorError> {
        self.inner.stop(id, how).await
    }

    async fn forget(&self, job: &tunesmith_domain::JobId) -> std::io::Result<()> {
        self.inner.forget(job).await
    }
}

impl Agents {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let inbox = Arc::new(Inbox::new(folder.path().join("inbox")));
        let working_directory = folder.path().join("elsewhere");
        std::fs::create_dir(&working_directory).unwrap();
        std::fs::create_dir(folder.path().join("server")).unwrap();
        Self { folder, inbox, address: OnceLock::new(), working_directory }
    }

    /// Starts the server, once.
    fn address(&self) -> String {
        let start = || serve(&self.inbox, self.directory());
        self.address.get_or_init(start).clone()
    }
}

/// Starts a server in this process that receives the logs and ends of agents into `inbox` and the folder `job`, and returns its
/// address.
pub(crate) fn serve(inbox: &Arc<Inbox>, job: &Path) -> String {
    serve_on(Ipv4Addr::LOCALHOST.into(), inbox, job)
}

/// As [`serve`], on another address of this machine.
pub(crate) fn serve_on(address: IpAddr, inbox: &Arc<Inbox>, job: &Path) -> String {
    let listener = std::net::TcpListener::bind((address, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let state = (Arc::clone(inbox), job.to_owned());
    let router = Router::new().route("/v1/projects/{project}/jobs/{job}/runs/{run}", post(sync)).with_state(state);
    tokio::spawn(async move { axum::serve(TcpListener::from_std(listener).unwrap(), router).await });
    address
}

type ServerState = (Arc<Inbox>, PathBuf);

async fn sync(
    State((inbox, job)): State<ServerState>,
    UrlPath((_, name, run)): UrlPath<(String, String, String)>,
    Json(request): Json<SyncRequest>,
) -> Json<SyncResponse> {
    let id = run_id(name.parse().unwrap(), run.strip_suffix(":sync").unwrap()).unwrap();
    let mut report = request.into_report(id.attempt).unwrap();
    let agent = AgentId { run: id, task: report.task.clone() };
    let Received { logs, addresses, command } = inbox.receive(&agent, &job, &report).unwrap();
    let ended = report.end.take().map(|end| inbox.close(&agent, end).unwrap()).is_some();
    Json(SyncResponse::from(AgentResponse { next_measurement: 0, logs, addresses, command, ended }))
}

impl Harness for Agents {
    fn executor(&self) -> Arc<dyn Executor> {
        let settings = ProcessSettings {
            program: tunesmith_testing::tunesmith_wrapper(self.folder.path()),
            folder: self.folder.path().join("spools"),
            interval: Duration::from_millis(20),
        };
        let engine = Engine {
            inner: ProcessEngine::new(settings),
            address: self.address(),
            folder: self.folder.path().to_owned(),
        };
        Arc::new(RemoteExecutor::new(engine, Arc::clone(&self.inbox)))
    }

    fn directory(&self) -> &Path {
        self.folder.path()
    }

    fn working_directory(&self) -> &Path {
        &self.working_directory
    }
}

tunesmith_contract::executor_contract!(Agents::new());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn place_of_a_run_is_the_engines_and_not_the_agents() {
    let place = Agents::new();
    let mut spec = shell(&place, 1, "exit 3");
    spec.placement.options.insert("resources".to_owned(), "n2=1".to_owned());
    let ended = ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Exited(3), stopped: None });
    assert_eq!(run(&*place.executor(), &spec).await, ended);
}
