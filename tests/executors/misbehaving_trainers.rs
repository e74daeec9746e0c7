//! Trainers that misbehave, with the documented outcome of each.

use std::os::unix::fs::PermissionsExt;

use tunesmith_testing::{Finished, Workspace, processes_with};

/// Runs a job with one trial of `script`, so that the outcome of the trial is that of the job.
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

/// Returns the reason for which the trial of `script` failed.
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
fn exit_code_is_reported_with_the_last_error_line() {
    assert_eq!(
        failure("echo acc=1; echo 'no such file: data.csv' >&2; exit 3", ""),
        "exit code 3: no such file: data.csv"
    );
}

#[test]
fn signal_is_reported() {
    let reason = failure("echo acc=1; kill -9 $$", "");
    assert!(reason.starts_with("killed by signal 9 (SIGKILL"), "{reason}");
}

#[test]
fn hanging_trainer_is_stopped_at_the_time_limit() {
    let reason = failure("echo acc=1; exec tail -f /dev/null", "  trialTimeLimit: 1s");
    assert_eq!(reason, "ran longer than the trial's time limit (1 s)");
}

#[test]
fn trainer_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let reason = failure("trap '' TERM; while :; do tail -f /dev/null; done", "  trialTimeLimit: 1s");
    assert_eq!(reason, "ran longer than the trial's time limit (1 s)");
}

#[test]
fn final_nan_makes_the_trial_infeasible() {
    assert_eq!(failure("echo acc=0.5 step=1; echo acc=nan step=2", ""), "the final value of \"acc\" is NaN, at step 2");
}

#[test]
fn trial_without_report_is_infeasible() {
    assert_eq!(failure("true", ""), "ended without reporting \"acc\"; no other metric was seen either");
}

#[test]
fn trial_with_other_metrics_is_infeasible_and_names_them() {
    assert_eq!(
        failure("echo accuracy=0.5; echo loss=2", ""),
        "ended without reporting \"acc\"; the metrics seen were \"accuracy\", \"loss\""
    );
}

#[test]
fn failed_start_is_reported_with_the_reason() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MAXIMIZE
  maxTrials: 1
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
",
    );
    // The file is executable, and its interpreter does not exist.
    let script = workspace.write("train.sh", "#!/no/such/interpreter\n");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    workspace.run(["--", "./train.sh"]).expect(1);
    let reason = workspace.column("reason").remove(0);
    assert!(reason.starts_with("could not be started: "), "{reason}");
    assert!(reason.contains("./train.sh"), "{reason}");
}

#[test]
fn last_line_without_line_end_is_read() {
    assert_eq!(success("echo acc=0.5 step=1; printf 'acc=0.75 step=2'", ""), ("0.75".into(), "2".into()));
}

#[test]
fn million_reports_are_read_completely() {
    let script = "seq 1 1000000 | awk '{ printf \"acc=%g step=%d\\n\", $1 / 1000000, $1 }'";
    assert_eq!(success(script, ""), ("1.0".into(), "1000000".into()));
}

#[test]
fn child_processes_of_the_trainer_are_killed() {
    let script = "echo acc=1; tail -f /dev/null & setsid tail -f /dev/null & (setsid tail -f /dev/null &) ; exit 0";
    assert_eq!(success(script, ""), ("1.0".into(), "1".into()));
}

#[test]
fn python_logging_and_colours_are_read() {
    assert_eq!(success("echo INFO:root:acc=0.50", ""), ("0.5".into(), "1".into()));
    assert_eq!(success("printf '\\033[32macc: 0.5\\033[0m\\n'", ""), ("0.5".into(), "1".into()));
}

#[test]
fn line_that_cannot_be_read_is_quoted_in_the_reason() {
    for (line, cure) in [
        ("acc=0,93", "print the number with a decimal point and without separators of thousands"),
        ("acc=1,234", "print the number with a decimal point and without separators of thousands"),
        ("acc 0.43", "print an equals sign or a colon between the name and the value"),
        ("acc: n/a", "print one number after the sign, such as 0.93"),
    ] {
        assert_eq!(
            failure(&format!("echo '{line}'"), ""),
            format!(
                "ended without reporting \"acc\"; no other metric was seen either; the line {line:?} on standard output is not a \
                 report of \"acc\": {cure}"
            )
        );
    }
}

#[test]
fn job_fails_with_the_line_that_cannot_be_read_and_not_with_another_name() {
    let (workspace, run) = one_trial("echo 'loss=2 acc=0,93'", "");
    run.expect(1);
    let message = workspace.job()["errorMessage"].as_str().unwrap().to_owned();
    assert!(
        message.contains("the line \"loss=2 acc=0,93\" on standard output is not a report of \"acc\""),
        "{message}"
    );
    assert!(!message.contains("did you mean"), "{message}");
}

#[test]
fn longer_names_are_other_metrics_and_named_once() {
    assert_eq!(
        failure("echo 'Train acc: 0.99'; echo 'Test acc: 0.80'", ""),
        "ended without reporting \"acc\"; the metrics seen were \"Test acc\", \"Train acc\"; lines of standard output with \
         \"Test acc\" or \"Train acc\" are not reports of \"acc\"; to tune by one of them, make it the metric's tag"
    );
    assert_eq!(
        success("echo 'Train acc: 0.99'; echo 'acc: 0.5'; echo 'Best acc: 0.9'", ""),
        ("0.5".into(), "1".into())
    );
}

#[test]
fn step_that_is_none_is_replaced_with_a_notice() {
    let (workspace, run) = one_trial("echo acc=0.5 step=1.5", "");
    let stderr = run.expect(0).stderr;
    let notice = "standard output has reports with step=1.5, which is not a whole number of at least 0; such reports are \
                  counted instead";
    assert!(stderr.contains(notice), "{stderr}");
    assert_eq!(workspace.job()["tunesmith"]["notices"][0]["description"], notice);
    assert_eq!(workspace.column("training_step"), ["1"]);
}

/// Runs three trials, two at once, of `script`, and returns the notices of the job.
fn notices_of(script: &str, extra: &str, arguments: &[&str]) -> (Workspace, String) {
    let workspace = Workspace::new(&format!(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 4
  params:
    - {{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}}
tunesmith:
  metricFromStdout: true
{extra}
"
    ));
    workspace.write("train.sh", script);
    let mut words = vec!["--", "bash", "train.sh"];
    words.extend_from_slice(arguments);
    workspace.run(words).expect(0);
    let notices = workspace.job()["tunesmith"]["notices"].to_string();
    (workspace, notices)
}

#[test]
fn output_that_trials_overwrite_is_noticed() {
    let script = "mkdir -p checkpoints; echo $1 > checkpoints/best.pkl; echo acc=1";
    let (_, notices) = notices_of(script, "", &[]);
    assert!(notices.contains("trials overwrite each other's files: checkpoints/best.pkl in "), "{notices}");
    let script = "mkdir -p out/$CLOUD_ML_TRIAL_ID; echo > out/$CLOUD_ML_TRIAL_ID/best.pkl; echo acc=1";
    let (_, notices) = notices_of(script, "", &[]);
    assert_eq!(notices, "null");
}

#[test]
fn each_trial_gets_its_number_and_its_folder_in_arguments() {
    let script = r#"echo "$@" > "arguments-$CLOUD_ML_TRIAL_ID"; echo acc=1"#;
    let (workspace, _) = notices_of(script, "", &["--output-dir=out/{trial}", "{{trial}} {\"trial\": {}}"]);
    for trial in 1..=4 {
        let arguments = workspace.read(&format!("arguments-{trial}"));
        let expected = format!("--output-dir=out/{trial} {{trial}} {{\"trial\": {{}}}} --x=");
        assert!(arguments.starts_with(&expected), "{arguments}");
        assert!(!arguments.contains("--job-dir"), "{arguments}");
    }
    let script =
        r#"for last; do :; done; echo "$last" > "flag-$CLOUD_ML_TRIAL_ID"; echo > "${last#*=}/model"; echo acc=1"#;
    let (workspace, notices) = notices_of(script, "  jobDirFlag: output-dir", &[]);
    for trial in 1..=4 {
        let flag = workspace.read(&format!("flag-{trial}"));
        let folder = flag.trim().strip_prefix("--output-dir=").unwrap_or_else(|| panic!("{flag}"));
        assert!(folder.ends_with(&format!("/output/{trial}")), "{flag}");
        assert!(std::path::Path::new(folder).join("model").exists(), "{folder}");
    }
    assert_eq!(notices, "null");
}
