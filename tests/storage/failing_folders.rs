//! Folders that cannot be created for a moment: strace lets one system call fail.

use tunesmith_testing::{Workspace, finished, program};

const CONFIG: &str = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 2
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith:
  metricFromStdout: true
";

/// Number of calls of each thread that fail, one after the other: more than any thread makes for one trial.
const CALLS: usize = 12;

#[test]
fn folder_that_cannot_be_created_once_ends_no_trial() {
    for call in 1..=CALLS {
        let workspace = Workspace::new(CONFIG);
        let arguments = ["--job-id", "j", "--data-dir", "data", "--job-dir", "models"];
        let arguments = arguments.into_iter().chain(["--", "sh", "-c", "echo acc=0.5"]);
        let run = workspace.run_command(arguments.clone());
        let inject = format!("inject=mkdir,mkdirat:error=ENOSPC:when={call}");
        let mut faulty = program("strace");
        faulty.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=mkdir,mkdirat", "-e", &inject]);
        faulty.arg(run.get_program()).args(run.get_args()).current_dir(workspace.path());
        let outcome = finished(faulty.stdin(std::process::Stdio::null()).output().unwrap());
        // Before there is a job, the command fails with the reason.
        if outcome.code != Some(0) {
            assert!(outcome.stderr.contains("No space left on device"), "{call}: {outcome:?}");
            workspace.run(arguments).expect(0);
        }
        assert_eq!(workspace.column("objective_value"), ["0.5", "0.5"], "{call}: {outcome:?}");
    }
}
