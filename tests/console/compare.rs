//! The page Compare: several jobs side by side, by raw HTTP and in a real browser.

use tunesmith_testing::Workspace;
use tunesmith_testing::access::token;
use tunesmith_testing::console::browse;
use tunesmith_testing::server::Server;

/// Runs the job `id` in the data folder: random search for the lowest (or highest) x, to which `shift` is added.
fn run(workspace: &Workspace, id: &str, goal: &str, seed: u64, shift: &str) {
    let config = format!(
        r#"
trainingInput:
  hyperparameters:
    goal: {goal}
    hyperparameterMetricTag: "loss <b>"
    maxTrials: 4
    maxParallelTrials: 2
    algorithm: RANDOM_SEARCH
    params:
    - {{parameterName: x, type: DOUBLE, minValue: 0.5, maxValue: 0.9}}
  tunesmith: {{metricFromStdout: true, seed: {seed}}}
"#
    );
    workspace.write("hptuning_config.yaml", &config);
    // The result is x with another digit before the point.
    let trainer =
        "shift=$1; for word; do case $word in --x=*) x=${word#--x=0};; esac; done; echo \"loss <b>=$shift$x\"";
    workspace.run(["--data-dir", "data", "--job-id", id, "--", "sh", "-c", trainer, "trainer", shift]).expect(0);
}

#[test]
fn ticked_jobs_are_compared_in_a_browser() {
    let workspace = Workspace::new("");
    for seed in 1..=6 {
        run(&workspace, &format!("low_{seed}"), "MINIMIZE", seed, "0");
        run(&workspace, &format!("high_{seed}"), "MINIMIZE", seed, "1");
    }
    run(&workspace, "other", "MAXIMIZE", 1, "0");
    let server = Server::start(&workspace, &[]);
    let plain = serde_json::json!({
        "jobId": "plain", "trainingInput": {"masterConfig": {"containerCommand": ["true"]}},
    });
    assert_eq!(server.post("/v1/projects/local/jobs", &plain).0, 200);
    server.until("/v1/projects/local/jobs/plain", "SUCCEEDED");
    browse("compare.py", &server, &[]);
}

#[test]
fn jobs_with_other_goals_and_hidden_jobs_are_not_compared() {
    let workspace = Workspace::new("");
    run(&workspace, "low", "MINIMIZE", 1, "0");
    run(&workspace, "high", "MAXIMIZE", 1, "0");
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@local"]);
    let foreign = token(&workspace, &["--principal", "user:other@x", "--role", "ml.viewer@other"]);
    let server = Server::start(&workspace, &[]);
    let get = |token: &str, query: &str| {
        server.exchange("GET", &format!("/console/compare?{query}"), &format!("authorization: Bearer {token}\r\n"), "")
    };
    let (status, page) = get(&viewer, "job=local%2Flow&job=high");
    assert_eq!(status, 400);
    assert!(
        page.contains("These jobs have different goals: low minimizes loss &#60;b&#62;, and high maximizes"),
        "{page}"
    );
    // A job that may not be seen is answered as one that does not exist.
    for (token, name) in [(&foreign, "low"), (&viewer, "none")] {
        let (status, page) = get(token, &format!("job=local/{name}&job=local/high"));
        assert_eq!(status, 404, "{page}");
        assert!(page.contains(&format!("Job local/{name} does not exist, or you may not see it")), "{page}");
    }
    let (status, page) = get(&viewer, "job=low");
    assert_eq!(status, 200);
    assert!(page.contains("Tick one more job or study with trials"), "{page}");
    let (status, page) = get(&viewer, "job=a%20%3Cb%3E");
    assert_eq!(status, 400);
    assert!(page.contains("job=a &#60;b&#62;: "), "{page}");
    let many: String = (0..41).map(|index| format!("&job=j{index}")).collect();
    let (status, page) = get(&viewer, &many);
    assert_eq!(status, 400);
    assert!(page.contains("41 jobs are selected; at most 40 can be compared at once"), "{page}");
}

#[test]
fn study_without_a_result_is_named() {
    let workspace = Workspace::new("");
    run(&workspace, "low", "MINIMIZE", 1, "0");
    run(&workspace, "again", "MINIMIZE", 2, "0");
    let server = Server::start(&workspace, &[]);
    for id in ["empty", "bare"] {
        let study = serde_json::json!({"studyConfig": {
            "metrics": [{"metric": "loss <b>", "goal": "MINIMIZE"}],
            "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0.5, "maxValue": 0.9}}],
        }});
        let (status, body) = server.post(&format!("/v1/projects/local/locations/l/studies?studyId={id}"), &study);
        assert_eq!(status, 200, "{body}");
    }
    let page = |query: &str| server.exchange("GET", &format!("/console/compare?{query}"), "", "").1;
    let one = page("job=low&job=local/l/empty");
    assert!(one.contains(">empty has no result yet. Without one of each"), "{one}");
    let two = page("job=local/l/bare&job=low&job=local/l/empty");
    assert!(two.contains(">bare, empty have no result yet. Without one of each"), "{two}");
    let none = page("job=low&job=again");
    assert!(!none.contains("no result yet"), "{none}");
}
