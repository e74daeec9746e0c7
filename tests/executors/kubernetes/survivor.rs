//! Two servers on one database, of which one is killed while its trials run on the cluster.

use serde_json::json;
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;

use super::InProcess;
use super::runs::kubeconfig;
use super::served::submit;

/// Trials, all of which run at once.
const TRIALS: usize = 3;

/// Records its start, and runs until it is ended unless the folder `HERE` has the file `go`.
const SCRIPT: &str = r#"
echo $CLOUD_ML_TRIAL_ID >> HERE/started
if [ -e HERE/go ]; then echo acc=0.5; else exec tail -f /dev/null; fi
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survivor_removes_the_jobs_of_a_dead_server_before_it_starts_the_next_attempts() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    let config = json!({"executor": "kubernetes", "kubernetes": {
        "configFile": kubeconfig(&place, &workspace), "agentImage": "tunesmith:test", "image": "trainer:1",
        "agentPath": env!("CARGO_BIN_EXE_tunesmith"),
    }});
    workspace.write("server.yaml", &config.to_string());
    tokio::task::block_in_place(|| {
        let cluster = Cluster::start();
        let address = cluster.create_database("tuning");
        let options = workspace.path().join("server.yaml");
        let options = ["--server-config", options.to_str().unwrap()];
        // Each has an address of its own: no agent of the first one hears of the second.
        let serve = |name: &str| Cluster::serve_in(&workspace.path().join(name), &address, &options);
        let first = serve("first");
        let input = json!({
            "masterConfig": {"containerCommand":
                ["sh", "-c", SCRIPT.replace("HERE", workspace.path().to_str().unwrap())]},
            "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": TRIALS,
                "maxParallelTrials": TRIALS, "algorithm": "RANDOM_SEARCH",
                "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
            "tunesmith": {"metricFromStdout": true, "stopGracePeriod": "1s"},
        });
        let (status, answer) = submit(&first, "j", &input);
        assert_eq!(status, 200, "{answer}");
        let started = || {
            let text = std::fs::read_to_string(workspace.path().join("started")).unwrap_or_default();
            text.lines().count()
        };
        until(|| started() == TRIALS);
        let survivor = serve("survivor");
        first.kill();
        workspace.write("go", "");
        let job = survivor.until_ended("/v1/projects/p/jobs/j");
        assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
        assert_eq!(started(), 2 * TRIALS, "each trial ran once more");
        until(|| ["jobs", "secrets", "pods"].iter().all(|kind| place.api().all(kind).is_empty()));

        let history = place.api().history("jobs");
        for trial in 1..=TRIALS {
            let position = |wanted: &str, attempt: &str| {
                history.iter().position(|(kind, _, job)| {
                    let labels = &job["metadata"]["labels"];
                    let is_of = |name: &str, value: &str| labels[format!("tunesmith.dev/{name}")] == value;
                    *kind == wanted && is_of("trial", &trial.to_string()) && is_of("attempt", attempt)
                })
            };
            let (removed, next) = (position("DELETED", "1").unwrap(), position("ADDED", "2").unwrap());
            assert!(removed < next, "trial {trial}: its second attempt was submitted before the first was removed");
            assert!(history[removed].2["metadata"]["labels"]["tunesmith.dev/store"].is_string());
        }
    });
}
