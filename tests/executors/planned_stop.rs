//! The planned stop of a server: by default its trials run on and the next server adopts them.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

const JOB: &str = "/v1/projects/p/jobs/j";

/// Creates a pipe, which a program reads until the test writes to it.
fn pipe(workspace: &Workspace, name: &str) -> PathBuf {
    let path = workspace.path().join(name);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path
}

/// Submits a job of two trials, one after the other, and waits until the first runs. Each trial writes its attempt to
/// `runs`, and waits for a line from the pipe `go`.
fn submit(workspace: &Workspace, server: &Server) {
    let started = pipe(workspace, "started");
    let script = "echo $CLOUD_ML_TRIAL_ID ${CLOUD_ML_HP_METRIC_FILE%/metrics*} >> runs
        [ -e second ] || echo > started
        read line < go; echo acc=0.5 step=1";
    let input = json!({
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 2, "maxParallelTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true, "stopGracePeriod": "1s"}});
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": "j", "trainingInput": input}));
    assert_eq!(status, 200, "{answer}");
    std::fs::read_to_string(started).unwrap();
    workspace.write("second", "");
}

/// A server with `flags` that runs the first trial, and the pipe for which its trials wait.
fn running(flags: &[&str]) -> (Workspace, Server, PathBuf) {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, flags);
    let go = pipe(&workspace, "go");
    submit(&workspace, &server);
    (workspace, server, go)
}

/// Starts the next server, and lets `waiting` trials end, which start one after the other. Each trial has run once.
fn end_with_the_next_server(workspace: &Workspace, go: &Path, waiting: usize) {
    let server = Server::start(workspace, &[]);
    for number in 3 - waiting..=2 {
        until(|| runs(workspace).len() >= number);
        std::fs::write(go, "go\n").unwrap();
    }
    succeed(&server);
    assert_eq!(runs(workspace), [run("1", "attempt-1"), run("2", "attempt-1")]);
}

/// Each start of a program: the trial and the name of its attempt's folder.
fn runs(workspace: &Workspace) -> Vec<(String, String)> {
    let text = workspace.read("runs");
    let run = |line: &str| {
        let (trial, folder) = line.split_once(' ').unwrap();
        (trial.to_owned(), Path::new(folder).file_name().unwrap().to_str().unwrap().to_owned())
    };
    text.lines().map(run).collect()
}

fn run(trial: &str, attempt: &str) -> (String, String) {
    (trial.to_owned(), attempt.to_owned())
}

fn succeed(server: &Server) {
    let job = server.until(JOB, "SUCCEEDED");
    assert_eq!(job["trainingOutput"]["completedTrialCount"], "2");
}

#[test]
fn trials_run_on_during_a_planned_stop_and_are_adopted_as_the_same_attempt() {
    let (workspace, server, go) = running(&[]);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
    end_with_the_next_server(&workspace, &go, 2);
}

#[test]
fn trial_that_ends_while_no_server_runs_keeps_its_result() {
    let (workspace, server, go) = running(&[]);
    server.signal(Signal::INT);
    assert_eq!(server.end(), Some(0));
    std::fs::write(&go, "go\n").unwrap();
    let path = workspace.path().display().to_string();
    until(|| tunesmith_testing::processes_with(&path).is_empty());
    end_with_the_next_server(&workspace, &go, 1);
}

#[test]
fn draining_server_waits_for_its_trials_and_starts_no_other() {
    let (workspace, server, go) = running(&["--drain"]);
    server.signal(Signal::TERM);
    // The server answers while it waits.
    assert_eq!(server.get(JOB).1["state"], "RUNNING");
    std::fs::write(&go, "go\n").unwrap();
    assert_eq!(server.end(), Some(0));
    assert_eq!(runs(&workspace), [run("1", "attempt-1")]);
    end_with_the_next_server(&workspace, &go, 1);
}

#[test]
fn second_signal_ends_a_draining_server_and_leaves_the_trials() {
    let (workspace, server, go) = running(&["--drain"]);
    server.signal(Signal::TERM);
    server.wait_for_error("another signal leaves them");
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
    end_with_the_next_server(&workspace, &go, 2);
}

#[test]
fn server_that_stops_its_trials_has_them_run_again() {
    let (workspace, server, go) = running(&["--stop-trials"]);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
    let path = workspace.path().display().to_string();
    assert_eq!(tunesmith_testing::processes_with(&path), [], "no program is left");
    let server = Server::start(&workspace, &[]);
    for number in 2..=3 {
        until(|| runs(&workspace).len() >= number);
        std::fs::write(&go, "go\n").unwrap();
    }
    succeed(&server);
    assert_eq!(runs(&workspace), [run("1", "attempt-1"), run("1", "attempt-2"), run("2", "attempt-1")]);
}
