//! Webhooks, with receivers that verify signatures with the package `standardwebhooks`.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tunesmith_testing::paced::until;
use tunesmith_testing::python::{STANDARD_WEBHOOKS, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const VARIABLE: &str = "TUNESMITH_WEBHOOK_SECRET";

/// Process that receives events.
struct Receiver(Child);

impl Receiver {
    /// Starts a receiver that appends events to `file`, or never completes a response if that is `stall`.
    fn start(address: SocketAddr, file: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/webhooks/receiver.py");
        let mut command = program(interpreter(&STANDARD_WEBHOOKS));
        command.arg(script).arg(address.port().to_string()).arg(file).env(VARIABLE, SECRET);
        let receiver = Self(command.stdin(Stdio::null()).spawn().unwrap());
        until(|| TcpStream::connect(address).is_ok());
        receiver
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Workspace with a job of `trials` trials, of which the one with x = 2 fails.
fn workspace(trials: usize) -> Workspace {
    let workspace = Workspace::new(&format!(
        "hyperparameters:\n  goal: MINIMIZE\n  hyperparameterMetricTag: loss\n  maxTrials: {trials}\n  maxFailedTrials: 9\n  \
         params:\n  - {{parameterName: x, type: INTEGER, minValue: 1, maxValue: {trials}}}\n  algorithm: GRID_SEARCH\n\
         tunesmith: {{metricFromStdout: true, seed: 1}}\n"
    ));
    workspace.write("train.sh", "x=${1#--x=}\n[ \"$x\" != 2 ] || exit 3\necho loss=$x\n");
    workspace
}

fn configuration(workspace: &Workspace, text: &str) -> PathBuf {
    workspace.write("server.yaml", text)
}

fn events(workspace: &Workspace, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(workspace.path().join(file)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Kinds with the number of the trial, if any.
fn kinds(events: &[Value]) -> Vec<String> {
    let kind = |event: &Value| match event["data"]["trial"]["id"].as_str() {
        Some(trial) => format!("{} {trial}", event["type"].as_str().unwrap()),
        None => event["type"].as_str().unwrap_or("error").to_owned(),
    };
    events.iter().map(kind).collect()
}

#[test]
fn run_delivers_signed_events_and_keeps_those_of_an_outage_for_the_next_process() {
    let workspace = workspace(3);
    let address = free_address();
    let file = workspace.path().join("events");
    let server = configuration(
        &workspace,
        &format!(
            "webhooks:\n- name: all\n  url: http://{address}/\n  secretVariable: {VARIABLE}\n  allowPrivateAddresses: true\n"
        ),
    );
    let run = |job: &str| {
        let mut command = workspace.run_command(["--job-id", job, "--data-dir", "data", "--server-config"]);
        command.arg(&server).args(["--", "sh", "train.sh"]).env(VARIABLE, SECRET);
        finished(command.output().unwrap()).expect(0)
    };
    let unsent = run("first");
    assert!(unsent.stderr.contains("events are not delivered; the next run or serve"), "{}", unsent.stderr);
    let _receiver = Receiver::start(address, file.to_str().unwrap());
    let sent = run("second");
    assert!(!sent.stderr.contains("not delivered"), "{}", sent.stderr);
    let events = events(&workspace, "events");
    for job in ["first", "second"] {
        let of_job: Vec<Value> = events
            .iter()
            .filter(|event| event["data"]["job"] == format!("projects/local/jobs/{job}"))
            .cloned()
            .collect();
        let mut kinds = kinds(&of_job);
        assert_eq!(kinds.first().map(String::as_str), Some("job.created"), "{kinds:?}");
        assert_eq!(kinds.last().map(String::as_str), Some("job.succeeded"), "{kinds:?}");
        kinds.sort_unstable();
        let failed = of_job.iter().find(|event| event["type"] == "trial.failed").unwrap();
        assert_eq!(failed["data"]["trial"]["message"], "exit code 3");
        assert_eq!(failed["data"]["trial"]["parameters"], json!({"x": 2}));
        let best: Vec<&Value> = of_job.iter().filter(|event| event["type"] == "trial.best").collect();
        let values = best.iter().map(|event| event["data"]["trial"]["metrics"]["loss"].as_f64().unwrap());
        let values: Vec<f64> = values.collect();
        assert!(!values.is_empty() && values.is_sorted_by(|a, b| a > b), "{values:?}");
        let others = kinds.iter().filter(|kind| !kind.starts_with("trial.best")).count();
        assert_eq!(others, 6, "{kinds:?}");
    }
    let ids: BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len(), "no event was repeated");
}

#[test]
fn a_killed_server_loses_no_event_and_a_stalling_receiver_delays_no_trial() {
    let workspace = workspace(4);
    let (good, slow) = (free_address(), free_address());
    let file = workspace.path().join("events");
    let webhook = |name: &str, address: SocketAddr, more: &str| {
        format!(
            "- name: {name}\n  url: http://{address}/\n  secretVariable: {VARIABLE}\n  allowPrivateAddresses: true\n{more}"
        )
    };
    let text = format!(
        "webhooks:\n{}{}",
        webhook("good", good, "  events: [job.*, trial.completed, trial.failed]\n"),
        webhook("slow", slow, "")
    );
    let server_config = configuration(&workspace, &text);
    let start = || {
        let mut command = workspace.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"]);
        command.arg("--server-config").arg(&server_config).env(VARIABLE, SECRET);
        Server::start_command(&mut command)
    };
    let _slow = Receiver::start(slow, "stall");
    let server = start();
    let job = |name: &str| {
        json!({"jobId": name, "trainingInput": {
            "tunesmith": {"metricFromStdout": true},
            "masterConfig": {"containerCommand": ["sh", workspace.path().join("train.sh")]},
            "hyperparameters": {"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 4, "maxFailedTrials": 9,
                "algorithm": "GRID_SEARCH",
                "params": [{"parameterName": "x", "type": "INTEGER", "minValue": 1, "maxValue": 4}]},
        }})
    };
    let jobs = "/v1/projects/local/jobs";
    let (status, created) = server.post(jobs, &job("before"));
    assert_eq!(status, 200, "{created}");
    assert_eq!(server.until_ended(&format!("{jobs}/before"))["state"], "SUCCEEDED");
    assert_eq!(server.post(jobs, &job("killed")).0, 200);
    server.kill();
    let server = start();
    assert_eq!(server.until_ended(&format!("{jobs}/killed"))["state"], "SUCCEEDED");
    // The receiver was down all the time.
    let _good = Receiver::start(good, file.to_str().unwrap());
    until(|| {
        let events = events(&workspace, "events");
        events.iter().filter(|event| event["type"] == "job.succeeded").count() == 2
    });
    until(|| server.text("GET", "/metrics").1.contains("tunesmith_webhook_events_pending{webhook=\"good\"} 0"));
    let events = events(&workspace, "events");
    let expected = [
        "job.created",
        "job.started",
        "job.succeeded",
        "trial.completed 1",
        "trial.completed 3",
        "trial.completed 4",
        "trial.failed 2",
    ];
    for name in ["before", "killed"] {
        let of_job = events.iter().filter(|event| event["data"]["job"] == format!("projects/local/jobs/{name}"));
        let of_job: Vec<Value> = of_job.cloned().collect();
        let found: BTreeSet<String> = kinds(&of_job).into_iter().collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }
    // An event whose delivery the kill interrupted may come twice, with the same ID.
    let ids: BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2 * expected.len());
    let metrics = server.text("GET", "/metrics").1;
    assert!(
        !metrics.contains("tunesmith_webhook_deliveries_total{webhook=\"slow\",result=\"delivered\"}"),
        "{metrics}"
    );
    assert!(metrics.contains("tunesmith_webhook_deliveries_total{webhook=\"good\",result=\"delivered\"}"), "{metrics}");
}

#[test]
fn settings_are_tested_by_a_command_and_checked_before_the_server_starts() {
    let workspace = Workspace::new("");
    let address = free_address();
    let file = workspace.path().join("events");
    let test = |text: &str| {
        let mut command = workspace.command();
        command
            .args(["webhooks", "test", "--server-config"])
            .arg(configuration(&workspace, text))
            .env(VARIABLE, SECRET);
        finished(command.output().unwrap())
    };
    let good = format!(
        "webhooks:\n- name: all\n  url: http://{address}/T000/secret\n  secretVariable: {VARIABLE}\n  \
         allowPrivateAddresses: true\n"
    );
    let down = test(&good).expect(1);
    assert!(down.stdout.starts_with("all: 127.0.0.1: the receiver cannot be reached: "), "{}", down.stdout);
    assert!(!down.stdout.contains("T000"), "{}", down.stdout);
    let receiver = Receiver::start(address, file.to_str().unwrap());
    assert_eq!(test(&good).expect(0).stdout, "all: 127.0.0.1 accepted the event (204 No Content)\n");
    assert_eq!(kinds(&events(&workspace, "events")), ["webhook.test"]);
    drop(receiver);
    for (change, expected) in [
        (("  allowPrivateAddresses: true\n", ""), "webhooks[0].url: expected https://HOST"),
        (
            ("name: all", "name: all\n  events: [job.done]"),
            "webhooks[0].events[0]: found \"job.done\"; allowed: job.created",
        ),
        (
            ("name: all", "name: all\n  filter: owner = me"),
            "webhooks[0].filter: column 1: found the field owner; allowed",
        ),
        ((VARIABLE, "UNSET_SECRET"), "webhooks[0].secretVariable: the environment variable UNSET_SECRET is not set"),
        (("name: all", "name: all\n  urlFile: /etc/url"), "has url and urlFile"),
        (("name: all", "name: all\n  color: red"), "color"),
    ] {
        let text = good.replace(change.0, change.1);
        let refused = test(&text).expect(2);
        assert!(refused.stderr.contains(expected), "{expected}: {}", refused.stderr);
        let mut serve = workspace.command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--server-config", "server.yaml"]);
        let refused = finished(serve.env(VARIABLE, SECRET).output().unwrap()).expect(2);
        assert!(refused.stderr.contains(expected), "{expected}: {}", refused.stderr);
        assert!(!refused.stderr.contains("T000"), "{}", refused.stderr);
    }
}
