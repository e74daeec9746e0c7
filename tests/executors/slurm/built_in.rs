//! Built-in algorithms whose trials run on a cluster.

use std::fmt::Write as _;

use serde_json::Value;
use tunesmith_testing::slurm::{Cluster, Shape};
use tunesmith_testing::{Workspace, finished};

#[test]
fn trees_are_tuned_on_the_nodes() {
    let cluster = Cluster::start(&Shape::default());
    let workspace = Workspace::new("");
    let mut birds = "wing,species\n".to_owned();
    for index in 0..240 {
        let species = index % 3;
        let wing = f64::from(species) * 1.3 + f64::from(index * 7919 % 100) / 80.0;
        writeln!(birds, "{wing:.3},{}", ["robin", "wren", "gull"][species as usize]).unwrap();
    }
    workspace.write("birds.csv", &birds);
    let mut command = workspace.command();
    command.args(["train", "boosted_trees", "--data", "birds.csv", "--target", "species", "--tune", "2"]);
    command.env("SLURM_CONF", cluster.configuration()).env("TUNESMITH_EXECUTOR", "slurm");
    finished(command.output().unwrap()).expect(0);
    let job: Value = serde_json::from_str(&workspace.read("birds-boosted_trees/job.json")).unwrap();
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2, "{job}");
    assert!(trials[0]["finalMetric"]["objectiveValue"].as_f64().unwrap() > 0.7, "{job}");
    let model = trials[0]["builtInAlgorithmOutput"]["modelPath"].as_str().unwrap();
    assert!(std::path::Path::new(model).join("model.bst").exists(), "{model}");
    let rows = cluster.jobs("%T");
    assert_eq!(rows.iter().filter(|state| *state == "COMPLETED").count(), 2, "{rows:?}");
}
