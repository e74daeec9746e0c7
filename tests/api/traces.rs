//! Traces over OTLP, as received by a collector. Built with `--features otlp`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use tunesmith_testing::{Workspace, wait_for_line};

#[test]
fn each_request_is_a_span_with_its_id() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let workspace = Workspace::new("");
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--log-format", "json"]);
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "10");
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().split_once("://").unwrap().1;
    let mut client = std::net::TcpStream::connect(address).unwrap();
    write!(client, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-request-id: request-17\r\nconnection: close\r\n\r\n")
        .unwrap();
    wait_for_line(&client, "200 OK");

    let (stream, _) = collector.accept().unwrap();
    let mut reader = BufReader::new(&stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    assert!(first.starts_with("POST /v1/traces "), "{first}");
    let text = String::from_utf8_lossy(&body);
    for expected in ["tunesmith", "request", "request-17", "/healthz"] {
        assert!(text.contains(expected), "{expected} is not in {text:?}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
