//! Data folders of every released form open, and their jobs and studies continue. Those of versions before 0.1.0 are refused
//! unchanged.
//!
//! The folders are `tests/data/data_dirs/<version>.<kind>`; `make.sh` beside them writes one.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

use super::formats::contents;
use super::{Kind, copy, restore_padding};

const VERSIONS: [&str; 1] = ["0.1.0"];

/// A workspace with a copy of the data folder of `version` in `data`.
fn workspace(version: &str, kind: Kind) -> Workspace {
    let workspace = Workspace::new("");
    let data = workspace.path().join("data");
    copy(&test_data().join(format!("{version}.{}", kind.name())), &data);
    if let Kind::Sled = kind {
        restore_padding(&data.join("store.sled"));
    }
    workspace
}

fn test_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/data_dirs")
}

/// Runs the command that created job `id`, and returns it with the job resource.
fn run(workspace: &Workspace, kind: Kind, id: &str) -> (Finished, Value) {
    let trainer = std::fs::read_to_string(test_data().join("train.sh")).unwrap();
    let mut command = workspace.command();
    // The working directory is part of the plan.
    command.current_dir("/").arg("run").args(["--store", kind.name(), "--job-id", id, "--parallel", "1"]);
    command.arg("--data-dir").arg(workspace.path().join("data"));
    command.arg("--config").arg(test_data().join("hptuning_config.yaml"));
    command.arg("--output").arg(workspace.path().join("job.json"));
    command.args(["--", "sh", "-c", trainer.trim_end(), "trainer"]);
    let run = finished(command.output().unwrap()).expect(0);
    (run, workspace.job())
}

/// Number, point and result of each trial of a job.
fn results(job: &Value) -> Vec<[&Value; 3]> {
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    trials.iter().map(|trial| ["trialId", "hyperparameters", "finalMetric"].map(|field| &trial[field])).collect()
}

#[test]
fn interrupted_jobs_resume() {
    for version in VERSIONS {
        for kind in [Kind::Sqlite, Kind::Sled] {
            let workspace = workspace(version, kind);
            let (_, finished) = run(&workspace, kind, "finished");
            assert_eq!((&finished["state"], results(&finished).len()), (&json!("SUCCEEDED"), 6), "{finished}");
            let attempt = |trial: u32, attempt: u32| {
                let folder = format!("data/jobs/interrupted/trials/{trial}/attempt-{attempt}");
                workspace.path().join(folder).exists()
            };
            assert!(attempt(3, 1) && !attempt(4, 1));
            let (_, resumed) = run(&workspace, kind, "interrupted");
            assert_eq!(resumed["state"], "SUCCEEDED");
            assert_eq!(results(&resumed), results(&finished), "both jobs have the same seed");
            assert!(attempt(6, 1) && !attempt(1, 2) && !attempt(2, 2), "only unfinished trials run again");
        }
    }
}

#[test]
fn folder_of_a_version_before_the_first_release_is_refused_unchanged() {
    let workspace = Workspace::new("");
    let data = workspace.path().join("data");
    copy(&test_data().join("0.1.0.sqlite"), &data);
    std::fs::write(data.join("STORE"), "tunesmith data folder 1, store sqlite\n").unwrap();
    let (before, config) = (contents(&data), test_data().join("hptuning_config.yaml"));
    let run = ["run", "--config", config.to_str().unwrap(), "--data-dir", "data", "--", "true"];
    let commands: [&[&str]; 6] = [
        &["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"],
        &run,
        &["jobs", "list", "--data-dir", "data"],
        &["trials", "export", "--study", "s", "--data-dir", "data"],
        &["doctor", "--listen", "127.0.0.1:0", "--data-dir", "data"],
        &["tokens", "create", "--principal", "user:n", "--role", "ml.admin", "--data-dir", "data"],
    ];
    for command in commands {
        let output = workspace.command().args(command).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let expected =
            "data was written by a version before 0.1.0 (STORE contains \"tunesmith data folder 1, store sqlite\")";
        assert!(!output.status.success() && text.contains(expected), "{command:?}: {text}");
        assert!(text.contains("use an empty data folder or database, and export results with the program"), "{text}");
        assert!(contents(&data) == before, "{command:?} changed the folder");
    }
}

#[test]
fn studies_continue() {
    const STUDY: &str = "/v1/projects/p/locations/l/studies/s";
    for version in VERSIONS {
        for kind in [Kind::Sqlite, Kind::Sled] {
            let workspace = workspace(version, kind);
            let server = Server::start(&workspace, &["--store", kind.name()]);
            let (_, study) = server.get(STUDY);
            let config: Value =
                serde_json::from_str(&std::fs::read_to_string(test_data().join("study.json")).unwrap()).unwrap();
            assert_eq!(study["studyConfig"], config["studyConfig"]);
            let (_, trials) = server.get(&format!("{STUDY}/trials"));
            let field =
                |field| trials["trials"].as_array().unwrap().iter().map(|trial| &trial[field]).collect::<Vec<_>>();
            assert_eq!(field("state"), ["ACTIVE", "COMPLETED", "COMPLETED"]);
            assert_eq!(field("infeasibleReason")[2], "out of memory");
            let metrics = json!([{"metric": "loss", "value": 0.75}]);
            assert_eq!(*field("measurements")[1], json!([{"stepCount": "1", "metrics": metrics}]));
            assert_eq!(field("finalMeasurement")[1]["metrics"][0]["value"], 0.5);

            let request = json!({"clientId": "d", "suggestionCount": 2});
            let (status, operation) = server.post(&format!("{STUDY}/trials:suggest"), &request);
            assert_eq!(status, 200, "{operation}");
            let response = server.wait(operation)["response"].clone();
            let names = response["trials"].as_array().unwrap().iter().map(|trial| trial["name"].as_str().unwrap());
            assert!(
                names.eq(["4", "5"].map(|id| format!("projects/p/locations/l/studies/s/trials/{id}"))),
                "{response}"
            );
            // The value that the version which wrote the folder draws for trial 4 with this seed.
            let x = json!({"parameter": "x", "floatValue": 0.308_554_241_673_701_93});
            assert_eq!(response["trials"][0]["parameters"][1], x);
            let result = json!({"finalMeasurement": {"metrics": [{"metric": "loss", "value": 1.5}]}});
            let (status, completed) = server.post(&format!("{STUDY}/trials/1:complete"), &result);
            assert_eq!((status, &completed["state"]), (200, &json!("COMPLETED")), "{completed}");
        }
    }
}
