//! Programs that work against the service. For each: its job ends, another job runs meanwhile, and a cancelled job ends
//! with all its processes.

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, processes_with};

/// A program, and the end of its job if it is not cancelled.
struct Program {
    name: &'static str,
    /// Its script. `HERE` is the folder of its logs.
    script: &'static str,
    /// Whether the job succeeds; `None` if the job ends at the time limit or by the loss of its attempts.
    succeeds: Option<bool>,
}

/// The programs. None of them reports a metric.
const PROGRAMS: [Program; 13] = [
    Program { name: "removes_its_folder", script: "rm -rf $HERE; exit 0", succeeds: Some(true) },
    Program { name: "removes_its_folder_and_fails", script: "rm -rf $HERE; exit 1", succeeds: Some(false) },
    Program { name: "stops_its_supervisor", script: "kill -STOP $PPID; exec sleep 1000", succeeds: None },
    Program {
        name: "stops_its_supervisor_again_and_again",
        script: "while :; do kill -STOP $PPID; sleep 0.05; done",
        succeeds: None,
    },
    Program { name: "kills_its_supervisor", script: "kill -KILL $PPID; exec sleep 1000", succeeds: None },
    Program {
        name: "replaces_its_logs_by_pipes",
        script: "rm $HERE/stdout.log $HERE/stderr.log; mkfifo $HERE/stdout.log $HERE/stderr.log; exit 1",
        succeeds: Some(false),
    },
    Program {
        name: "replaces_its_logs_by_links",
        script: "ln -sf /dev/zero $HERE/other; rm $HERE/stdout.log; ln -s absent $HERE/stdout.log; exit 1",
        succeeds: Some(false),
    },
    Program {
        name: "forks_daemons",
        script: "setsid sleep 1000 & (setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; exit 0",
        succeeds: Some(true),
    },
    Program { name: "ignores_sigterm", script: "trap '' TERM INT HUP; while :; do sleep 1000; done", succeeds: None },
    Program { name: "ends_without_metric", script: "exit 0", succeeds: Some(true) },
    Program { name: "closes_its_output", script: "exec >&- 2>&-; exec sleep 1000", succeeds: None },
    Program { name: "writes_without_end", script: "while :; do echo acc; echo e >&2; done", succeeds: None },
    Program { name: "writes_a_line_without_end", script: "while :; do printf %050d 1; done", succeeds: None },
];

fn path(id: &str) -> String {
    format!("/v1/projects/p/jobs/{id}")
}

/// Submits a job of one run, or of one trial, of `script`.
fn create(server: &Server, id: &str, script: &str, tuned: bool, time_limit: &str) {
    let script = format!("HERE=$(readlink /proc/$$/fd/1); HERE=${{HERE%/*}}; echo > $MARK; {script}");
    let mut input = json!({
        "masterConfig": {"containerCommand": ["env", format!("MARK=started_{id}"), "sh", "-c", script]},
        "tunesmith": {"stopGracePeriod": "1s", "maxLostAttempts": "1", "trialTimeLimit": time_limit},
    });
    if tuned {
        input["hyperparameters"] = json!({"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]});
        input["tunesmith"]["metricFromStdout"] = json!(true);
    }
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": id, "trainingInput": input}));
    assert_eq!(status, 200, "{id}: {answer}");
}

/// Waits until the job has ended, and returns it.
fn ended(server: &Server, id: &str) -> Value {
    server.until_ended(&path(id))
}

/// Runs all programs at the same time on one server, with another job beside them.
fn all_end(tuned: bool) {
    let workspace = Workspace::new("");
    let slots = (PROGRAMS.len() + 1).to_string();
    let server = Server::start(&workspace, &["--job-slots", &slots]);
    for program in &PROGRAMS {
        create(&server, program.name, program.script, tuned, "3s");
    }
    create(&server, "good", "echo acc=0.5", tuned, "600s");
    assert_eq!(ended(&server, "good")["state"], "SUCCEEDED");
    for program in &PROGRAMS {
        let job = ended(&server, program.name);
        // A trial without a metric fails.
        let expected = if program.succeeds == Some(true) && !tuned { "SUCCEEDED" } else { "FAILED" };
        assert_eq!(job["state"], expected, "{}: {job}", program.name);
    }
    let folder = workspace.path().display().to_string();
    let left: Vec<_> = processes_with(&folder).into_iter().filter(|(_, text)| !text.contains(" serve ")).collect();
    assert_eq!(left, [], "no process is left");
}

#[test]
fn jobs_of_one_run_end_whatever_their_programs_do() {
    all_end(false);
}

#[test]
fn tuning_jobs_end_whatever_their_programs_do() {
    all_end(true);
}

#[test]
fn cancelled_jobs_end_whatever_their_programs_do() {
    let workspace = Workspace::new("");
    let slots = PROGRAMS.len().to_string();
    let server = Server::start(&workspace, &["--job-slots", &slots]);
    let running: Vec<&Program> = PROGRAMS.iter().filter(|program| program.succeeds.is_none()).collect();
    for (number, program) in running.iter().enumerate() {
        create(&server, program.name, program.script, number % 2 == 0, "600s");
    }
    for program in &running {
        while !workspace.path().join(format!("started_{}", program.name)).exists() {
            std::thread::yield_now();
        }
        let (status, answer) = server.post(&format!("{}:cancel", path(program.name)), &json!({}));
        // The job may have ended by the loss of its attempts.
        assert!(status == 200 || answer["error"]["status"] == "FAILED_PRECONDITION", "{}: {answer}", program.name);
    }
    for program in &running {
        let state = ended(&server, program.name)["state"].clone();
        assert!(state == "CANCELLED" || state == "FAILED", "{}: {state}", program.name);
    }
    let folder = workspace.path().display().to_string();
    let left: Vec<_> = processes_with(&folder).into_iter().filter(|(_, text)| !text.contains(" serve ")).collect();
    assert_eq!(left, [], "no process is left");
}
