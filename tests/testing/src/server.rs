//! A real server process, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};

use crate::Workspace;
use crate::paced::found;
use crate::python::interpreter;

/// Sends one request to `address`, and returns the status and the text.
pub fn exchange_with(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let (head, body) = ask(TcpStream::connect(address).unwrap(), method, path, headers, body);
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

/// Sends one request over `stream`, and returns head and body of the response.
fn ask(stream: TcpStream, method: &str, path: &str, headers: &str, body: &str) -> (String, String) {
    let (head, body) = ask_bytes(stream, method, path, headers, body);
    let body = String::from_utf8(body).unwrap();
    let is_chunked = head.lines().any(|line| line.eq_ignore_ascii_case("transfer-encoding: chunked"));
    (head, if is_chunked { whole(&body) } else { body })
}

/// As [`ask`], with the body as it was sent.
fn ask_bytes(mut stream: TcpStream, method: &str, path: &str, headers: &str, body: &str) -> (String, Vec<u8>) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n")
        .unwrap();
    write!(stream, "{headers}\r\n{body}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let body = answer.split_off(end + 4);
    answer.truncate(end);
    (String::from_utf8(answer).unwrap(), body)
}

/// A server on a free port, with its data in a workspace.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
    /// The lines of its standard error.
    errors: Mutex<mpsc::Receiver<String>>,
}

impl Server {
    /// Starts a server with additional arguments.
    pub fn start(workspace: &Workspace, more: &[&str]) -> Self {
        Self::start_at(workspace, SocketAddr::from(([127, 0, 0, 1], 0)), more)
    }

    /// As [`Server::start`], at the given address.
    pub fn start_at(workspace: &Workspace, listen: SocketAddr, more: &[&str]) -> Self {
        let mut command = workspace.command();
        command.args(["serve", "--listen", &listen.to_string(), "--data-dir", "data"]);
        command.arg("--allow-unisolated-programs").args(more);
        Self::start_command(&mut command)
    }

    /// Starts a server with this command.
    pub fn start_command(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut errors = process.stderr.take().unwrap();
        let Some((_, address)) = line.trim().split_once("://") else {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            panic!("the server did not start: {text}");
        };
        let address = address.parse().unwrap();
        let (lines, received) = mpsc::channel();
        // Read on, so that the server never waits for its output.
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let _ = writeln!(std::io::stderr(), "{line}");
                let _ = lines.send(line);
            }
        });
        Self { process, address, errors: Mutex::new(received) }
    }

    /// Waits until the server has written a line with `text` to standard error.
    #[track_caller]
    pub fn wait_for_error(&self, text: &str) {
        let lines = self.errors.lock().unwrap();
        assert!(lines.iter().any(|line| line.contains(text)), "the output ended without {text:?}");
    }

    /// Sends `signal` to the server.
    pub fn signal(&self, signal: Signal) {
        crate::signal(&self.process, signal);
    }

    /// Waits for the end of the process, and returns its exit code.
    pub fn end(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    /// Sends one request, and returns the status and the JSON body.
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
        let (status, body) = self.exchange(method, path, headers, body);
        if body.is_empty() {
            return (status, Value::Null);
        }
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }

    /// Sends one request without a body, and returns the status and the text.
    pub fn text(&self, method: &str, path: &str) -> (u16, String) {
        self.exchange(method, path, "", "")
    }

    /// Sends SIGKILL, and waits for the process to end.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends a request and closes the connection before the response.
    pub fn abandon(&self, method: &str, path: &str, headers: &str, body: &str) {
        let mut stream = self.connect();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
    }

    /// Sends one request without a body, and returns the header `name` of the response.
    pub fn header(&self, method: &str, path: &str, name: &str) -> Option<String> {
        let (head, _) = self.parts(method, path, "", "");
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }

    /// Sends one request, and returns the status and the text.
    pub fn exchange(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let (head, body) = self.parts(method, path, headers, body);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }

    /// Sends one request, and returns head and body of the response.
    pub fn parts(&self, method: &str, path: &str, headers: &str, body: &str) -> (String, String) {
        ask(self.connect(), method, path, headers, body)
    }

    /// Sends one request without a body, and returns head and body of the response, which may be compressed.
    pub fn bytes(&self, method: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
        ask_bytes(self.connect(), method, path, headers, "")
    }

    /// Panics with the state of the process if it accepts no connection.
    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap_or_else(|error| {
            let id = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
            let ended = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
            panic!("{}: {error}; the server, process {id:?}, has ended: {ended:?}", self.address)
        })
    }

    /// The ID of the process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a GET request, and reads the beginning of the answer only.
    pub fn begin(&self, path: &str) -> (String, TcpStream) {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut begin = vec![0; "HTTP/1.1 200 OK\r\n".len()];
        stream.read_exact(&mut begin).unwrap();
        let begin = String::from_utf8(begin).unwrap();
        assert_eq!(begin, "HTTP/1.1 200 OK\r\n");
        (begin, stream)
    }

    /// Reads the rest of an answer in chunks, and returns its body.
    pub fn rest((mut answer, mut stream): (String, TcpStream)) -> String {
        stream.read_to_string(&mut answer).unwrap();
        whole(answer.split_once("\r\n\r\n").unwrap().1)
    }

    /// Sends a POST request with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, "content-type: application/json\r\n", &body.to_string())
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "", "")
    }

    /// Waits until the job at `path` is in `state`, and returns it. Panics if it has ended in another state.
    pub fn until(&self, path: &str, state: &str) -> Value {
        found(|| {
            let job = self.get(path).1;
            if job["state"] == state {
                return Some(job);
            }
            let is_final = ["SUCCEEDED", "FAILED", "CANCELLED"].iter().any(|ended| job["state"] == *ended);
            assert!(!is_final, "the job is not {state}: {job}");
            None
        })
    }

    /// Waits until the job at `path` has ended, and returns it.
    pub fn until_ended(&self, path: &str) -> Value {
        found(|| {
            let (status, job) = self.get(path);
            assert_eq!(status, 200, "{job}");
            job["endTime"].is_string().then_some(job)
        })
    }

    /// Runs a script of `tests/data/clients` with the published Python client against the server.
    pub fn drive(&self, script: &str, more: &[&str]) {
        let python = interpreter(&["google-api-python-client==2.202.0"]);
        let script = crate::root().join("tests/data/clients").join(script);
        let endpoint = format!("http://{}", self.address);
        let output = crate::program(python).arg(script).arg(endpoint).args(more).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).ends_with("all steps passed\n"), "{}", text(&output.stdout));
    }

    /// Polls an operation until it is done.
    pub fn wait(&self, mut operation: Value) -> Value {
        if operation["done"] != json!(true) {
            let path = format!("/v1/{}", operation["name"].as_str().unwrap());
            operation = found(|| Some(self.get(&path).1).filter(|operation| operation["done"] == json!(true)));
        }
        operation
    }
}

/// The body that was sent as `chunks`, which must be complete.
fn whole(mut chunks: &str) -> String {
    let mut body = String::new();
    loop {
        let (length, rest) = chunks.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.push_str(&rest[..length]);
        chunks = rest[length..].strip_prefix("\r\n").unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
