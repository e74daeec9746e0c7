//! Programs that replace the files of their attempt by links, pipes and devices.

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

const CONFIG: &str = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 1
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith:
  metricFromStdout: true
";

/// Enters the folder of the attempt.
const ENTER: &str = "cd \"$(dirname \"$CLOUD_ML_HP_METRIC_FILE\")/..\"";

#[test]
fn log_that_is_a_link_to_an_endless_device_takes_no_memory() {
    let workspace = Workspace::new(CONFIG);
    for (name, script) in [("err", "ln -sf /dev/zero stderr.log"), ("out", "ln -sf /dev/zero stdout.log")] {
        workspace.write("train.sh", &format!("{ENTER}; {script}; exit 1"));
        let program = env!("CARGO_BIN_EXE_tunesmith");
        // With a limit, the fault ends the command instead of the machine.
        let line = format!(
            "ulimit -v 6000000; exec {program} run --config hptuning_config.yaml --data-dir {name} --export trials.csv \
             -- bash $PWD/train.sh"
        );
        let run =
            tunesmith_testing::program("bash").args(["-c", &line]).current_dir(workspace.path()).output().unwrap();
        finished(run).expect(1);
        assert!(workspace.column("reason")[0].starts_with("exit code 1"), "{:?}", workspace.column("reason"));
    }
}

fn create(server: &Server, id: &str, script: &str) {
    let input = json!({"masterConfig": {"containerCommand": ["bash", "-c", format!("{ENTER}; {script}")]}});
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": id, "trainingInput": input}));
    assert_eq!(status, 200, "{answer}");
}

fn ended(server: &Server, id: &str) -> Value {
    server.until_ended(&format!("/v1/projects/p/jobs/{id}"))
}

#[test]
fn links_and_pipes_in_place_of_logs_are_not_served_and_hold_no_thread() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    create(&server, "links", "rm stdout.log stderr.log; ln -s /etc/passwd stdout.log; mkfifo stderr.log");
    assert_eq!(ended(&server, "links")["state"], "SUCCEEDED");
    let logs = "/v1/projects/p/jobs/links/logs";
    for stream in ["stdout", "stderr"] {
        let (status, answer) = server.get(&format!("{logs}/attempt-1.master-0.{stream}"));
        assert_eq!(status, 404, "{answer}");
    }
    assert_eq!(server.get(logs).1["logs"], Value::Null);
    // No thread is held: another job runs, and the server ends.
    create(&server, "next", "echo text");
    assert_eq!(ended(&server, "next")["state"], "SUCCEEDED");
    assert_eq!(server.get("/v1/projects/p/jobs/next/logs/attempt-1.master-0.stdout").1["text"], "text\n");
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
}
