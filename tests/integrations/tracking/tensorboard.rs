//! TensorBoard's HParams page.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tunesmith_testing::paced::found;
use tunesmith_testing::python::interpreter;
use tunesmith_testing::{Workspace, finished, program};

use super::{PythonServer, TRACKERS, free_address};

/// A space with a conditional parameter, and a trainer that fails where it is active.
const CONDITIONAL: &str = r#"
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: accuracy
  maxTrials: 6
  maxParallelTrials: 2
  algorithm: RANDOM_SEARCH
  params:
    - {parameterName: model, type: CATEGORICAL, categoricalValues: [linear, forest]}
    - {parameterName: rate, type: DOUBLE, minValue: 0.001, maxValue: 1, scaleType: UNIT_LOG_SCALE}
    - {parameterName: trees, type: INTEGER, minValue: 10, maxValue: 100}
tunesmith:
  metricFromStdout: true
  seed: 3
  conditions: [{parameter: trees, parent: model, values: [forest]}]
"#;

const CONDITIONAL_TRAINER: &str = r#"for step in 1 2; do echo "accuracy=0.$step step=$step"; done
case "$*" in *forest*) exit 3;; esac
"#;

#[test]
fn tensorboard_shows_trials_curves_and_failures() {
    let workspace = Workspace::new(CONDITIONAL);
    workspace.write("train.sh", CONDITIONAL_TRAINER);
    workspace
        .run(["--job-id", "space", "--data-dir", "data", "--tensorboard", "live", "--", "sh", "train.sh"])
        .expect(0);
    let export = || {
        let mut command = workspace.command();
        command.args(["export", "tensorboard", "--data-dir", "data", "--job", "space", "--output", "exported"]);
        finished(command.output().unwrap()).expect(0)
    };
    assert_eq!(export().stdout, "exported job space to exported/space\n");
    let contents = |folder: &str| {
        let root = workspace.path().join(folder).join("space");
        let mut files = BTreeMap::new();
        for run in std::iter::once(root.clone()).chain((1..=6).map(|trial| root.join(trial.to_string()))) {
            let is_file = |path: &PathBuf| path.is_file();
            for path in std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path()).filter(is_file) {
                let bytes = std::fs::read(&path).unwrap();
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                assert!(name.ends_with(".tunesmith"), "{name}");
                files.insert(name, bytes);
            }
        }
        files
    };
    let live = contents("live");
    assert_eq!(live.len(), 7);
    assert!(live == contents("exported"), "live and exported files differ");
    export();
    assert!(live == contents("exported"), "a second export changes files");

    let address = free_address();
    let mut command = program(interpreter(&TRACKERS));
    command.args(["-m", "tensorboard.main", "--host", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(["--reload_interval", "1", "--load_fast", "false", "--samples_per_plugin", "scalars=10000"]);
    command.arg("--logdir").arg(workspace.path().join("live/space"));
    let tensorboard = PythonServer::start(&mut command, address, "/data/environment");
    let plugin = |method: &str, body: Value| tensorboard.json("POST", &format!("/data/plugin/hparams/{method}"), &body);
    let groups = found(|| {
        let columns = ["model", "rate", "trees"].map(|name| json!({"hparam": name, "includeInResult": true}));
        let answer = plugin(
            "session_groups",
            json!({
                "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"],
                "colParams": columns, "startIndex": 0, "sliceSize": 100, "includeMetrics": true,
            }),
        );
        let groups = answer["sessionGroups"].as_array()?.clone();
        let is_loaded = |group: &Value| group["metricValues"].as_array().is_some_and(|values| values.len() == 1);
        (groups.len() == 6 && groups.iter().all(is_loaded)).then_some(groups)
    });
    let experiment = plugin("experiment", json!({"includeMetrics": true}));
    let info = |name: &str| {
        let infos = experiment["hparamInfos"].as_array().unwrap().iter();
        infos.clone().find(|info| info["name"] == name).unwrap().clone()
    };
    assert_eq!(info("rate")["domainInterval"], json!({"minValue": 0.001, "maxValue": 1.0}));
    assert_eq!(info("model")["domainDiscrete"], json!(["linear", "forest"]));
    assert_eq!(experiment["metricInfos"][0]["name"]["tag"], "accuracy");
    let trials = workspace.trials();
    for group in &groups {
        let trial = trials.iter().find(|trial| group["name"] == trial["trial_id"].as_str()).unwrap();
        let is_forest = trial["model"] == "forest";
        assert_eq!(group["hparams"]["model"], trial["model"].as_str());
        assert_eq!(group["hparams"]["rate"].as_f64().unwrap(), trial["rate"].parse::<f64>().unwrap());
        assert_eq!(group["hparams"].get("trees").is_some(), is_forest, "{group}");
        let status = if is_forest { "STATUS_FAILURE" } else { "STATUS_SUCCESS" };
        assert_eq!(group["sessions"][0]["status"], status);
        let value = &group["metricValues"][0];
        assert_eq!((&value["trainingStep"], (value["value"].as_f64().unwrap() * 10.0).round()), (&json!(2), 2.0));
    }
    assert!(
        trials.iter().any(|trial| trial["model"] == "forest") && trials.iter().any(|trial| trial["model"] == "linear")
    );
    let scalars = tensorboard.json("GET", "/data/plugin/scalars/scalars?run=1&tag=accuracy", &Value::Null);
    let steps: Vec<&Value> = scalars.as_array().unwrap().iter().map(|point| &point[1]).collect();
    assert_eq!(steps, [&json!(1), &json!(2)]);
}
