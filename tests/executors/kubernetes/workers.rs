//! Models whose workers are pods of the cluster of this process: predictions, scaling, restarts, ends of the server.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::python::{MODEL_PACKAGES, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, program};

use super::InProcess;
use super::runs::kubeconfig;

const MODEL: &str = "/v1/projects/p/models/m";

/// Answers with its process ID for "pid", ends, waits for the file `go`, prints, or hangs for other words.
const WORDS: &str = "
import os, time
class Model:
    @classmethod
    def from_path(cls, folder):
        model = cls()
        model.folder = folder
        return model
    def predict(self, instances):
        return [self.answer(instance) for instance in instances]
    def answer(self, word):
        if word == 'pid':
            return os.getpid()
        if word == 'data':
            with open(os.path.join(self.folder, 'data.txt')) as file:
                return file.read()
        if word == 'token':
            return os.environ.get('TUNESMITH_WORKER_TOKEN')
        if word == 'print':
            print('printed by the model')
        if word == 'die':
            print('out of luck')
            os._exit(7)
        if word == 'hang':
            time.sleep(1000)
        if word.startswith('wait '):
            while not os.path.exists(word[5:]):
                time.sleep(0.01)
        return word
";

/// Writes a wheel with the module `sys.argv[2]`, whose text is `sys.argv[3]`.
const WHEEL: &str = "
import sys, zipfile
path, name, text = sys.argv[1:]
info = name + '-1.0.dist-info/'
with zipfile.ZipFile(path, 'w') as wheel:
    wheel.writestr(name + '.py', text)
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: ' + name + '\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', '')
";

/// Starts a server on the data folder `data` whose workers of models are pods of `place`.
pub(super) fn serve(place: &InProcess, workspace: &Workspace, more: &[&str]) -> Server {
    let config = json!({
        "prediction": {"executor": "kubernetes"},
        "kubernetes": {"configFile": kubeconfig(place, workspace)},
        "runtimeVersions": {"2.11": {"image": "models:1"}, "absent": {"image": "absent:1"},
            "invalid": {"image": "In Valid"}, "local": {"python": "/usr/bin/python3"}},
    });
    workspace.write("server.yaml", &config.to_string());
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--server-config", "server.yaml"]);
    Server::start_command(command.args(more))
}

/// A version of the routine `code`.
pub(super) fn routine(workspace: &Workspace, name: &str, code: &str) -> Value {
    let folder = workspace.path().join(format!("{name}-model"));
    fs::create_dir_all(folder.join("deep")).unwrap();
    fs::write(folder.join("data.txt"), "42").unwrap();
    fs::write(folder.join("deep/empty"), "").unwrap();
    let wheel = workspace.path().join(format!("{name}-1.0-py3-none-any.whl"));
    let made = program("python3").args(["-c", WHEEL]).arg(&wheel).args([name, code]).status().unwrap();
    assert!(made.success());
    json!({"name": "v1", "deploymentUri": folder, "runtimeVersion": "2.11", "packageUris": [wheel],
        "predictionClass": format!("{name}.Model"), "autoScaling": {"maxNodes": 2}})
}

/// Creates the model `m`, if it is missing, and the `version`. Returns the ended operation.
pub(super) fn create(server: &Server, version: &Value) -> Value {
    server.post("/v1/projects/p/models", &json!({"name": "m"}));
    let (status, operation) = server.post(&format!("{MODEL}/versions"), version);
    assert_eq!(status, 200, "{operation}");
    server.wait(operation)
}

pub(super) fn deploy(server: &Server, version: &Value) {
    let operation = create(server, version);
    assert_eq!(operation["response"]["state"], "READY", "{operation:#}");
}

pub(super) fn ask(server: &Server, instances: &Value) -> (u16, Value) {
    server.post(&format!("{MODEL}:predict"), &json!({"instances": instances}))
}

/// The answer to one word.
fn answer(server: &Server, word: &str) -> Value {
    let (status, answer) = ask(server, &json!([word]));
    assert_eq!(status, 200, "{answer}");
    answer["predictions"][0].clone()
}

/// Objects of the cluster that belong to workers.
pub(super) fn objects(place: &InProcess) -> usize {
    ["deployments", "secrets", "pods"].iter().map(|kind| place.api().all(kind).len()).sum()
}

fn replicas(place: &InProcess) -> Vec<u64> {
    place.api().view("deployments", |_, one| one["spec"]["replicas"].as_u64())
}

/// Runs the blocking `test` beside the cluster.
pub(super) fn blocking(test: impl FnOnce()) {
    tokio::task::block_in_place(test);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_of_scikit_learn_predicts_in_a_pod_and_scales_to_zero() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let folder = workspace.path().join("iris");
        fs::create_dir(&folder).unwrap();
        let script = "
import sys, joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
joblib.dump(LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True)), sys.argv[1] + '/model.joblib')
";
        let trained = program(interpreter(&MODEL_PACKAGES)).args(["-c", script]).arg(&folder).status().unwrap();
        assert!(trained.success());
        let server = serve(&place, &workspace, &["--prediction-idle-timeout", "1"]);
        let version = json!({"name": "v1", "deploymentUri": folder, "runtimeVersion": "2.11",
            "framework": "SCIKIT_LEARN", "machineType": "n1-standard-2"});
        deploy(&server, &version);
        let rows = json!([[6.7, 3.1, 4.7, 1.5], [4.6, 3.1, 1.5, 0.2]]);
        assert_eq!(ask(&server, &rows), (200, json!({"predictions": [1, 0]})));
        let made = place.api().created("pods");
        let pod = &made[0].1;
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["image"], "models:1");
        assert_eq!(container["resources"]["limits"]["memory"], (7_u64 << 30).to_string());
        assert!(container["env"].as_array().unwrap().contains(&json!({"name": "OMP_NUM_THREADS", "value": "2"})));
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
        assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/managed-by"], "tunesmith");
        // No container has a port.
        assert!(container["ports"].is_null());
        // Without requests, no pods remain; the next request starts one again.
        until(|| replicas(&place) == [0] && place.api().all("pods").is_empty());
        assert_eq!(ask(&server, &rows), (200, json!({"predictions": [1, 0]})));
        let failed = ask(&server, &json!([[1, 2]]));
        assert!(failed.0 == 200 && failed.1["error"].as_str().unwrap().contains("X has 2 features"), "{failed:?}");
        assert_eq!(server.send("DELETE", &format!("{MODEL}/versions/v1"), "", "").0, 200);
        until(|| objects(&place) == 0);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packages_and_files_come_from_the_server_and_output_is_read_from_the_pods() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        deploy(&server, &routine(&workspace, "words", WORDS));
        assert_eq!(answer(&server, "data"), "42");
        assert_eq!(answer(&server, "token"), Value::Null, "models do not see it");
        assert_eq!(answer(&server, "print"), "print");
        let (status, read) = server.get(&format!("{MODEL}/versions/v1:log"));
        let text = read["text"].as_str().unwrap();
        assert!(status == 200 && text.contains("printed by the model") && text.contains("==> ts-m-v1-"), "{read}");
        assert!(text.contains("Successfully installed words-1.0"), "{text}");
        // The archives are not installed on the server.
        let versions = fs::read_dir(workspace.path().join("data/models/files/p")).unwrap();
        let folders: Vec<std::path::PathBuf> = versions.map(|entry| entry.unwrap().path()).collect();
        assert!(folders.len() == 1 && folders[0].join("archives").exists() && !folders[0].join("packages").exists());
        // A response of some megabytes, and a request near the limit.
        let long = "x".repeat(1 << 20);
        let (status, reply) = ask(&server, &json!([long, long.len().to_string()]));
        assert_eq!((status, reply["predictions"][0].as_str().unwrap().len()), (200, 1 << 20));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_end_or_hang_are_replaced() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &["--prediction-timeout", "5"]);
        deploy(&server, &routine(&workspace, "words", WORDS));
        let first = answer(&server, "pid");
        // The request has the status and the last output; the kubelet starts the container again.
        let (status, died) = ask(&server, &json!(["die"]));
        let message = died["error"]["message"].as_str().unwrap();
        assert!(status == 503 && message.contains("exit code 7"), "{died}");
        assert!(message.contains("its last output: out of luck"), "{died}");
        assert_ne!(answer(&server, "pid"), first);
        let restarts = |_: &_, pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        assert_eq!(place.api().view("pods", restarts), [1]);
        // Its files and packages are still there.
        assert_eq!(answer(&server, "data"), "42");
        let pod = place.kubelet().signal_worker(Signal::KILL);
        assert_eq!(answer_in_time(&server, "data"), "42");
        // A process that hangs is removed with its pod.
        let (status, late) = ask(&server, &json!(["hang"]));
        assert!(status == 504, "{late}");
        assert_eq!(answer_in_time(&server, "data"), "42");
        until(|| place.api().all("pods").iter().all(|(key, _)| key.2 != pod));
        // A node that goes away.
        let pods = place.api().all("pods");
        place.api().change(&pods[0].0, |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into());
        assert_eq!(answer_in_time(&server, "data"), "42");
    });
}

/// The answer to one word, where a first request may meet the end of its worker.
fn answer_in_time(server: &Server, word: &str) -> Value {
    found(|| {
        let (status, answer) = ask(server, &json!([word]));
        assert!(status == 200 || status == 503, "{answer}");
        (status == 200).then(|| answer["predictions"][0].clone())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_added_while_requests_wait_and_busy_ones_stay() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &["--prediction-idle-timeout", "1"]);
        deploy(&server, &routine(&workspace, "words", WORDS));
        let go = |number: u32| workspace.path().join(format!("go-{number}"));
        std::thread::scope(|scope| {
            let ask = |number: u32| {
                let word = format!("wait {}", go(number).display());
                let server = &server;
                scope.spawn(move || answer(server, &word))
            };
            let both = [ask(0), ask(1)];
            until(|| replicas(&place) == [2]);
            let running = |_: &_, pod: &Value| (pod["status"]["phase"] == "Running").then_some(());
            until(|| place.api().view("pods", running).len() == 2);
            fs::write(go(1), "").unwrap();
            until(|| replicas(&place) == [1]);
            // The pod with the request is not removed.
            until(|| place.api().all("pods").len() == 1);
            fs::write(go(0), "").unwrap();
            for one in both {
                assert!(one.join().unwrap().as_str().unwrap().starts_with("wait "));
            }
        });
        // A constant number.
        let (status, changed) = server.send(
            "PATCH",
            &format!("{MODEL}/versions/v1?updateMask=autoScaling.minNodes"),
            "content-type: application/json\r\n",
            &json!({"autoScaling": {"minNodes": 2}}).to_string(),
        );
        assert_eq!(status, 200, "{changed}");
        until(|| replicas(&place) == [2]);
        assert_eq!(server.send("DELETE", &format!("{MODEL}/versions/v1"), "", "").0, 200);
        until(|| objects(&place) == 0);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_killed_server_are_removed_and_those_of_an_ending_one_too() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        deploy(&server, &routine(&workspace, "words", WORDS));
        let first = answer(&server, "pid");
        server.kill();
        assert_eq!(objects(&place), 3);
        let left = place.api().all("deployments")[0].0.2.clone();
        let server = serve(&place, &workspace, &[]);
        until(|| place.api().all("deployments").iter().all(|(key, _)| key.2 != left));
        assert_ne!(answer(&server, "pid"), first);
        until(|| objects(&place) == 3);
        server.signal(Signal::TERM);
        assert_eq!(server.end(), Some(0));
        until(|| objects(&place) == 0);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_prediction_runs_in_pods() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        deploy(&server, &routine(&workspace, "words", WORDS));
        let rows: String = (0..500).map(|number| format!("\"row {number}\"\n")).collect();
        workspace.write("rows.json", &rows);
        let output = workspace.path().join("predicted");
        let input = json!({"versionName": "projects/p/models/m/versions/v1", "dataFormat": "JSON", "region": "r",
            "inputPaths": [workspace.path().join("rows.json")], "outputPath": output});
        let (status, job) = server.post("/v1/projects/p/jobs", &json!({"jobId": "j", "predictionInput": input}));
        assert_eq!(status, 200, "{job}");
        let job = server.until_ended("/v1/projects/p/jobs/j");
        assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
        assert_eq!(job["predictionOutput"]["predictionCount"], "500", "{job:#}");
        assert_eq!(fs::read_to_string(first_results(&output)).unwrap(), rows);
        // The version keeps its own pods.
        until(|| place.api().all("deployments").len() == 1);
    });
}

fn first_results(folder: &Path) -> std::path::PathBuf {
    folder.join("prediction.results-00000-of-00001")
}
