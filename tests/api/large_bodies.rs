//! Refusals of large bodies, which reach clients that are still sending.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::client::{client, client_command};
use tunesmith_testing::server::Server;

/// Size limit of bodies that are messages.
const LIMIT: usize = 4 << 20;

/// Reads the head of a request.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

pub(crate) fn answer(stream: &mut TcpStream, status: &str, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

/// Accepts the connection of the next request, and reads its head.
pub(crate) fn request(listener: &TcpListener) -> (TcpStream, String) {
    let mut stream = listener.accept().unwrap().0;
    let head = head(&mut stream);
    (stream, head)
}

/// A configuration that is smaller than the limit as YAML, and larger as JSON: each quotation mark needs a backslash.
fn large_config(workspace: &Workspace) {
    let argument = format!("  - '{}'\n", "\"".repeat(1000));
    let arguments = argument.repeat(LIMIT / 1000 * 3 / 4);
    workspace.write("large.yaml", &format!("jobId: large\ntrainingInput:\n  args:\n{arguments}"));
}

#[test]
fn client_that_sends_four_times_the_limit_reads_the_refusal() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    for path in ["/v1/projects/p/jobs", "/v1/projects/p/locations/l/studies"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            4 * LIMIT
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'a'; 4 * LIMIT]).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("the body exceeds the size limit"), "{answer}");
    }
}

#[test]
fn command_line_prints_why_a_body_is_too_large() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    large_config(&workspace);
    let submit = ["jobs", "submit", "training", "--config", "large.yaml"];
    let refused = client(&workspace, &submit, &["--server", &format!("http://{}", server.address)]);
    assert!(refused.stderr.contains("the body exceeds the size limit"), "{refused:?}");
    assert_ne!(refused.code, Some(0));
}

#[test]
fn command_line_prints_the_refusal_of_a_server_that_reads_no_body() {
    let workspace = Workspace::new("");
    large_config(&workspace);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    let submit = ["jobs", "submit", "training", "--config", "large.yaml"];
    let mut command = client_command(&workspace, &submit, &["--server", &target]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stream, _) = request(&listener);
    let error = json!({"error": {"code": 413, "status": "INVALID_ARGUMENT", "message": "this proxy takes 1 MiB"}});
    answer(&mut stream, "413 Payload Too Large", &error);
    // The body is never read: the client cannot send all of it.
    let output = child.wait_with_output().unwrap();
    drop(stream);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("this proxy takes 1 MiB"), "{errors}");
}
