//! Jobs whose programs run under agents, with a real server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tunesmith_domain::{Measurement, ReportKey, StudyId, Trial, TrialId, TrialState};
use tunesmith_store::{OpenMode, SqliteStore, Store};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, processes_with};

const JOB: &str = "/v1/projects/p/jobs/j";

/// The channels of reports.
const METRIC_FILE: &str = "metric file";
const EVENT_FILE: &str = "event file";
const STANDARD_OUTPUT: &str = "standard output";
const HTTP: &str = "http";

/// A server whose jobs run under agents.
fn serve(workspace: &Workspace, listen: SocketAddr, out_of_reach: &str) -> Server {
    let mut command = workspace.command();
    command.args(["serve", "--listen", &listen.to_string(), "--data-dir", "data", "--allow-unisolated-programs"]);
    command.env("TUNESMITH_EXECUTOR", "agent").env("TUNESMITH_AGENT_OUT_OF_REACH", out_of_reach);
    Server::start_command(&mut command)
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A workspace with the named pipes `pipes`, a server, and a job of one trial that runs `script`.
fn running(script: &str, pipes: &[&str], out_of_reach: &str) -> (Workspace, Server) {
    let workspace = Workspace::new("");
    for name in pipes {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let path = workspace.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let server = serve(&workspace, any_port(), out_of_reach);
    let input = json!({
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "jobDir": workspace.path().join("models"),
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true, "stopGracePeriod": "5s"}});
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": "j", "trainingInput": input}));
    assert_eq!(status, 200, "{answer}");
    (workspace, server)
}

/// Reads the pipe `name`, which waits for a program that writes to it.
fn read(workspace: &Workspace, name: &str) -> String {
    std::fs::read_to_string(workspace.path().join(name)).unwrap()
}

fn until_ended(server: &Server) -> Value {
    server.until_ended(JOB)
}

/// The stored trial and its measurements. The server must have ended.
fn stored(workspace: &Workspace) -> (Trial, Vec<Measurement>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let study: StudyId = StudyId::new("p", StudyId::JOBS_LOCATION, "j").unwrap();
    runtime.block_on(async {
        let store = open(workspace);
        let trial = store.trial(&study, TrialId(1)).await.unwrap();
        (trial, store.measurements(&study, TrialId(1), 0, 1000).await.unwrap())
    })
}

fn open(workspace: &Workspace) -> SqliteStore {
    SqliteStore::open(&workspace.path().join("data/store.sqlite"), OpenMode::Existing).unwrap()
}

/// The steps of the measurements, each with the channel of the report.
fn steps(measurements: &[Measurement]) -> Vec<(i64, &str)> {
    let channel = |one: &Measurement| match one.key {
        ReportKey::MetricFile { .. } => METRIC_FILE,
        ReportKey::EventFile { .. } => EVENT_FILE,
        ReportKey::StandardOutput { .. } => STANDARD_OUTPUT,
        ReportKey::Http => HTTP,
    };
    let mut steps: Vec<_> = measurements.iter().map(|one| (one.step, channel(one))).collect();
    steps.sort_unstable();
    steps
}

/// The agents of the workspace, by process ID.
fn agents(workspace: &Workspace) -> Vec<u32> {
    let text = workspace.path().join("data/agent-spools").display().to_string();
    processes_with(&text)
        .into_iter()
        .filter(|(_, arguments)| arguments.contains(" agent "))
        .map(|(pid, _)| pid)
        .collect()
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

fn until_no_process(workspace: &Workspace) {
    let path = workspace.path().display().to_string();
    until(|| processes_with(&path).is_empty());
}

fn log(server: &Server, attempt: u64, stream: &str) -> String {
    let (status, answer) = server.get(&format!("{JOB}/logs/trial-1.attempt-{attempt}.master-0.{stream}"));
    assert_eq!(status, 200, "{answer}");
    answer["text"].as_str().unwrap().to_owned()
}

/// Reports over HTTP, which has to succeed at once.
const REPORT: &str = r#"
import json, os, urllib.request
body = {"measurement": {"stepCount": "0", "metrics": [{"metric": "acc", "value": 0.05}]}}
url = os.environ["TUNESMITH_ENDPOINT"] + "/v1/" + os.environ["TUNESMITH_TRIAL"] + ":addMeasurement"
request = urllib.request.Request(url, data=json.dumps(body).encode())
request.add_header("authorization", "Bearer " + os.environ["TUNESMITH_TOKEN"])
assert json.load(urllib.request.urlopen(request, timeout=60))["state"] == "ACTIVE"
"#;

/// Reports one step through each source.
const FOUR_SOURCES: &str = r#"
import json, os, struct, sys, urllib.request
def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xa282ead8) & 0xffffffff)
def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
    file.write(json.dumps({"timestamp": 1.0, "trial": "1", "acc": "0.1", "global_step": "1"}) + "\n")
job_dir = [a for a in sys.argv if a.startswith("--job-dir=")][0].split("=", 1)[1]
value = field(1, b"acc") + bytes([2 << 3 | 5]) + struct.pack("<f", 0.25)
event = bytes([1 << 3 | 1]) + struct.pack("<d", 2.0) + bytes([2 << 3, 2]) + field(5, field(1, value))
os.makedirs(job_dir, exist_ok=True)
with open(os.path.join(job_dir, "events.out.tfevents.1.host"), "wb") as file:
    size = struct.pack("<Q", len(event))
    file.write(size + masked(size) + event + masked(event))
body = {"measurement": {"stepCount": "3", "metrics": [{"metric": "acc", "value": 0.3}]}}
url = os.environ["TUNESMITH_ENDPOINT"] + "/v1/" + os.environ["TUNESMITH_TRIAL"] + ":addMeasurement"
request = urllib.request.Request(url, data=json.dumps(body).encode())
request.add_header("authorization", "Bearer " + os.environ["TUNESMITH_TOKEN"])
urllib.request.urlopen(request, timeout=60).read()
print("acc=0.4 step=4")
print("to standard error", file=sys.stderr)
"#;

#[test]
fn reports_of_all_sources_and_logs_reach_the_server() {
    let script = "exec python3 trainer.py \"$@\"";
    let workspace = Workspace::new("");
    workspace.write("trainer.py", FOUR_SOURCES);
    let server = serve(&workspace, any_port(), "60");
    let input = json!({
        "masterConfig": {"containerCommand": ["sh", "-c", script, "sh"]},
        "jobDir": workspace.path().join("models"),
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true}});
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": "j", "trainingInput": input}));
    assert_eq!(status, 200, "{answer}");
    let job = until_ended(&server);
    assert_eq!(job["state"], "SUCCEEDED", "{job}");
    assert_eq!(job["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"], 0.4);
    assert_eq!(log(&server, 1, "stdout"), "acc=0.4 step=4\n");
    assert_eq!(log(&server, 1, "stderr"), "to standard error\n");
    until_no_agent(&workspace);
    server.kill();
    let (trial, measurements) = stored(&workspace);
    let expected = [(1, METRIC_FILE), (2, EVENT_FILE), (3, HTTP), (4, STANDARD_OUTPUT)];
    assert_eq!(steps(&measurements), expected);
    // Also the report over HTTP: the program sent it to its agent.
    assert_eq!((trial.attempt, trial.delivered), (1, 4));
    let here = tunesmith_executor::host_name();
    let names: Vec<_> = trial.places.iter().map(|place| (place.attempt, place.node_names())).collect();
    assert_eq!(names, [(1, vec![here.as_str()])]);
}

fn until_no_agent(workspace: &Workspace) {
    until(|| agents(workspace).is_empty());
}

#[test]
fn nothing_is_lost_or_doubled_when_the_server_is_killed_and_restarted() {
    // The program prints one step, then 50 while the server is away, then one more.
    let script = "echo acc=0.1 step=1; echo > first; read line < go
        for step in $(seq 2 51); do echo acc=0.2 step=$step; done; python3 report.py; echo > second
        read line < go; echo acc=0.3 step=52";
    let (workspace, server) = running(script, &["first", "second", "go"], "60");
    workspace.write("report.py", REPORT);
    read(&workspace, "first");
    let address = server.address;
    until(|| !log_or_empty(&server).is_empty());
    server.kill();
    std::fs::write(workspace.path().join("go"), "go\n").unwrap();
    read(&workspace, "second");
    let server = serve(&workspace, address, "60");
    std::fs::write(workspace.path().join("go"), "go\n").unwrap();
    let job = until_ended(&server);
    assert_eq!(job["state"], "SUCCEEDED", "{job}");
    let lines: Vec<String> = log(&server, 1, "stdout").lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 52, "{lines:?}");
    assert_eq!((lines[0].as_str(), lines[51].as_str()), ("acc=0.1 step=1", "acc=0.3 step=52"));
    until_no_agent(&workspace);
    server.kill();
    let (trial, measurements) = stored(&workspace);
    let mut expected: Vec<_> = (1..=52).map(|step| (step, STANDARD_OUTPUT)).collect();
    expected.insert(0, (0, HTTP));
    assert_eq!(steps(&measurements), expected);
    assert_eq!((trial.attempt, trial.lost_attempts), (1, 0));
}

fn log_or_empty(server: &Server) -> String {
    let (_, answer) = server.get(&format!("{JOB}/logs/trial-1.attempt-1.master-0.stdout"));
    answer["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn program_ends_when_the_server_is_out_of_reach_for_too_long() {
    let script = "trap 'echo ended > ended; exit 7' TERM; echo > first; while :; do sleep 0.05; done";
    let (workspace, server) = running(script, &["first", "ended"], "0.5");
    read(&workspace, "first");
    server.kill();
    assert_eq!(read(&workspace, "ended"), "ended\n");
    until_no_process(&workspace);
    let spools = workspace.path().join("data/agent-spools");
    let spool: PathBuf = std::fs::read_dir(spools).unwrap().next().unwrap().unwrap().path();
    let end = std::fs::read_to_string(spool.join("exit.json")).unwrap();
    assert_eq!(end, r#"{"Ended":{"end":{"Exited":7},"stopped":"Requested"}}"#);
}

#[test]
fn preempted_attempt_is_repeated_as_the_same_trial_with_the_same_job_dir() {
    // The second attempt finds the event file of the first one in the job-dir.
    let script = "[ -e models/1/checkpoint ] && { echo acc=0.5 step=5; exit 0; }
        read line < go; python3 trainer.py --job-dir=models/1
        trap 'echo saved > models/1/checkpoint; exit 0' TERM
        echo > first; while :; do sleep 0.05; done";
    let (workspace, server) = running(script, &["go", "first"], "60");
    workspace.write("trainer.py", FOUR_SOURCES);
    std::fs::write(workspace.path().join("go"), "go\n").unwrap();
    read(&workspace, "first");
    let [agent] = agents(&workspace)[..] else { panic!("one agent runs") };
    signal(agent, Signal::TERM);
    let job = until_ended(&server);
    assert_eq!(job["state"], "SUCCEEDED", "{job}");
    assert_eq!(job["trainingOutput"]["trials"].as_array().map(Vec::len), Some(1));
    assert_eq!(log(&server, 1, "stdout"), "acc=0.4 step=4\n");
    assert_eq!(log(&server, 2, "stdout"), "acc=0.5 step=5\n");
    server.kill();
    let (trial, measurements) = stored(&workspace);
    assert_eq!((trial.attempt, trial.preempted_attempts, trial.lost_attempts), (2, 1, 0));
    assert_eq!(trial.state, TrialState::Succeeded);
    let expected = [(1, METRIC_FILE), (2, EVENT_FILE), (3, HTTP), (4, STANDARD_OUTPUT), (5, STANDARD_OUTPUT)];
    assert_eq!(steps(&measurements), expected);
}

#[test]
fn attempt_whose_agent_is_killed_after_the_notice_counts_as_preempted() {
    // An engine kills what is left in a place some time after its notice.
    let script = "[ -e models/1/again ] && { echo acc=0.5 step=2; exit 0; }
        trap '' TERM; echo > models/1/again; echo > first; while :; do sleep 0.05; done";
    let (workspace, server) = running(script, &["first"], "60");
    read(&workspace, "first");
    let [agent] = agents(&workspace)[..] else { panic!("one agent runs") };
    signal(agent, Signal::TERM);
    let inbox = std::fs::read_dir(workspace.path().join("data/agents")).unwrap().next().unwrap().unwrap().path();
    until(|| inbox.join("preemption.json").exists());
    signal(agent, Signal::KILL);
    let job = until_ended(&server);
    assert_eq!(job["state"], "SUCCEEDED", "{job}");
    server.kill();
    let (trial, _) = stored(&workspace);
    assert_eq!((trial.attempt, trial.preempted_attempts, trial.lost_attempts), (2, 1, 0));
    until_no_process(&workspace);
}

#[test]
fn killed_agent_leaves_no_process_and_its_trial_runs_again() {
    // The first attempt ignores SIGTERM, and is killed after the grace period. The second one starts later.
    let script =
        "[ -e models/1/again ] && { kill -0 $(cat models/1/again) && touch both; echo acc=0.5 step=2; exit 0; }
        trap '' TERM; echo $$ > models/1/again; echo > first; while :; do sleep 0.05; done";
    let (workspace, server) = running(script, &["first"], "60");
    read(&workspace, "first");
    let [agent] = agents(&workspace)[..] else { panic!("one agent runs") };
    signal(agent, Signal::KILL);
    let job = until_ended(&server);
    assert_eq!(job["state"], "SUCCEEDED", "{job}");
    server.kill();
    let (trial, _) = stored(&workspace);
    assert_eq!((trial.attempt, trial.preempted_attempts, trial.lost_attempts), (2, 0, 1));
    assert!(!workspace.path().join("both").exists(), "both attempts ran at the same time");
    until_no_process(&workspace);
}

#[test]
fn reports_are_limited_to_the_tasks_of_their_attempt_and_to_a_sane_size() {
    let script = "trap '' TERM; echo > first; while :; do sleep 0.05; done";
    let (workspace, server) = running(script, &["first"], "60");
    read(&workspace, "first");
    let token = spec(&workspace)["spec"]["server"]["token"].as_str().unwrap().to_owned();
    let sync = |report: &Value| {
        let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
        server.send("POST", &format!("{JOB}/runs/trial-1.attempt-1:sync"), &headers, &report.to_string())
    };
    let part = |task: &str, offset: &str, removed: &str| json!({"task": task, "stream": "stderr", "offset": offset, "removed": removed, "data": "YWJj"});
    let invalid = |report: Value, field: &str| {
        let (status, answer) = sync(&report);
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["error"]["details"][0]["fieldViolations"][0]["field"], field, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let foreign: Vec<Value> = (0..1000).map(|index| part(&format!("worker-{index}"), "0", "0")).collect();
    let message = invalid(json!({"logs": foreign}), "logs");
    assert!(message.contains("no task \"worker-0\" of this agent; its tasks are master-0"), "{message}");
    invalid(json!({"logs": vec![json!({}); 2001]}), "logs");
    let problems: Vec<String> = (0..50_000).map(|index| format!("problem {index}")).collect();
    invalid(json!({"problems": problems}), "problems");
    invalid(json!({"seenTags": problems}), "seenTags");
    let one = json!({"step": "1", "source": "METRIC_FILE", "metrics": []});
    invalid(json!({"measurements": vec![one; 10_001]}), "measurements");

    // Offsets beyond any log are not written, and do not make later reports fail.
    for offset in [1_u64 << 43, 1 << 62] {
        let end = (offset + 3).to_string();
        let (status, answer) = sync(&json!({"logs": [part("master-0", &offset.to_string(), &offset.to_string())]}));
        assert_eq!((status, answer["logs"][0]["nextOffset"].as_str()), (200, Some(end.as_str())), "{answer}");
    }
    let (status, answer) = sync(&json!({"logs": [part("master-0", "0", "0")], "problems": problems[..1000]}));
    assert_eq!((status, &answer["logs"][0]["nextOffset"]), (200, &json!("3")), "{answer}");
    assert_eq!(log(&server, 1, "stderr"), "abc");
    let (_, logs) = server.get(&format!("{JOB}/logs"));
    let sizes: Vec<(&str, &str)> = logs["logs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|log| (log["name"].as_str().unwrap(), log["sizeBytes"].as_str().unwrap()))
        .collect();
    assert!(
        sizes.iter().all(|(name, size)| name.contains("master-0") && size.parse::<u64>().unwrap() < 100),
        "{sizes:?}"
    );
    assert_eq!(server.post(&format!("{JOB}:cancel"), &json!({})).0, 200);
    until_ended(&server);
    until_no_process(&workspace);
}

#[test]
fn superseded_attempt_ends_its_program_and_other_tokens_are_refused() {
    // The program of a cancelled job ends; an agent that continues with its token is refused.
    let script = "trap '' TERM; echo > first; while :; do sleep 0.05; done";
    let (workspace, server) = running(script, &["first"], "60");
    read(&workspace, "first");
    let spec = spec(&workspace);
    let token = spec["spec"]["server"]["token"].as_str().unwrap().to_owned();
    let sync = format!("{JOB}/runs/trial-1.attempt-1:sync");
    let send = |token: &str, run: &str, body: &str| {
        server.send("POST", run, &format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n"), body)
    };
    let (status, answer) = send("wrong", &sync, "{}");
    assert_eq!((status, answer["error"]["status"].as_str()), (401, Some("UNAUTHENTICATED")), "{answer}");
    let (status, _) = send(&token, &format!("{JOB}/runs/trial-1.attempt-2:sync"), "{}");
    assert_eq!(status, 401, "the token is that of one attempt");
    // A repeated part of a log has no effect.
    let part = r#"{"logs": [{"task": "master-0", "stream": "stderr", "offset": "0", "data": "YWJj"}]}"#;
    for _ in 0..2 {
        let (status, answer) = send(&token, &sync, part);
        assert_eq!((status, &answer["logs"][0]["nextOffset"]), (200, &json!("3")), "{answer}");
        assert_eq!(answer["command"], "CONTINUE");
    }
    let (_, text) = server.get(&format!("{JOB}/logs/trial-1.attempt-1.master-0.stderr"));
    assert_eq!(text["text"], "abc");
    let measured = r#"{"firstMeasurement": "0", "measurements":
        [{"step": "9", "source": "METRIC_FILE", "metrics": [{"metric": "acc", "value": "NaN"}]}]}"#;
    for _ in 0..2 {
        let (status, answer) = send(&token, &sync, measured);
        assert_eq!((status, &answer["nextMeasurement"]), (200, &json!("1")), "{answer}");
    }
    // Another server takes the attempt over, in that the trial begins its next one.
    server.kill();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let study: StudyId = StudyId::new("p", StudyId::JOBS_LOCATION, "j").unwrap();
    runtime.block_on(async {
        let store = open(&workspace);
        let begin = tunesmith_domain::TrialChange::BeginAttempt {
            attempt: 2,
            previous_loss: Some(tunesmith_domain::LossCause::Failure),
            at: jiff::Timestamp::now(),
        };
        store.change_trial(&study, TrialId(1), begin).await.unwrap();
    });
    let [agent] = agents(&workspace)[..] else { panic!("one agent runs") };
    let address = server_address(&spec);
    let server = serve(&workspace, address, "60");
    // The first program ignores SIGTERM, and is killed; the second one writes to the pipe.
    until(|| !PathBuf::from(format!("/proc/{agent}")).exists());
    read(&workspace, "first");
    server.get(JOB);
    let (status, _) = server.post(&format!("{JOB}:cancel"), &json!({}));
    assert_eq!(status, 200);
    assert_eq!(until_ended(&server)["state"], "CANCELLED");
    server.kill();
    until_no_process(&workspace);
    let (trial, measurements) = stored(&workspace);
    assert_eq!((trial.attempt, steps(&measurements)), (2, vec![(9, METRIC_FILE)]));
}

/// The specification of the only agent.
fn spec(workspace: &Workspace) -> Value {
    let folder = std::fs::read_dir(workspace.path().join("data/agents")).unwrap().next().unwrap().unwrap().path();
    serde_json::from_slice(&std::fs::read(folder.join("spec.json")).unwrap()).unwrap()
}

fn server_address(spec: &Value) -> SocketAddr {
    spec["spec"]["server"]["address"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap()
}

/// Runs an agent by hand, with this specification, and returns its exit code and standard error.
fn run_agent(workspace: &Workspace, spec: &str, more: &[&str]) -> (ExitStatus, String) {
    let file = workspace.write("spec.json", spec);
    let mut command = tunesmith_testing::program(env!("CARGO_BIN_EXE_tunesmith"));
    command.arg("agent").arg("--spec").arg(file).arg("--spool").arg(workspace.path().join("spool")).args(more);
    let output = command.output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn unusable_specifications_are_refused_before_anything_starts() {
    let workspace = Workspace::new("");
    let (status, errors) = run_agent(&workspace, "{", &[]);
    assert_eq!(status.code(), Some(2), "{errors}");
    assert!(errors.contains("spec.json is not that of an agent: EOF"), "{errors}");
    let spec = json!({"format": 1, "spec": {
        "id": {"job": "p/j", "trial": null, "attempt": 1}, "replicas": [], "training_input": {}, "master_is_chief": false,
        "environment": {}, "working_directory": "/", "program_folders": [], "directory": "/nowhere", "time_limit": null,
        "reports": {"tag": "acc", "stdout": false, "event_dir": null},
        "grace": {"secs": 1, "nanos": 0}, "server": {"address": "127.0.0.1:1", "token": "t"}}});
    let (status, errors) = run_agent(&workspace, &spec.to_string(), &[]);
    assert_eq!(status.code(), Some(2), "{errors}");
    assert!(errors.contains("the server \"127.0.0.1:1\" cannot be used: invalid server address"), "{errors}");
    assert!(!workspace.path().join("spool").exists());
    let unreachable = ["--server", "http://127.0.0.1:1", "--out-of-reach", "0.05", "--interval-ms", "10"];
    let (status, errors) = run_agent(&workspace, &spec.to_string(), &unreachable);
    assert_eq!(status.code(), Some(4), "{errors}");
    assert!(errors.contains("the server cannot be reached; reports are kept"), "{errors}");
    assert!(errors.contains("no program was started: check the address and the network of this node"), "{errors}");
}
