//! Models and predictions: the published client, the command line, and what happens to workers and servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tunesmith_testing::python::{MODEL_PACKAGES, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished, program};

/// Writes a scikit-learn model of the iris data set to `folder`.
pub(crate) fn train(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let script = "
import sys, joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
joblib.dump(LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True)), sys.argv[1] + '/model.joblib')
";
    let trained = program(interpreter(&MODEL_PACKAGES)).args(["-c", script]).arg(folder).output().unwrap();
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
}

/// A server whose runtime version 2.11 has the packages of the models.
pub(crate) fn server(workspace: &Workspace, more: &[&str]) -> Server {
    configure(workspace);
    Server::start(workspace, &[&["--server-config", "server.yaml"], more].concat())
}

/// Writes the configuration of [`server`].
pub(crate) fn configure(workspace: &Workspace) -> PathBuf {
    let python = interpreter(&MODEL_PACKAGES);
    let config = json!({"runtimeVersions": {"2.11": {"python": python}}});
    workspace.write("server.yaml", &config.to_string())
}

pub(crate) const MODEL: &str = "/v1/projects/p/models/m";

/// Creates the model `m` with the version `v1`, which is `READY`.
pub(crate) fn deploy(server: &Server, version: &Value) {
    assert_eq!(server.post("/v1/projects/p/models", &json!({"name": "m"})).0, 200);
    let (status, operation) = server.post(&format!("{MODEL}/versions"), version);
    assert_eq!(status, 200, "{operation}");
    let operation = server.wait(operation);
    assert_eq!(operation["response"]["state"], "READY", "{operation}");
}

pub(crate) fn version(folder: &Path) -> Value {
    json!({"name": "v1", "deploymentUri": folder, "runtimeVersion": "2.11", "framework": "SCIKIT_LEARN"})
}

const ROWS: &str = "[[6.7, 3.1, 4.7, 1.5], [4.6, 3.1, 1.5, 0.2]]";

pub(crate) fn predict(server: &Server) -> (u16, Value) {
    let body = format!("{{\"instances\": {ROWS}}}");
    server.send("POST", &format!("{MODEL}:predict"), "content-type: application/json\r\n", &body)
}

/// IDs of the processes that have loaded a model below the workspace.
pub(crate) fn workers(workspace: &Workspace) -> Vec<Pid> {
    let folder = workspace.path().canonicalize().unwrap().join("data/models").display().to_string();
    let found = tunesmith_testing::processes_with(&folder).into_iter();
    found.filter_map(|(pid, _)| Pid::from_raw(i32::try_from(pid).unwrap())).collect()
}

#[test]
fn published_client_drives_models_versions_and_predictions() {
    let workspace = Workspace::new("");
    let server = server(&workspace, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients/models.py");
    let mut client = program(interpreter(&MODEL_PACKAGES));
    client.arg(script).arg(format!("http://{}", server.address)).arg(workspace.path());
    let run = finished(client.output().unwrap()).expect(0);
    assert!(run.stdout.ends_with("all steps passed\n"), "{}", run.stdout);
}

#[test]
fn killed_workers_and_servers_come_back() {
    let workspace = Workspace::new("");
    let folder = workspace.path().join("model");
    train(&folder);
    let server = server(&workspace, &[]);
    deploy(&server, &version(&folder));
    let expected = (200, json!({"predictions": [1, 0]}));
    assert_eq!(predict(&server), expected);
    let [worker] = workers(&workspace)[..] else { panic!("one worker is expected") };
    kill_process(worker, Signal::KILL).unwrap();
    // Until the server has noticed the end, a request may meet it.
    loop {
        let answer = predict(&server);
        if answer == expected {
            break;
        }
        assert_eq!((answer.0, &answer.1["error"]["status"]), (503, &json!("UNAVAILABLE")), "{}", answer.1);
    }
    let (_, metrics) = server.text("GET", "/metrics");
    assert!(metrics.contains("tunesmith_prediction_workers 1\n"), "{metrics}");
    assert!(metrics.contains("tunesmith_prediction_seconds_count{result=\"success\"} 2\n"), "{metrics}");
    let [second] = workers(&workspace)[..] else { panic!("one worker is expected") };
    assert_ne!(worker, second);
    fs::remove_dir_all(&folder).unwrap();
    server.kill();
    // The kernel ends the workers of a server that was killed.
    while rustix::process::test_kill_process(second).is_ok() && !workers(&workspace).is_empty() {
        std::thread::yield_now();
    }
    let server = Server::start(&workspace, &["--server-config", "server.yaml"]);
    assert_eq!(predict(&server), expected);
    let (_, read) = server.get(&format!("{MODEL}/versions/v1"));
    assert_eq!((&read["state"], &read["tunesmith"]["workers"]["requests"]), (&json!("READY"), &json!(1)), "{read}");
}

#[test]
fn limits_and_content_types_are_checked_before_the_model() {
    let workspace = Workspace::new("");
    let folder = workspace.path().join("model");
    train(&folder);
    let server = server(&workspace, &[]);
    deploy(&server, &version(&folder));
    let path = format!("{MODEL}:predict");
    let large = format!("{{\"instances\": [\"{}\"]}}", "x".repeat(3 << 19));
    let (status, answer) = server.send("POST", &path, "content-type: application/json\r\n", &large);
    assert_eq!(status, 413, "{answer}");
    let (status, answer) = server.send("POST", &path, "content-type: text/plain\r\n", "{\"instances\": []}");
    assert_eq!(status, 415, "{answer}");
    let json = "content-type: application/json; charset=utf-8\r\n";
    let (status, answer) = server.send("POST", &path, json, "{\"instances\": 1}");
    let start =
        "Invalid request. The service expects the request to be a valid JSON object with a list-valued attribute";
    assert_eq!(status, 200);
    assert!(answer["error"].as_str().unwrap().starts_with(start), "{answer}");
    // The answer is passed on as it is, not indented.
    let (status, text) = server.exchange("POST", &path, json, &format!("{{\"instances\": {ROWS}}}"));
    assert_eq!((status, text.as_str()), (200, "{\"predictions\": [1, 0]}"));
}

#[test]
fn token_of_a_model_user_predicts_and_changes_nothing() {
    let workspace = Workspace::new("");
    let folder = workspace.path().join("model");
    train(&folder);
    let token = |principal: &str, role: &str| {
        let args = ["tokens", "create", "--data-dir", "data", "--principal", principal, "--role", role];
        let made = finished(workspace.command().args(args).output().unwrap()).expect(0);
        made.stdout.lines().last().unwrap().trim().to_owned()
    };
    let (owner, stranger) = (token("user:ada", "ml.developer"), token("user:bob", "ml.viewer@other"));
    let allowed = folder.display().to_string();
    let server = server(&workspace, &["--allowed-folder", &allowed]);
    let send = |token: &str, method: &str, path: &str, body: &Value| {
        let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
        server.send(method, path, &headers, &body.to_string())
    };
    assert_eq!(send(&owner, "POST", "/v1/projects/p/models", &json!({"name": "m"})).0, 200);
    let versions = format!("{MODEL}/versions");
    let elsewhere = json!({"name": "v0", "deploymentUri": "/etc", "runtimeVersion": "2.11"});
    let (status, answer) = send(&owner, "POST", &versions, &elsewhere);
    assert_eq!(
        (status, answer["error"]["message"].as_str().unwrap().contains("is not allowed on this server")),
        (400, true)
    );
    let (status, mut operation) = send(&owner, "POST", &versions, &version(&folder));
    assert_eq!(status, 200, "{operation}");
    while operation["done"] != json!(true) {
        let path = format!("/v1/{}", operation["name"].as_str().unwrap());
        operation = send(&owner, "GET", &path, &Value::Null).1;
    }
    let (predict, rows) = (format!("{MODEL}:predict"), json!({"instances": [[6.7, 3.1, 4.7, 1.5]]}));
    assert_eq!(send(&owner, "POST", &predict, &rows), (200, json!({"predictions": [1]})));
    let (status, answer) = send(&stranger, "POST", &predict, &rows);
    let denied = "permission ml.models.predict is denied on projects/p/models/m (or it does not exist)";
    assert_eq!((status, &answer["error"]["message"]), (403, &json!(denied)));
    let batch = |token: &str, input: &Path, output: &Path| {
        let input = json!({
            "modelName": "projects/p/models/m", "dataFormat": "JSON", "inputPaths": [input], "outputPath": output, "region": "r",
        });
        let (status, answer) =
            send(token, "POST", "/v1/projects/p/jobs", &json!({"jobId": "batch", "predictionInput": input}));
        (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    let (inside, outside) = (folder.join("rows.json"), Path::new("/etc/passwd"));
    for (input, output) in [(outside, folder.as_path()), (inside.as_path(), Path::new("/etc/predicted"))] {
        let (status, message) = batch(&owner, input, output);
        assert!(status == 400 && message.contains("is not allowed on this server"), "{message}");
    }
    assert_eq!(batch(&stranger, &inside, &folder).0, 403);
    let bindings = json!([
        {"role": "roles/ml.modelOwner", "members": ["user:ada"]},
        {"role": "roles/ml.modelUser", "members": ["user:bob"]},
    ]);
    let (status, policy) =
        send(&owner, "POST", &format!("{MODEL}:setIamPolicy"), &json!({"policy": {"bindings": bindings}}));
    assert_eq!(status, 200, "{policy}");
    assert_eq!(send(&stranger, "POST", &predict, &rows), (200, json!({"predictions": [1]})));
    assert_eq!(send(&stranger, "DELETE", &format!("{versions}/v1"), &Value::Null).0, 403);
    let tested = json!({"permissions": ["ml.models.predict", "ml.versions.delete"]});
    let (_, may) = send(&stranger, "POST", &format!("{MODEL}:testIamPermissions"), &tested);
    assert_eq!(may, json!({"permissions": ["ml.models.predict"]}));
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    assert!(
        audit.contains("\"ml.projects.models.versions.create\"") && !audit.contains("ml.projects.predict"),
        "{audit}"
    );
}

fn local(workspace: &Workspace, args: &[&str], input: &str) -> Finished {
    let python = interpreter(&MODEL_PACKAGES);
    let mut command = workspace.command();
    command.args(["local", "predict", "--python"]).arg(python).args(args).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    finished(child.wait_with_output().unwrap())
}

#[test]
fn local_prediction_uses_the_loader_of_the_server() {
    let workspace = Workspace::new("");
    train(&workspace.path().join("model"));
    let instances = "[6.7, 3.1, 4.7, 1.5]\n[4.6, 3.1, 1.5, 0.2]\n";
    let args = ["--model-dir", "model", "--framework", "scikit-learn", "--json-instances", "-"];
    assert_eq!(local(&workspace, &args, instances).expect(0).stdout, "1\n0\n");
    let args = ["--model-dir", "model", "--json-request", "-", "--response"];
    let whole = local(&workspace, &args, &format!("{{\"instances\": {ROWS}}}")).expect(0).stdout;
    assert_eq!(whole, "{\"predictions\": [1, 0]}\n");
    let args = ["--model-dir", "model", "--framework", "tensorflow", "--text-instances", "-"];
    let refused = local(&workspace, &args, "a\n").expect(2).stderr;
    assert!(
        refused.contains("TensorFlow models are not supported: serve the model from a custom prediction"),
        "{refused}"
    );
    let code = "class Model:\n    @classmethod\n    def from_path(cls, d): return cls()\n    \
                def predict(self, instances, **options): return [[i, options] for i in instances]\n";
    workspace.write("echo.py", code);
    let args =
        ["--model-dir", "model", "--prediction-class", "echo.Model", "--text-instances", "-", "--signature-name", "s"];
    let echoed = local(&workspace, &args, "a, b\n").expect(0).stdout;
    assert_eq!(echoed, "[\"a, b\", {\"signature_name\": \"s\"}]\n");
}

/// Trains a model below `--job-dir`, better with a larger `--c`.
const TRAINER: &str = "
import argparse, os, joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
import hypertune
parser = argparse.ArgumentParser()
parser.add_argument('--job-dir')
parser.add_argument('--c', type=float)
args = parser.parse_args()
X, y = load_iris(return_X_y=True)
model = LogisticRegression(C=args.c, max_iter=2000).fit(X, y)
os.makedirs(args.job_dir + '/model')
joblib.dump(model, args.job_dir + '/model/model.joblib')
print('accuracy=%f' % model.score(X, y), flush=True)
";

#[test]
fn best_trial_of_a_job_becomes_a_version() {
    let workspace = Workspace::new("");
    let server = server(&workspace, &[]);
    workspace.write("trainer.py", &TRAINER.replace("import hypertune\n", ""));
    let python = interpreter(&MODEL_PACKAGES);
    let job = json!({"jobId": "iris_1", "trainingInput": {
        "masterConfig": {"containerCommand": [python, workspace.path().join("trainer.py")]},
        "runtimeVersion": "2.11",
        "jobDir": workspace.path().join("output"),
        "hyperparameters": {
            "goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxTrials": 2, "algorithm": "GRID_SEARCH",
            "params": [{"parameterName": "c", "type": "DISCRETE", "discreteValues": [0.001, 10]}],
        },
        "tunesmith": {"metricFromStdout": true},
    }});
    let (status, answer) = server.post("/v1/projects/p/jobs", &job);
    assert_eq!(status, 200, "{answer}");
    let ended = server.until("/v1/projects/p/jobs/iris_1", "SUCCEEDED");
    let best = &ended["trainingOutput"]["trials"][0];
    assert_eq!(best["hyperparameters"]["c"], "10", "{ended}");
    let cli = |args: &[&str]| {
        let mut command: Command = workspace.command();
        let address = format!("http://{}", server.address);
        finished(command.args(args).args(["--server", &address, "--project", "p"]).output().unwrap())
    };
    let runs = ["models", "create", "iris", "--from-job", "iris_1", "--version", "best"];
    let created = cli(&runs).expect(0);
    assert_eq!(created.stdout, "best  READY, the default\n", "{}", created.stderr);
    let number = best["trialId"].as_str().unwrap();
    // Two results are too few for a model of them.
    let second = ["models", "create", "second", "--from-job", "iris_1", "--version", "v1", "--trial", "recommended"];
    let few = cli(&second);
    assert_eq!(few.code, Some(2), "{}", few.stdout);
    assert!(few.stderr.contains("\"accuracy\" was measured at 2 different points, and 5 are needed"), "{}", few.stderr);
    assert_eq!(cli(&["models", "describe", "second"]).code, Some(2));
    let (_, version) = server.get("/v1/projects/p/models/iris/versions/best");
    let folder: PathBuf = workspace.path().join("output").join(number).join("model");
    assert_eq!(version["deploymentUri"], json!(folder.canonicalize().unwrap()), "{version}");
    workspace.write("rows.json", "[6.7, 3.1, 4.7, 1.5]\n[4.6, 3.1, 1.5, 0.2]\n");
    let predicted = cli(&["predict", "--model", "iris", "--json-instances", "rows.json"]).expect(0);
    assert_eq!(predicted.stdout, "1\n0\n");
    let listed = cli(&["models", "list"]).expect(0).stdout;
    assert!(listed.contains("iris  best") || listed.contains("iris") && listed.contains("best"), "{listed}");
    let refused = cli(&["models", "create", "other", "--from-job", "iris_1", "--trial", "9"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert_eq!(cli(&["models", "describe", "other"]).code, Some(2));
    cli(&["versions", "delete", "best", "--model", "iris"]).expect(0);
    cli(&["models", "delete", "iris"]).expect(0);
}
