//! Any server on a database takes the reports of a trial's program, and a deleted job leaves no folder on any of them.

use serde_json::{Value, json};

use crate::postgres_cluster::Cluster;
use crate::server::Server;
use crate::support::Workspace;

const JOBS: &str = "/v1/projects/p/jobs";

/// The number of the trial whose program reports nothing by itself and runs until it is stopped.
const SILENT: u32 = 7;

/// [`SILENT`] as a resource names it.
const SILENT_ID: &str = "7";

/// A job with early stopping of trials with good results, the last of which writes its name and token to `access` and waits.
fn job(workspace: &Workspace) -> Value {
    let folder = workspace.path().display();
    let script = format!(
        "if [ \"$1\" = --x={SILENT} ]; then\n\
         printf '%s\\n%s\\n' \"$TUNESMITH_TRIAL\" \"$TUNESMITH_TOKEN\" > {folder}/access.new\n\
         mv {folder}/access.new {folder}/access; exec tail -f /dev/null; fi\n\
         for step in 1 2 3 4 5 6 7 8 9 10; do echo \"acc=0.9 step=$step\"; done"
    );
    json!({"jobId": "j", "trainingInput": {
        "masterConfig": {"containerCommand": ["sh", "-c", script, "sh"]},
        "hyperparameters": {
            "goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": SILENT, "maxParallelTrials": 1,
            "algorithm": "GRID_SEARCH", "enableTrialEarlyStopping": true,
            "params": [{"parameterName": "x", "type": "INTEGER", "minValue": 1, "maxValue": SILENT}],
        },
        "tunesmith": {"metricFromStdout": true},
    }})
}

fn measurement(step: u32, value: f64) -> String {
    let metrics = json!([{"metric": "acc", "value": value}]);
    json!({"measurement": {"stepCount": step.to_string(), "metrics": metrics}}).to_string()
}

fn send(server: &Server, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
    server.send(method, path, &headers, body)
}

#[test]
fn reports_to_another_server_reach_the_one_that_runs_the_trial() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let folder = |name: &str| workspace.path().join(name);
    let runner = Cluster::serve_in(&folder("first"), &address, &[]);
    assert_eq!(runner.post(JOBS, &job(&workspace)).0, 200);
    let path = format!("{JOBS}/j");
    while !folder("access").exists() {
        assert!(runner.get(&path).1["endTime"].is_null());
    }
    let other = Cluster::serve_in(&folder("second"), &address, &[]);
    let access = std::fs::read_to_string(folder("access")).unwrap();
    let (trial, token) = access.trim().split_once('\n').unwrap();
    let trial = format!("/v1/{trial}");
    let report = format!("{trial}:addMeasurement");
    let (status, answer) = send(&other, "POST", &report, "wrong", &measurement(1, 0.1));
    assert_eq!((status, &answer["error"]["status"]), (401, &json!("UNAUTHENTICATED")), "{answer}");
    let (status, answer) = send(&other, "GET", &trial, token, "");
    assert_eq!((status, &answer["state"]), (200, &json!("ACTIVE")), "{answer}");
    // An agent sends its reports to the server that runs the job, because the files are there.
    let sync = format!("{path}/runs/trial-{SILENT}.attempt-1:sync");
    let (status, answer) = send(&other, "POST", &sync, token, "{}");
    assert_eq!((status, &answer["error"]["status"]), (503, &json!("UNAVAILABLE")), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("is not of this server: its job is run by"), "{message}");
    assert!(message.contains("first; send the report to that server"), "{message}");
    let (status, answer) = send(&other, "POST", &format!("{path}/runs/trial-{SILENT}.attempt-2:sync"), token, "{}");
    assert_eq!(status, 401, "{answer}");
    // The rule of early stopping is applied where the trial runs.
    for step in 1..=10 {
        let server = if step == 4 { &runner } else { &other };
        let (status, answer) = send(server, "POST", &report, token, &measurement(step, 0.01 * f64::from(step)));
        // It has been stopped.
        let is_over = (status, &answer["error"]["status"]) == (400, &json!("FAILED_PRECONDITION"));
        assert!(status == 200 || is_over, "{status}: {answer}");
    }
    let ended = runner.until(&path, "SUCCEEDED");
    let trials = ended["trainingOutput"]["trials"].as_array().unwrap();
    let last = trials.iter().find(|trial| trial["trialId"] == SILENT_ID).unwrap();
    assert_eq!(last["isTrialStoppedEarly"], true, "{last}");
    assert!(last["finalMetric"]["objectiveValue"].as_f64().unwrap() <= 0.1, "{last}");
    let (status, answer) = send(&other, "POST", &report, token, &measurement(11, 0.2));
    assert_eq!((status, &answer["error"]["status"]), (400, &json!("FAILED_PRECONDITION")), "{answer}");
}

#[test]
fn folder_of_a_job_that_another_server_deletes_is_removed() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let folder = |name: &str| workspace.path().join(name);
    let a = Cluster::serve_in(&folder("first"), &address, &[]);
    let mut short = job(&workspace);
    short["trainingInput"]["hyperparameters"]["maxTrials"] = json!(2);
    assert_eq!(a.post(JOBS, &short).0, 200);
    let path = format!("{JOBS}/j");
    a.until(&path, "SUCCEEDED");
    let files = folder("first").join("projects/p/jobs/j");
    assert!(files.join("trials").is_dir());
    let b = Cluster::serve_in(&folder("second"), &address, &[]);
    assert_eq!(b.send("DELETE", &path, "", "").0, 200);
    while files.exists() {
        assert_eq!(a.get("/readyz").0, 200);
    }
    while cluster.query("tuning", "SELECT count(*) FROM job_folders") != "0" {}
    // A server that did not run when the job was deleted removes its folder when it runs a new job of that name, at the latest.
    assert_eq!(a.post(JOBS, &short).0, 200);
    a.until(&path, "SUCCEEDED");
    let is_on_a = files.exists();
    let (owner, other) = if is_on_a { (a, b) } else { (b, a) };
    let files = folder(if is_on_a { "first" } else { "second" }).join("projects/p/jobs/j");
    std::fs::write(files.join("of-the-former"), "").unwrap();
    owner.kill();
    while cluster.query("tuning", "SELECT count(*) FROM claims WHERE until > now()") != "0" {}
    assert_eq!(other.send("DELETE", &path, "", "").0, 200);
    drop(other);
    assert!(files.join("of-the-former").exists());
    let again = Cluster::serve_in(&folder(if is_on_a { "first" } else { "second" }), &address, &[]);
    assert_eq!(again.post(JOBS, &short).0, 200);
    again.until(&path, "SUCCEEDED");
    assert!(files.join("trials").is_dir());
    assert!(!files.join("of-the-former").exists());
}
