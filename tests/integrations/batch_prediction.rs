//! Batch predictions: the published client, and what happens when workers and servers are killed.

use std::fs;
use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::python::{MODEL_PACKAGES, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

use crate::prediction::{deploy, server, train, version, workers};

pub(crate) const JOBS: &str = "/v1/projects/p/jobs";

/// Rows of the iris data set of the classes 0, 1 and 2.
const ROWS: [&str; 3] = ["4.6, 3.1, 1.5, 0.2", "6.7, 3.1, 4.7, 1.5", "6.3, 3.3, 6.0, 2.5"];

/// Instances, three of each kind in turn, padded with spaces so that they fill several shards.
pub(crate) const INSTANCES: usize = 9_000;

pub(crate) fn instances() -> String {
    let line = |index: usize| format!("[{}{}]\n", ROWS[index % 3], " ".repeat(1000));
    (0..INSTANCES).map(line).collect()
}

pub(crate) fn input(workspace: &Workspace, more: &Value) -> Value {
    let mut input = json!({
        "modelName": "projects/p/models/m",
        "dataFormat": "JSON",
        "inputPaths": [workspace.path().join("rows.json")],
        "outputPath": workspace.path().join("predicted"),
        "region": "us-central1",
    });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

/// The lines of the files of `folder` whose names begin with `prefix`, in the order of the names.
pub(crate) fn lines(folder: &Path, prefix: &str) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    names.sort();
    let texts: Vec<String> = names.into_iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

#[test]
fn published_client_drives_batch_predictions() {
    let workspace = Workspace::new("");
    let server = server(&workspace, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients/batch_predictions.py");
    let mut client = program(interpreter(&MODEL_PACKAGES));
    client.arg(script).arg(format!("http://{}", server.address)).arg(workspace.path());
    let run = finished(client.output().unwrap()).expect(0);
    assert!(run.stdout.ends_with("all steps passed\n"), "{}", run.stdout);
}

#[test]
fn each_instance_is_predicted_once_although_workers_and_the_server_are_killed() {
    let workspace = Workspace::new("");
    let folder = workspace.path().join("model");
    train(&folder);
    workspace.write("rows.json", &instances());
    let first = server(&workspace, &[]);
    deploy(&first, &version(&folder));
    let job = json!({"jobId": "rows", "predictionInput": input(&workspace, &json!({"batchSize": "2", "maxWorkerCount": "1"}))});
    let (status, created) = first.post(JOBS, &job);
    assert_eq!(status, 200, "{created}");
    let predicted = workspace.path().join("predicted");
    let finished_shards = || finished_shards(&predicted);
    until(|| finished_shards() > 0);
    first.kill();
    let before = finished_shards();
    let second = Server::start(&workspace, &["--server-config", "server.yaml"]);
    let path = format!("{JOBS}/rows");
    until(|| finished_shards() > before);
    let state = second.get(&path).1["state"].clone();
    assert_eq!(state, "RUNNING", "the job is killed before its end");
    for worker in workers(&workspace) {
        // It may have ended.
        let _ = kill_process(worker, Signal::KILL);
    }
    expect_all(&second.until_ended(&path), &predicted);
}

/// Number of result files in `folder`.
pub(crate) fn finished_shards(folder: &Path) -> usize {
    let is_complete = |path: &fs::DirEntry| path.file_name().to_str().unwrap().starts_with("prediction.results-");
    fs::read_dir(folder).into_iter().flatten().flatten().filter(is_complete).count()
}

/// Checks that the ended job has predicted each of [`instances`] once.
pub(crate) fn expect_all(ended: &Value, predicted: &Path) {
    assert_eq!(ended["state"], "SUCCEEDED", "{ended}");
    let output = &ended["predictionOutput"];
    assert_eq!(
        (&output["predictionCount"], &output["errorCount"]),
        (&json!(INSTANCES.to_string()), &json!("0")),
        "{ended}"
    );
    let expected: Vec<String> = (0..INSTANCES).map(|index| (index % 3).to_string()).collect();
    assert_eq!(lines(predicted, "prediction.results-"), expected);
    assert_eq!(lines(predicted, "prediction.errors-"), Vec::<String>::new());
}

#[test]
fn job_is_refused_or_fails_with_the_reason() {
    let workspace = Workspace::new("");
    let place = workspace.path().join("files");
    let folder = place.join("model");
    train(&folder);
    let server = server(&workspace, &[]);
    deploy(&server, &version(&folder));
    let refused = |more: Value, expected: &str| {
        let mut input =
            input(&workspace, &json!({"inputPaths": [place.join("rows.json")], "outputPath": place.join("predicted")}));
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let job = json!({"jobId": "refused", "predictionInput": input});
        let (status, error) = server.post(JOBS, &job);
        assert!((400..500).contains(&status), "{error}");
        assert!(error["error"].to_string().contains(expected), "{error}");
        assert_eq!(server.get(&format!("{JOBS}/refused")).0, 404);
    };
    refused(json!({"inputPaths": ["rows.json"]}), "predictionInput.inputPaths[0]");
    refused(json!({"modelName": "projects/p/models/none"}), "projects/p/models/none");
    refused(json!({"dataFormat": "TF_RECORD"}), "TF_RECORD");
    refused(json!({"batchSize": "0"}), "predictionInput.batchSize");
    let missing = place.join("missing.json");
    let job = json!({"jobId": "missing", "predictionInput": input(&workspace, &json!({"inputPaths": [missing], "outputPath": place.join("predicted")}))});
    assert_eq!(server.post(JOBS, &job).0, 200);
    let failed = found(|| Some(server.get(&format!("{JOBS}/missing")).1).filter(|job| job["endTime"].is_string()));
    assert_eq!(failed["state"], "FAILED", "{failed}");
    assert!(failed["errorMessage"].as_str().unwrap().contains("missing.json"), "{failed}");
}
