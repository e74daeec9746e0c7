//! Completing trials of studies: what a result needs, and what a refusal names.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

const STUDY: &str = "/v1/projects/p/locations/l/studies/s";

/// A server with a study of the metric `loss`, whose trials 1 to `trials` are assigned to one client.
fn server(workspace: &Workspace, trials: u32) -> Server {
    let server = Server::start(workspace, &[]);
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "50"}}],
        "automatedStoppingConfig": {"medianAutomatedStoppingConfig": {}},
    }});
    assert_eq!(server.post("/v1/projects/p/locations/l/studies?studyId=s", &study).0, 200);
    let request = json!({"suggestionCount": trials, "clientId": "c"});
    let (status, operation) = server.post(&format!("{STUDY}/trials:suggest"), &request);
    assert_eq!(status, 200, "{operation}");
    server.wait(operation);
    server
}

fn add(server: &Server, trial: u32, metric: &str, value: Value) {
    let measurement = json!({"measurement": {"stepCount": 1, "metrics": [{"metric": metric, "value": value}]}});
    let (status, answer) = server.post(&format!("{STUDY}/trials/{trial}:addMeasurement"), &measurement);
    assert_eq!(status, 200, "{answer}");
}

fn complete(server: &Server, trial: u32, body: &Value) -> (u16, Value) {
    server.post(&format!("{STUDY}/trials/{trial}:complete"), body)
}

fn state(server: &Server, trial: u32) -> Value {
    server.get(&format!("{STUDY}/trials/{trial}")).1["state"].clone()
}

#[track_caller]
fn assert_refused(answer: (u16, Value), code: &str, message: &str) {
    let (status, answer) = answer;
    let error = &answer["error"];
    assert_eq!((status, error["status"].as_str(), error["message"].as_str()), (400, Some(code), Some(message)));
}

#[test]
fn trial_without_a_measurement_is_not_completed() {
    let workspace = Workspace::new("");
    let server = server(&workspace, 3);
    let message = "trial 1 has no measurement: give finalMeasurement, add a measurement, or set trialInfeasible";
    assert_refused(complete(&server, 1, &json!({})), "FAILED_PRECONDITION", message);
    assert_eq!(state(&server, 1), "ACTIVE");
    assert_eq!(server.send("POST", &format!("{STUDY}/trials/1:stop"), "", "").0, 200);
    assert_refused(complete(&server, 1, &json!({})), "FAILED_PRECONDITION", message);
    assert_eq!(state(&server, 1), "STOPPING");
    add(&server, 1, "loss", json!(0.5));
    let (status, done) = complete(&server, 1, &json!({}));
    assert_eq!((status, &done["finalMeasurement"]["metrics"][0]["value"]), (200, &json!(0.5)), "{done}");
    assert_eq!(complete(&server, 1, &json!({})), (200, done), "a repeated request has no further effect");

    let (status, done) = complete(&server, 2, &json!({"trialInfeasible": true, "infeasibleReason": "too large"}));
    assert_eq!((status, &done["infeasibleReason"]), (200, &json!("too large")), "{done}");
    let result = json!({"finalMeasurement": {"metrics": [{"metric": "loss", "value": 1}]}});
    assert_eq!(complete(&server, 3, &result).1["state"], "COMPLETED");
}

#[test]
fn unknown_metric_is_named_with_those_of_the_study() {
    let workspace = Workspace::new("");
    let server = server(&workspace, 2);
    add(&server, 1, "los", json!(0.5));
    add(&server, 1, "accuracy", json!(0.9));
    assert_refused(
        complete(&server, 1, &json!({})),
        "FAILED_PRECONDITION",
        "no measurement of trial 1 has all metrics of the study: the measurements have \"accuracy\", \"los\"; the \
         study's metrics are \"loss\"",
    );
    let result = json!({"finalMeasurement": {"metrics": [{"metric": "los", "value": 1}]}});
    assert_refused(
        complete(&server, 1, &result),
        "INVALID_ARGUMENT",
        "finalMeasurement.metrics: metric \"loss\" is missing: the measurement has \"los\"; the study's metrics are \
         \"loss\"",
    );
    assert_eq!(state(&server, 1), "ACTIVE");
    // A value that is not finite is a result: these parameters have none.
    add(&server, 2, "loss", json!("NaN"));
    let (status, done) = complete(&server, 2, &json!({}));
    assert_eq!((status, &done["trialInfeasible"]), (200, &json!(true)), "{done}");
}

#[test]
fn early_stopping_check_names_the_trial_in_full() {
    let workspace = Workspace::new("");
    let server = server(&workspace, 1);
    let name = "projects/p/locations/l/studies/s/trials/1";
    let (status, operation) = server.send("POST", &format!("/v1/{name}:checkEarlyStoppingState"), "", "");
    assert_eq!((status, &operation["metadata"]["trial"]), (200, &json!(name)), "{operation}");
    assert_eq!(operation["metadata"]["study"], "projects/p/locations/l/studies/s");
    let (status, again) = server.get(&format!("/v1/{}", operation["name"].as_str().unwrap()));
    assert_eq!((status, again), (200, operation));
    let attempt = format!("{name}~1");
    let (_, operation) = server.send("POST", &format!("/v1/{attempt}:checkEarlyStoppingState"), "", "");
    assert_eq!(operation["metadata"]["trial"], attempt);
}
