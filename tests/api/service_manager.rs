//! Messages to the service manager, systemd, and lines in its journal.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

/// Next message on `socket`, by its lines.
fn message(socket: &UnixDatagram) -> Vec<String> {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn start_reload_and_end_are_announced() {
    let workspace = Workspace::new("");
    let path = workspace.path().join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]).env("NOTIFY_SOCKET", &path);
    let server = Server::start_command(&mut command);

    let url = format!("http://{}", server.address);
    assert_eq!(message(&socket), ["READY=1", &format!("STATUS=listening on {url}")]);
    server.signal(Signal::HUP);
    let reloading = message(&socket);
    assert_eq!(reloading[0], "RELOADING=1");
    let since = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap();
    assert!(since.parse::<u64>().unwrap() > 0, "{since}");
    assert_eq!(message(&socket), ["READY=1"]);
    server.signal(Signal::TERM);
    assert_eq!(
        message(&socket),
        ["STOPPING=1", "STATUS=ending; running trials go on, and the next server adopts them"]
    );
    assert_eq!(server.end(), Some(0));
}

#[test]
fn lines_in_the_journal_have_a_priority_and_no_time() {
    let workspace = Workspace::new("");
    let errors = |stream: Option<&dyn Fn(&File) -> String>, format: &str| {
        let path = workspace.path().join("errors");
        let file = File::create(&path).unwrap();
        let mut command = workspace.command();
        command.args(["--log-format", format, "jobs", "describe", "absent", "--data-dir", "data"]);
        if let Some(stream) = stream {
            command.env("JOURNAL_STREAM", stream(&file));
        }
        assert_eq!(command.stderr(file).status().unwrap().code(), Some(2));
        fs::read_to_string(&path).unwrap()
    };
    let of_file = |file: &File| {
        let metadata = file.metadata().unwrap();
        format!("{}:{}", metadata.dev(), metadata.ino())
    };

    let plain = errors(None, "text");
    assert!(plain.starts_with("error: "), "{plain}");
    assert_eq!(errors(Some(&|_| "1:1".to_owned()), "text"), plain, "another stream leads to the journal");
    let journal = errors(Some(&of_file), "text");
    let unprefixed: Vec<&str> = journal.lines().map(|line| line.strip_prefix("<3>").unwrap()).collect();
    assert_eq!(unprefixed, plain.lines().collect::<Vec<_>>());

    let json = errors(Some(&of_file), "json");
    let event: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(event["level"], "ERROR");
    assert_eq!(format!("error: {}", event["message"].as_str().unwrap()), plain.trim_end());
}
