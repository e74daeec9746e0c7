//! One metric in event files of several folders, as Keras and Estimators write them.

use serde_json::Value;
use tunesmith_testing::python::{REPORTERS, interpreter};
use tunesmith_testing::{Finished, Workspace};

const CONFIG: &str = "
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 1
    params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
";

/// Runs one trial that writes `loss` to `folders`, each with its step and value, in this order.
fn run(more: &str, folders: &[(&str, i64, f64)]) -> (Workspace, Finished) {
    let workspace = Workspace::new(&format!("{CONFIG}{more}"));
    let writes: Vec<String> =
        folders.iter().map(|(folder, step, value)| format!("(\"{folder}\", {step}, {value})")).collect();
    workspace.write(
        "trainer.py",
        &format!(
            "import sys
from tensorboardX import SummaryWriter
job_dir = [a.split('=', 1)[1] for a in sys.argv if a.startswith('--job-dir=')][0]
for folder, step, value in [{}]:
    with SummaryWriter(job_dir + '/' + folder) as writer:
        writer.add_scalar('loss', value, step)
",
            writes.join(", ")
        ),
    );
    let python = interpreter(&REPORTERS).display().to_string();
    let finished = workspace.run(["--job-dir", "models", "--", &python, "trainer.py"]);
    (workspace, finished)
}

fn result(workspace: &Workspace) -> (f64, Value) {
    let trial = workspace.job()["trainingOutput"]["trials"][0].clone();
    let value = trial["finalMetric"]["objectiveValue"].as_f64().unwrap();
    ((value * 1e4).round() / 1e4, trial["tunesmith"]["metricFolders"].clone())
}

#[test]
fn evaluation_is_the_result_in_whatever_order_the_files_were_written() {
    let validation = ("validation", 100, 0.55);
    let train = [("train", 0, 0.2), ("train", 50, 0.15), ("train", 101, 0.09)];
    for folders in [
        [validation, train[0], train[1], train[2]],
        [train[0], validation, train[1], train[2]],
        [train[0], train[1], train[2], validation],
    ] {
        let (workspace, finished) = run("", &folders);
        let stderr = finished.expect(0).stderr;
        let choice = serde_json::json!([{"metric": "loss", "taken": "validation", "others": ["train"]}]);
        assert_eq!(result(&workspace), (0.55, choice));
        let notice = "event files have \"loss\" in several folders: \"validation\" is taken, and \"train\" not; \
                      tunesmith.metricFolder chooses another one";
        assert!(stderr.contains(notice), "{stderr}");
        assert_eq!(workspace.job()["tunesmith"]["notices"][0]["description"], notice);
    }
}

#[test]
fn folders_of_an_estimator_and_of_runs_are_chosen_by_rule() {
    for (folders, expected, taken) in [
        (&[(".", 101, 0.09), ("eval", 100, 0.55)][..], 0.55, "eval"),
        (&[("eval_holdout", 100, 0.6), (".", 101, 0.09)], 0.6, "eval_holdout"),
        (
            &[("lightning_logs/version_1", 1, 0.4), ("lightning_logs/version_0", 2, 0.3)],
            0.4,
            "lightning_logs/version_1",
        ),
        (&[("loss_val", 1, 0.5), ("loss_train", 2, 0.1), ("loss_test", 3, 0.2)], 0.5, "loss_val"),
    ] {
        let (workspace, finished) = run("", folders);
        finished.expect(0);
        let (value, choice) = result(&workspace);
        assert_eq!((value, choice[0]["taken"].as_str()), (expected, Some(taken)));
        assert_eq!(choice[0]["others"].as_array().unwrap().len(), folders.len() - 1);
    }
}

#[test]
fn several_files_of_one_folder_are_one_series() {
    let (workspace, finished) = run("", &[("eval", 1, 0.5), ("eval", 2, 0.25)]);
    assert!(!finished.expect(0).stderr.contains("several folders"));
    assert_eq!(result(&workspace), (0.25, Value::Null));
}

#[test]
fn configuration_chooses_the_folder() {
    let folders = [("train", 1, 0.125), ("validation", 2, 0.5)];
    let (workspace, finished) = run("  tunesmith: {metricFolder: train}\n", &folders);
    finished.expect(0);
    assert_eq!(result(&workspace), (0.125, Value::Null));
    let (workspace, finished) = run("  tunesmith: {metricFolder: training}\n", &folders);
    finished.expect(1);
    assert_eq!(
        workspace.column("reason"),
        [
            "ended without reporting \"loss\"; no other metric was seen either; event files have \"loss\" in \"train\" or \
          \"validation\", and tunesmith.metricFolder is \"training\""
        ]
    );
}

#[test]
fn event_files_beside_the_trials_are_named_in_the_reason() {
    let (workspace, finished) = run("", &[("..", 1, 0.5)]);
    finished.expect(1);
    let reason = workspace.column("reason").remove(0);
    assert!(reason.starts_with("ended without reporting \"loss\"; no other metric was seen either; "), "{reason}");
    assert!(reason.contains("/models/1 has no event files, but "), "{reason}");
    assert!(reason.contains("/models/events.out.tfevents."), "{reason}");
}
