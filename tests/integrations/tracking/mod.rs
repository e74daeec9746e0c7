//! Exports to MLflow and TensorBoard, with the real packages.

mod credentials;
mod several_servers;
mod tensorboard;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::python::{TRACKERS, interpreter};
use tunesmith_testing::server::{Server, exchange_with};
use tunesmith_testing::{Workspace, finished, program};

/// A curve of three points; fails for large values.
const TRAINER: &str = r#"for arg in "$@"; do case "$arg" in --x=*) x="${arg#--x=}";; esac; done
for step in 1 2 3; do
  awk -v x="$x" -v step=$step 'BEGIN { printf "loss=%.17g step=%d\n", x + 3 - step, step }'
done
awk -v x="$x" 'BEGIN { exit (x > 8) ? 3 : 0 }'
"#;

fn config(trials: usize, more: &str) -> String {
    format!(
        "hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: {trials}
  maxParallelTrials: 2
  algorithm: RANDOM_SEARCH
  params:
    - {{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}}
tunesmith:
  metricFromStdout: true
  seed: 7
{more}"
    )
}

/// A server of Python that is killed with all its processes.
struct PythonServer {
    process: Child,
    address: SocketAddr,
}

impl PythonServer {
    fn start(command: &mut Command, address: SocketAddr, path: &str) -> Self {
        let process = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self { process: process.unwrap(), address };
        until(|| std::net::TcpStream::connect(address).is_ok() && server.send("GET", path, &Value::Null).0 == 200);
        server
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        exchange_with(self.address, method, path, "content-type: application/json\r\n", &body)
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, text) = self.send(method, path, body);
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        // It may have ended.
        let _ = kill_process_group(group, Signal::KILL);
        self.process.wait().unwrap();
    }
}

/// A free address of this machine.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn mlflow(folder: &Path, address: SocketAddr) -> PythonServer {
    let mut command = program(interpreter(&TRACKERS));
    command.args(["-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1"]);
    command.args(["--port", &address.port().to_string()]);
    command.arg("--backend-store-uri").arg(format!("sqlite:///{}", folder.join("mlflow.db").display()));
    command.arg("--artifacts-destination").arg(folder.join("artifacts"));
    command.env("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false").env("MLFLOW_DISABLE_TELEMETRY", "true");
    PythonServer::start(&mut command, address, "/health")
}

/// Runs of an experiment, with tags, parameters and complete curves.
#[derive(Debug, Clone, PartialEq)]
struct Runs(Vec<Value>);

impl Runs {
    fn of(mlflow: &PythonServer, experiment: &str) -> Self {
        let path = format!("/api/2.0/mlflow/experiments/get-by-name?experiment_name={experiment}");
        let (status, text) = mlflow.send("GET", &path, &Value::Null);
        if status == 404 {
            return Self(Vec::new());
        }
        let found: Value = serde_json::from_str(&text).unwrap();
        let body = json!({"experiment_ids": [found["experiment"]["experiment_id"]], "max_results": 1000});
        let mut answer = mlflow.json("POST", "/api/2.0/mlflow/runs/search", &body);
        let Value::Array(mut runs) = answer["runs"].take() else { return Self(Vec::new()) };
        for run in &mut runs {
            let id = run["info"]["run_id"].as_str().unwrap().to_owned();
            for kind in ["tags", "params"] {
                let list = run["data"][kind].as_array().cloned().unwrap_or_default();
                let entries =
                    list.iter().map(|entry| (entry["key"].as_str().unwrap().to_owned(), entry["value"].clone()));
                run[kind] = Value::Object(entries.collect());
            }
            let keys: Vec<Value> = run["data"]["metrics"].as_array().cloned().unwrap_or_default();
            for key in keys.iter().map(|metric| metric["key"].as_str().unwrap()) {
                let path = format!("/api/2.0/mlflow/metrics/get-history?run_id={id}&metric_key={key}");
                let history = mlflow.json("GET", &path, &Value::Null);
                let points = history["metrics"].as_array().unwrap().iter();
                run["curves"][key] = points.map(|point| json!([point["step"], point["value"]])).collect();
            }
        }
        runs.sort_by_key(|run| run["tags"]["tunesmith.trial"].as_str().map(|trial| trial.parse::<u64>().unwrap()));
        Self(runs)
    }

    fn parent(&self) -> &Value {
        &self.0[0]
    }

    /// The child of a trial, of which there is one.
    fn trial(&self, number: usize) -> &Value {
        let number = number.to_string();
        let mut runs = self.0.iter().filter(|run| run["tags"]["tunesmith.trial"] == number.as_str());
        let run = runs.next().unwrap_or_else(|| panic!("there is no run of trial {number}: {self:?}"));
        assert_eq!(runs.next(), None, "trial {number} has several runs");
        assert_eq!(run["tags"]["mlflow.parentRunId"], self.parent()["info"]["run_id"]);
        run
    }

    /// Checks that every trial of `workspace`'s last run has one run with its whole curve.
    fn check_all(&self, workspace: &Workspace) {
        let trials = workspace.trials();
        assert_eq!(self.0.len(), 1 + trials.len());
        for trial in &trials {
            let run = self.trial(trial["trial_id"].parse().unwrap());
            let x: f64 = trial["x"].parse().unwrap();
            assert_eq!(run["params"], json!({"x": trial["x"]}));
            assert_eq!(run["curves"]["loss"], json!([[1, x + 3.0 - 1.0], [2, x + 3.0 - 2.0], [3, x + 3.0 - 3.0]]));
            let (state, status) = if x > 8.0 { ("INFEASIBLE", "FAILED") } else { ("SUCCEEDED", "FINISHED") };
            assert_eq!((&run["tags"]["tunesmith.state"], &run["info"]["status"]), (&json!(state), &json!(status)));
            assert_eq!(run["tags"].get("tunesmith.reason"), (x > 8.0).then_some(&json!("exit code 3")));
            assert_eq!(run["tags"]["tunesmith.attempt"], "1");
        }
    }
}

#[test]
fn mlflow_shows_each_trial_once_however_it_was_exported() {
    let folder = TempDir::new().unwrap();
    let mlflow = mlflow(folder.path(), free_address());
    let uri = format!("http://{}", mlflow.address);
    let workspace = Workspace::new(&config(10, ""));
    workspace.write("train.sh", TRAINER);
    let live = ["--job-id", "census", "--data-dir", "data", "--mlflow", &uri, "--mlflow-experiment", "live"];
    let run = workspace.run([&live[..], &["--", "sh", "train.sh"]].concat()).expect(0);
    assert!(run.stderr.contains("of experiment \"live\" of http://127.0.0.1"), "{}", run.stderr);
    let runs = Runs::of(&mlflow, "live");
    runs.check_all(&workspace);
    let best = workspace.job()["trainingOutput"]["trials"][0]["trialId"].clone();
    let parent = runs.parent();
    assert_eq!((&parent["info"]["status"], &parent["info"]["run_name"]), (&json!("FINISHED"), &json!("census")));
    assert_eq!((&parent["tags"]["tunesmith.job"], &parent["tags"]["tunesmith.bestTrial"]), (&json!("census"), &best));
    assert_eq!(parent["params"]["space.x"], "DOUBLE 0 to 10, UNIT_LINEAR_SCALE");
    assert_eq!(parent["params"]["goal.loss"], "MINIMIZE");
    let best_number = best.as_str().unwrap().parse().unwrap();
    assert_eq!(runs.trial(best_number)["tags"]["tunesmith.best"], "true");
    let curve = parent["curves"]["best_loss"].as_array().unwrap();
    let last = curve.last().unwrap()[1].as_f64().unwrap();
    assert_eq!(last, workspace.job()["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"].as_f64().unwrap());
    let described =
        workspace.command().args(["jobs", "describe", "census", "--data-dir", "data", "--format", "json"]).output();
    let described: Value = serde_json::from_slice(&described.unwrap().stdout).unwrap();
    let export = &described["tunesmith"]["mlflow"];
    assert_eq!((&export["state"], &export["runId"]), (&json!("COMPLETE"), &parent["info"]["run_id"]));
    let table = workspace.command().args(["jobs", "describe", "census", "--data-dir", "data", "--summarize"]).output();
    let line = format!("exported to experiment \"live\" of {uri}\n");
    assert!(String::from_utf8_lossy(&table.unwrap().stdout).contains(&line));

    // Exporting again adds nothing: neither from the data folder, nor from a server, which knows no times of reports.
    let export = |target: &[&str], experiment: &str| {
        let mut command = workspace.command();
        command.args(["export", "mlflow", "--job", "census", "--tracking-uri", &uri, "--experiment", experiment]);
        command.args(target);
        command
    };
    let again = finished(export(&["--data-dir", "data"], "live").output().unwrap()).expect(0);
    assert!(
        again.stdout.starts_with("exported job census with 10 trials to experiment \"live\" of"),
        "{}",
        again.stdout
    );
    assert_eq!(Runs::of(&mlflow, "live"), runs);
    let server = Server::start(&workspace, &[]);
    let address = format!("http://{}", server.address);
    finished(export(&["--server", &address], "live").output().unwrap()).expect(0);
    assert_eq!(Runs::of(&mlflow, "live"), runs);

    // A study whose clients run the trials: complete and running ones.
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    }});
    let studies = "/v1/projects/local/locations/local/studies";
    assert_eq!(server.post(&format!("{studies}?studyId=s"), &study).0, 200);
    let metrics = json!([{"metric": "loss", "value": 0.5}]);
    let measurement = json!({"stepCount": "3", "elapsedTime": "2s", "metrics": metrics});
    let result = json!({"parameters": [{"parameter": "x", "floatValue": 0.25}], "finalMeasurement": measurement});
    assert_eq!(server.post(&format!("{studies}/s/trials"), &result).0, 200);
    let asked = server.post(&format!("{studies}/s/trials:suggest"), &json!({"clientId": "c", "suggestionCount": 1})).1;
    assert_eq!(asked["done"], true, "{asked}");
    let reported = json!({"measurement": measurement});
    assert_eq!(server.post(&format!("{studies}/s/trials/2:addMeasurement"), &reported).0, 200);
    let export_study = |target: &[&str]| {
        let mut command = workspace.command();
        command.args(["export", "mlflow", "--study", "s", "--tracking-uri", &uri, "--experiment", "study"]);
        finished(command.args(target).output().unwrap()).expect(0)
    };
    assert!(export_study(&["--server", &address]).stdout.starts_with("exported study s with 2 trials"));
    let of_study = Runs::of(&mlflow, "study");
    assert_eq!((of_study.0.len(), &of_study.parent()["info"]["status"]), (3, &json!("RUNNING")));
    let (first, second) = (of_study.trial(1), of_study.trial(2));
    assert_eq!((&first["info"]["status"], &first["params"]), (&json!("FINISHED"), &json!({"x": "0.25"})));
    assert_eq!((&second["info"]["status"], &second["tags"]["tunesmith.clientId"]), (&json!("RUNNING"), &json!("c")));
    assert_eq!(second["curves"]["loss"], json!([[3, 0.5]]));
    export_study(&["--server", &address]);
    assert_eq!(Runs::of(&mlflow, "study"), of_study);

    // Two exports at once, and a last one that removes what both have created.
    let mut concurrent: Vec<Child> = (0..2)
        .map(|_| export(&["--server", &address], "twice").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    for child in &mut concurrent {
        child.wait().unwrap();
    }
    finished(export(&["--server", &address], "twice").output().unwrap()).expect(0);
    Runs::of(&mlflow, "twice").check_all(&workspace);
}

/// A trainer that logs to MLflow itself, with the same parameter in another form.
const LOGGING_TRAINER: &str = "
import os, sys
import mlflow
x = float(next(arg for arg in sys.argv if arg.startswith('--x=')).removeprefix('--x='))
with mlflow.start_run() as run:
    assert run.info.run_id == os.environ['RUN'], run.info
    mlflow.log_param('x', f'{x:.3f}')
    mlflow.log_metric('own', x, step=5)
print(f'loss={x} step=1')
";

#[test]
fn programs_log_into_the_run_of_their_trial() {
    let folder = TempDir::new().unwrap();
    let mlflow = mlflow(folder.path(), free_address());
    let workspace = Workspace::new(&config(2, "  mlflow: {experiment: adopted}\n"));
    workspace.write("train.py", LOGGING_TRAINER);
    let mut command = workspace.run_command(["--job-id", "logging", "--", "sh", "-c"]);
    // The run is handed over once, as MLflow removes it from the environment.
    let python = interpreter(&TRACKERS);
    command.arg(format!("RUN=$MLFLOW_RUN_ID exec {} train.py \"$@\"", python.display())).arg("sh");
    command.env("MLFLOW_TRACKING_URI", format!("http://{}", mlflow.address));
    finished(command.output().unwrap()).expect(0);
    let runs = Runs::of(&mlflow, "adopted");
    assert_eq!(runs.0.len(), 3, "{runs:?}");
    for trial in workspace.trials() {
        let (run, x) = (runs.trial(trial["trial_id"].parse().unwrap()), trial["x"].parse::<f64>().unwrap());
        assert_eq!(run["info"]["status"], "FINISHED");
        assert_eq!((&run["curves"]["own"], &run["curves"]["loss"]), (&json!([[5, x]]), &json!([[1, x]])));
        assert_eq!(run["params"], json!({"x": format!("{x:.3}")}));
        assert_eq!(run["tags"]["tunesmith.parameter.x"], trial["x"].as_str());
    }
}

#[test]
fn outage_of_mlflow_delays_the_export_alone() {
    let folder = TempDir::new().unwrap();
    let address = free_address();
    let first = mlflow(folder.path(), address);
    let workspace = Workspace::new("");
    // Trials after the second one wait until MLflow is gone.
    let trainer = format!(
        "{TRAINER}\ncase \"$CLOUD_ML_TRIAL_ID\" in 1|2) ;; *) until [ -e gone ]; do sleep 0.05; done;; esac\nexit 0\n"
    );
    workspace.write("train.sh", &trainer.replace("exit (x > 8) ? 3 : 0", "exit 0"));
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"]);
    let server = Server::start_command(command.env("MLFLOW_TRACKING_URI", format!("http://{address}")));
    let input = json!({
        "jobId": "long",
        "trainingInput": {
            "hyperparameters": {
                "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 8, "maxParallelTrials": 2,
                "algorithm": "RANDOM_SEARCH",
                "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 8}],
            },
            "args": [],
            "tunesmith": {"metricFromStdout": true, "seed": 7, "mlflow": {"experiment": "outage"}},
        },
    });
    workspace.write("job.yaml", &input["trainingInput"].to_string());
    let submitted = workspace
        .command()
        .args(["jobs", "submit", "training", "long", "--server", &format!("http://{}", server.address)])
        .args(["--config", "job.yaml", "--", "sh", "train.sh"])
        .output();
    finished(submitted.unwrap()).expect(0);
    let job = "/v1/projects/local/jobs/long";
    until(|| Runs::of(&first, "outage").0.len() > 2);
    drop(first);
    workspace.write("gone", "");
    let ended = server.until_ended(job);
    assert_eq!((&ended["state"], &ended["trainingOutput"]["completedTrialCount"]), (&json!("SUCCEEDED"), &json!("8")));
    let failing =
        found(|| Some(server.get(job).1["tunesmith"]["mlflow"].clone()).filter(|it| it["state"] == "FAILING"));
    assert!(failing["errorMessage"].as_str().unwrap().contains("cannot be reached"), "{failing}");
    // A server that starts meanwhile goes on with it.
    server.signal(Signal::TERM);
    server.end();
    let second = mlflow(folder.path(), address);
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"]);
    let server = Server::start_command(command.env("MLFLOW_TRACKING_URI", format!("http://{address}")));
    until(|| server.get(job).1["tunesmith"]["mlflow"]["state"] == "COMPLETE");
    let runs = Runs::of(&second, "outage");
    assert_eq!(runs.0.len(), 9);
    assert_eq!(runs.parent()["info"]["status"], "FINISHED");
    for trial in 1..=8 {
        let run = runs.trial(trial);
        assert_eq!(run["info"]["status"], "FINISHED");
        assert_eq!(run["curves"]["loss"].as_array().unwrap().len(), 3, "{run}");
    }
}
