//! Trials of jobs that their users stop and add, with real programs.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::client::client;
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;

const JOBS: &str = "/v1/projects/p/jobs";
const STUDIES: &str = "/v1/projects/p/locations/jobs/studies";

/// Writes its process ID and its arguments. Trial 1 reports and waits, trial 2 only waits; the others report.
const WAITS: &str = r#"echo $$ > "pid-$CLOUD_ML_TRIAL_ID"; echo "$@" > "args-$CLOUD_ML_TRIAL_ID"
case "$CLOUD_ML_TRIAL_ID" in
1) echo loss=0.5 step=7; exec tail -f /dev/null;;
2) exec tail -f /dev/null;;
*) echo loss=0.25 step=1;;
esac
"#;

/// Every trial writes its arguments, and trial 1 waits until the pipe `go` is opened.
const WAITS_FOR_PIPE: &str = r#"echo "$@" > "args-$CLOUD_ML_TRIAL_ID"
if [ "$CLOUD_ML_TRIAL_ID" = 1 ]; then cat go; fi
echo loss=0.25 step=1
"#;

fn job(id: &str, script: &Path, max_trials: u32) -> Value {
    json!({
        "jobId": id,
        "trainingInput": {
            "hyperparameters": {
                "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": max_trials, "maxFailedTrials": 1,
                "algorithm": "RANDOM_SEARCH",
                "params": [
                    {"parameterName": "optimizer", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]},
                    {"parameterName": "momentum", "type": "DOUBLE", "minValue": 0, "maxValue": 1},
                ],
            },
            "masterConfig": {"containerCommand": ["bash", script]},
            "tunesmith": {
                "metricFromStdout": true, "seed": 5,
                "conditions": [{"parameter": "momentum", "parent": "optimizer", "values": ["sgd"]}],
            },
        },
    })
}

/// Polls the trials of `job` until the one with this number satisfies `is_wanted`.
fn trial(server: &Server, job: &str, number: usize, is_wanted: impl Fn(&Value) -> bool) -> Value {
    found(|| {
        let (status, list) = server.get(&format!("{STUDIES}/{job}/trials"));
        assert_eq!(status, 200, "{list}");
        if let Some(trial) = list["trials"].get(number - 1).filter(|trial| is_wanted(trial)) {
            return Some(trial.clone());
        }
        let state = server.get(&format!("{JOBS}/{job}")).1;
        let is_over = list["trials"].get(number - 1).is_none_or(|trial| trial["state"] == "COMPLETED");
        assert!(state["endTime"].is_null() || !is_over, "the job has ended: {state}\n{list}");
        None
    })
}

fn refused(answer: (u16, Value), status: u16) -> String {
    assert_eq!(answer.0, status, "{}", answer.1);
    answer.1["error"]["message"].as_str().unwrap().to_owned()
}

/// Whether the program of a trial runs.
fn runs(workspace: &Workspace, trial: u32) -> bool {
    Path::new("/proc").join(workspace.read(&format!("pid-{trial}")).trim()).exists()
}

#[test]
fn stopped_trial_keeps_its_last_measurement_and_the_job_goes_on() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let script = workspace.write("train.sh", WAITS);
    assert_eq!(server.post(JOBS, &job("j", &script, 3)).0, 200);
    trial(&server, "j", 1, |trial| trial["measurements"][0]["metrics"][0]["value"] == 0.5);
    assert!(runs(&workspace, 1));
    let (status, stopping) = server.post(&format!("{JOBS}/j/trials/1:stop"), &json!({}));
    assert_eq!((status, &stopping["state"]), (200, &json!("STOPPING")), "{stopping}");
    let stopped = trial(&server, "j", 1, |trial| trial["state"] == "COMPLETED");
    assert!(!runs(&workspace, 1), "its program has ended");
    assert_eq!(stopped["finalMeasurement"]["metrics"][0]["value"], 0.5);
    assert_eq!((&stopped["trialInfeasible"], &stopped["tunesmith"]["stoppedEarly"]), (&Value::Null, &json!(true)));

    // One without a measurement is no failure, of which the job may not have any.
    trial(&server, "j", 2, |trial| trial["state"] == "ACTIVE");
    let address = format!("http://{}", server.address);
    let target = ["--server", address.as_str(), "--project", "p", "--format", "json"];
    let answer = client(&workspace, &["trials", "stop", "2", "--job", "j"], &target).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&answer.stdout).unwrap()["state"], "STOPPING");
    let silent = trial(&server, "j", 2, |trial| trial["state"] == "COMPLETED");
    assert_eq!((&silent["trialInfeasible"], &silent["tunesmith"]["stoppedEarly"]), (&json!(true), &json!(true)));
    let reason = "was stopped before it reported \"loss\"; no other metric was seen either";
    assert_eq!(silent["infeasibleReason"], reason);
    let job = server.until(&format!("{JOBS}/j"), "SUCCEEDED");
    let output = &job["trainingOutput"];
    assert_eq!(output["completedTrialCount"], "2", "{job}");
    assert_eq!(
        (&output["trials"][1]["trialId"], &output["trials"][1]["isTrialStoppedEarly"]),
        (&json!("1"), &json!(true))
    );

    // A trial that has ended stays as it is, and is not among the failed ones.
    let (status, same) = server.post(&format!("{JOBS}/j/trials/1:stop"), &json!({}));
    assert_eq!((status, &same["finalMeasurement"]), (200, &stopped["finalMeasurement"]));
    let nothing = refused(server.post(&format!("{JOBS}/j:retry"), &json!({})), 400);
    assert!(nothing.starts_with("job p/j has no failed trial to run again"), "{nothing}");
    assert!(refused(server.post(&format!("{JOBS}/j/trials/9:stop"), &json!({})), 404).starts_with("trial 9 of study"));
    let plain = json!({"jobId": "plain", "trainingInput": {"masterConfig": {"containerCommand": ["true"]}}});
    assert_eq!(server.post(JOBS, &plain).0, 200);
    let none = refused(server.post(&format!("{JOBS}/plain/trials/1:stop"), &json!({})), 400);
    assert_eq!(none, "job p/plain has no hyperparameters, and so no trials");
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    assert_eq!(audit.matches("tunesmith.projects.jobs.trials.stop").count(), 5, "{audit}");
}

#[test]
fn trial_that_was_stopped_before_its_next_attempt_does_not_run() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let script = "if [ ! -e input ]; then exit 3; fi; echo run >> \"runs-$CLOUD_ML_TRIAL_ID\"; \
                  if [ \"$CLOUD_ML_TRIAL_ID\" = 1 ]; then exec tail -f /dev/null; fi; echo loss=1 step=1";
    let script = workspace.write("train.sh", script);
    let mut job = job("j", &script, 3);
    job["trainingInput"]["hyperparameters"]["maxFailedTrials"] = json!(3);
    assert_eq!(server.post(JOBS, &job).0, 200);
    server.until(&format!("{JOBS}/j"), "FAILED");
    workspace.write("input", "");
    assert_eq!(server.post(&format!("{JOBS}/j:retry"), &json!({})).0, 200);
    until(|| workspace.path().join("runs-1").exists());
    // Trials 2 and 3 wait for a place.
    let (status, waiting) = server.post(&format!("{JOBS}/j/trials/2:stop"), &json!({}));
    assert_eq!((status, &waiting["state"]), (200, &json!("STOPPING")), "{waiting}");
    assert_eq!(server.post(&format!("{JOBS}/j/trials/1:stop"), &json!({})).0, 200);
    server.until(&format!("{JOBS}/j"), "SUCCEEDED");
    let ran = [1, 2, 3].map(|trial| workspace.path().join(format!("runs-{trial}")).exists());
    assert_eq!(ran, [true, false, true]);
    let stopped = trial(&server, "j", 2, |trial| trial["state"] == "COMPLETED");
    assert_eq!(stopped["tunesmith"]["stoppedEarly"], true, "{stopped}");
}

#[test]
fn added_trials_run_next_also_after_a_restart_and_count() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let script = workspace.write("train.sh", WAITS_FOR_PIPE);
    assert!(tunesmith_testing::program("mkfifo").arg(workspace.path().join("go")).status().unwrap().success());
    assert_eq!(server.post(JOBS, &job("j", &script, 4)).0, 200);
    trial(&server, "j", 1, |trial| trial["state"] == "ACTIVE");
    let sgd = |momentum: f64| {
        let optimizer = json!({"parameter": "optimizer", "stringValue": "sgd"});
        json!({"parameters": [optimizer, {"parameter": "momentum", "floatValue": momentum}]})
    };
    let add = |server: &Server, body: &Value| server.post(&format!("{JOBS}/j/trials"), body);

    // Refused with the place and the value.
    let outside = refused(add(&server, &sgd(1.5)), 400);
    assert!(outside.contains("momentum") && outside.contains("1.5"), "{outside}");
    let only = |name: &str| json!({"parameters": [{"parameter": "optimizer", "stringValue": name}]});
    let missing = refused(add(&server, &only("sgd")), 400);
    assert!(missing.contains("momentum"), "{missing}");
    assert!(refused(add(&server, &only("adagrad")), 400).contains("adagrad"));
    let mut inactive = sgd(0.5);
    inactive["parameters"][0]["stringValue"] = json!("adam");
    let inactive = refused(add(&server, &inactive), 400);
    assert!(inactive.starts_with("parameters[1]: \"momentum\" is not a parameter of the study"), "{inactive}");
    let mut with_result = sgd(0.5);
    with_result["finalMeasurement"] = json!({"metrics": [{"metric": "loss", "value": 0.5}]});
    assert!(refused(add(&server, &with_result), 400).starts_with("finalMeasurement: is not allowed"));

    // A repeated request adds one trial, and a field without an effect is named.
    let mut body = sgd(0.125);
    body["clientId"] = json!("c");
    let keyed = "content-type: application/json\r\nidempotency-key: once\r\n";
    let post = |body: &Value| server.send("POST", &format!("{JOBS}/j/trials"), keyed, &body.to_string());
    let (status, added) = post(&body);
    assert_eq!((status, &added["state"]), (200, &json!("REQUESTED")), "{added}");
    assert_eq!(added["tunesmith"]["notices"][0]["field"], "clientId", "{added}");
    assert!(added["name"].as_str().unwrap().ends_with("/trials/2"));
    assert_eq!(post(&body).1["name"], added["name"]);
    let waits = refused(server.post(&format!("{JOBS}/j/trials/2:stop"), &json!({})), 400);
    assert_eq!(waits, "cannot stop trial 2: it is REQUESTED");

    // The server is restarted before the trial has run, and another one is added by the command.
    server.signal(Signal::KILL);
    server.end();
    let server = Server::start(&workspace, &[]);
    let address = format!("http://{}", server.address);
    let target = ["--server", address.as_str(), "--project", "p", "--format", "json"];
    let create = ["trials", "create", "--job", "j", "--parameter", "optimizer=adam"];
    let answer = client(&workspace, &create, &target).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&answer.stdout).unwrap()["state"], "REQUESTED");
    workspace.write("go", "");
    let job = server.until(&format!("{JOBS}/j"), "SUCCEEDED");
    assert_eq!(job["trainingOutput"]["completedTrialCount"], "4", "{job}");
    assert_eq!(workspace.read("args-2").trim(), "--momentum=0.125 --optimizer=sgd");
    assert_eq!(workspace.read("args-3").trim(), "--optimizer=adam");
    let second = trial(&server, "j", 2, |trial| trial["state"] == "COMPLETED");
    assert_eq!(second["finalMeasurement"]["metrics"][0]["value"], 0.25);
    assert!(second["tunesmith"]["origin"].is_null(), "no algorithm has proposed it: {second}");
    assert!(workspace.path().join("args-4").exists() && !workspace.path().join("args-5").exists());
    let ended = refused(add(&server, &sgd(0.5)), 400);
    assert_eq!(ended, "cannot add a trial to job p/j: it is SUCCEEDED");
}

#[test]
fn no_trial_is_added_beyond_the_number_or_to_a_cancelled_job() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let script = workspace.write("train.sh", WAITS_FOR_PIPE);
    assert!(tunesmith_testing::program("mkfifo").arg(workspace.path().join("go")).status().unwrap().success());
    assert_eq!(server.post(JOBS, &job("j", &script, 2)).0, 200);
    trial(&server, "j", 1, |trial| trial["state"] == "ACTIVE");
    let adam = json!({"parameters": [{"parameter": "optimizer", "stringValue": "adam"}]});
    let add = || server.post(&format!("{JOBS}/j/trials"), &adam);
    assert_eq!(add().0, 200);
    let message = "job p/j has all its trials, maxTrials is 2: raise maxTrials before a trial is added";
    assert_eq!(refused(add(), 400), message);
    // The one that waits ends with the job.
    assert_eq!(server.post(&format!("{JOBS}/j:cancel"), &json!({})).0, 200);
    server.until(&format!("{JOBS}/j"), "CANCELLED");
    let waited = trial(&server, "j", 2, |trial| trial["state"] == "COMPLETED");
    assert_eq!(waited["infeasibleReason"], "stopped, because cancelled by a user");
    assert_eq!(refused(add(), 400), "cannot add a trial to job p/j: it is CANCELLED");
}

#[test]
fn trials_are_stopped_and_added_through_another_server_than_the_one_that_runs_the_job() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let folder = |name: &str| workspace.path().join(name);
    let runner = Cluster::serve_in(&folder("first"), &address, &[]);
    let script = "echo \"$@\" > \"args-$CLOUD_ML_TRIAL_ID\"; echo loss=0.25 step=1; \
                  if [ \"$CLOUD_ML_TRIAL_ID\" = 1 ]; then exec tail -f /dev/null; fi";
    let script =
        workspace.write("train.sh", &script.replace("args-", &format!("{}/args-", workspace.path().display())));
    assert_eq!(runner.post(JOBS, &job("j", &script, 3)).0, 200);
    trial(&runner, "j", 1, |trial| trial["measurements"][0]["metrics"][0]["value"] == 0.25);
    let other = Cluster::serve_in(&folder("second"), &address, &[]);
    let sgd = json!({"parameters": [
        {"parameter": "optimizer", "stringValue": "sgd"}, {"parameter": "momentum", "floatValue": 0.125},
    ]});
    let (status, added) = other.post(&format!("{JOBS}/j/trials"), &sgd);
    assert_eq!((status, &added["state"]), (200, &json!("REQUESTED")), "{added}");
    let (status, stopping) = other.post(&format!("{JOBS}/j/trials/1:stop"), &json!({}));
    assert_eq!((status, &stopping["state"]), (200, &json!("STOPPING")), "{stopping}");
    let stopped = trial(&other, "j", 1, |trial| trial["state"] == "COMPLETED");
    assert_eq!(stopped["finalMeasurement"]["metrics"][0]["value"], 0.25);
    assert_eq!(stopped["tunesmith"]["stoppedEarly"], true);
    let ended = runner.until(&format!("{JOBS}/j"), "SUCCEEDED");
    assert_eq!(ended["trainingOutput"]["completedTrialCount"], "3", "{ended}");
    assert_eq!(workspace.read("args-2").trim(), "--momentum=0.125 --optimizer=sgd");
    assert!(folder("args-3").exists());
}
