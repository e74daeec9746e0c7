//! Clients that hold connections without using them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

fn connect(server: &Server, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

/// Everything that the server sends until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // The connection may be reset after the last byte.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn unused_and_slow_connections_are_closed() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--idle-timeout", "1"]);
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(rest(connect(&server, "")), "");
    assert_eq!(rest(connect(&server, "GET /healthz HTTP/1.1\r\nhost: loc")), "");
    let headers = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 100";
    let stalled = rest(connect(&server, &format!("POST /v1/projects/p/jobs HTTP/1.1\r\n{headers}\r\n\r\n{{")));
    assert!(stalled.starts_with("HTTP/1.1 400 ") && stalled.contains("the body cannot be read"), "{stalled}");
    let answered = rest(connect(&server, request));
    assert!(answered.starts_with("HTTP/1.1 200 OK"), "{answered}");
    assert_eq!(server.text("GET", "/healthz").0, 200);
}

#[test]
fn connections_of_one_address_are_limited() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--connections-per-address", "20"]);
    let mut held: Vec<TcpStream> = Vec::new();
    for number in 0..20 {
        let mut stream = connect(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200", "connection {number}");
        held.push(stream);
    }
    for _ in 0..10 {
        let refused = rest(connect(&server, ""));
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after: 1"), "{refused}");
    }
    drop(held);
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    until(|| rest(connect(&server, request)).starts_with("HTTP/1.1 200"));
}

#[test]
fn service_goes_on_when_connections_exceed_the_open_files() {
    let workspace = Workspace::new("");
    let program = env!("CARGO_BIN_EXE_tunesmith");
    let mut command = tunesmith_testing::program("sh");
    command.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\"", program, "serve", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "data", "--idle-timeout", "2"]).current_dir(workspace.path());
    let server = Server::start_command(&mut command);
    let held: Vec<TcpStream> = (0..400).map(|_| connect(&server, "")).collect();
    let request = "GET /v1/projects/p/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    // The unused connections are still held here, and closed by the server.
    until(|| rest(connect(&server, request)).starts_with("HTTP/1.1 200"));
    drop(held);
}

#[test]
fn limit_of_open_files_is_raised_for_connections() {
    let start = |ulimit: &str| {
        let workspace = Workspace::new("");
        let program = env!("CARGO_BIN_EXE_tunesmith");
        let mut command = tunesmith_testing::program("sh");
        command.args(["-c", &format!("{ulimit}; exec \"$0\" \"$@\""), program, "serve", "--listen", "127.0.0.1:0"]);
        command.args(["--data-dir", "data", "--connections", "300"]).current_dir(workspace.path());
        let server = Server::start_command(&mut command);
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.process_id())).unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let files: u64 = files.split_whitespace().nth(3).unwrap().parse().unwrap();
        (server, files)
    };
    assert_eq!(start("ulimit -Hn 2000; ulimit -Sn 128").1, 600);
    let (server, files) = start("ulimit -n 400");
    assert_eq!(files, 400);
    server.wait_for_error("the limit of 400 open files allows 200 connections, not 300: raise its hard limit to 600");
}

/// The frames of HTTP/2 in `bytes`: type, stream and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u32, &[u8])> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        frames.push((head[3], stream, payload));
        bytes = rest;
    }
    frames
}

#[test]
fn http_2_is_served_on_the_same_port_and_closed_when_it_is_idle() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--idle-timeout", "1"]);
    let request = |authority: &str| {
        // The method GET, the scheme http, a path and the authority, as HPACK.
        let mut fields = vec![0x82, 0x86, 0x04, 8];
        fields.extend(b"/healthz");
        fields.extend([0x01, u8::try_from(authority.len()).unwrap()]);
        fields.extend(authority.as_bytes());
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // Settings, and the headers that end stream 1.
        bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        bytes.extend([0, 0, u8::try_from(fields.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
        bytes.extend(fields);
        let mut stream = connect(&server, "");
        stream.write_all(&bytes).unwrap();
        let mut received = Vec::new();
        // The client sends nothing more: the server closes the connection.
        let _ = stream.read_to_end(&mut received);
        let frames = frames(&received);
        let headers = frames.iter().find(|(kind, stream, _)| (*kind, *stream) == (1, 1));
        headers.map(|(_, _, fields)| fields.to_vec()).unwrap_or_default()
    };
    assert_eq!(request("localhost").first(), Some(&0x88), "the status 200 of the static table");
    assert_ne!(request("evil.test").first(), Some(&0x88), "the authority is checked like the header Host");
    // Part of the preface, and a preface without a request.
    assert_eq!(rest(connect(&server, "PRI * HTTP/2.0\r\n")), "");
    let mut idle = connect(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let _ = idle.read_to_end(&mut Vec::new());
}
