//! Clients that hold connections without using them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::paced::until;
use crate::server::Server;
use crate::support::Workspace;

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
    let mut command = crate::support::program("sh");
    command.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\"", program, "serve", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "data", "--idle-timeout", "2"]).current_dir(workspace.path());
    let server = Server::start_command(&mut command);
    let held: Vec<TcpStream> = (0..400).map(|_| connect(&server, "")).collect();
    let request = "GET /v1/projects/p/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    // The unused connections are still held here, and closed by the server.
    until(|| rest(connect(&server, request)).starts_with("HTTP/1.1 200"));
    drop(held);
}
