//! `tunesmith local train` with a Python package, as one process and as a cluster.

use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tunesmith_testing::{Finished, Workspace, finished, processes_with, signal, wait_for_line};

/// Returns a workspace with the package `trainer` in `src`, which has the module `task`.
fn workspace(task: &str) -> Workspace {
    let workspace = Workspace::new("");
    std::fs::create_dir_all(workspace.path().join("src/trainer")).unwrap();
    workspace.write("src/trainer/__init__.py", "");
    workspace.write("src/trainer/task.py", task);
    workspace
}

fn command(workspace: &Workspace, args: &[&str]) -> Command {
    let mut command = workspace.command();
    command.args(["local", "train"]).args(args).env_remove("PYTHONPATH");
    command
}

/// Runs the module of the package to its end.
fn train(workspace: &Workspace, args: &[&str]) -> Finished {
    let package = ["--module-name", "trainer.task", "--package-path", "src/trainer"];
    finished(command(workspace, &package).args(args).output().unwrap())
}

fn spawn(workspace: &Workspace) -> Child {
    let mut command = command(workspace, &["--module-name", "trainer.task", "--package-path", "src/trainer"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn pipe(workspace: &Workspace, name: &str) {
    mknodat(CWD, workspace.path().join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Returns the lines with `label`, without the label.
fn labelled<'a>(output: &'a str, label: &str) -> Vec<&'a str> {
    output.lines().filter_map(|line| line.strip_prefix(label)?.strip_prefix(' ')).collect()
}

#[test]
fn arguments_paths_and_exit_code_are_passed_on() {
    let workspace = workspace(
        "
import json, os, sys
import helper
print(json.dumps({'args': sys.argv[1:], 'folder': os.getcwd(), 'config': json.loads(os.environ['TF_CONFIG'])}))
print(helper.__file__)
print('wrong', file=sys.stderr)
print('no end', end='')
sys.exit(7)
",
    );
    std::fs::create_dir(workspace.path().join("more")).unwrap();
    workspace.write("more/helper.py", "");
    let mut command = command(&workspace, &["--module-name", "trainer.task", "--package-path", "src/trainer/"]);
    command.env("PYTHONPATH", workspace.path().join("more")).args(["--job-dir", "gs://bucket/model"]);
    let run = finished(command.args(["--", "--epochs=3", "--name", "two words"]).output().unwrap()).expect(7);
    let lines = labelled(&run.stdout, "[master]");
    assert_eq!(lines.len(), run.stdout.lines().count(), "{}", run.stdout);
    let output: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    let arguments = serde_json::json!(["--epochs=3", "--name", "two words", "--job-dir=gs://bucket/model"]);
    assert_eq!(output["args"], arguments);
    assert_eq!(output["folder"], workspace.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(output["config"]["job"], serde_json::json!({"job_name": "trainer.task", "args": arguments}));
    assert_eq!(output["config"]["task"]["type"], "master");
    assert!(lines[1].ends_with("more/helper.py"), "{}", lines[1]);
    assert_eq!(lines[2], "no end");
    assert_eq!(labelled(&run.stderr, "[master]"), ["wrong"]);
}

#[test]
fn signal_of_the_trainer_is_reported_as_exit_code_like_in_shells() {
    let workspace = workspace("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n");
    train(&workspace, &[]).expect(137);
}

#[test]
fn output_is_stored_in_the_data_folder() {
    let workspace = workspace("print('kept')\n");
    for _ in 0..2 {
        train(&workspace, &["--data-dir", "data"]).expect(0);
    }
    let runs: Vec<_> = std::fs::read_dir(workspace.path().join("data/local")).unwrap().flatten().collect();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(std::fs::read_to_string(run.path().join("stdout.log")).unwrap(), "kept\n");
    }
}

/// Every replica but the master listens on its address, reports readiness through a pipe, sends a greeting to a client,
/// and prints a line on SIGTERM.
const CLUSTER: &str = "
import json, os, signal, socket
config = json.loads(os.environ['TF_CONFIG'])
role, index = config['task']['type'], config['task']['index']
address = lambda text: (text.rsplit(':', 1)[0], int(text.rsplit(':', 1)[1]))
if role == 'master':
    open('evaluator-0').read()
    for other, addresses in sorted(config['cluster'].items()):
        for i, text in enumerate(addresses):
            if other != 'master':
                open(f'{other}-{i}').read()
                with socket.create_connection(address(text)) as connection:
                    print(other, i, 'answers', connection.makefile().read())
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if role != 'evaluator':
        listener = socket.create_server(address(config['cluster'][role][index]))
    with open(f'{role}-{index}', 'w') as pipe:
        pipe.write('ready')
    if role != 'evaluator':
        connection, _ = listener.accept()
        with connection:
            connection.sendall(f'hello from {role} {index}'.encode())
    signal.sigwait({signal.SIGTERM})
    print('the last word', end='')
";

#[test]
fn replicas_connect_through_tf_config() {
    let workspace = workspace(CLUSTER);
    for name in ["worker-0", "worker-1", "ps-0", "evaluator-0"] {
        pipe(&workspace, name);
    }
    let counts = ["--worker-count", "2", "--parameter-server-count", "1", "--evaluator-count", "1"];
    let run = train(&workspace, &[&["--distributed"][..], &counts].concat()).expect(0);
    let greetings = [
        "ps 0 answers hello from ps 0",
        "worker 0 answers hello from worker 0",
        "worker 1 answers hello from worker 1",
    ];
    assert_eq!(labelled(&run.stdout, "[master]"), greetings);
    for label in ["[worker 0]", "[worker 1]", "[ps 0]", "[evaluator 0]"] {
        assert_eq!(labelled(&run.stdout, label), ["the last word"], "{label}");
    }
    assert_eq!(processes_with(&workspace.path().display().to_string()), []);
}

#[test]
fn default_cluster_has_two_workers_and_two_parameter_servers() {
    let workspace = workspace(
        "
import json, os, signal
config = json.loads(os.environ['TF_CONFIG'])
if config['task']['type'] == 'master':
    print({role: len(addresses) for role, addresses in sorted(config['cluster'].items())})
else:
    signal.pause()
",
    );
    let run = train(&workspace, &["--distributed"]).expect(0);
    assert_eq!(labelled(&run.stdout, "[master]"), ["{'master': 1, 'ps': 2, 'worker': 2}"]);
}

#[test]
fn failed_worker_does_not_end_the_job() {
    let workspace = workspace(
        "
import json, os, sys
if json.loads(os.environ['TF_CONFIG'])['task']['type'] == 'master':
    print(open('worker').read())
    sys.exit(5)
pipe = os.open('worker', os.O_WRONLY)
os.write(pipe, b'alive')
sys.exit('out of memory')
",
    );
    pipe(&workspace, "worker");
    let counts = ["--worker-count=1", "--parameter-server-count=0"];
    let run = train(&workspace, &[&["--distributed"][..], &counts].concat()).expect(5);
    // The pipe is closed when the worker has ended.
    assert_eq!(labelled(&run.stdout, "[master]"), ["alive"]);
    assert_eq!(labelled(&run.stderr, "[worker 0]"), ["out of memory"]);
}

#[test]
fn invalid_input_is_rejected_before_a_process_starts() {
    let workspace = workspace("print('it ran')\n");
    let cases: [(&[&str], &str); 6] = [
        (&["--package-path", "src/trainer", "--", "python3", "task.py"], "give --module-name"),
        (&["--module-name", "trainer.task", "--package-path", "missing"], "missing is not a folder"),
        (&["--module-name", "trainer.task", "--worker-count", "1"], "--worker-count needs --distributed"),
        (
            &["--module-name", "trainer.task", "--parameter-server-count", "1"],
            "--parameter-server-count needs --distributed",
        ),
        (&["--module-name", "trainer.task", "--distributed", "--worker-count", "1001"], "1001 is not in 0..=1000"),
        (&["--module-name", "trainer.task", "--epochs=3"], "unexpected argument '--epochs'"),
    ];
    for (args, message) in cases {
        let refused = finished(command(&workspace, args).output().unwrap()).expect(2);
        assert!(refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
}

#[test]
fn interrupt_lets_the_trainer_end_by_itself() {
    let workspace = workspace(
        "
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print('ready')
signal.sigwait({signal.SIGTERM})
print('saved')
",
    );
    let mut child = spawn(&workspace);
    wait_for_line(child.stdout.as_mut().unwrap(), "[master] ready");
    signal(&child, Signal::INT);
    let run = finished(child.wait_with_output().unwrap()).expect(130);
    assert_eq!(run.stdout, "[master] saved\n");
}

#[test]
fn second_interrupt_stops_at_once() {
    let workspace = workspace(
        "
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready')
while True:
    signal.pause()
",
    );
    let mut child = spawn(&workspace);
    wait_for_line(child.stdout.as_mut().unwrap(), "[master] ready");
    signal(&child, Signal::INT);
    wait_for_line(child.stderr.as_mut().unwrap(), "once more stops at once");
    signal(&child, Signal::INT);
    finished(child.wait_with_output().unwrap()).expect(130);
    assert_eq!(processes_with(&workspace.path().display().to_string()), []);
}

#[test]
fn closed_output_pipe_ends_the_job() {
    let workspace = workspace("while True:\n    print('more')\n");
    let mut child = spawn(&workspace);
    wait_for_line(child.stdout.take().unwrap(), "[master] more");
    let run = finished(child.wait_with_output().unwrap()).expect(1);
    assert!(run.stderr.contains("the output could not be shown"), "{}", run.stderr);
    assert_eq!(processes_with(&workspace.path().display().to_string()), []);
}
