//! Exports of servers on one database.

use serde_json::{Value, json};
use tempfile::TempDir;
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;

use super::{Runs, free_address, mlflow};

#[test]
fn server_that_takes_over_a_job_goes_on_with_its_export() {
    let folder = TempDir::new().unwrap();
    let mlflow = mlflow(folder.path(), free_address());
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    // The address of MLflow is that of the job.
    let serve =
        |name: &str| Cluster::serve_in(&workspace.path().join(name), &address, &["--allow-private-package-addresses"]);
    let script = format!(
        "echo loss=1 step=1; until [ -e {}/go ]; do sleep 0.1; done; echo loss=0.5 step=2",
        workspace.path().display()
    );
    let submitted = json!({"jobId": "j", "trainingInput": {
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {
            "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 2, "maxParallelTrials": 2,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
        },
        "tunesmith": {
            "metricFromStdout": true,
            "mlflow": {"trackingUri": format!("http://{}", mlflow.address)},
        },
    }});
    let (first, second) = (serve("first"), serve("second"));
    assert_eq!(first.post("/v1/projects/p/jobs", &submitted).0, 200);
    let job = "/v1/projects/p/jobs/j";
    // The experiment is the project.
    until(|| {
        let Runs(runs) = Runs::of(&mlflow, "p");
        runs.len() == 3 && runs[1..].iter().all(|run| run["curves"]["loss"] == json!([[1, 1.0]]))
    });
    let runs = Runs::of(&mlflow, "p");
    let export = |server: &tunesmith_testing::server::Server| server.get(job).1["tunesmith"]["mlflow"].clone();
    for server in [&first, &second] {
        until(|| export(server)["runId"] == runs.parent()["info"]["run_id"]);
        assert_eq!(export(server)["state"], "FOLLOWING");
    }
    let owner =
        ["first", "second"].into_iter().find(|name| workspace.path().join(name).join("projects/p/jobs/j").is_dir());
    let (dead, alive) = if owner == Some("first") { (first, second) } else { (second, first) };
    dead.kill();
    workspace.write("go", "");
    assert_eq!(alive.until_ended(job)["state"], "SUCCEEDED");
    until(|| export(&alive)["state"] == "COMPLETE");
    let after = Runs::of(&mlflow, "p");
    assert_eq!((after.0.len(), &after.parent()["info"]), (3, &with_end(&runs, &after)));
    for trial in [1, 2] {
        let (before, run) = (runs.trial(trial), after.trial(trial));
        assert_eq!((&run["info"]["run_id"], &run["info"]["status"]), (&before["info"]["run_id"], &json!("FINISHED")));
        assert_eq!(run["tags"]["tunesmith.attempt"], "2");
        let points = run["curves"]["loss"].as_array().unwrap();
        assert_eq!(points.last(), Some(&json!([2, 0.5])), "{run}");
    }
}

/// The parent of `before`, as it is after its end.
fn with_end(before: &Runs, after: &Runs) -> Value {
    let mut info = before.parent()["info"].clone();
    info["status"] = json!("FINISHED");
    info["end_time"] = after.parent()["info"]["end_time"].clone();
    info
}
