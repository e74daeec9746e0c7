//! Names of operations contain their content: anyone can make them up, and reading one changes nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

const LOCATION: &str = "/v1/projects/p/locations/l";

fn study(algorithm: &Value) -> Value {
    let parameters: Vec<Value> = (0..6)
        .map(|number| {
            let range = json!({"minValue": 0, "maxValue": 1});
            json!({"parameter": format!("x{number}"), "type": "DOUBLE", "doubleValueSpec": range})
        })
        .collect();
    let metrics = json!([{"metric": "loss", "goal": "MINIMIZE"}]);
    json!({"studyConfig": {"metrics": metrics, "parameters": parameters, "algorithm": algorithm}})
}

#[test]
fn forged_operation_makes_no_trials() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &["--data-access-log"]);
    let create = format!("{LOCATION}/studies?studyId=s");
    let body = study(&json!("RANDOM_SEARCH")).to_string();
    assert_eq!(server.send("POST", &create, &bearer(&admin), &body).0, 200);
    let suggest = format!("{LOCATION}/studies/s/trials:suggest");
    let body = json!({"suggestionCount": 2, "clientId": "worker"}).to_string();
    let mut operation = server.send("POST", &suggest, &bearer(&admin), &body).1;
    until(|| {
        operation = server.send("GET", &format!("/v1/{}", operation["name"].as_str().unwrap()), &bearer(&admin), "").1;
        operation["done"] == true
    });
    let id = operation["name"].as_str().unwrap().rsplit_once('/').unwrap().1;
    let answered: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(id).unwrap()).unwrap();
    let read = |client: &str, count: u64| {
        let mut content = answered["Suggested"].clone();
        (content["client"], content["count"]) = (json!(client), json!(count));
        let id = URL_SAFE_NO_PAD.encode(json!({"Suggest": content}).to_string());
        server.send("GET", &format!("{LOCATION}/operations/{id}"), &bearer(&viewer), "")
    };
    for client in ["stranger", "worker"] {
        let (status, answer) = read(client, 300_000);
        let trials = answer["response"]["trials"].as_array().map(Vec::len);
        let expected = if client == "worker" { (200, Some(2)) } else { (404, None) };
        assert_eq!((status, trials), expected, "{answer}");
    }
    let (_, list) = server.send("GET", &format!("{LOCATION}/studies/s/trials"), &bearer(&viewer), "");
    assert_eq!(list["trials"].as_array().unwrap().len(), 2, "{list}");
}

#[test]
fn accepted_suggestion_is_answered_after_a_restart() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{LOCATION}/studies?studyId=s"), &study(&Value::Null)).0, 200);
    for number in 0..30 {
        let value = f64::from(number) / 30.0;
        let parameters: Vec<Value> =
            (0..6).map(|at| json!({"parameter": format!("x{at}"), "floatValue": value})).collect();
        let result = json!({"metrics": [{"metric": "loss", "value": value * value}]});
        let trial = json!({"parameters": parameters, "finalMeasurement": result});
        assert_eq!(server.post(&format!("{LOCATION}/studies/s/trials"), &trial).0, 200);
    }
    let request = json!({"suggestionCount": 300, "clientId": "worker"});
    let (status, operation) = server.post(&format!("{LOCATION}/studies/s/trials:suggest"), &request);
    assert_eq!((status, &operation["done"]), (200, &Value::Null), "a long suggestion continues in the background");
    server.kill();
    let server = Server::start(&workspace, &[]);
    let trials = server.wait(operation)["response"]["trials"].as_array().unwrap().len();
    assert_eq!(trials, 300);
    let pending = std::fs::read_dir(workspace.path().join("data/suggestions")).unwrap();
    assert_eq!(pending.count(), 0);
}
