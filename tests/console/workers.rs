//! The page Workers of the console: what runs, what waits, and the time that was lost.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::console::browse;
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, processes_with};

#[test]
fn page_shows_what_runs_and_waits_and_the_time_of_lost_attempts() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let stranger = token(&workspace, &["--principal", "user:other@x", "--role", "ml.viewer@q"]);
    workspace.write("server.yaml", "limits:\n  runningTrials: {study: 1}\n");
    let server = Server::start(&workspace, &["--server-config", "server.yaml", "--job-slots", "1"]);
    let tunes = json!({
        "jobId": "tunes",
        "trainingInput": {
            "hyperparameters": {
                "hyperparameterMetricTag": "loss", "maxTrials": 2, "maxParallelTrials": 2,
                "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
            },
            "masterConfig": {"containerCommand": ["sh", "-c", "exec tail -f /dev/null"]},
        },
    });
    let second = json!({
        "jobId": "second",
        "trainingInput": {"masterConfig": {"containerCommand": ["tail", "-f", "/dev/null"]}},
    });
    for job in [&tunes, &second] {
        assert_eq!(server.send("POST", "/v1/projects/p/jobs", &bearer(&admin), &job.to_string()).0, 200);
    }
    // The attempt is lost with its supervisor, and runs again.
    let path = workspace.path().display().to_string();
    let is_unfinished = || {
        let (_, job) = server.send("GET", "/v1/projects/p/jobs/tunes", &bearer(&admin), "");
        assert!(["QUEUED", "PREPARING", "RUNNING"].map(Value::from).contains(&job["state"]), "{job}");
    };
    let supervisor = found(|| {
        is_unfinished();
        let is_supervisor = |(_, line): &&(u32, String)| line.contains("__supervise");
        processes_with(&path).iter().find(is_supervisor).map(|(process, _)| *process)
    });
    let until_shown = |text: &str| {
        until(|| {
            is_unfinished();
            let (status, page) = server.exchange("GET", "/console/workers", &bearer(&admin), "");
            assert_eq!(status, 200);
            page.contains(text)
        });
    };
    until_shown("/console/projects/p/jobs/tunes/trials/1");
    until_shown(&format!("<td class=\"wrap\">{}</td>", tunesmith_executor::host_name()));
    kill_process(Pid::from_raw(i32::try_from(supervisor).unwrap()).unwrap(), Signal::KILL).unwrap();
    until_shown("aria-label=\"Lost time\"");
    browse("workers.py", &server, &[&viewer, &stranger, &admin]);
}
