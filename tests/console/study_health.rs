//! The health of a study on the page of its job: findings, and the prediction of the model at the best result.

use tunesmith_testing::Workspace;
use tunesmith_testing::console::browse;
use tunesmith_testing::server::Server;

const CONFIG: &str = "
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 16
    maxParallelTrials: 2
    algorithm: RANDOM_SEARCH
    params:
    - {parameterName: x, type: DOUBLE, minValue: 0.01, maxValue: 1}
    - {parameterName: kind, type: CATEGORICAL, categoricalValues: [a, b]}
  tunesmith: {metricFromStdout: true, seed: 3}
";

const TRAINER: &str = "for word; do case $word in --x=*) x=${word#--x=};; esac; done; echo step=1 loss=$x";

#[test]
fn page_of_a_job_states_the_uncertainty_of_the_best_result_and_the_noise() {
    let workspace = Workspace::new(CONFIG);
    workspace.run(["--data-dir", "data", "--job-id", "j", "--", "sh", "-c", TRAINER, "trainer"]).expect(0);
    let server = Server::start(&workspace, &[]);
    browse("study_health.py", &server, &[]);
}
