//! A server whose disk is full or whose store is changed by other programs: it reports the cause, acknowledges nothing that
//! is not kept, and continues or ends.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

const STUDIES: &str = "/v1/projects/p/locations/l/studies";
const TRIALS: &str = "/v1/projects/p/locations/l/studies/s/trials";

/// The exit code of a server whose store has stopped.
const STORE_FAILED: i32 = 74;

/// The number of requests after which a full disk must have been noticed, or noticed to be empty again.
const MOST_REQUESTS: usize = 2000;

/// A small file system in memory at `data` of a workspace, in a mount namespace of its own.
struct SmallDisk {
    workspace: Workspace,
    namespace: Child,
}

impl SmallDisk {
    fn new() -> Self {
        let workspace = Workspace::new("");
        let data = workspace.path().join("data");
        fs::create_dir(&data).unwrap();
        let mut command = tunesmith_testing::program("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "sh", "-c", "mount -t tmpfs -o size=4m tmpfs \"$0\" && echo mounted && exec cat"]);
        let mut namespace = command.arg(data).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(namespace.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n", "a file system of this test could not be mounted");
        Self { workspace, namespace }
    }

    /// `tunesmith serve` with its data on the disk, not started yet.
    fn serve(&self, kind: &str) -> Command {
        let mut command = tunesmith_testing::program("nsenter");
        command.args(["--mount", "--target", &self.namespace.id().to_string()]);
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["--", env!("CARGO_BIN_EXE_tunesmith"), "serve", "--listen", "127.0.0.1:0", "--store", kind]);
        command.arg("--data-dir").arg(self.workspace.path().join("data"));
        command.stdin(Stdio::null()).env_remove("TUNESMITH_LOG");
        command
    }

    /// The path of a file on the disk, seen from this process.
    fn file(&self, name: &str) -> PathBuf {
        let data = self.workspace.path().join("data").join(name);
        Path::new(&format!("/proc/{}/root", self.namespace.id())).join(data.strip_prefix("/").unwrap())
    }

    /// Writes a file until the disk is full.
    fn fill(&self) {
        let mut file = File::create(self.file("filler")).unwrap();
        for size in [64 * 1024, 512, 1] {
            while file.write_all(&vec![0x55; size]).is_ok() {}
        }
    }

    fn empty(&self) {
        fs::remove_file(self.file("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

fn create_study(server: &Server) {
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    }});
    let (status, answer) = server.post(&format!("{STUDIES}?studyId=s"), &study);
    assert_eq!(status, 200, "{answer}");
}

fn create_trial(server: &Server) -> (u16, Value) {
    server.post(TRIALS, &json!({"parameters": [{"parameter": "x", "floatValue": 0.25}]}))
}

/// Creates trials until the answer is `status`, and returns the answer and the number of trials that were created.
fn create_until(server: &Server, status: u16) -> (Value, usize) {
    let mut created = 0;
    for _ in 0..MOST_REQUESTS {
        let (found, answer) = create_trial(server);
        created += usize::from(found == 200);
        if found == status {
            return (answer, created);
        }
        assert!(matches!(found, 200 | 503), "{found}: {answer}");
    }
    panic!("no answer had status {status}");
}

fn trial_count(server: &Server) -> usize {
    server.get(TRIALS).1["trials"].as_array().map_or(0, Vec::len)
}

#[test]
fn full_disk_is_named_and_changes_resume_when_there_is_space() {
    let disk = SmallDisk::new();
    let server = Server::start_command(&mut disk.serve("sqlite"));
    create_study(&server);
    let (_, first) = create_until(&server, 200);
    disk.fill();
    let (answer, second) = create_until(&server, 503);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("no space left on device"), "{message}");
    assert_eq!(answer["error"]["status"], "UNAVAILABLE");
    let (status, readiness) = server.get("/readyz");
    assert_eq!(status, 503);
    assert_eq!(readiness["error"]["message"], "the store takes no changes: no space left on device");
    assert_eq!(trial_count(&server), first + second, "reads are answered, and nothing refused was kept");
    disk.empty();
    let (_, third) = create_until(&server, 200);
    assert_eq!(server.text("GET", "/readyz").0, 200);
    server.kill();
    let server = Server::start_command(&mut disk.serve("sqlite"));
    assert_eq!(trial_count(&server), first + second + third);
}

#[test]
fn sled_server_ends_on_a_full_disk_and_keeps_what_it_acknowledged() {
    let disk = SmallDisk::new();
    let server = Server::start_command(&mut disk.serve("sled"));
    create_study(&server);
    let (_, first) = create_until(&server, 200);
    disk.fill();
    let (answer, second) = create_until(&server, 503);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("no space left on device"), "{message}");
    assert_eq!(server.end(), Some(STORE_FAILED));
    let restarted = finished(disk.serve("sled").output().unwrap()).expect(STORE_FAILED);
    assert!(restarted.stderr.to_lowercase().contains("no space left on device"), "{}", restarted.stderr);
    disk.empty();
    let server = Server::start_command(&mut disk.serve("sled"));
    let count = trial_count(&server);
    // It is not known whether the last change was kept.
    assert!((first + second..=first + second + 1).contains(&count), "{count} trials, {} acknowledged", first + second);
}

#[test]
fn start_on_a_full_disk_names_it() {
    for kind in ["sqlite", "sled"] {
        let disk = SmallDisk::new();
        disk.fill();
        let start: Finished = finished(disk.serve(kind).output().unwrap()).expect(STORE_FAILED);
        assert!(start.stderr.to_lowercase().contains("no space left on device"), "{}", start.stderr);
    }
}

#[test]
fn server_that_starts_on_a_full_disk_is_not_ready_until_there_is_space() {
    let disk = SmallDisk::new();
    let server = Server::start_command(&mut disk.serve("sqlite"));
    create_study(&server);
    let (_, created) = create_until(&server, 200);
    server.kill();
    disk.fill();
    let server = Server::start_command(&mut disk.serve("sqlite"));
    let (status, readiness) = server.get("/readyz");
    assert_eq!(status, 503);
    // The audit log is on the same disk.
    let message = readiness["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the store takes no changes: no space left on device"), "{message}");
    assert_eq!(trial_count(&server), created);
    disk.empty();
    let is_ready = (0..MOST_REQUESTS).any(|_| server.text("GET", "/readyz").0 == 200);
    assert!(is_ready, "it becomes ready without a change");
    create_until(&server, 200);
}

#[test]
fn limit_on_the_size_of_files_is_named_and_does_not_end_the_server() {
    let workspace = Workspace::new("");
    let mut command = tunesmith_testing::program("sh");
    // In blocks of 512 bytes: more than the new store, less than its log becomes.
    command.args(["-c", "ulimit -f 600 && exec \"$0\" serve --listen 127.0.0.1:0 --data-dir data"]);
    command.arg(env!("CARGO_BIN_EXE_tunesmith")).current_dir(workspace.path()).env_remove("TUNESMITH_LOG");
    let server = Server::start_command(&mut command);
    create_study(&server);
    let (answer, created) = create_until(&server, 503);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("file too large"), "{message}");
    // The log was merged into the file, which is smaller, so that there is room for more.
    create_until(&server, 200);
    assert_eq!(trial_count(&server), created + 1);
}

#[test]
fn server_ends_when_its_store_is_moved_away() {
    for kind in ["sqlite", "sled"] {
        let workspace = Workspace::new("");
        let server = Server::start(&workspace, &["--store", kind]);
        create_study(&server);
        assert_eq!(create_trial(&server).0, 200);
        let (data, moved) = (workspace.path().join("data"), workspace.path().join("moved"));
        fs::create_dir(&moved).unwrap();
        move_store(&data, &moved);
        let (status, answer) = create_trial(&server);
        assert_eq!(status, 503, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("was removed while the store was open"), "{message}");
        assert_eq!(server.end(), Some(STORE_FAILED));
        move_store(&moved, &data);
        let server = Server::start(&workspace, &["--store", kind]);
        assert!((1..=2).contains(&trial_count(&server)), "the acknowledged trial was kept");
    }
}

/// Moves the files of a store from one folder to another.
fn move_store(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("store.") {
            fs::rename(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn second_server_is_refused_after_the_lock_file_was_removed() {
    for kind in ["sqlite", "sled"] {
        let workspace = Workspace::new("");
        let server = Server::start(&workspace, &["--store", kind]);
        create_study(&server);
        fs::remove_file(workspace.path().join("data/LOCK")).unwrap();
        let mut second = workspace.command();
        second.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--store", kind]);
        let second = finished(second.output().unwrap()).expect(2);
        let expected = "is in use by process ";
        assert!(second.stderr.contains(expected) && second.stderr.contains("serve"), "{}", second.stderr);
        assert_eq!(create_trial(&server).0, 200, "the first server continues");
    }
}
