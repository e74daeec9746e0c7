//! Read-only consoles: `tunesmith run --console`, and `tunesmith console` on a folder that `run` has open.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::access::token;
use tunesmith_testing::server::exchange_with;
use tunesmith_testing::{Workspace, finished, program, signal};

const CONFIG: &str = "
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 1
    params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}
  tunesmith: {metricFromStdout: true, seed: 3}
";

/// Reports once, and ends when the other end of the pipe is opened.
const TRAINER: &str = "echo loss=0.4375 step=3; cat release > /dev/null; echo loss=0.25 step=4";

/// Address and path of the link in a line.
fn link(line: &str) -> (SocketAddr, String) {
    let (_, rest) = line.split_once("http://").unwrap_or_else(|| panic!("no link in {line:?}"));
    let (address, path) = rest.trim().split_once('/').unwrap();
    (address.parse().unwrap(), format!("/{path}"))
}

fn first_line(output: impl std::io::Read, text: &str) -> String {
    let mut lines = BufReader::new(output).lines().map(Result::unwrap);
    lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("the output ended without {text:?}"))
}

fn console(workspace: &Workspace) -> (Child, SocketAddr, String) {
    let mut command = workspace.command();
    command.args(["console", "--data-dir", "data"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (address, path) = link(&first_line(child.stdout.take().unwrap(), "http://"));
    (child, address, path)
}

#[test]
fn running_job_is_shown_read_only_by_run_and_by_console() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", TRAINER);
    assert!(program("mkfifo").arg(workspace.path().join("release")).status().unwrap().success());
    let mut command =
        workspace.run_command(["--data-dir", "data", "--job-id", "j", "--console", "--", "sh", "train.sh"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("console: ") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "run prints no link");
    }
    let (own, page) = link(&line);
    assert!(own.ip().is_loopback() && page == "/console/projects/local/jobs/j", "{line}");
    let (mut other_process, other, overview) = console(&workspace);
    assert_eq!(overview, "/console");

    for address in [own, other] {
        let get = |path: &str| exchange_with(address, "GET", path, "", "");
        // The reported value appears while the trial runs.
        tunesmith_testing::paced::until(|| get(&format!("{page}/trials")).1.contains("0.4375"));
        let (status, text) = get(&page);
        assert_eq!(status, 200);
        assert!(text.contains("<h1>j</h1>") && text.contains("Running"), "{text}");
        assert!(!text.contains("in the queue"), "the job runs: {text}");
        assert!(!text.contains("data-method") && !text.contains("/console/new"), "there are no actions: {text}");
        let (status, text) = get("/v1/projects/local/jobs/j");
        let job: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &job["state"]), (200, &json!("RUNNING")), "{text}");
        for (method, path) in [
            ("POST", "/v1/projects/local/jobs/j:cancel"),
            ("POST", "/v1/projects/local/jobs"),
            ("DELETE", "/v1/projects/local/jobs/j"),
            ("POST", "/v1/tokens"),
        ] {
            let (status, text) = exchange_with(address, method, path, "content-type: application/json\r\n", "{}");
            assert!(status == 403 && text.contains("this address is read-only"), "{method} {path}: {status} {text}");
        }
        for page in ["/console/access", "/console/server", "/console/new"] {
            assert_eq!(get(page).0, 403, "{page}");
        }
        assert_eq!(exchange_with(address, "GET", &page, "sec-fetch-site: cross-site\r\n", "").0, 403);
    }

    // Waits until the program reads.
    std::fs::write(workspace.path().join("release"), "").unwrap();
    let ended = finished(run.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    // The console of the folder remains, and shows the end.
    let (_, text) = exchange_with(other, "GET", &page, "", "");
    assert!(text.contains("Succeeded") && text.contains("0.25"), "{text}");
    signal(&other_process, Signal::TERM);
    assert_eq!(other_process.wait().unwrap().code(), Some(0));
}

#[test]
fn sled_store_is_shown_by_the_console_of_run_alone() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", TRAINER);
    assert!(program("mkfifo").arg(workspace.path().join("release")).status().unwrap().success());
    let arguments = ["--data-dir", "data", "--store", "sled", "--job-id", "j", "--console", "--", "sh", "train.sh"];
    let mut run = workspace.run_command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Stays open: `run` writes to it until it ends.
    let mut errors = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    let (own, page) = link(&errors.find(|line| line.contains("console: ")).unwrap());
    let get = |path: &str| exchange_with(own, "GET", path, "", "");
    tunesmith_testing::paced::until(|| get(&format!("{page}/trials")).1.contains("0.4375"));

    let holder = format!("in use by process {} (tunesmith run ", run.id());
    for (args, way_out) in [
        (&["console", "--data-dir", "data"][..], "`tunesmith run --console`"),
        (&["jobs", "list", "--data-dir", "data"], "`tunesmith run --console`"),
        (
            &["serve", "--data-dir", "data", "--store", "sled", "--listen", "127.0.0.1:0"],
            "start `tunesmith serve` on it",
        ),
        (&["jobs", "cancel", "j", "--data-dir", "data"], "start `tunesmith serve` on it"),
    ] {
        let refused = finished(workspace.command().args(args).output().unwrap());
        assert_ne!(refused.code, Some(0), "{args:?}");
        assert!(refused.stderr.contains(&holder) && refused.stderr.contains(way_out), "{args:?}: {}", refused.stderr);
    }

    std::fs::write(workspace.path().join("release"), "").unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let (mut ended, address, _) = console(&workspace);
    let (_, text) = exchange_with(address, "GET", &page, "", "");
    assert!(text.contains("Succeeded") && text.contains("0.25"), "{text}");
    signal(&ended, Signal::TERM);
    assert_eq!(ended.wait().unwrap().code(), Some(0));
}

#[test]
fn consoles_without_tokens_refuse_folders_with_tokens_and_other_addresses() {
    let workspace = Workspace::new(CONFIG);
    let refused = |args: &[&str]| finished(workspace.command().args(args).output().unwrap()).expect(2).stderr;
    let text = refused(&["console", "--data-dir", "none"]);
    assert!(text.contains("none"), "{text}");
    for args in [
        &["console", "--listen", "0.0.0.0:0"][..],
        &["run", "--config", "hptuning_config.yaml", "--console=1.2.3.4:5", "--", "true"],
    ] {
        let text = refused(args);
        assert!(text.contains("expected a loopback address"), "{text}");
    }
    workspace.run(["--data-dir", "data", "--job-id", "j", "--", "echo", "loss=0.5"]).expect(0);
    token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    for args in [
        &["console", "--data-dir", "data"][..],
        &["run", "--config", "hptuning_config.yaml", "--data-dir", "data", "--console", "--", "echo", "loss=0.5"],
    ] {
        let text = refused(args);
        assert!(
            text.contains("has access tokens, and this console asks for none; serve it with tunesmith serve"),
            "{text}"
        );
    }
}
