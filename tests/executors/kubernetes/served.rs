//! A server whose jobs run on the cluster of this process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tunesmith_contract::executor::shell;
use tunesmith_executor::remote::RemoteExecutor;
use tunesmith_executor::{Executor, ExecutorJobState, ExitStatus, ProgramEnd, StopMode, StopReason};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::found;
use tunesmith_testing::server::Server;

use super::InProcess;
use super::runs::kubeconfig;

/// Starts `tunesmith serve` for the cluster of `place`, with further `options`.
pub(super) fn serve(place: &InProcess, workspace: &Workspace, options: &[&str]) -> Server {
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--executor", "kubernetes"]);
    command.args(["--kubernetes-agent-image", "tunesmith:test", "--kubernetes-image", "trainer:1"]);
    command.args(["--kubernetes-agent-path", env!("CARGO_BIN_EXE_tunesmith")]).args(options);
    command.env("KUBECONFIG", kubeconfig(place, workspace));
    tokio::task::block_in_place(|| Server::start_command(&mut command))
}

/// A job of one trial whose program is `script`.
pub(super) fn input(script: &str) -> Value {
    json!({
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true},
    })
}

/// Submits the job `id`, and returns the status and the answer.
pub(super) fn submit(server: &Server, id: &str, input: &Value) -> (u16, Value) {
    let body = json!({"jobId": id, "trainingInput": input});
    tokio::task::block_in_place(|| server.post("/v1/projects/p/jobs", &body))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_for_agents_is_a_name_of_the_server() {
    let place = InProcess::without_nodes();
    let workspace = Workspace::new("");
    let server = serve(
        &place,
        &workspace,
        &["--kubernetes-server", "http://tunes.example:8080", "--ray-server", "https://head.example"],
    );
    let status = |host: &str| {
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    tokio::task::block_in_place(|| {
        let hosts = ["tunes.example:8080", "tunes.example", "head.example", "localhost", "other.example"];
        assert_eq!(hosts.map(status), ["200", "200", "200", "200", "403"]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_does_not_reach_the_server_is_a_reason_for_waiting() {
    let place = InProcess::new();
    // No server listens there.
    place.server.set("http://127.0.0.1:9".to_owned()).unwrap();
    let executor = RemoteExecutor::new(place.engine(), Arc::clone(&place.inbox));
    let executor = executor.with_contact_timeout(Duration::from_millis(1));
    let spec = shell(&place, 1, "true");
    executor.submit(&spec).await.unwrap();
    let reason = loop {
        match executor.state(&spec.id).await.unwrap() {
            ExecutorJobState::Waiting { reason } if reason.starts_with("its agent runs") => break reason,
            ExecutorJobState::Waiting { .. } | ExecutorJobState::Running => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    };
    assert!(reason.contains("has not reported for 0.0"), "{reason}");
    assert!(reason.ends_with(" s; it reaches the server at http://127.0.0.1:9"), "{reason}");
    // It hears of no request, so that its Job is removed.
    executor.stop(&spec.id, StopMode::Graceful).await.unwrap();
    let end = ProgramEnd::NotStarted("it was stopped before it started".to_owned());
    let ended = ExecutorJobState::Ended(ExitStatus { end, stopped: Some(StopReason::Requested) });
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended);
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_wait_for_the_cluster_take_no_job_slot() {
    let place = InProcess::without_nodes();
    let workspace = Workspace::new("");
    let server = serve(&place, &workspace, &["--job-slots", "1", "--remote-job-slots", "3"]);
    for id in ["first", "second", "third", "fourth"] {
        assert_eq!(submit(&server, id, &input("echo acc=1")).0, 200);
    }
    tokio::task::block_in_place(|| {
        for id in ["first", "second", "third"] {
            server.until(&format!("/v1/projects/p/jobs/{id}"), "RUNNING");
        }
        let waiting = found(|| {
            let job = server.get("/v1/projects/p/jobs/fourth").1;
            job["tunesmith"]["waiting"][0]["reason"].as_str().map(str::to_owned)
        });
        assert_eq!(waiting, "3 of 3 remote job slots are in use, and it is the next job");
        server.wait_for_error("the server has the loopback address http://127.0.0.1:");
        // The pages of the job and of the trial state why it waits.
        for page in ["", "/trials/1"] {
            found(|| {
                let text = server.text("GET", &format!("/console/projects/p/jobs/first{page}")).1;
                text.contains("Waiting: its pod was not created yet").then_some(())
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_without_a_command_is_refused_when_its_job_is_submitted() {
    let place = InProcess::without_nodes();
    let workspace = Workspace::new("");
    let server = serve(&place, &workspace, &[]);
    let mut without = input("");
    without["masterConfig"] = json!({"imageUri": "trainer:1"});
    let (status, answer) = submit(&server, "without", &without);
    assert_eq!(status, 400, "{answer}");
    let text = answer.to_string();
    assert!(text.contains("the image trainer:1 has no command"), "{text}");
    assert!(text.contains("masterConfig.containerCommand"), "{text}");
}
