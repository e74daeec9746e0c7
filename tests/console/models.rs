//! The pages of models: from the best trial of a job to a prediction.

use serde_json::json;
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::console::browse;
use tunesmith_testing::python::{MODEL_PACKAGES, interpreter};
use tunesmith_testing::server::Server;

/// Fits a model, and stores it below the job-dir.
const TRAINER: &str = "
import os, sys
import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

options = dict(argument.lstrip('-').split('=', 1) for argument in sys.argv[1:] if '=' in argument)
X, y = load_iris(return_X_y=True)
model = LogisticRegression(C=float(options['c']), max_iter=1000).fit(X, y)
folder = os.path.join(options['job-dir'], 'model')
os.makedirs(folder, exist_ok=True)
joblib.dump(model, os.path.join(folder, 'model.joblib'))
print('accuracy=%.4f' % model.score(X, y))
";

#[test]
fn best_trial_of_a_job_becomes_a_model_that_predicts() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let python = interpreter(&MODEL_PACKAGES);
    let files = workspace.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let trainer = workspace.write("files/trainer.py", TRAINER);
    workspace.write("server.yaml", &json!({"runtimeVersions": {"2.11": {"python": &python}}}).to_string());
    let allowed = files.display().to_string();
    let server = Server::start(&workspace, &["--server-config", "server.yaml", "--allowed-folder", &allowed]);
    workspace.write("files/rows.json", "[6.7, 3.1, 4.7, 1.5]\n[4.6, 3.1, 1.5, 0.2]\n[1, 2]\n");
    let job = json!({"jobId": "iris_search", "labels": {"team": "botany"}, "trainingInput": {
        "masterConfig": {"containerCommand": [&python, trainer]},
        "runtimeVersion": "2.11",
        "jobDir": files.join("output"),
        "hyperparameters": {
            "goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "maxTrials": 3, "algorithm": "GRID_SEARCH",
            "params": [{"parameterName": "c", "type": "DISCRETE", "discreteValues": [0.001, 0.1, 10]}],
        },
        "tunesmith": {"metricFromStdout": true},
    }});
    let (status, created) = server.send("POST", "/v1/projects/p/jobs", &bearer(&admin), &job.to_string());
    assert_eq!(status, 200, "{created}");
    browse("models.py", &server, &[&admin, &viewer, &allowed]);
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    for method in ["ml.projects.models.create", "ml.projects.models.versions.create", "ml.projects.models.delete"] {
        assert!(audit.contains(method), "{method} is recorded");
    }
}
