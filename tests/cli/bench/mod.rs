//! `tunesmith bench` as a program: comparisons, other programs as optimizers, interrupts, reports.

mod bad_input;
mod comparison;
mod external;
mod interrupts;
mod modes;
mod objective;
mod replay;
mod results;
mod tables;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;
use tunesmith_testing::{Finished, Workspace, finished, processes_with};

/// A folder in which nothing is configured.
fn workspace() -> Workspace {
    Workspace::new("")
}

/// `tunesmith bench` with the words of `args`, not started yet.
fn bench_command(workspace: &Workspace, args: &str) -> Command {
    let mut command = workspace.command();
    command.arg("bench").args(args.split_whitespace());
    command
}

/// Runs `tunesmith bench` with the words of `args` to its end.
fn bench(workspace: &Workspace, args: &str) -> Finished {
    finished(bench_command(workspace, args).output().unwrap())
}

/// The lines of a file of results; panics on a line that is not JSON, and on a last line without an end.
fn lines(workspace: &Workspace, path: &str) -> Vec<Value> {
    let text = workspace.read(path);
    assert!(text.is_empty() || text.ends_with('\n'), "{path} ends in the middle of a line");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// The records in `folder`, in the order in which they were written.
fn records(workspace: &Workspace, folder: &str) -> Vec<Value> {
    lines(workspace, &format!("{folder}/runs.jsonl"))
}

/// The records in `folder` without what differs from one time to the next, by their keys.
fn timeless(workspace: &Workspace, folder: &str) -> Vec<Value> {
    let mut records = records(workspace, folder);
    for record in &mut records {
        record.as_object_mut().unwrap().remove("suggest_ms").unwrap();
    }
    records.sort_by_key(|record| format!("{:?}", key(record)));
    records
}

/// Problem, optimizer and seed of a record.
fn key(record: &Value) -> (String, String, u64) {
    let text = |name: &str| record[name].as_str().unwrap().to_owned();
    (text("problem"), text("contestant"), record["seed"].as_u64().unwrap())
}

/// The records of one optimizer, in the order in which they were written.
fn of_optimizer(records: &[Value], optimizer: &str) -> Vec<Value> {
    records.iter().filter(|record| record["contestant"] == optimizer).cloned().collect()
}

/// The results of a record: a number each, `None` for an infeasible trial.
fn results(record: &Value) -> Vec<Option<f64>> {
    record["results"].as_array().unwrap().iter().map(Value::as_f64).collect()
}

/// Why the run of a record failed: kind and reason; `None` if it did not.
fn failure(record: &Value) -> Option<(String, String)> {
    let failure = record.get("failure")?;
    let text = |name: &str| failure[name].as_str().unwrap().to_owned();
    Some((text("kind"), text("reason")))
}

/// Adds `text` to a file.
fn append(path: &Path, text: &str) {
    std::fs::File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Replaces the file at `path` by its compressed form, `path` with `.zst`.
fn compress(workspace: &Workspace, path: &str) {
    let plain = workspace.path().join(path);
    let text = std::fs::read(&plain).unwrap();
    let compressed = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
    std::fs::write(workspace.path().join(format!("{path}.zst")), compressed).unwrap();
    std::fs::remove_file(plain).unwrap();
}

/// Waits until no process has anything to do with `workspace`; panics if one stays.
#[track_caller]
fn wait_until_nothing_runs(workspace: &Workspace) {
    let path = workspace.path().display().to_string();
    // A killed process that has no parent any more takes a moment to go.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !processes_with(&path).is_empty() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(processes_with(&path), [], "no process is left");
}

/// A path of the source tree.
fn source(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}
