//! Credentials that an MLflow server named by a job gets from this server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

use super::{TRAINER, config};

/// Answers every request with 401, and passes their heads on.
fn refusing_listener() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, heads) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap_or(0) > 2 {}
            let _ = send.send(head);
            let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    (address, heads)
}

#[test]
fn credentials_are_sent_to_the_operators_server_alone() {
    let (address, heads) = refusing_listener();
    let uri = format!("http://{address}");
    let workspace = Workspace::new(&config(1, &format!("  mlflow: {{trackingUri: \"{uri}\"}}\n")));
    workspace.write("train.sh", TRAINER);
    let run = |arguments: &[&str]| {
        let mut command = workspace.run_command(arguments);
        command.args(["--", "sh", "train.sh"]);
        command.env("MLFLOW_TRACKING_USERNAME", "ann").env("MLFLOW_TRACKING_PASSWORD", "secret");
        finished(command.output().unwrap()).expect(0)
    };
    // The configuration is the author's, the argument the operator's.
    let named = run(&["--job-id", "named"]);
    let text = named.stderr;
    assert!(
        text.contains(&format!("the export is not complete: {uri} refused experiments/get-by-name: 401")),
        "{text}"
    );
    assert!(text.contains("to send the rest: tunesmith export mlflow --data-dir .tunesmith --job named"), "{text}");
    let seen: Vec<String> = heads.try_iter().collect();
    assert!(!seen.is_empty() && seen.iter().all(|head| !head.to_lowercase().contains("authorization")), "{seen:?}");
    // Another listener, for which no request of the first run can be late.
    let (address, heads) = refusing_listener();
    let uri = format!("http://{address}");
    let chosen = run(&["--job-id", "chosen", "--mlflow", &uri]);
    assert!(!chosen.stderr.contains("secret"), "{}", chosen.stderr);
    let seen: Vec<String> = heads.try_iter().collect();
    assert!(seen.iter().all(|head| head.to_lowercase().contains("authorization: basic yw5uonnly3jlda==")), "{seen:?}");
    assert!(!seen.is_empty());
    let (address, heads) = refusing_listener();
    let uri = format!("http://{address}");
    let export = |variables: &[(&str, &str)]| {
        let mut command = workspace.command();
        command.args(["export", "mlflow", "--job", "named", "--experiment", "e"]).env("MLFLOW_TRACKING_URI", &uri);
        let refused = finished(command.envs(variables.iter().copied()).output().unwrap()).expect(2);
        let expected = format!("error: {uri} refused experiments/get-by-name: 401 \n");
        assert_eq!(refused.stderr, expected);
        heads.try_iter().collect::<String>().to_lowercase()
    };
    assert!(export(&[("MLFLOW_TRACKING_TOKEN", "abc")]).contains("authorization: bearer abc\r\n"));
    assert!(!export(&[]).contains("authorization"));
}

#[test]
fn server_connects_to_no_private_address_that_a_job_names() {
    let (address, heads) = refusing_listener();
    let uri = format!("http://{address}");
    let workspace = Workspace::new("");
    workspace.write("train.sh", TRAINER);
    let server = Server::start(&workspace, &[]);
    let submit = |job: &str, mlflow: Value| {
        let mut input: Value = serde_json::from_str(
            r#"{"hyperparameters": {"goal": "MINIMIZE", "maxTrials": 1,
            "hyperparameterMetricTag": "loss", "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0,
            "maxValue": 1}]}, "tunesmith": {"metricFromStdout": true}}"#,
        )
        .unwrap();
        input["tunesmith"]["mlflow"] = mlflow;
        workspace.write("job.yaml", &input.to_string());
        let mut command = workspace.command();
        command.args(["jobs", "submit", "training", job, "--server", &format!("http://{}", server.address)]);
        finished(command.args(["--config", "job.yaml", "--", "sh", "train.sh"]).output().unwrap())
    };
    submit("private", json!({ "trackingUri": uri })).expect(0);
    submit("none", json!({})).expect(0);
    let path = |job: &str| format!("/v1/projects/local/jobs/{job}");
    assert_eq!(server.until_ended(&path("private"))["state"], "SUCCEEDED");
    assert_eq!(server.until_ended(&path("none"))["state"], "SUCCEEDED");
    let state = |job: &str| server.get(&path(job)).1["tunesmith"]["mlflow"].clone();
    let private = state("private");
    let expected = format!(
        "{uri} is not sent to: its address is not public; the operator may allow it with MLFLOW_TRACKING_URI={uri}"
    );
    assert_eq!((&private["state"], &private["errorMessage"]), (&json!("FAILING"), &json!(expected)));
    let expected = "the job names no trackingUri, and this server has none: MLFLOW_TRACKING_URI is not set";
    assert_eq!(state("none")["errorMessage"], expected);
    assert_eq!(heads.try_iter().count(), 0, "the address was asked");
    for (uri, problem) in [
        ("file:///tmp/mlruns", "the address does not begin with http:// or https://"),
        ("http://ann:secret@host", "the address contains credentials; the server's environment provides them"),
    ] {
        let refused = submit("bad", json!({ "trackingUri": uri })).expect(2);
        assert!(refused.stderr.contains(problem), "{}", refused.stderr);
    }
}
