//! Servers that are killed again and again while they run jobs.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, processes_with};

const JOBS: &str = "/v1/projects/p/jobs";

/// A job of one trial, whose program writes its process ID to `pids` and waits until the file `go` exists.
fn job(workspace: &Workspace, id: &str) -> Value {
    let folder = workspace.path().display();
    let script = format!("echo {id} >> {folder}/starts; until [ -e {folder}/go ]; do sleep 0.1; done; echo acc=0.5");
    json!({"jobId": id, "trainingInput": {
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true},
    }})
}

fn starts(workspace: &Workspace) -> Vec<String> {
    let text = std::fs::read_to_string(workspace.path().join("starts")).unwrap_or_default();
    let mut starts: Vec<String> = text.lines().map(str::to_owned).collect();
    starts.sort_unstable();
    starts
}

fn start(workspace: &Workspace) -> Server {
    Server::start(workspace, &["--job-slots", "3"])
}

#[test]
fn jobs_with_long_trials_survive_a_server_that_is_killed_five_times() {
    for signal in [Signal::KILL, Signal::TERM] {
        let workspace = Workspace::new("");
        let ids = ["a", "b", "c"];
        let mut server = start(&workspace);
        for id in ids {
            assert_eq!(server.post(JOBS, &job(&workspace, id)).0, 200);
        }
        until(|| starts(&workspace) == ids);
        for _ in 0..5 {
            server.signal(signal);
            server.end();
            server = start(&workspace);
            // It handles at least one of them, or waits to find out whether it dies all the same.
            until(|| server.get(JOBS).0 == 200);
        }
        for id in ids {
            assert_eq!(server.get(&format!("{JOBS}/{id}")).1["state"], "RUNNING");
        }
        workspace.write("go", "");
        for id in ids {
            let ended = server.until_ended(&format!("{JOBS}/{id}"));
            assert_eq!(ended["state"], "SUCCEEDED", "{ended}");
            assert_eq!(ended["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"], 0.5, "{ended}");
        }
        assert_eq!(starts(&workspace), ids, "their programs ran on");
    }
}

#[test]
fn job_that_ends_the_server_is_set_aside_and_the_others_are_not() {
    let workspace = Workspace::new("");
    let folder = |id: &str| workspace.path().join(format!("data/projects/p/jobs/{id}/handling"));
    let read = |id: &str| std::fs::read_to_string(folder(id)).unwrap_or_default();
    let ids = ["fatal", "good"];
    let mut server = start(&workspace);
    for id in ids {
        assert_eq!(server.post(JOBS, &job(&workspace, id)).0, 200);
    }
    until(|| starts(&workspace) == ids);
    let (mut deaths, mut is_named) = (0, false);
    // The test does what the job would do: it ends the server as soon as that handles it.
    let ended = loop {
        let is_handled = ["together", "alone", "passed"].iter().any(|phase| read("fatal").contains(phase));
        if is_handled {
            deaths += 1;
            // A death before the server has handled a job is no evidence.
            assert!(deaths < 100, "{} {}", read("fatal"), read("good"));
            server.signal(Signal::KILL);
            server.end();
            server = start(&workspace);
            continue;
        }
        let (_, found) = server.get(&format!("{JOBS}/fatal"));
        if found["endTime"].is_string() {
            break found;
        }
        let waiting = found["tunesmith"]["waiting"][0]["reason"].as_str().unwrap_or_default();
        is_named |= waiting.starts_with("the server died ") && waiting.contains("so that jobs start one by one");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended["state"], "FAILED", "{ended}");
    assert!(is_named, "jobs that wait for it name the reason");
    let reason = ended["errorMessage"].as_str().unwrap();
    // Some of the deaths came before the server handled it again, and are no evidence.
    let expected =
        " times in a row while it handled this job, the last 3 times while it handled no other, which it survived";
    assert!(reason.starts_with("the server died ") && reason.contains(expected), "{reason}");
    let attempt = folder("fatal").with_file_name("trials/1/attempt-1").display().to_string();
    until(|| processes_with(&attempt).is_empty());
    until(|| !folder("fatal").exists());
    // Its slot is free, and the other one goes on.
    workspace.write("go", "");
    assert_eq!(server.until_ended(&format!("{JOBS}/good"))["state"], "SUCCEEDED");
    assert_eq!(starts(&workspace), ids, "the good one ran on all the time");
}
