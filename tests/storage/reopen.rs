//! Jobs that have ended: run again, extended, deleted, with real programs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::client::client;
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

/// Fails unless the file `data` exists. The loss is best, 0, at x = 3.
const NEEDS_DATA: &str = r#"for arg in "$@"; do case "$arg" in --x=*) x="${arg#--x=}";; esac; done
cat data > /dev/null || exit 3
awk -v x="$x" 'BEGIN { printf "loss=%.17g step=1\n", (x - 3) * (x - 3) }'
"#;

const CONFIG: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 4
  algorithm: RANDOM_SEARCH
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}]
tunesmith: {metricFromStdout: true, seed: 7}
";

fn needs_data() -> Workspace {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", NEEDS_DATA);
    workspace
}

/// Polls the job until it is in a final state.
fn ended(server: &Server, path: &str) -> Value {
    server.until_ended(path)
}

#[test]
fn failed_trials_run_again_when_the_missing_file_is_there() {
    let workspace = needs_data();
    let command = ["--job-id", "j", "--", "sh", "train.sh"];
    let failed = workspace.run(command).expect(1);
    assert!(failed.stdout.contains("job j is FAILED: the first 3 trials all failed"), "{}", failed.stdout);
    let before = workspace.column("x");
    assert_eq!(workspace.column("state"), ["INFEASIBLE"; 3]);
    workspace.write("data", "");
    let again = workspace.run(command).expect(1);
    assert!(again.stderr.contains("job j finished before; nothing is left to do"), "{}", again.stderr);

    let retried = workspace.run(["--retry", "--job-id", "j", "--", "sh", "train.sh"]).expect(0);
    assert!(retried.stdout.contains("job j is SUCCEEDED\n"), "{}", retried.stdout);
    assert_eq!(workspace.column("state"), ["SUCCEEDED"; 4]);
    assert_eq!(workspace.column("x")[..3], before, "the failed trials keep their numbers and parameters");
    assert_eq!(workspace.column("reason"), [""; 4]);
    let attempts = |trial: &str| fs::read_dir(workspace.path().join(".tunesmith/jobs/j/trials").join(trial)).unwrap();
    assert_eq!((attempts("1").count(), attempts("4").count()), (2, 1));
    let job = workspace.job();
    assert_eq!((&job["state"], &job["errorMessage"]), (&json!("SUCCEEDED"), &Value::Null));
    let nothing = workspace.run(["--retry", "--job-id", "j", "--", "sh", "train.sh"]).expect(2);
    assert!(nothing.stderr.contains("job j has no failed trial to run again"), "{}", nothing.stderr);
}

#[test]
fn retried_trials_run_no_more_at_once_than_the_plan_allows() {
    let workspace = needs_data();
    workspace.write("hptuning_config.yaml", &CONFIG.replace("maxTrials: 4", "maxTrials: 8\n  maxFailedTrials: 8"));
    workspace.write(
        "alone.sh",
        "mkdir alone || exit 9; seq 1 200000 > /dev/null; sh train.sh \"$@\"; rmdir alone; cat data\n",
    );
    workspace.run(["--job-id", "j", "--", "sh", "alone.sh"]).expect(1);
    assert_eq!(workspace.column("state"), ["INFEASIBLE"; 8]);
    workspace.write("data", "");
    workspace.run(["--retry", "--job-id", "j", "--", "sh", "alone.sh"]).expect(0);
    assert_eq!(workspace.column("state"), ["SUCCEEDED"; 8], "{:?}", workspace.column("reason"));
}

#[test]
fn retry_and_deletion_belong_to_the_owner_of_a_job_and_are_audited() {
    let workspace = Workspace::new("");
    let token = |principal: &str, role: &str| token(&workspace, &["--principal", principal, "--role", role]);
    let (owner, other) = (token("user:ada", "ml.developer@local"), token("user:bob", "ml.developer@local"));
    let server = Server::start(&workspace, &[]);
    let send = |method: &str, path: &str, token: &str, body: &Value| {
        server.send(method, path, &bearer(token), &body.to_string()).0
    };
    let input = json!({"masterConfig": {"containerCommand": ["false"]}});
    let created = send("POST", "/v1/projects/local/jobs", &owner, &json!({"jobId": "j", "trainingInput": input}));
    assert_eq!(created, 200);
    let is_failed = || server.send("GET", JOB, &bearer(&owner), "").1["state"] == "FAILED";
    until(is_failed);
    assert_eq!(send("POST", &format!("{JOB}:retry"), &other, &json!({})), 403);
    assert_eq!(send("DELETE", JOB, &other, &Value::Null), 403);
    assert_eq!(send("POST", &format!("{JOB}:retry"), &owner, &json!({})), 200);
    until(is_failed);
    assert_eq!(send("DELETE", JOB, &owner, &Value::Null), 200);
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    let records: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |method: &str| -> Vec<(String, u64)> {
        let records = records.iter().filter(|record| record["method"] == method);
        records.map(|one| (one["principal"].as_str().unwrap().to_owned(), one["status"].as_u64().unwrap())).collect()
    };
    for method in ["tunesmith.projects.jobs.retry", "tunesmith.projects.jobs.delete"] {
        assert_eq!(of(method), [("user:bob".to_owned(), 403), ("user:ada".to_owned(), 200)]);
    }
}

#[test]
fn retry_without_a_name_finds_the_newest_job_of_the_same_content() {
    let workspace = needs_data();
    let none = workspace.run(["--retry", "--", "sh", "train.sh"]).expect(2);
    assert!(none.stderr.contains("there is no job of this configuration and command"), "{}", none.stderr);
    workspace.run(["--job-id", "j", "--", "sh", "train.sh"]).expect(1);
    workspace.write("data", "");
    workspace.run(["--retry", "--", "sh", "train.sh"]).expect(0);
    assert_eq!(workspace.job()["jobId"], "j");
}

#[test]
fn program_without_hyperparameters_runs_again() {
    let workspace = Workspace::new("trainingInput: {}\n");
    let command = ["--job-id", "j", "--", "sh", "-c", "echo run >> runs; cat data"];
    workspace.run(command).expect(1);
    workspace.run(["--retry", "--job-id", "j", "--", "sh", "-c", "echo run >> runs; cat data"]).expect(1);
    workspace.write("data", "");
    workspace.run(["--retry", "--job-id", "j", "--", "sh", "-c", "echo run >> runs; cat data"]).expect(0);
    assert_eq!(workspace.read("runs"), "run\nrun\nrun\n");
    assert!(workspace.path().join(".tunesmith/jobs/j/attempt-3").is_dir());
    let again = workspace.run(["--retry", "--job-id", "j", "--", "sh", "-c", "echo run >> runs; cat data"]).expect(2);
    assert!(again.stderr.contains("cannot retry job j: it is SUCCEEDED"), "{}", again.stderr);
}

#[test]
fn extension_by_ten_trials_keeps_the_former_ones_and_the_best() {
    let workspace = needs_data();
    workspace.write("data", "");
    let command = ["--job-id", "j", "--", "sh", "train.sh"];
    workspace.run(command).expect(0);
    let before = workspace.column("x");
    let best = |workspace: &Workspace| {
        workspace.job()["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"].as_f64().unwrap()
    };
    let best_before = best(&workspace);
    let extended = workspace.run(["--trials", "+10", "--job-id", "j", "--", "sh", "train.sh"]).expect(0);
    assert!(extended.stderr.contains("job j: extended from 4 to 14 trials"), "{}", extended.stderr);
    assert_eq!(workspace.column("x").len(), 14);
    assert_eq!(workspace.column("x")[..4], before);
    assert!(best(&workspace) <= best_before);
    assert_eq!(workspace.job()["trainingInput"]["hyperparameters"]["maxTrials"], 14);
    // The same search as one of 14 trials from the beginning.
    let whole = needs_data();
    whole.write("data", "");
    whole.run(["--trials", "14", "--", "sh", "train.sh"]).expect(0);
    assert_eq!(whole.column("x"), workspace.column("x"));
    // The configuration with fewer trials still names this job, and does not shorten it.
    let again = workspace.run(command).expect(0);
    assert!(again.stderr.contains("job j: it keeps its 14 trials"), "{}", again.stderr);
    assert!(again.stderr.contains("job j finished before"), "{}", again.stderr);
    // A raised maxTrials in the configuration extends the job as well.
    workspace.write("hptuning_config.yaml", &CONFIG.replace("maxTrials: 4", "maxTrials: 15"));
    workspace.run(command).expect(0);
    assert_eq!(workspace.column("x").len(), 15);
}

fn submit(server: &Server, id: &str, script: &str, max_trials: u64) {
    let input = json!({
        "masterConfig": {"containerCommand": ["sh", "-c", script, "trainer"]},
        "hyperparameters": {"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": max_trials,
            "algorithm": "RANDOM_SEARCH", "params": [{"parameterName": "x", "type": "INTEGER", "minValue": 1, "maxValue": 99}]},
        "tunesmith": {"metricFromStdout": true, "seed": "1"},
    });
    let (status, job) = server.post("/v1/projects/local/jobs", &json!({"jobId": id, "trainingInput": input}));
    assert_eq!(status, 200, "{job}");
}

const JOB: &str = "/v1/projects/local/jobs/j";

#[test]
fn server_retries_extends_and_deletes_jobs() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    submit(&server, "j", "cat input && echo loss=1", 3);
    assert_eq!(ended(&server, JOB)["state"], "FAILED");
    workspace.write("input", "");
    // At once after the end of the job, while its run is about to return.
    let (status, retried) = server.post(&format!("{JOB}:retry"), &json!({}));
    assert_eq!((status, retried["endTime"].is_null()), (200, true), "{retried}");
    let job = ended(&server, JOB);
    assert_eq!((&job["state"], &job["trainingOutput"]["completedTrialCount"]), (&json!("SUCCEEDED"), &json!("3")));
    assert_eq!(server.post(&format!("{JOB}:retry"), &json!({})).1["error"]["status"], "FAILED_PRECONDITION");

    let patch = |mask: &str, body: Value| {
        let path = format!("{JOB}?updateMask={mask}");
        server.send("PATCH", &path, "content-type: application/json\r\n", &body.to_string())
    };
    let trials = |count: u64| json!({"trainingInput": {"hyperparameters": {"maxTrials": count}}, "etag": job["etag"]});
    let field = "trainingInput.hyperparameters.maxTrials";
    let (status, lowered) = patch(field, trials(2));
    assert_eq!((status, &lowered["error"]["status"]), (400, &json!("FAILED_PRECONDITION")), "{lowered}");
    assert!(lowered["error"]["message"].as_str().unwrap().contains("can only be raised"), "{lowered}");
    let (status, extended) = patch(&format!("{field},etag"), trials(5));
    assert_eq!((status, &extended["trainingInput"]["hyperparameters"]["maxTrials"]), (200, &json!(5)), "{extended}");
    let ended_again = ended(&server, JOB);
    assert_eq!(
        (&ended_again["state"], &ended_again["trainingOutput"]["completedTrialCount"]),
        (&json!("SUCCEEDED"), &json!("5"))
    );
    let (status, stale) = patch(&format!("{field},etag"), trials(6));
    assert_eq!((status, &stale["error"]["status"]), (409, &json!("ABORTED")), "{stale}");

    let folder = workspace.path().join("data/jobs");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(server.send("DELETE", JOB, "", "").0, 200);
    assert_eq!(server.get(JOB).0, 404);
    assert_eq!(server.get("/v1/projects/local/locations/jobs/studies/j").0, 404);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "the folder of the job is removed");
    // The name is free, and nothing of the former job is taken for the new one.
    submit(&server, "j", "echo loss=2", 1);
    assert_eq!(ended(&server, JOB)["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"], 2.0);
}

#[test]
fn running_job_is_not_retried_or_deleted() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    submit(&server, "j", "exec tail -f /dev/null", 2);
    server.until(JOB, "RUNNING");
    let (status, refused) = server.post(&format!("{JOB}:retry"), &json!({}));
    assert_eq!((status, &refused["error"]["status"]), (400, &json!("FAILED_PRECONDITION")), "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert_eq!(message, "cannot retry job j while it runs: wait for its end, or cancel it");
    assert_eq!(server.send("DELETE", JOB, "", "").1["error"]["status"], "FAILED_PRECONDITION");
    assert_eq!(server.post(&format!("{JOB}:cancel"), &json!({})).0, 200);
    // The trial that the cancellation stopped runs again.
    assert_eq!(ended(&server, JOB)["state"], "CANCELLED");
    assert_eq!(server.post(&format!("{JOB}:retry"), &json!({})).0, 200);
    let path = "/v1/projects/local/locations/jobs/studies/j/trials";
    until(|| server.get(path).1["trials"][0]["state"] == "ACTIVE");
    server.until(JOB, "RUNNING");
    assert_eq!(server.post(&format!("{JOB}:cancel"), &json!({})).0, 200);
    assert_eq!(ended(&server, JOB)["state"], "CANCELLED");
}

#[test]
fn completed_study_is_extended() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let study = "/v1/projects/local/locations/local/studies";
    let config = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH",
        "parameters": [{"parameter": "n", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9"}}],
        "tunesmith": {"maxTrials": "1", "seed": "1"},
    }});
    assert_eq!(server.post(&format!("{study}?studyId=s"), &config).0, 200);
    let post = |client: &str| {
        let request = json!({"clientId": client, "suggestionCount": 1});
        server.post(&format!("{study}/s/trials:suggest"), &request)
    };
    let suggest = |client: &str| server.wait(post(client).1)["response"].clone();
    assert_eq!(suggest("a")["trials"].as_array().map(Vec::len), Some(1));
    assert_eq!(post("b").0, 429);
    let target = format!("http://{}", server.address);
    let extend =
        |count: &str| client(&workspace, &["studies", "extend", "s", "--trials", count], &["--server", &target]);
    assert!(extend("1").expect(1).stderr.contains("can only be raised"));
    assert_eq!(extend("+1").expect(0).stdout, "study s is ACTIVE, with up to 2 trials\n");
    assert_eq!(suggest("b")["trials"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get(&format!("{study}/s")).1["studyConfig"]["tunesmith"]["maxTrials"], "2");
}

/// Runs the same steps on a server and on a data folder.
fn on_both(steps: impl Fn(&Workspace, &[&str])) {
    let workspace = Workspace::new(CONFIG);
    steps(&workspace, &["--data-dir", "folder"]);
    let workspace = Workspace::new(CONFIG);
    let server = Server::start(&workspace, &[]);
    steps(&workspace, &["--server", &format!("http://{}", server.address)]);
}

fn submit_and_wait(workspace: &Workspace, target: &[&str], id: &str, script: &str, code: i32) {
    let args = ["jobs", "submit", "training", id, "--stream-logs", "--", "sh", "-c", script];
    client(workspace, &args, target).expect(code);
}

#[test]
fn jobs_are_found_by_the_start_of_their_names() {
    on_both(|workspace, target| {
        submit_and_wait(workspace, target, "census_1", "true", 0);
        submit_and_wait(workspace, target, "census_2", "true", 0);
        submit_and_wait(workspace, target, "mnist", "true", 0);
        let describe = |name: &str| client(workspace, &["jobs", "describe", name, "--format", "json"], target);
        let found: Value = serde_json::from_str(&describe("mn").expect(0).stdout).unwrap();
        assert_eq!(found["jobId"], "mnist");
        let several = describe("census").expect(2).stderr;
        assert_eq!(several, "error: several jobs start with \"census\": census_1, census_2; give more of the name\n");
        let unknown = describe("cenus_2").expect(2).stderr;
        assert_eq!(unknown, "error: job cenus_2 does not exist; did you mean \"census_2\"?\n");
        assert_eq!(describe("zebra").expect(2).stderr, "error: job zebra does not exist\n");
        let deleted = client(workspace, &["jobs", "delete", "mni", "census_1"], target).expect(0);
        assert_eq!(deleted.stdout, "job mnist is deleted\njob census_1 is deleted\n");
        describe("mnist").expect(2);
    });
}

#[test]
fn commands_retry_and_extend_on_a_server_and_in_a_folder() {
    on_both(|workspace, target| {
        let script = "cat input && echo loss=1";
        let args = ["jobs", "submit", "training", "j", "--config", "hptuning_config.yaml", "--stream-logs"];
        client(workspace, &[&args[..], &["--", "sh", "-c", script]].concat(), target).expect(1);
        workspace.write("input", "");
        let retried = client(workspace, &["jobs", "retry", "j", "--stream-logs"], target).expect(0);
        assert!(retried.stderr.contains("job j is SUCCEEDED"), "{}", retried.stderr);
        let extended = client(workspace, &["jobs", "extend", "j", "--trials", "+2", "--stream-logs"], target).expect(0);
        assert!(extended.stderr.contains("job j: extended from 4 to 6 trials"), "{}", extended.stderr);
        assert!(extended.stdout.contains("[trial 6] loss=1\n"), "{}", extended.stdout);
        let listed = client(workspace, &["trials", "list", "--job", "j", "--format", "json"], target).expect(0);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let states: Vec<&Value> = listed.as_array().unwrap().iter().map(|trial| &trial["state"]).collect();
        assert_eq!(states, ["COMPLETED"; 6]);
        fs::remove_file(workspace.path().join("input")).unwrap();
    });
}

#[test]
fn jobs_are_pruned_by_state_and_age() {
    on_both(|workspace, target| {
        submit_and_wait(workspace, target, "good", "true", 0);
        submit_and_wait(workspace, target, "bad_1", "false", 1);
        submit_and_wait(workspace, target, "bad_2", "false", 1);
        let prune = |args: &[&str]| client(workspace, &[&["jobs", "prune"], args].concat(), target);
        let listed = || {
            let list = client(workspace, &["jobs", "list", "--format", "json"], target).expect(0).stdout;
            let list: Value = serde_json::from_str(&list).unwrap();
            let jobs = list.as_array().cloned().unwrap_or_default();
            let mut ids: Vec<String> = jobs.iter().map(|job| job["jobId"].as_str().unwrap().to_owned()).collect();
            ids.sort();
            ids
        };
        assert!(prune(&[]).expect(2).stderr.contains("--older-than"));
        assert_eq!(prune(&["--older-than", "1h"]).expect(0).stdout, "");
        let dry = prune(&["--state", "FAILED", "--dry-run"]).expect(0).stdout;
        assert!(dry.starts_with("job bad_1, FAILED since 2") && dry.ends_with(", would be deleted\n"), "{dry}");
        assert_eq!(listed(), ["bad_1", "bad_2", "good"]);
        prune(&["--state", "failed", "--filter", "jobId:bad_2"]).expect(0);
        assert_eq!(listed(), ["bad_1", "good"]);
        prune(&["--older-than", "0s"]).expect(0);
        assert_eq!(listed(), [""; 0]);
        let folder = if target[0] == "--server" { "data/jobs" } else { "folder/jobs" };
        let left = |path: &Path| fs::read_dir(path).unwrap().count();
        assert_eq!(left(&workspace.path().join(folder)), 0);
    });
}
