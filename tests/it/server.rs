//! A real server process, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::python::interpreter;
use crate::support::Workspace;

/// A server on a free port, with its data in a workspace.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server with additional arguments.
    pub(crate) fn start(workspace: &Workspace, more: &[&str]) -> Self {
        Self::start_at(workspace, SocketAddr::from(([127, 0, 0, 1], 0)), more)
    }

    /// As [`Server::start`], at the given address.
    pub(crate) fn start_at(workspace: &Workspace, listen: SocketAddr, more: &[&str]) -> Self {
        let mut command = workspace.command();
        command.args(["serve", "--listen", &listen.to_string(), "--data-dir", "data"]).args(more);
        Self::from_command(command)
    }

    /// Starts the server that `command` runs.
    pub(crate) fn from_command(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().split_once("://").unwrap().1.parse().unwrap();
        Self { process, address }
    }

    /// Sends one request, and returns the status and the JSON body.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
        let (status, body) = self.exchange(method, path, headers, body);
        if body.is_empty() {
            return (status, Value::Null);
        }
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }

    /// Sends one request without a body, and returns the status and the text.
    pub(crate) fn text(&self, method: &str, path: &str) -> (u16, String) {
        self.exchange(method, path, "", "")
    }

    /// Waits for the process to end by itself, and returns its exit code.
    pub(crate) fn wait_for_end(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    /// Sends SIGKILL, and waits for the process to end.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends a request and closes the connection before the response.
    pub(crate) fn abandon(&self, method: &str, path: &str, headers: &str, body: &str) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
            .unwrap();
    }

    /// Sends one request, and returns the status and the text.
    pub(crate) fn exchange(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n")
            .unwrap();
        write!(stream, "{headers}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// Sends a POST request with a JSON body.
    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, "content-type: application/json\r\n", &body.to_string())
    }

    /// Sends a GET request.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "", "")
    }

    /// Runs a script of `tests/data/clients` with the published Python client against the server.
    pub(crate) fn drive(&self, script: &str, more: &[&str]) {
        let python = interpreter(&["google-api-python-client==2.202.0"]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients").join(script);
        let endpoint = format!("http://{}", self.address);
        let output = Command::new(python).arg(script).arg(endpoint).args(more).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).ends_with("all steps passed\n"), "{}", text(&output.stdout));
    }

    /// Polls an operation until it is done.
    pub(crate) fn wait(&self, mut operation: Value) -> Value {
        while operation["done"] != json!(true) {
            operation = self.get(&format!("/v1/{}", operation["name"].as_str().unwrap())).1;
        }
        operation
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
