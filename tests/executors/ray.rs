//! The engine for Ray on a real cluster, in a network and process namespace of its own: Ray listens on all interfaces.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use tunesmith_contract::executor::{Harness, run, shell};
use tunesmith_domain::LossCause;
use tunesmith_executor::remote::{AgentEngine, AgentId, AgentState, Inbox, RemoteExecutor};
use tunesmith_executor::{Executor, ExecutorError, ExecutorJobState, ProgramEnd, StopMode};
use tunesmith_ray::{AgentProgram, RayEngine, RaySettings, RayToken};
use tunesmith_testing::{Workspace, python, write_probe_wheel};

use crate::agent_contract;

/// Set in the process that runs in the namespaces.
const INSIDE: &str = "TUNESMITH_TEST_IN_NAMESPACE";

/// The address of the dashboard in the namespace.
const ADDRESS: &str = "http://127.0.0.1:8265";

fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// Runs the test `name` of this file in namespaces, where `check` runs.
fn in_namespace(name: &str, check: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return check();
    }
    // Outside, since there is no network inside.
    ray();
    let mut command = tunesmith_testing::program("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--net", "--pid", "--fork", "--mount-proc", "--kill-child"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("ray::{name}"), "--nocapture"]).env(INSIDE, "1");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// The command `ray`.
fn ray() -> PathBuf {
    python::interpreter(&["ray[default]==2.60.0"]).with_file_name("ray")
}

/// A cluster of one node with two processors and two accelerators, which ends with the namespace.
struct Cluster {
    // Paths of sockets are short.
    folder: TempDir,
}

impl Cluster {
    fn start() -> Self {
        succeed(tunesmith_testing::program("ip").args(["link", "set", "lo", "up"]));
        let cluster = Self { folder: tempfile::Builder::new().prefix("r").rand_bytes(4).tempdir_in("/tmp").unwrap() };
        cluster.start_head();
        cluster
    }

    fn start_head(&self) {
        let mut command = tunesmith_testing::program(ray());
        command.args(["start", "--head", "--node-ip-address=127.0.0.1", "--port=6379", "--dashboard-host=127.0.0.1"]);
        command.args(["--dashboard-port=8265", "--num-cpus=2", "--num-gpus=2", "--object-store-memory=80000000"]);
        command.args(["--min-worker-port=20000", "--max-worker-port=20999", "--disable-usage-stats"]);
        succeed(
            command
                .arg(format!("--temp-dir={}", self.folder.path().display()))
                .env("RAY_USAGE_STATS_ENABLED", "0")
                // Agents inherit it.
                .env("TUNESMITH_AGENT_CACHE", self.folder.path().join("cache")),
        );
    }

    fn stop_head(&self) {
        succeed(tunesmith_testing::program(ray()).args(["stop", "--force"]));
    }
}

/// A folder of this machine with an inbox, and the cluster.
struct OnRay {
    folder: TempDir,
    inbox: Arc<Inbox>,
    address: OnceLock<String>,
    agent: AgentProgram,
}

impl OnRay {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let inbox = Arc::new(Inbox::new(folder.path().join("inbox")));
        let agent = AgentProgram::Installed(env!("CARGO_BIN_EXE_tunesmith").into());
        Self { folder, inbox, address: OnceLock::new(), agent }
    }

    fn engine(&self) -> RayEngine {
        let server = self.address.get_or_init(|| agent_contract::serve(&self.inbox, self.directory())).clone();
        let settings = RaySettings {
            address: ADDRESS.parse().unwrap(),
            token: RayToken::default(),
            server: Some(server),
            agent: self.agent.clone(),
            registry: self.folder.path().join("ray"),
        };
        RayEngine::new(settings, reqwest::Client::builder().no_proxy().build().unwrap())
    }
}

impl Harness for OnRay {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(RemoteExecutor::new(self.engine(), Arc::clone(&self.inbox)))
    }

    fn directory(&self) -> &Path {
        self.folder.path()
    }

    fn working_directory(&self) -> &Path {
        self.folder.path()
    }
}

fn block_on(work: impl Future<Output = ()>) {
    // It fails if one is installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

#[test]
fn ray_passes_the_contract_kit() {
    in_namespace("ray_passes_the_contract_kit", || {
        let _cluster = Cluster::start();
        block_on(async {
            tunesmith_contract::executor_contract!(in order OnRay::new());
        });
    });
}

#[test]
fn ray_runs_an_uploaded_agent_and_states_why_a_job_waits_or_is_gone() {
    in_namespace("ray_runs_an_uploaded_agent_and_states_why_a_job_waits_or_is_gone", || {
        let cluster = Cluster::start();
        block_on(async {
            let mut place = OnRay::new();
            // Without what a debugger needs, the program is small enough to be uploaded in a test.
            let program = place.folder.path().join("tunesmith");
            succeed(tunesmith_testing::program("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_tunesmith")));
            place.agent = AgentProgram::Uploaded(program);
            let state = run(&*place.executor(), &shell(&place, 1, "exit 7")).await;
            let ExecutorJobState::Ended(status) = state else { panic!("{state:?}") };
            assert_eq!(status.end, ProgramEnd::Exited(7));

            let mut large = shell(&place, 2, "true");
            large.replicas[0].resources.milli_cpus = Some(9_000);
            let executor = place.executor();
            executor.submit(&large).await.unwrap();
            let waiting = executor.state(&large.id).await.unwrap();
            let ExecutorJobState::Waiting { reason } = waiting else { panic!("{waiting:?}") };
            assert!(reason.contains("has not started yet"), "{reason}");
            executor.stop(&large.id, StopMode::Graceful).await.unwrap();
            let ended = executor.wait(&large.id).await.unwrap();
            let ExecutorJobState::Ended(status) = ended else { panic!("{ended:?}") };
            assert_eq!(status.end, ProgramEnd::NotStarted("it was stopped before it started".to_owned()));

            // The head forgets its jobs, and while it is away nothing is concluded.
            let long = shell(&place, 3, "sleep 1000");
            executor.submit(&long).await.unwrap();
            cluster.stop_head();
            let error = executor.state(&long.id).await.unwrap_err();
            assert!(matches!(error, ExecutorError::Unreachable { .. }), "{error:?}");
            cluster.start_head();
            let state = place.engine().place(&AgentId::of(&long)).await.unwrap();
            let AgentState::Gone { cause: LossCause::Failure, reason } = state else {
                panic!("the head knows the job")
            };
            assert!(reason.contains("does not know its job any more"), "{reason}");
            let lost = executor.wait(&long.id).await.unwrap();
            assert!(matches!(lost, ExecutorJobState::Lost { cause: LossCause::Failure, .. }), "{lost:?}");
        });
    });
}

#[test]
fn run_on_ray_tunes_installs_packages_and_reports() {
    in_namespace("run_on_ray_tunes_installs_packages_and_reports", || {
        let cluster = Cluster::start();
        let workspace = Workspace::new(
            "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 4
  maxParallelTrials: 2
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith: {metricFromStdout: true}
",
        );
        let mut command = workspace.command();
        command.args(["run", "--config", "hptuning_config.yaml", "--executor", "ray", "--output", "job.json"]);
        command.args(["--ray-address", ADDRESS, "--ray-program", env!("CARGO_BIN_EXE_tunesmith"), "--"]);
        command.args(["sh", "-c", "echo acc=0.5; echo \"args $*\"", "trainer"]);
        succeed(&mut command);
        let job: serde_json::Value = serde_json::from_str(&workspace.read("job.json")).unwrap();
        let trials = job["trainingOutput"]["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 4, "{job:#}");
        assert!(trials.iter().all(|trial| trial["finalMetric"]["objectiveValue"] == 0.5), "{job:#}");
        let log = std::fs::read_to_string(
            workspace
                .path()
                .join(".tunesmith")
                .join("jobs")
                .join(job["jobId"].as_str().unwrap())
                .join("trials/1/attempt-1/stdout.log"),
        );
        assert!(log.unwrap().starts_with("acc=0.5\nargs --x="), "the log arrived");
        packages_are_installed_on_the_nodes(&cluster);
        let mut unreachable = workspace.command();
        unreachable.args(["run", "--config", "hptuning_config.yaml", "--executor", "ray", "--data-dir", "other"]);
        unreachable.args(["--ray-address", "http://127.0.0.1:9", "--", "true"]);
        let output = unreachable.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        assert!(text.contains("the Ray cluster at http://127.0.0.1:9/ cannot be used: it does not answer"), "{text}");
        assert!(text.contains("start it with `ray start --head`"), "{text}");
    });
}

/// Runs a job with a package, which the nodes get from the server.
fn packages_are_installed_on_the_nodes(cluster: &Cluster) {
    let workspace = Workspace::new("");
    let wheel = workspace.path().join("probe-1.0-py3-none-any.whl");
    write_probe_wheel(&wheel);
    let config = format!(
        "
packageUris: [{}]
pythonModule: probe
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 2
  maxParallelTrials: 2
  params: [{{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}}]
tunesmith: {{metricFromStdout: true}}
",
        wheel.display()
    );
    std::fs::write(workspace.path().join("packages.yaml"), config).unwrap();
    let mut command = workspace.command();
    command.args(["run", "--config", "packages.yaml", "--executor", "ray", "--output", "job.json", "--job-id", "j"]);
    succeed(command.args(["--ray-address", ADDRESS, "--ray-program", env!("CARGO_BIN_EXE_tunesmith")]));
    let job = workspace.job();
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["finalMetric"]["objectiveValue"] == 0.25), "{job:#}");
    for trial in [1, 2] {
        let log = workspace.read(&format!(".tunesmith/jobs/j/trials/{trial}/attempt-1/stdout.log"));
        // The environment of the node, which both trials share.
        let environments = cluster.folder.path().join("cache/environments");
        assert!(log.contains(&format!("from {}", environments.display())), "{log}");
    }
}
