//! `tunesmith run` on the cluster of this process: the whole way from the command to the pods and back.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tunesmith_testing::{Workspace, write_probe_wheel};

use super::InProcess;
use super::api_server::Key;

pub(super) const STUDY: &str = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 4
  maxParallelTrials: 2
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
";

/// A file for `KUBECONFIG` that names the cluster of `place`.
pub(super) fn kubeconfig(place: &InProcess, workspace: &Workspace) -> PathBuf {
    kubeconfig_for(&place.api().url, workspace)
}

/// A file for `KUBECONFIG` that names the API server at `url`.
pub(super) fn kubeconfig_for(url: &str, workspace: &Workspace) -> PathBuf {
    let path = workspace.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": {"server": url}}],
        "users": [{"name": "tests", "user": {}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": "tests"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// `tunesmith run` on Kubernetes.
pub(super) fn command(place: &InProcess, workspace: &Workspace) -> Command {
    let mut command = workspace.command();
    command.args(["run", "--config", "hptuning_config.yaml", "--executor", "kubernetes", "--output", "job.json"]);
    command.args(["--kubernetes-agent-image", "tunesmith:test"]);
    command.args(["--kubernetes-agent-path", env!("CARGO_BIN_EXE_tunesmith")]);
    command.env("KUBECONFIG", kubeconfig(place, workspace)).stdin(Stdio::null());
    command
}

/// Runs `command` beside the cluster, and returns its standard error after the expected exit code.
pub(super) async fn finish(mut command: Command, code: i32) -> String {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

pub(super) fn job(workspace: &Workspace) -> Value {
    serde_json::from_str(&workspace.read("job.json")).unwrap()
}

fn log(workspace: &Workspace, job: &Value, name: &str) -> String {
    let folder = Path::new(".tunesmith/jobs").join(job["jobId"].as_str().unwrap());
    std::fs::read_to_string(workspace.path().join(folder).join("trials/1/attempt-1").join(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_on_kubernetes_tunes_and_leaves_no_objects() {
    let place = InProcess::new();
    let workspace = Workspace::new(&format!("{STUDY}tunesmith: {{metricFromStdout: true}}\n"));
    let mut run = command(&place, &workspace);
    run.args(["--kubernetes-image", "trainer:1", "--", "sh", "-c", "echo acc=0.5; echo \"args $*\"", "trainer"]);
    finish(run, 0).await;
    let job = job(&workspace);
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "{job:#}");
    assert!(trials.iter().all(|trial| trial["finalMetric"]["objectiveValue"] == 0.5), "{job:#}");
    assert!(log(&workspace, &job, "stdout.log").starts_with("acc=0.5\nargs --x="));
    let left: Vec<Key> =
        ["jobs", "secrets"].iter().flat_map(|kind| place.api().all(kind)).map(|(key, _)| key).collect();
    assert_eq!(left, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packages_are_installed_in_the_pods() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    let wheel = workspace.path().join("probe-1.0-py3-none-any.whl");
    write_probe_wheel(&wheel);
    // Each pod makes its environment.
    let study = STUDY.replace("maxTrials: 4", "maxTrials: 1");
    let config = format!(
        "{study}packageUris: [{}]\npythonModule: probe\ntunesmith: {{metricFromStdout: true}}\n",
        wheel.display()
    );
    std::fs::write(workspace.path().join("hptuning_config.yaml"), config).unwrap();
    let mut run = command(&place, &workspace);
    run.args(["--kubernetes-image", "python:3"]);
    finish(run, 0).await;
    let trained = job(&workspace);
    let trials = trained["trainingOutput"]["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["finalMetric"]["objectiveValue"] == 0.25), "{trained:#}");
    let output = log(&workspace, &trained, "stdout.log");
    // The folder of the pod, not that of the server.
    let folder = place.folder.path().join("pods").display().to_string();
    assert!(output.contains(&format!("from {folder}")) && output.contains("/cache/environments/"), "{output}");
    // The server has the output of the installer.
    let installer = log(&workspace, &trained, "packages-stdout.log");
    assert!(installer.contains("Successfully installed probe-1.0"), "{installer}");

    // A package that cannot be installed is the reason of the trial.
    std::fs::write(&wheel, b"PK\x03\x04 no wheel").unwrap();
    let mut broken = command(&place, &workspace);
    broken.args(["--kubernetes-image", "python:3", "--data-dir", "other"]);
    finish(broken, 1).await;
    let failed = job(&workspace);
    assert_eq!(failed["state"], "FAILED", "{failed:#}");
    let text = failed.to_string();
    assert!(text.contains("its packages cannot be installed"), "{failed:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tier_starts_its_replicas_and_the_metric_is_that_of_the_master() {
    let place = InProcess::new();
    let study = STUDY.replace("maxTrials: 4", "maxTrials: 1");
    let workspace = Workspace::new(&format!("scaleTier: STANDARD_1\n{study}tunesmith: {{metricFromStdout: true}}\n"));
    let script = r#"case "$TF_CONFIG" in *'"type":"master"'*) echo acc=0.5;; *) echo acc=0.9; exec sleep 1000;; esac"#;
    let mut run = command(&place, &workspace);
    run.args(["--kubernetes-image", "trainer:1", "--", "sh", "-c", script]);
    finish(run, 0).await;
    let job = job(&workspace);
    assert_eq!(job["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"], 0.5, "{job:#}");
    let task =
        |(_, made): (Key, Value)| made["metadata"]["labels"]["tunesmith.dev/replica"].as_str().unwrap().to_owned();
    let mut tasks: Vec<String> = place.api().created("jobs").into_iter().map(task).collect();
    tasks.sort();
    assert_eq!(tasks, ["master-0", "ps-0", "ps-1", "ps-2", "worker-0", "worker-1", "worker-2", "worker-3"]);
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}
