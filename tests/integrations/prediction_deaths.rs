//! Creations and deletions of versions that are cancelled, or whose server is killed.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, processes_with, write_wheel};

use crate::prediction::{MODEL, configure, deploy, server};

/// A load that does not end if the files have `slow`, and a prediction of `slow` that does not end either.
const PROBE: &str = "
import os, time
class Model:
    @classmethod
    def from_path(cls, folder):
        if os.path.exists(folder + '/slow'):
            time.sleep(600)
        model = cls()
        model.folder = folder
        return model
    def predict(self, instances, **options):
        if instances == ['slow']:
            print('predicting', flush=True)
            time.sleep(600)
        return instances
";

const VERSIONS: &str = "/v1/projects/p/models/m/versions";

/// The version `name`, with a load that does not end if `is_slow`.
fn version(workspace: &Workspace, name: &str, is_slow: bool) -> Value {
    let wheel = workspace.path().join("probe-1.0-py3-none-any.whl");
    if !wheel.exists() {
        write_wheel(&wheel, PROBE);
    }
    let folder = workspace.path().join(if is_slow { "slow" } else { "fast" });
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(if is_slow { "slow" } else { "weights" }), "1").unwrap();
    json!({"name": name, "deploymentUri": folder, "packageUris": [wheel], "predictionClass": "probe.Model",
        "runtimeVersion": "2.11"})
}

/// Sends a request, whose response is not read.
fn send(server: &Server, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let length = body.len();
    let head = "host: localhost\r\ncontent-type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    stream
}

/// Begins a prediction that does not end, with the version `v1`.
fn predict_slowly(server: &Server) -> TcpStream {
    let stream = send(server, "POST", &format!("{VERSIONS}/v1:predict"), "{\"instances\": [\"slow\"]}");
    until(|| server.get(&format!("{VERSIONS}/v1:log")).1["text"].as_str().unwrap().contains("predicting"));
    stream
}

/// Begins the deletion of the version `v1`, which waits for a prediction.
fn delete_slowly(server: &Server) -> TcpStream {
    let stream = send(server, "DELETE", &format!("{VERSIONS}/v1"), "");
    until(|| server.get(&format!("{VERSIONS}/v1")).1["state"] == "DELETING");
    stream
}

/// Folders of versions below the data folder `data`.
fn version_folders(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("models/files/p")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn state(server: &Server, version: &str) -> Value {
    server.get(&format!("{VERSIONS}/{version}")).1["state"].clone()
}

fn status(server: &Server, path: &str) -> u16 {
    server.get(path).0
}

#[test]
fn deletion_whose_server_is_killed_is_finished_at_the_restart() {
    let workspace = Workspace::new("");
    let first = server(&workspace, &[]);
    deploy(&first, &version(&workspace, "v1", false));
    let data = workspace.path().join("data");
    let (_prediction, _deletion) = (predict_slowly(&first), delete_slowly(&first));
    assert_eq!(version_folders(&data).len(), 1);
    first.kill();
    let mut second = server(&workspace, &[]);
    until(|| status(&second, &format!("{VERSIONS}/v1")) == 404);
    assert_eq!(version_folders(&data), [] as [PathBuf; 0]);
    until(|| processes_with(&data.join("models").display().to_string()).is_empty());
    assert_eq!(second.get(MODEL).1["defaultVersion"], Value::Null);
    // Its name is free.
    let (_, operation) = second.post(VERSIONS, &version(&workspace, "v1", false));
    assert_eq!(second.wait(operation)["response"]["state"], "READY");
    assert_eq!(second.send("DELETE", &format!("{VERSIONS}/v1"), "", "").0, 200);
    // A model is deleted or not, and never in between.
    let mut deleted = 0;
    for round in 0..8 {
        let name = format!("model_{round}");
        assert_eq!(second.post("/v1/projects/p/models", &json!({"name": name})).0, 200);
        let path = format!("/v1/projects/p/models/{name}");
        let _deletion = send(&second, "DELETE", &path, "");
        if round % 2 == 1 {
            until(|| status(&second, &path) == 404);
        }
        second.kill();
        second = server(&workspace, &[]);
        let expected = if status(&second, &path) == 404 { 200 } else { 409 };
        assert_eq!(second.post("/v1/projects/p/models", &json!({"name": name})).0, expected);
        deleted += u32::from(expected == 200);
    }
    assert!(deleted >= 4, "{deleted}");
    assert_eq!(fs::read_dir(data.join("models/documents/models%2fp")).unwrap().count(), 9);
}

#[test]
fn any_server_cancels_creations_and_finishes_deletions() {
    let workspace = Workspace::new("");
    let config = configure(&workspace).display().to_string();
    let cluster = Cluster::start();
    let address = cluster.create_database("models");
    let data = |name: &str| workspace.path().join(name);
    let serve = |name: &str| Cluster::serve_in(&data(name), &address, &["--server-config", &config]);
    let loading = |name: &str| !processes_with(&data(name).join("models").display().to_string()).is_empty();
    let (first, second) = (serve("first"), serve("second"));
    assert_eq!(first.post("/v1/projects/p/models", &json!({"name": "m"})).0, 200);
    let create = |server: &Server, version: &Value| {
        let (status, operation) = server.post(VERSIONS, version);
        assert_eq!(status, 200, "{operation}");
        operation
    };
    let cancel = |server: &Server, operation: &Value| {
        let path = format!("/v1/{}:cancel", operation["name"].as_str().unwrap());
        assert_eq!(server.post(&path, &json!({})), (200, json!({})));
        let ended = server.wait(operation.clone());
        assert_eq!(ended["error"]["code"], 1, "{ended}");
        assert_eq!(ended["metadata"]["isCancellationRequested"], true, "{ended}");
    };

    // Another server runs it.
    let operation = create(&first, &version(&workspace, "v1", true));
    until(|| loading("first"));
    cancel(&second, &operation);
    for server in [&first, &second] {
        assert_eq!(state(server, "v1"), "FAILED");
    }
    assert!(!loading("first"));
    assert_eq!(version_folders(&data("first")), [] as [PathBuf; 0]);
    assert_eq!(second.send("DELETE", &format!("{VERSIONS}/v1"), "", "").0, 200);

    // The server that ran it is dead.
    let operation = create(&first, &version(&workspace, "v2", true));
    until(|| loading("first"));
    first.kill();
    cancel(&second, &operation);
    assert_eq!(state(&second, "v2"), "FAILED");
    assert!(!loading("second"));
    assert_eq!(second.send("DELETE", &format!("{VERSIONS}/v2"), "", "").0, 200);
    assert_eq!(version_folders(&data("first")).len(), 1);
    let first = serve("first");
    until(|| version_folders(&data("first")).is_empty());

    // The server that deleted it is dead.
    let operation = create(&first, &version(&workspace, "v1", false));
    assert_eq!(second.wait(operation)["response"]["state"], "READY");
    let predicted = second.post(&format!("{MODEL}:predict"), &json!({"instances": ["x"]}));
    assert_eq!(predicted, (200, json!({"predictions": ["x"]})));
    let (_prediction, _deletion) = (predict_slowly(&first), delete_slowly(&first));
    // The other server finishes it while this one waits for its prediction, or dies.
    first.kill();
    until(|| status(&second, &format!("{VERSIONS}/v1")) == 404);
    assert_eq!(version_folders(&data("second")), [] as [PathBuf; 0]);
    assert_eq!(second.send("DELETE", MODEL, "", "").0, 200);
    let first = serve("first");
    until(|| version_folders(&data("first")).is_empty());
    assert_eq!(status(&first, MODEL), 404);
    let left = "SELECT count(*) FROM documents WHERE kind = 'model-files' OR kind LIKE 'models/%'";
    assert_eq!(cluster.query("models", left), "0");
    until(|| !loading("first") && !loading("second"));
}

/// Models in the test of polls.
const MODELS: usize = 1000;

#[test]
fn pages_of_many_models_read_only_what_has_changed() {
    let cluster = Cluster::with_options(&["fsync=off", "log_statement=all", "log_line_prefix="]);
    let address = cluster.create_database("models");
    let workspace = Workspace::new("");
    let serve = |name: &str| Cluster::serve_in(&workspace.path().join(name), &address, &[]);
    let first = serve("first");
    assert_eq!(first.post("/v1/projects/p/models", &json!({"name": "a"})).0, 200);
    let copies = format!(
        "INSERT INTO documents (kind, name, part, body) SELECT kind, 'm' || number, 0,
         convert_to(replace(convert_from(body, 'UTF8'), '\"name\":\"a\"', '\"name\":\"m' || number || '\"'), 'UTF8')
         FROM documents, generate_series(2, {MODELS}) number WHERE kind = 'models/p'"
    );
    cluster.query("models", &copies);
    let page = |server: &Server, text: &str| until(|| server.text("GET", "/console/models").1.contains(text));
    page(&first, " of 1,000;");
    let second = serve("second");
    page(&second, " of 1,000;");
    let before = cluster.statements().len();
    let change = json!({"description": "changed elsewhere"}).to_string();
    let path = "/v1/projects/p/models/m7?updateMask=description";
    assert_eq!(first.send("PATCH", path, "content-type: application/json\r\n", &change).0, 200);
    until(|| second.text("GET", "/console/models?filter=description%3Achanged*").1.contains("1–1 of 1;"));
    let statements = cluster.statements().split_off(before);
    let count = |begin: &str| statements.iter().filter(|sql| sql.starts_with(begin)).count();
    assert_eq!(count("SELECT name, body FROM documents"), 0, "pages of models are read: {statements:#?}");
    assert!(count("SELECT '', '', ''::bytea, count(*)") > 0, "{statements:#?}");
    // Deleted models are missing in the next read.
    assert_eq!(first.send("DELETE", "/v1/projects/p/models/m8", "", "").0, 200);
    page(&first, " of 999;");
    page(&second, " of 999;");
}
