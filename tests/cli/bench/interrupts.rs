//! Comparisons that are interrupted, killed, or started twice in one folder.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tunesmith_testing::{Workspace, finished, processes_with, signal};

use super::{append, bench, bench_command, key, records, timeless, wait_until_nothing_runs, workspace};

/// A random search that reports its third study through a pipe and then sends no answers, unless a file exists.
const OPTIMIZER: &str = r#"
import json, os, random, sys, time
studies = 0
for line in sys.stdin:
    request = json.loads(line)
    answer = {}
    if request["method"] == "create":
        parameters, draw = request["problem"]["parameters"], random.Random(request["seed"])
        studies += 1
    elif request["method"] == "suggest":
        if studies == 3 and not os.path.exists("go-on"):
            open("pipe", "w").write("third study")
            sys.stdin.read() if sys.argv[1] == "reads" else time.sleep(600)
        answer["suggestions"] = [
            {p["name"]: draw.uniform(p["min"], p["max"]) for p in parameters} for _ in request["trials"]]
    print(json.dumps(answer), flush=True)
"#;

const COMPARISON: &str = "--suite bbob --dims 2 --problems f01 --algorithms random --budget 4 --seeds 6 --out";

struct Stuck {
    workspace: Workspace,
    argument: &'static str,
}

impl Stuck {
    /// A comparison with an optimizer that gets stuck in its third study: it `sleeps` or `reads`.
    fn new(argument: &'static str) -> Self {
        let workspace = workspace();
        workspace.write("optimizer.py", OPTIMIZER);
        assert!(tunesmith_testing::program("mkfifo").arg(workspace.path().join("pipe")).status().unwrap().success());
        Self { workspace, argument }
    }

    fn command(&self, out: &str) -> Command {
        let mut command = bench_command(&self.workspace, COMPARISON);
        command.arg(out);
        let script = self.workspace.path().join("optimizer.py");
        command.arg("--external").arg(format!("stuck=python3 {} {}", script.display(), self.argument));
        command
    }

    /// Starts the comparison and waits until its optimizer is stuck.
    fn start(&self) -> Child {
        let child = self.command("out").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        File::open(self.workspace.path().join("pipe")).unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "third study");
        child
    }

    fn runs(&self) -> PathBuf {
        self.workspace.path().join("out/runs.jsonl")
    }

    /// Lets the optimizer continue, resumes the comparison, and compares it with an uninterrupted one.
    fn goes_on(&self, known: usize) {
        let before = self.workspace.read("out/runs.jsonl");
        self.workspace.write("go-on", "");
        let rest = finished(self.command("out").output().unwrap()).expect(0);
        let expected = format!("{} runs are new, {known} were there, 0 failed", 12 - known);
        assert!(rest.stderr.contains(&expected), "{}", rest.stderr);
        let whole: String = before.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
        assert!(self.workspace.read("out/runs.jsonl").starts_with(&whole));

        finished(self.command("other").output().unwrap()).expect(0);
        assert_eq!(timeless(&self.workspace, "out"), timeless(&self.workspace, "other"));
        assert_eq!(records(&self.workspace, "other").len(), 12);
    }
}

fn seeds_and_names(records: &[Value]) -> Vec<(u64, String)> {
    records.iter().map(key).map(|(_, optimizer, seed)| (seed, optimizer)).collect()
}

fn first_five() -> Vec<(u64, String)> {
    [(1, "random"), (1, "stuck"), (2, "random"), (2, "stuck"), (3, "random")]
        .map(|(seed, name)| (seed, name.into()))
        .into()
}

#[test]
fn interrupt_keeps_ended_runs_and_leaves_no_process() {
    for interrupt in [Signal::INT, Signal::TERM] {
        let stuck = Stuck::new("sleeps");
        let child = stuck.start();
        let script = stuck.workspace.path().join("optimizer.py").display().to_string();
        assert!(processes_with(&script).len() > 1, "the comparison and its optimizer run");
        signal(&child, interrupt);
        let run = finished(child.wait_with_output().unwrap()).expect(130);
        assert_eq!(run.stderr, "interrupted; run the same command again to continue\n");
        assert_eq!(run.stdout, "");
        wait_until_nothing_runs(&stuck.workspace);
        assert_eq!(seeds_and_names(&records(&stuck.workspace, "out")), first_five());
        stuck.goes_on(5);
    }
}

#[test]
fn killed_comparison_is_resumed_without_its_torn_line() {
    let stuck = Stuck::new("reads");
    let mut child = stuck.start();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seeds_and_names(&records(&stuck.workspace, "out")), first_five());
    append(&stuck.runs(), r#"{"suite":"bbob","problem":"f01/d02","se"#);

    let report = bench(&stuck.workspace, "report out --out report").expect(0);
    assert!(report.stdout.contains("2 optimizers, 1 problem, 5 runs"), "{}", report.stdout);
    stuck.goes_on(5);
}

#[test]
fn a_folder_has_one_comparison_at_a_time() {
    let stuck = Stuck::new("sleeps");
    let child = stuck.start();
    let second = finished(stuck.command("out").output().unwrap()).expect(2);
    assert_eq!(second.stderr, "error: another benchmark is running in out\n");
    assert_eq!(records(&stuck.workspace, "out").len(), 5);
    signal(&child, Signal::INT);
    finished(child.wait_with_output().unwrap()).expect(130);
    assert_eq!(records(&stuck.workspace, "out").len(), 5);
}
