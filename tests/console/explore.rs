//! The page Explore in a real browser.

use std::path::Path;

use tunesmith_testing::python::interpreter;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

const CONFIG: &str = r#"
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 40
    maxParallelTrials: 4
    algorithm: RANDOM_SEARCH
    params:
    - {parameterName: x, type: DOUBLE, minValue: 0.01, maxValue: 1, scaleType: UNIT_LOG_SCALE}
    - {parameterName: "<img src=x onerror=alert(1)>", type: CATEGORICAL, categoricalValues: ["a b", "\"c\""]}
  tunesmith: {metricFromStdout: true, seed: 7}
"#;

/// Reports a curve whose end is x, or 1 - x.
const TRAINER: &str = "for word; do case $word in --x=*) x=${word#--x=};; esac; done
for step in 1 2 3; do echo step=$step loss=$x; done";

#[test]
fn brushed_plots_filter_each_other_and_the_table() {
    let workspace = Workspace::new(CONFIG);
    workspace.run(["--data-dir", "data", "--job-id", "j", "--", "sh", "-c", TRAINER, "trainer"]).expect(0);
    let server = Server::start(&workspace, &[]);
    let python = interpreter(&["playwright==1.65.2"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/console/explore.py");
    let page = format!("http://{}/console/projects/local/jobs/j/explore", server.address);
    let done =
        finished(tunesmith_testing::program(python).arg(script).arg(page).arg(workspace.path()).output().unwrap());
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
}
