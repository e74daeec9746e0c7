//! Trainers that fail, each in its own way, and the documented outcome of each.

use crate::support::{Finished, Workspace, processes_with};

/// One trial of `script`, which is all that a job has, so that its outcome is the job's.
fn one_trial(script: &str, extra: &str) -> (Workspace, Finished) {
    let workspace = Workspace::new(&format!(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 1
  params:
    - {{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}}
tunesmith:
  metricFromStdout: true
  stopGracePeriod: 1s
{extra}
"
    ));
    workspace.write("train.sh", script);
    let run = workspace.run(["--", "bash", "train.sh"]);
    (workspace, run)
}

/// The reason for which the one trial failed.
#[track_caller]
fn failure(script: &str, extra: &str) -> String {
    let (workspace, run) = one_trial(script, extra);
    run.expect(1);
    assert_eq!(workspace.column("state"), ["INFEASIBLE"]);
    let path = workspace.path().display().to_string();
    assert_eq!(processes_with(&path), [], "no process is left");
    workspace.column("reason").remove(0)
}

#[track_caller]
fn success(script: &str, extra: &str) -> (String, String) {
    let (workspace, run) = one_trial(script, extra);
    run.expect(0);
    let path = workspace.path().display().to_string();
    assert_eq!(processes_with(&path), [], "no process is left");
    (workspace.column("objective_value").remove(0), workspace.column("training_step").remove(0))
}

#[test]
fn that_exit_with_a_code_fail_with_it_and_their_last_words() {
    assert_eq!(
        failure("echo acc=1; echo 'no such file: data.csv' >&2; exit 3", ""),
        "exit code 3: no such file: data.csv"
    );
}

#[test]
fn that_are_killed_fail_with_the_signal() {
    let reason = failure("echo acc=1; kill -9 $$", "");
    assert!(reason.starts_with("killed by signal 9 (SIGKILL"), "{reason}");
}

#[test]
fn that_hang_are_stopped_at_the_time_limit() {
    let reason = failure("echo acc=1; exec tail -f /dev/null", "  trialTimeLimit: 1s");
    assert_eq!(reason, "ran longer than the trial's time limit (1 s)");
}

#[test]
fn that_hang_and_ignore_sigterm_are_killed_after_the_grace_period() {
    let reason = failure("trap '' TERM; while :; do tail -f /dev/null; done", "  trialTimeLimit: 1s");
    assert_eq!(reason, "ran longer than the trial's time limit (1 s)");
}

#[test]
fn that_end_with_nan_fail_and_say_so() {
    assert_eq!(failure("echo acc=0.5 step=1; echo acc=nan step=2", ""), "the final value of \"acc\" is NaN, at step 2");
}

#[test]
fn that_report_nothing_fail_and_say_so() {
    assert_eq!(failure("true", ""), "ended without reporting \"acc\"; no other metric was seen either");
}

#[test]
fn that_report_something_else_fail_and_name_it() {
    assert_eq!(
        failure("echo accuracy=0.5; echo loss=2", ""),
        "ended without reporting \"acc\"; the metrics seen were \"accuracy\", \"loss\""
    );
}

#[test]
fn that_cannot_be_started_fail_and_say_why() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MAXIMIZE
  maxTrials: 1
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
",
    );
    workspace.run(["--", "no-such-program"]).expect(1);
    let reason = workspace.column("reason").remove(0);
    assert!(reason.starts_with("could not be started: "), "{reason}");
    assert!(reason.contains("no-such-program"), "{reason}");
}

#[test]
fn that_write_half_a_line_at_the_end_are_read_to_the_end() {
    assert_eq!(success("echo acc=0.5 step=1; printf 'acc=0.75 step=2'", ""), ("0.75".into(), "2".into()));
}

#[test]
fn that_write_a_million_metrics_are_read_to_the_end() {
    let script = "seq 1 1000000 | awk '{ printf \"acc=%g step=%d\\n\", $1 / 1000000, $1 }'";
    assert_eq!(success(script, ""), ("1.0".into(), "1000000".into()));
}

#[test]
fn that_fork_children_leave_none_behind() {
    let script = "echo acc=1; tail -f /dev/null & setsid tail -f /dev/null & (setsid tail -f /dev/null &) ; exit 0";
    assert_eq!(success(script, ""), ("1.0".into(), "1".into()));
}
