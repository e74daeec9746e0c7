//! `tunesmith import`: configurations from files of other tools.

use crate::python::interpreter;
use crate::support::{Finished, Workspace, finished, program};

fn import(workspace: &Workspace, arguments: &[&str]) -> Finished {
    finished(workspace.command().arg("import").args(arguments).output().unwrap())
}

const SWEEP: &str = "\
program: train.py
method: random
metric: {name: loss, goal: minimize, target: 0.1}
parameters:
  x: {min: 0.5, max: 1.5}
  k: {values: [a, b]}
  fixed: {value: true}
command: [sh, train.sh, '${args_no_hyphens}']
run_cap: 3
";

#[test]
fn sweep_runs_with_the_arguments_of_its_command() {
    let workspace = Workspace::new("");
    workspace.write("sweep.yaml", SWEEP);
    workspace.write("train.sh", "echo \"$@\"; echo loss=${3#x=}\n");
    let refused = import(&workspace, &["wandb", "sweep.yaml", "--output", "job.yaml"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("sweep.yaml:3:46") && refused.stderr.contains("metric.target"),
        "{}",
        refused.stderr
    );
    let accepted = import(&workspace, &["wandb", "sweep.yaml", "--output", "job.yaml", "--accept-losses"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    let written = workspace.read("job.yaml");
    assert!(written.contains("# Lost: metric.target has no counterpart"), "{written}");
    let again = import(&workspace, &["wandb", "sweep.yaml", "--output", "job.yaml", "--accept-losses"]);
    assert!(again.code != Some(0) && again.stderr.contains("job.yaml exists; give --force"), "{}", again.stderr);
    let mut run = workspace.command();
    run.args(["run", "--config", "job.yaml", "--job-id", "swept", "--data-dir", "data"]);
    let ran = finished(run.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let log = workspace.read("data/jobs/swept/trials/1/attempt-1/stdout.log");
    let words: Vec<&str> = log.lines().next().unwrap().split(' ').collect();
    assert_eq!(words.len(), 3, "{log}");
    assert_eq!(words[0], "fixed=True");
    assert!(["k=a", "k=b"].contains(&words[1]) && words[2].starts_with("x="), "{log}");
}

#[test]
fn sweeps_of_the_tests_are_valid_for_weights_and_biases() {
    let workspace = Workspace::new("");
    workspace.write("sweep.yaml", SWEEP);
    let script = "
import yaml
from sweeps.config import schema_violations_from_proposed_config
config = yaml.safe_load(open('sweep.yaml'))
assert not schema_violations_from_proposed_config(config), schema_violations_from_proposed_config(config)
";
    let mut command = program(interpreter(&["sweeps==0.3.0", "setuptools<80"]));
    let checked = finished(command.args(["-c", script]).current_dir(workspace.path()).output().unwrap());
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}
