//! Studies over HTTP: real clients against a real server.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::found;
use tunesmith_testing::server::Server;

const STUDIES: &str = "/v1/projects/p/locations/us-central1/studies";
const STUDY: &str = "/v1/projects/p/locations/us-central1/studies/s";

/// A suggestion that is done at once: its trials, and the state of the study.
fn suggest(server: &Server, client: &str, count: u32) -> (Vec<Value>, String) {
    let path = format!("{STUDY}/trials:suggest");
    let (status, operation) = server.post(&path, &json!({"clientId": client, "suggestionCount": count}));
    if status == 429 {
        // A published client takes this code for the end of the search.
        return (Vec::new(), "COMPLETED".to_owned());
    }
    assert_eq!(status, 200, "{operation}");
    let operation = server.wait(operation);
    let response = &operation["response"];
    let trials = response["trials"].as_array().cloned().unwrap_or_default();
    (trials, response["studyState"].as_str().unwrap().to_owned())
}

fn finite_study(additions: &Value) -> Value {
    json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [
            {"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "5"}},
            {"parameter": "b", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["x", "y", "z"]}},
        ],
        "tunesmith": additions,
    }})
}

fn complete(server: &Server, trial: &Value, loss: f64) -> (u16, Value) {
    let path = format!("/v1/{}:complete", trial["name"].as_str().unwrap());
    server.post(&path, &json!({"finalMeasurement": {"metrics": [{"metric": "loss", "value": loss}]}}))
}

#[test]
fn published_python_client_runs_a_whole_study() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    server.drive("optimizer.py", &[]);
}

#[test]
fn concurrent_clients_get_each_point_of_a_finite_space_once() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &finite_study(&json!({"seed": "3"}))).0, 200);
    let given = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..64 {
            let (server, given) = (&server, &given);
            scope.spawn(move || {
                loop {
                    let (trials, state) = suggest(server, &format!("client {client}"), 1);
                    let [trial] = &trials[..] else {
                        assert_eq!((trials.len(), state.as_str()), (0, "COMPLETED"));
                        return;
                    };
                    given.lock().unwrap().push(trial["parameters"].to_string());
                    assert_eq!(complete(server, trial, 1.0).0, 200);
                }
            });
        }
    });
    let given = given.into_inner().unwrap();
    assert_eq!(given.len(), 15);
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 15);
    assert_eq!(server.get(STUDY).1["state"], "COMPLETED");
}

#[test]
fn expired_lease_is_reassigned_and_the_former_owner_refused() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let study = finite_study(&json!({"trialLease": "0.05s", "maxTrials": "1"}));
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study).0, 200);
    let (first, _) = suggest(&server, "killed", 1);
    let (status, _) = complete(&server, &json!({"name": "projects/p/locations/us-central1/studies/s/trials/2"}), 1.0);
    assert_eq!(status, 404);
    // The study has a single trial: another client gets it after the server has taken it back.
    let again = found(|| suggest(&server, "next", 1).0.into_iter().next());
    assert_eq!(again["parameters"], first[0]["parameters"]);
    assert_eq!(again["tunesmith"]["expiredLeases"], "1");
    let (status, error) = complete(&server, &first[0], 1.0);
    assert_eq!((status, &error["error"]["status"]), (400, &json!("FAILED_PRECONDITION")));
    assert_eq!(server.get(STUDY).1["state"], "COMPLETED");
}

#[test]
fn acknowledged_changes_survive_a_killed_server() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &finite_study(&json!({"seed": "1"}))).0, 200);
    let (done, _) = suggest(&server, "c", 1);
    assert_eq!(complete(&server, &done[0], 0.5).0, 200);
    let (pending, _) = suggest(&server, "c", 2);
    drop(server);
    let server = Server::start(&workspace, &[]);
    assert_eq!(suggest(&server, "c", 2).0, pending);
    let (_, trial) = server.get(&format!("{STUDY}/trials/1"));
    assert_eq!(trial["finalMeasurement"]["metrics"], json!([{"metric": "loss", "value": 0.5}]));
    // A repeated completion has no further effect; one with another result is refused.
    assert_eq!(complete(&server, &done[0], 0.5).1, trial);
    assert_eq!(complete(&server, &done[0], 0.6).0, 400);
}

#[test]
fn bad_requests_are_rejected_with_the_invalid_field() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &finite_study(&json!({}))).0, 200);
    let field = |(status, error): (u16, Value)| {
        assert_eq!((status, &error["error"]["status"]), (400, &json!("INVALID_ARGUMENT")), "{error}");
        error["error"]["details"][0]["fieldViolations"][0]["field"].as_str().unwrap_or_default().to_owned()
    };
    let create = |body: Value| field(server.post(&format!("{STUDIES}?studyId=t"), &body));
    assert_eq!(field(server.post(STUDIES, &finite_study(&json!({})))), "studyId");
    assert_eq!(field(server.post(&format!("{STUDIES}?studyId=a%2Fb"), &finite_study(&json!({})))), "studyId");
    assert_eq!(create(json!({})), "studyConfig");
    assert_eq!(create(json!({"studyConfig": {"metrics": [{"metric": "m"}]}})), "studyConfig.parameters");
    let typo = json!({"studyConfig": {"parameters": [{"parameter": "a", "type": "DOBLE"}]}});
    assert_eq!(create(typo), "studyConfig.parameters[0].type");
    let refused = |body: Value| field(server.post(&format!("{STUDY}/trials:suggest"), &body));
    assert_eq!(refused(json!({"clientId": "c"})), "suggestionCount");
    assert_eq!(refused(json!({"clientId": "c", "suggestionCount": 1001})), "suggestionCount");
    assert_eq!(refused(json!({"suggestionCount": 1})), "clientId");
    assert_eq!(refused(json!({"suggestionCount": 1, "clientId": "c".repeat(1025)})), "clientId");
    assert_eq!(refused(json!({"suggestionCount": 1, "clientID": "c"})), "clientID");
    let point = |parameters: Value| field(server.post(&format!("{STUDY}/trials"), &json!({"parameters": parameters})));
    assert_eq!(point(json!([{"parameter": "a", "intValue": "9"}])), "parameters");
    assert_eq!(point(json!([{"parameter": "a", "floatValue": 1}])), "parameters[0]");
    let (trials, _) = suggest(&server, "c", 1);
    let name = trials[0]["name"].as_str().unwrap();
    let wrong = json!({"finalMeasurement": {"metrics": [{"metric": "los", "value": 1}]}});
    assert_eq!(field(server.post(&format!("/v1/{name}:complete"), &wrong)), "finalMeasurement.metrics");

    let json_type = "content-type: application/json\r\n";
    let path = format!("{STUDY}/trials:suggest");
    let (status, error) = server.send("POST", &path, "content-type: text/plain\r\n", "{}");
    assert_eq!((status, &error["error"]["status"]), (415, &json!("INVALID_ARGUMENT")));
    let (status, error) = server.send("POST", &path, json_type, "{\"clientId\": ");
    assert_eq!((status, &error["error"]["status"]), (400, &json!("INVALID_ARGUMENT")));
    let (status, error) = server.get("/v1/projects/p/nothing");
    assert_eq!((status, &error["error"]["status"]), (404, &json!("NOT_FOUND")));
    let (status, error) = server.send("PUT", STUDY, json_type, "{}");
    assert_eq!((status, &error["error"]["status"]), (405, &json!("UNIMPLEMENTED")));
    let overridden = server.send("POST", STUDY, "x-http-method-override: GET\r\n", "alt=json");
    assert_eq!(overridden, server.get(STUDY));
}
