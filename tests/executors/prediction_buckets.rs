//! Models and batch predictions in buckets.

use std::fs;

use serde_json::{Value, json};
use tunesmith_testing::python::{MODEL_PACKAGES, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, program};

use crate::object_stores::Objects;

const MODEL: &str = "/v1/projects/p/models/m";
const JOBS: &str = "/v1/projects/p/jobs";

/// Fits a model of the iris data set, and writes it to the file of the argument.
const TRAINER: &str = "
import sys, joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
joblib.dump(LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True)), sys.argv[1])
";

fn create(server: &Server, name: &str, uri: &str) -> Value {
    let version = json!({
        "name": name, "deploymentUri": uri, "runtimeVersion": "2.11", "framework": "SCIKIT_LEARN",
    });
    let (status, operation) = server.post(&format!("{MODEL}/versions"), &version);
    assert_eq!(status, 200, "{operation}");
    server.wait(operation)
}

fn batch(server: &Server, id: &str, input: &str, output: &str) -> Value {
    let input = json!({
        "modelName": "projects/p/models/m", "dataFormat": "JSON", "inputPaths": [input], "outputPath": output,
        "region": "us-central1",
    });
    let (status, created) = server.post(JOBS, &json!({"jobId": id, "predictionInput": input}));
    assert_eq!(status, 200, "{created}");
    server.until_ended(&format!("{JOBS}/{id}"))
}

#[test]
fn model_and_instances_are_read_from_buckets_and_predictions_written_to_them() {
    let objects = Objects::start(false);
    let workspace = Workspace::new("");
    let python = interpreter(&MODEL_PACKAGES);
    let file = workspace.path().join("model.joblib");
    assert!(program(&python).args(["-c", TRAINER]).arg(&file).status().unwrap().success());
    workspace.write("server.yaml", &json!({"runtimeVersions": {"2.11": {"python": &python}}}).to_string());
    let mut command = workspace.command();
    command.envs(objects.variables()).args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.args(["--allow-unisolated-programs", "--server-config", "server.yaml"]);
    let server = Server::start_command(&mut command);
    assert_eq!(server.post("/v1/projects/p/models", &json!({"name": "m"})).0, 200);
    for scheme in ["s3", "gs"] {
        let place = format!("models/{scheme}");
        objects.put(&format!("{place}/model/model.joblib"), fs::read(&file).unwrap());
        objects.put(&format!("{place}/in/part-1.json"), "[6.7, 3.1, 4.7, 1.5]\n[1, 2]\n");
        objects.put(&format!("{place}/in/deep/part-2.json"), "[4.6, 3.1, 1.5, 0.2]\n");
        objects.put(&format!("{place}/in/other.txt"), "no instance\n");
        let operation = create(&server, scheme, &format!("{scheme}://{place}/model"));
        assert_eq!(operation["response"]["state"], "READY", "{operation}");
        let body = json!({"instances": [[6.7, 3.1, 4.7, 1.5]]});
        let predicted = server.post(&format!("{MODEL}/versions/{scheme}:predict"), &body);
        assert_eq!(predicted, (200, json!({"predictions": [1]})));

        let url = format!("{scheme}://{place}");
        let job = batch(&server, scheme, &format!("{url}/in/**/part-*.json"), &format!("{url}/out"));
        assert_eq!(job["state"], "SUCCEEDED", "{job}");
        let output = &job["predictionOutput"];
        assert_eq!((&output["predictionCount"], &output["errorCount"]), (&json!("2"), &json!("1")), "{job}");
        let read = |name: &str| objects.get(&format!("{place}/out/{name}"));
        // By name: `deep/part-2.json` comes first.
        assert_eq!(read("prediction.results-00000-of-00002"), "0\n");
        assert_eq!(read("prediction.results-00001-of-00002"), "1\n");
        let failed: Value = serde_json::from_str(&read("prediction.errors-00001-of-00002")).unwrap();
        assert_eq!((&failed["line"], &failed["file"]), (&json!("[1, 2]"), &json!(format!("{url}/in/part-1.json"))));
        let listed = objects.list(&format!("{scheme}/out"));
        assert!(listed.contains("<KeyCount>4</KeyCount>"), "{listed}");
        let again = batch(&server, &format!("{scheme}_again"), &format!("{url}/in/part-1.json"), &format!("{url}/out"));
        assert_eq!(again["state"], "FAILED", "{again}");
        let reason = again["errorMessage"].as_str().unwrap();
        assert!(reason.contains(&format!("{url}/out has the results of another batch prediction")), "{reason}");

        let absent = |what: &str| format!("{what} the bucket \"absent\" does not exist, or is in another region");
        let operation = create(&server, &format!("{scheme}_absent"), &format!("{scheme}://absent/model"));
        let message = operation["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(&absent(&format!("deploymentUri: {scheme}://absent/model cannot be listed:"))),
            "{message}"
        );
        let fails = |id: &str, input: &str, output: &str, expected: String| {
            let job = batch(&server, &format!("{scheme}_{id}"), input, output);
            let reason = job["errorMessage"].as_str().unwrap_or_default();
            assert!(job["state"] == "FAILED" && reason.contains(&expected), "{job}");
        };
        let (elsewhere, input) = (format!("{scheme}://absent/x"), format!("{url}/in/part-1.json"));
        let expected = absent(&format!("inputPaths: {scheme}://absent/x cannot be listed:"));
        fails("input", &elsewhere, &format!("{url}/out2"), expected);
        let expected = absent(&format!("outputPath: {scheme}://absent/x cannot be written:"));
        fails("output", &input, &elsewhere, expected);
        fails("none", &format!("{url}/none/*"), &format!("{url}/out2"), format!("{url}/none/* matches no file"));
    }
}
