//! The progress of uploads, as the command line shows it.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use tunesmith_testing::Workspace;
use tunesmith_testing::client::client_command;

use crate::large_bodies::{answer, request};

/// Runs a command on a terminal, whose output is the standard output of the process.
const ON_TERMINAL: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

/// Submits a job with a package of 8 MiB to a server that takes 1 MiB, and the rest after `meanwhile`.
fn upload(workspace: &Workspace, on_terminal: bool, meanwhile: impl FnOnce(&mut Child)) -> String {
    let package = vec![b'x'; 8 << 20];
    std::fs::write(workspace.path().join("trainer-1.tar.gz"), &package).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    let submit = ["jobs", "submit", "training", "j", "--packages", "trainer-1.tar.gz", "--module-name", "trainer.task"];
    let plain = client_command(workspace, &submit, &["--server", &target]);
    let mut command = tunesmith_testing::program("python3");
    command.args(["-c", ON_TERMINAL]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(workspace.path()).env("TERM", "xterm").env("COLUMNS", "120");
    let mut command = if on_terminal { command } else { plain };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stream, get) = request_of(&mut child, &listener);
    assert!(get.starts_with("get /v1/projects/"), "{get}");
    answer(&mut stream, "404 Not Found", &json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "none"}}));
    let (mut stream, put) = request_of(&mut child, &listener);
    assert!(put.starts_with("put /") && put.contains(&format!("content-length: {}\r\n", package.len())), "{put}");
    let mut body = vec![0; package.len()];
    stream.read_exact(&mut body[..1 << 20]).unwrap();
    meanwhile(&mut child);
    stream.read_exact(&mut body[1 << 20..]).unwrap();
    assert!(body == package);
    let uploaded = json!({
        "name": "projects/default/packages/00/trainer-1.tar.gz",
        "uri": "tunesmith://packages/trainer-1.tar.gz",
        "sizeBytes": package.len().to_string(),
    });
    answer(&mut stream, "200 OK", &uploaded);
    let (mut stream, _) = request_of(&mut child, &listener);
    let job = json!({
        "jobId": "j",
        "trainingInput": {},
        "createTime": "2026-11-26T00:00:00Z",
        "state": "QUEUED",
        "trainingOutput": {},
    });
    answer(&mut stream, "200 OK", &job);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Accepts the next request of `child`. Fails with its output if it ends instead.
#[track_caller]
fn request_of(child: &mut Child, listener: &TcpListener) -> (TcpStream, String) {
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
    retry_on_intr(|| poll(&mut ready, None)).unwrap();
    if ready[0].revents().is_empty() {
        let (mut output, mut errors) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        panic!("the client ended without the request: {}\n{output}{errors}", child.wait().unwrap());
    }
    request(listener)
}

#[test]
fn long_upload_shows_the_bytes_on_a_terminal() {
    let workspace = Workspace::new("");
    let rest = upload(&workspace, true, |child| {
        // The upload cannot end before this line is shown.
        let mut output = Shown { output: child.stdout.take().unwrap(), seen: String::new() };
        output.wait_for("/8.00 MiB");
        output.wait_for("uploading trainer-1.tar.gz");
        child.stdout = Some(output.output);
    });
    assert!(rest.contains("package trainer-1.tar.gz: 8388608 bytes uploaded"), "{rest:?}");
}

#[test]
fn upload_prints_one_line_without_a_terminal() {
    let workspace = Workspace::new("");
    let text = upload(&workspace, false, |_| {});
    assert!(text.contains("package trainer-1.tar.gz: 8388608 bytes uploaded\n"), "{text:?}");
    assert!(!text.contains("uploading"), "{text:?}");
}

/// The output of a terminal.
struct Shown<R> {
    output: R,
    seen: String,
}

impl<R: Read> Shown<R> {
    /// Reads up to `text`.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let mut byte = [0];
        while !self.seen.ends_with(text) {
            assert_eq!(self.output.read(&mut byte).unwrap(), 1, "the output ended without {text:?}: {:?}", self.seen);
            self.seen.push(char::from(byte[0]));
        }
    }
}
