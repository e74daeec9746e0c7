//! Trainers that report through published packages.

use tunesmith_testing::Workspace;
use tunesmith_testing::python::{REPORTERS, interpreter};

const CONFIG: &str = "
trainingInput:
  scaleTier: BASIC
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    maxTrials: 4
    maxParallelTrials: 2
    params:
      - {parameterName: rate, type: DOUBLE, minValue: 1e-4, maxValue: 1, scaleType: UNIT_LOG_SCALE}
      - {parameterName: units, type: INTEGER, minValue: 1, maxValue: 64}
";

/// Runs four trials of `trainer`, whose accuracy at step 3 is `units / 64`, and checks the recorded results.
fn check(trainer: &str) {
    let workspace = Workspace::new(CONFIG);
    workspace.write("trainer.py", trainer);
    let python = interpreter(&REPORTERS).display().to_string();
    workspace.run(["--job-dir", "models", "--", &python, "trainer.py"]).expect(0);
    let job = workspace.job();
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for trial in trials {
        let units: f64 = trial["hyperparameters"]["units"].as_str().unwrap().parse().unwrap();
        // Event files contain single-precision values.
        let value = trial["finalMetric"]["objectiveValue"].as_f64().unwrap();
        assert!((value - units / 64.0).abs() < 1e-6, "{trial}");
        assert_eq!(trial["finalMetric"]["trainingStep"], "3");
    }
}

#[test]
fn hypertune_reports_are_read() {
    check(
        r#"
import argparse, os
import hypertune
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
parser.add_argument("--units", type=int, required=True)
parser.add_argument("--job-dir", required=True)
args = parser.parse_args()
assert os.path.isdir(args.job_dir) and os.path.basename(args.job_dir) == os.environ["CLOUD_ML_TRIAL_ID"]
reporter = hypertune.HyperTune()
for step in (1, 2, 3):
    reporter.report_hyperparameter_tuning_metric(
        hyperparameter_metric_tag="accuracy", metric_value=args.units / 64 * step / 3, global_step=step)
"#,
    );
}

#[test]
fn tensorboardx_event_files_are_read() {
    check(
        r#"
import argparse
from tensorboardX import SummaryWriter
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
parser.add_argument("--units", type=int, required=True)
parser.add_argument("--job-dir", required=True)
args = parser.parse_args()
with SummaryWriter(args.job_dir + "/eval") as writer:
    for step in (1, 2, 3):
        writer.add_scalar("accuracy", args.units / 64 * step / 3, step)
        writer.add_scalar("loss", 1 / step, step)
"#,
    );
}

#[test]
fn source_folder_is_packed_installed_and_run() {
    let workspace = Workspace::new(CONFIG);
    std::fs::create_dir_all(workspace.path().join("source/trainer")).unwrap();
    workspace.write("source/trainer/__init__.py", "");
    workspace.write(
        "source/trainer/task.py",
        r#"
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--units", type=int)
parser.add_argument("--greeting")
args = parser.parse_args()
print(f"{args.greeting}: accuracy={args.units / 64} step=3")
"#,
    );
    let config = workspace.read("hptuning_config.yaml");
    workspace.write("hptuning_config.yaml", &format!("{config}  tunesmith: {{metricFromStdout: true}}\n"));
    let package = ["--package-path", "source/trainer", "--module-name", "trainer.task", "--", "--greeting=hello"];
    let run = workspace.run(package).expect(0);
    assert!(run.stderr.contains("trainer installed"), "{}", run.stderr);
    assert!(run.stderr.lines().any(|line| line.starts_with("installing packages with ")), "{}", run.stderr);
    assert_eq!(workspace.job()["trainingOutput"]["completedTrialCount"], "4");
    let missing = workspace.run(["--package-path", "nowhere", "--module-name", "trainer.task"]).expect(2);
    assert!(missing.stderr.contains("nowhere` is not a folder of a Python package"), "{}", missing.stderr);
}
