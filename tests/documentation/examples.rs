//! The examples that need no download, as their README shows them.

use std::path::Path;

use tunesmith_testing::{Workspace, finished};

#[test]
fn the_configurations_of_all_examples_are_valid() {
    let workspace = Workspace::new("");
    for (example, algorithm) in
        [("any_command", "30, 2 at once"), ("digits", "20, 2 at once"), ("tensorboard", "15, 2")]
    {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example).join("hptuning_config.yaml");
        let mut command = workspace.command();
        let validated = finished(command.arg("validate").arg("--config").arg(config).output().unwrap()).expect(0);
        assert!(validated.stdout.contains(algorithm), "{example}: {}", validated.stdout);
        // On a machine with one processor there is a hint on two trials at once.
        let is_other = |line: &&str| !line.starts_with("hint: 2 trials run at once");
        assert_eq!(validated.stderr.lines().find(is_other), None, "{example}");
    }
}

#[test]
fn any_command_is_tuned_on_the_flow_of_the_nile() {
    let workspace = Workspace::new("");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/any_command");
    for name in ["hptuning_config.yaml", "nile.csv", "train.sh"] {
        std::fs::copy(example.join(name), workspace.path().join(name)).unwrap();
    }
    workspace.run(["--seed", "1", "--", "sh", "train.sh"]).expect(0);
    let trials = workspace.job()["trainingOutput"]["trials"].clone();
    assert_eq!(trials.as_array().unwrap().len(), 30);
    // 139 is the best that was ever found.
    let best = trials[0]["finalMetric"]["objectiveValue"].as_f64().unwrap();
    assert!((138.0..143.0).contains(&best), "{best}");
}
