//! Models in the stores of several servers, and copies of stores with models.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

use crate::batch_prediction::{JOBS, expect_all, finished_shards, input, instances};
use crate::prediction::{MODEL, configure, deploy, predict, train, version};

fn expected() -> (u16, Value) {
    (200, json!({"predictions": [1, 0]}))
}

/// Versions, defaults and operations of a model, which every server must know.
fn facts(server: &Server) -> Value {
    let (status, models) = server.get("/v1/projects/p/models");
    assert_eq!(status, 200, "{models}");
    let mut facts = vec![models["models"][0]["defaultVersion"]["name"].clone()];
    let (_, versions) = server.get(&format!("{MODEL}/versions"));
    for version in versions["versions"].as_array().into_iter().flatten() {
        facts.push(json!([version["name"], version["state"], version["createTime"], version["deploymentUri"]]));
    }
    let (_, operations) = server.get("/v1/projects/p/operations");
    for operation in operations["operations"].as_array().into_iter().flatten() {
        facts.push(json!([operation["name"], operation["done"], operation["metadata"]["endTime"]]));
    }
    json!(facts)
}

#[test]
fn every_server_serves_the_models_and_continues_the_batch_of_a_killed_one() {
    let workspace = Workspace::new("");
    let folder = workspace.path().join("model");
    train(&folder);
    workspace.write("rows.json", &instances());
    let config = configure(&workspace).display().to_string();
    let cluster = Cluster::start();
    let address = cluster.create_database("models");
    let serve = |name: &str| Cluster::serve_in(&workspace.path().join(name), &address, &["--server-config", &config]);
    let (first, second) = (serve("first"), serve("second"));
    deploy(&first, &version(&folder));
    // The files reach the other server through the database.
    fs::remove_dir_all(&folder).unwrap();
    for server in [&first, &second] {
        assert_eq!(predict(server), expected());
    }
    train(&folder);
    let mut another = version(&folder);
    another["name"] = json!("v2");
    let (status, operation) = second.post(&format!("{MODEL}/versions"), &another);
    assert_eq!(status, 200, "{operation}");
    // Any server answers for the operation.
    assert_eq!(first.wait(operation)["response"]["state"], "READY");
    assert_eq!(second.post(&format!("{MODEL}/versions/v2:setDefault"), &json!({})).0, 200);
    assert_eq!(facts(&first), facts(&second));
    assert_eq!(first.get(MODEL).1["defaultVersion"]["name"], "projects/p/models/m/versions/v2");
    let (status, deleted) = first.send("DELETE", &format!("{MODEL}/versions/v1"), "", "");
    assert_eq!((status, &deleted["done"]), (200, &json!(true)), "{deleted}");
    assert_eq!(second.get(&format!("{MODEL}/versions/v1")).0, 404);
    for server in [&first, &second] {
        assert_eq!(predict(server), expected());
    }

    let input = input(&workspace, &json!({"batchSize": "1", "maxWorkerCount": "1"}));
    let (status, created) = first.post(JOBS, &json!({"jobId": "rows", "predictionInput": input}));
    assert_eq!(status, 200, "{created}");
    let predicted = workspace.path().join("predicted");
    until(|| finished_shards(&predicted) > 0);
    let runs_on = |name: &&str| workspace.path().join(name).join("projects/p/jobs/rows").is_dir();
    let owner = ["first", "second"].into_iter().find(runs_on);
    let (dead, alive) = if owner == Some("first") { (first, second) } else { (second, first) };
    let path = format!("{JOBS}/rows");
    assert_eq!(alive.get(&path).1["state"], "RUNNING");
    dead.kill();
    expect_all(&alive.until_ended(&path), &predicted);
    assert_eq!(predict(&alive), expected());
}

/// Ends a server in an orderly way.
fn stop(server: Server) {
    server.signal(Signal::TERM);
    server.end();
}

#[test]
fn copied_stores_serve_the_models() {
    let workspace = Workspace::new("");
    let folder = workspace.path().join("model");
    train(&folder);
    let cluster = Cluster::start();
    let address = cluster.create_database("models");
    let config = configure(&workspace).display().to_string();
    let serve = |name: &str, store: &str| {
        let mut command = workspace.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--allow-unisolated-programs", "--data-dir", name]);
        command.args(["--store", store]);
        Server::start_command(command.args(["--server-config", &config]).env("PGPASSWORD", "right"))
    };
    let original = serve("a", "sqlite");
    deploy(&original, &version(&folder));
    let (facts_of_original, files) = (facts(&original), workspace.path().join("rows.json"));
    fs::write(files, "[6.7, 3.1, 4.7, 1.5]\n").unwrap();
    let job = json!({"jobId": "rows", "predictionInput": input(&workspace, &json!({}))});
    assert_eq!(original.post(JOBS, &job).0, 200);
    assert_eq!(original.until_ended(&format!("{JOBS}/rows"))["state"], "SUCCEEDED");
    stop(original);
    fs::remove_dir_all(&folder).unwrap();
    for (from, to, store) in [("a", "b", "sled"), ("b", "c", &*address), ("c", "d", "sqlite")] {
        let mut copy = workspace.command();
        copy.args(["store", "copy", from, to, "--store", store]).env("PGPASSWORD", "right");
        let shown = finished(copy.output().unwrap()).expect(0);
        assert!(shown.stdout.contains("\nModels: 1 with 1 versions and 1 operations.\n"), "{shown:?}");
        let server = serve(to, store);
        assert_eq!(facts(&server), facts_of_original, "{to}");
        assert_eq!(predict(&server), expected(), "{to}");
        stop(server);
        if to == "c" {
            // A server with a new data folder gets the files from the database, as does a copy of it.
            let another = Cluster::serve_in(&workspace.path().join("new"), &address, &["--server-config", &config]);
            assert_eq!(predict(&another), expected());
            stop(another);
            fs::remove_dir_all(workspace.path().join("c/models/files")).unwrap();
        }
    }
    let deleted = serve("d", "sqlite").send("DELETE", &format!("{MODEL}/versions/v1"), "", "");
    assert_eq!(deleted.0, 200, "{}", deleted.1);
    let left = fs::read_dir(workspace.path().join("d/models/documents/model-files")).unwrap().count();
    assert_eq!(left, 0, "the copied files are removed with the version");
}
