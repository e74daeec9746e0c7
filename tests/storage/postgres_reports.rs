//! Any server on a database takes the reports of a trial's program, and a deleted job leaves no folder on any of them.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;

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
    until(|| {
        assert!(runner.get(&path).1["endTime"].is_null());
        folder("access").exists()
    });
    let other = Cluster::serve_in(&folder("second"), &address, &[]);
    let access = std::fs::read_to_string(folder("access")).unwrap();
    let (trial, token) = access.trim().split_once('\n').unwrap();
    let trial = format!("/v1/{trial}");
    let report = format!("{trial}:addMeasurement");
    let (status, answer) = send(&other, "POST", &report, "wrong", &measurement(1, 0.1));
    assert_eq!((status, &answer["error"]["status"]), (401, &json!("UNAUTHENTICATED")), "{answer}");
    let (status, answer) = send(&other, "GET", &trial, token, "");
    assert_eq!((status, &answer["state"]), (200, &json!("ACTIVE")), "{answer}");
    // The report of an agent is passed on. This attempt has none.
    let sync = format!("{path}/runs/trial-{SILENT}.attempt-1:sync");
    let (status, answer) = send(&other, "POST", &sync, token, "{}");
    assert_eq!((status, &answer["error"]["status"]), (400, &json!("FAILED_PRECONDITION")), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("is superseded: the server does not know it any more"), "{message}");
    let (status, answer) = send(&other, "POST", &format!("{path}/runs/trial-{SILENT}.attempt-2:sync"), token, "{}");
    assert_eq!(status, 401, "{answer}");
    // Packages for agents are with the server that runs the job, and are passed on in pieces.
    let package = "package ".repeat(700_000);
    let sha256 = "0123456789abcdef".repeat(4);
    let staged = folder("first").join("projects/p/jobs/j/packages").join(&sha256);
    std::fs::create_dir_all(&staged).unwrap();
    std::fs::write(staged.join("census-1.0.tar.gz"), &package).unwrap();
    let get = |sha256: &str, token: &str| {
        let path = format!("{path}/runs/trial-{SILENT}.attempt-1/packages/{sha256}/census-1.0.tar.gz");
        other.exchange("GET", &path, &format!("authorization: Bearer {token}\r\n"), "")
    };
    let (status, received) = get(&sha256, token);
    assert!(status == 200 && received == package, "{status}, {} bytes", received.len());
    assert_eq!(get(&sha256, "wrong").0, 401);
    assert_eq!(get(&"f".repeat(64), token).0, 404);
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
    until(|| {
        assert_eq!(a.get("/readyz").0, 200);
        !files.exists()
    });
    until(|| cluster.query("tuning", "SELECT count(*) FROM job_folders") == "0");
    // A server that did not run when the job was deleted removes its folder when it runs a new job of that name, at the latest.
    assert_eq!(a.post(JOBS, &short).0, 200);
    a.until(&path, "SUCCEEDED");
    let is_on_a = files.exists();
    let (owner, other) = if is_on_a { (a, b) } else { (b, a) };
    let files = folder(if is_on_a { "first" } else { "second" }).join("projects/p/jobs/j");
    std::fs::write(files.join("of-the-former"), "").unwrap();
    owner.kill();
    until(|| cluster.query("tuning", "SELECT count(*) FROM claims WHERE until > now()") == "0");
    assert_eq!(other.send("DELETE", &path, "", "").0, 200);
    drop(other);
    assert!(files.join("of-the-former").exists());
    let again = Cluster::serve_in(&folder(if is_on_a { "first" } else { "second" }), &address, &[]);
    assert_eq!(again.post(JOBS, &short).0, 200);
    again.until(&path, "SUCCEEDED");
    assert!(files.join("trials").is_dir());
    assert!(!files.join("of-the-former").exists());
}

/// The agent of a job reaches only another server than the one that runs the job, as behind a load balancer.
#[test]
fn agent_reports_through_any_server() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let folder = |name: &str| workspace.path().join(name);
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let balanced = format!("http://127.0.0.1:{port}");
    // Agents of this server reach the other one only.
    let more = ["--executor", "agent", "--public-url", &balanced];
    let runner = Cluster::serve_in(&folder("first"), &address, &more);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, folder("go"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let script = format!("echo acc=0.5; cat {}; echo late", folder("go").display());
    let input = json!({
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true}});
    assert_eq!(runner.post(JOBS, &json!({"jobId": "j", "trainingInput": input})).0, 200);
    let path = format!("{JOBS}/j");
    runner.until(&path, "RUNNING");
    let mut command = tunesmith_testing::program(env!("CARGO_BIN_EXE_tunesmith"));
    command.args([
        "serve",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--allow-unisolated-programs",
        "--job-lease",
        "3",
    ]);
    command.arg("--data-dir").arg(folder("second")).args(["--executor", "agent"]);
    command.env("TUNESMITH_STORE", &address).env_remove("TUNESMITH_LOG");
    let other = Server::start_command(&mut command);
    let log = format!("{path}/logs/trial-1.attempt-1.master-0.stdout");
    until(|| {
        assert!(runner.get(&path).1["endTime"].is_null());
        runner.get(&log).1["text"] == "acc=0.5\n"
    });
    assert_eq!(other.get(&log).0, 400, "the logs are with the server that runs the job");
    std::fs::write(folder("go"), "").unwrap();
    let ended = runner.until(&path, "SUCCEEDED");
    assert_eq!(ended["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"], 0.5, "{ended:#}");
    assert_eq!(runner.get(&log).1["text"], "acc=0.5\nlate\n");
    // What was answered is removed.
    until(|| cluster.query("tuning", "SELECT count(*) FROM relayed") == "0");
}
