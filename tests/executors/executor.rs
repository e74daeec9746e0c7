//! Tests of the local executor with real processes.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tunesmith_contract::executor::{Harness, run, shell};
use tunesmith_executor::local::{LocalExecutor, LocalSettings};
use tunesmith_executor::{
    Executor, ExecutorJobState, ExitStatus, Program, ProgramEnd, Replica, Role, StopMode, StopReason,
};

use crate::pipes::{pipe, read_pipe};

struct Local(TempDir);

impl Local {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    /// The process ID of the supervisor of `spec`.
    fn supervisor(&self, spec: &tunesmith_executor::ExecutorJobSpec) -> String {
        crate::supervisors::supervisor(&self.0.path().join("registry"), spec).as_raw_nonzero().to_string()
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect("the file was written")
    }

    fn local(&self) -> LocalExecutor {
        LocalExecutor::new(LocalSettings {
            supervisor: tunesmith_testing::tunesmith_wrapper(self.0.path()),
            registry: self.0.path().join("registry"),
            container_options: Vec::new(),
            container_run_options: Vec::new(),
            ..LocalSettings::default()
        })
    }
}

impl Harness for Local {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(self.local())
    }

    fn directory(&self) -> &Path {
        self.0.path()
    }

    fn working_directory(&self) -> &Path {
        self.0.path()
    }
}

tunesmith_contract::executor_contract!(Local::new());

fn ended(end: ProgramEnd, stopped: Option<StopReason>) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end, stopped })
}

/// Whether `pid` is running; a zombie is not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn kill(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// A daemon that ignores SIGTERM, leaves its session and parents, closes its output and writes its ID to a pipe.
const DAEMON: &str = r"
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    os.wait()
    if sys.argv[1] == 'stay':
        time.sleep(1000)
    sys.exit(9)
os.setsid()
if os.fork():
    os._exit(0)
for fd in (0, 1, 2):
    os.close(fd)
with open('daemon', 'w') as pipe:
    pipe.write(str(os.getpid()))
time.sleep(1000)
";

fn daemon(harness: &Local, argument: &str) -> tunesmith_executor::ExecutorJobSpec {
    let mut spec = shell(harness, 1, "");
    let argv = ["python3", "-c", DAEMON, argument].map(str::to_owned).to_vec();
    spec.replicas[0].program = Program::Command { argv };
    spec.grace = Duration::from_millis(20);
    spec
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_is_killed_when_its_program_ends() {
    let harness = Local::new();
    let pid_pipe = pipe(&harness, "daemon");
    let executor = harness.executor();
    let spec = daemon(&harness, "leave");
    executor.submit(&spec).await.unwrap();
    let pid = read_pipe(&pid_pipe).await;
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(9), None));
    assert!(!runs(&pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_supervisor_is_reported_as_loss_without_remaining_processes() {
    let harness = Local::new();
    let pid_pipe = pipe(&harness, "daemon");
    let executor = harness.executor();
    let spec = daemon(&harness, "stay");
    executor.submit(&spec).await.unwrap();
    let pid = read_pipe(&pid_pipe).await;
    assert!(runs(&pid));
    kill(&harness.supervisor(&spec));
    assert!(matches!(executor.wait(&spec.id).await.unwrap(), ExecutorJobState::Lost { .. }));
    assert!(!runs(&pid));
    // Other executors report the same loss, and the job does not start again.
    assert!(matches!(run(&*harness.executor(), &spec).await, ExecutorJobState::Lost { .. }));
}

/// Not a test: the body of the process that the next test kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submitter_to_be_killed() {
    let Some(directory) = std::env::var_os("TUNESMITH_TEST_SUBMITTER") else { return };
    let mut spec: tunesmith_executor::ExecutorJobSpec =
        serde_json::from_slice(&std::fs::read(Path::new(&directory).join("job.json")).unwrap()).unwrap();
    spec.environment.insert("SUBMITTER".to_owned(), std::process::id().to_string());
    let executor = LocalExecutor::new(LocalSettings {
        supervisor: env!("CARGO_BIN_EXE_tunesmith").into(),
        registry: Path::new(&directory).join("registry"),
        container_options: Vec::new(),
        container_run_options: Vec::new(),
        ..LocalSettings::default()
    });
    run(&executor, &spec).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_continues_when_its_submitter_is_killed() {
    let harness = Local::new();
    let (ready, go) = (pipe(&harness, "ready"), pipe(&harness, "go"));
    let spec = shell(&harness, 1, "echo x >> runs; echo > ready; read line < go; exit 8");
    std::fs::write(harness.directory().join("job.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
    let mut submitter = tunesmith_testing::program(std::env::current_exe().unwrap())
        .args(["--exact", "executor::submitter_to_be_killed"])
        .env("TUNESMITH_TEST_SUBMITTER", harness.directory())
        .process_group(0)
        .spawn()
        .unwrap();
    read_pipe(&ready).await;
    // The whole process group is killed, as by a terminal or a service manager.
    kill(&submitter.id().to_string());
    submitter.wait().unwrap();
    let executor = harness.executor();
    executor.submit(&spec).await.unwrap();
    assert_eq!(executor.state(&spec.id).await.unwrap(), ExecutorJobState::Running);
    let writer = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n").unwrap());
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(8), None));
    writer.await.unwrap();
    assert_eq!(harness.file("runs"), "x\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_during_the_start_is_not_reported_as_loss() {
    let harness = Local::new();
    let executor = harness.executor();
    for trial in 1..=20 {
        let spec = shell(&harness, trial, "exec sleep 1000");
        executor.submit(&spec).await.unwrap();
        executor.stop(&spec.id, StopMode::Graceful).await.unwrap();
        let state = executor.wait(&spec.id).await.unwrap();
        let ExecutorJobState::Ended(status) = state else { panic!("{state:?}") };
        assert_eq!(status.stopped, Some(StopReason::Requested), "{status:?}");
    }
}

/// Every member but the master listens at its address and sends its name to the master, which prints the names.
const MEMBER: &str = r"
import json, os, socket, time
config = json.loads(os.environ['TF_CONFIG'])
task, cluster = config['task'], config['cluster']
def address(text):
    host, port = text.split(':')
    return host, int(port)
if task['type'] == 'master':
    for kind in ('worker', 'ps'):
        for index, member in enumerate(cluster[kind]):
            while True:
                try:
                    peer = socket.create_connection(address(member))
                    break
                except ConnectionRefusedError:
                    os.sched_yield()
            name = peer.makefile().readline().strip()
            print(name, flush=True)
            assert name == f'{kind} {index}', name
else:
    server = socket.create_server(address(cluster[task['type']][task['index']]))
    while True:
        peer, _ = server.accept()
        peer.sendall(('%s %d\n' % (task['type'], task['index'])).encode())
        peer.close()
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_a_cluster_can_connect_to_each_other() {
    let harness = Local::new();
    let mut spec = shell(&harness, 1, "");
    let argv = ["python3", "-c", MEMBER].map(str::to_owned).to_vec();
    let roles = [(Role::Master, 0), (Role::Worker, 0), (Role::Worker, 1), (Role::ParameterServer, 0)];
    spec.replicas =
        roles.map(|(role, index)| Replica::new(role, index, Program::Command { argv: argv.clone() })).to_vec();
    let state = run(&*harness.executor(), &spec).await;
    let errors = std::fs::read_to_string(spec.directory.join("stderr.log")).unwrap();
    assert_eq!(state, ended(ProgramEnd::Exited(0), None), "{errors}");
    assert_eq!(std::fs::read_to_string(spec.directory.join("stdout.log")).unwrap(), "worker 0\nworker 1\nps 0\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_the_master_is_the_end_of_the_job_if_a_worker_fails() {
    let harness = Local::new();
    let mut spec = shell(&harness, 1, "read line < go; exit 3");
    let go = pipe(&harness, "go");
    let worker = ["sh", "-c", "echo > go; exit 1"].map(str::to_owned).to_vec();
    spec.replicas.push(Replica::new(Role::Worker, 0, Program::Command { argv: worker }));
    assert_eq!(run(&*harness.executor(), &spec).await, ended(ProgramEnd::Exited(3), None));
    assert!(go.exists());
}
