//! Notes on trials: who may write them, what they replace, and where they are shown.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::client::client;
use tunesmith_testing::console::{JOBS, job};
use tunesmith_testing::server::Server;

const STUDY: &str = "/v1/projects/p/locations/l/studies/s";

fn create_study(server: &Server, headers: &str) {
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "50"}}],
    }});
    let path = "/v1/projects/p/locations/l/studies?studyId=s";
    assert_eq!(server.send("POST", path, headers, &study.to_string()).0, 200);
    for value in ["3", "4", "5"] {
        let result = json!({"metrics": [{"metric": "loss", "value": 0.5}]});
        let trial = json!({"parameters": [{"parameter": "a", "intValue": value}], "finalMeasurement": result});
        assert_eq!(server.send("POST", &format!("{STUDY}/trials"), headers, &trial.to_string()).0, 200);
    }
}

#[test]
fn note_has_its_author_and_is_replaced_only_by_those_who_have_read_it() {
    let workspace = Workspace::new("");
    let header = |principal: &str, role: &str| bearer(&token(&workspace, &["--principal", principal, "--role", role]));
    let ada = header("user:ada", "ml.developer@p");
    let bob = header("user:bob", "ml.developer@p");
    let viewer = header("user:view", "ml.viewer@p");
    let server = Server::start(&workspace, &[]);
    create_study(&server, &ada);
    let set = |headers: &str, body: Value| {
        server.send("POST", &format!("{STUDY}/trials/2:setNote"), headers, &body.to_string())
    };

    let (status, trial) = set(&ada, json!({"text": "diverged\r\nafter epoch 3 ", "etag": "AAAAAAAAAAA="}));
    let note = &trial["tunesmith"]["note"];
    assert_eq!(
        (status, note["text"].as_str(), note["author"].as_str()),
        (200, Some("diverged\nafter epoch 3"), Some("user:ada"))
    );
    assert!(note["updateTime"].is_string());
    assert_eq!(server.send("GET", &format!("{STUDY}/trials/2"), &viewer, "").1, trial);

    let message = |answer: (u16, Value)| (answer.0, answer.1["error"]["message"].as_str().unwrap().to_owned());
    let stale = set(&bob, json!({"text": "mine", "etag": "AAAAAAAAAAA="}));
    assert_eq!(stale.1["error"]["status"], "ABORTED");
    assert_eq!(
        message(stale),
        (409, "the note of trial 2 has been changed since it was read: read it again".to_owned())
    );
    let (status, trial) = set(&bob, json!({"text": "mine", "etag": note["etag"]}));
    assert_eq!((status, &trial["tunesmith"]["note"]["author"]), (200, &json!("user:bob")));
    assert_eq!(set(&viewer, json!({"text": "x"})).0, 403);
    assert_eq!(message(set(&bob, json!({}))), (400, "text: is required; an empty text removes the note".to_owned()));
    let (status, long) = message(set(&bob, json!({"text": "x".repeat(8193)})));
    assert_eq!((status, long.as_str()), (400, "text: has 8193 bytes, must have at most 8192"));
    let (_, control) = message(set(&bob, json!({"text": "a\u{7}"})));
    assert!(control.starts_with("text: contains the control character U+0007"), "{control}");
    assert_eq!(server.send("POST", &format!("{STUDY}/trials/9:setNote"), &bob, "{\"text\": \"x\"}").0, 404);

    // Lists, filters, tables and exports show it.
    let (_, list) = server.send("GET", &format!("{STUDY}/trials?filter=note:*"), &viewer, "");
    assert_eq!(list["trials"].as_array().unwrap().len(), 1, "{list}");
    let (_, view) = server.send("GET", &format!("{STUDY}/views/table"), &viewer, "");
    let notes: Vec<&Value> = view["view"]["rows"].as_array().unwrap().iter().map(|row| &row["note"]).collect();
    assert_eq!(notes, [&Value::Null, &json!("mine"), &Value::Null]);
    let (status, removed) = set(&ada, json!({"text": ""}));
    assert_eq!((status, &removed["tunesmith"]["note"]), (200, &Value::Null));

    let audit = workspace.read("data/audit/admin_activity.jsonl");
    let method = "tunesmith.projects.locations.studies.trials.setNote";
    let records: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let changes: Vec<(&str, u64)> = records
        .iter()
        .filter(|record| record["method"] == method)
        .map(|record| (record["principal"].as_str().unwrap(), record["status"].as_u64().unwrap()))
        .collect();
    let ok = [("user:ada", 200), ("user:bob", 409), ("user:bob", 200), ("user:view", 403)];
    assert_eq!(changes[..4], ok);
    assert_eq!(changes.last(), Some(&("user:ada", 200)));
}

#[test]
fn note_of_a_jobs_trial_is_exported() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(JOBS, &job("j", 2)).0, 200);
    server.until(&format!("{JOBS}/j"), "SUCCEEDED");
    let (status, trial) = server.post(&format!("{JOBS}/j/trials/1:setNote"), &json!({"text": "a, \"b\""}));
    assert_eq!((status, &trial["tunesmith"]["note"]["text"]), (200, &json!("a, \"b\"")), "{trial}");
    assert_eq!(trial["tunesmith"]["note"]["author"], Value::Null);
    let refused = server.post("/v1/projects/p/locations/jobs/studies/j/trials/1:setNote", &json!({"text": "x"}));
    assert_eq!(refused.0, 404, "trials of jobs are changed as trials of jobs: {}", refused.1);

    let address = format!("http://{}", server.address);
    let target = ["--server", address.as_str(), "--project", "p"];
    let csv = client(&workspace, &["trials", "export", "--job", "j"], &target).expect(0).stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with(
            "trial_id,state,objective_value,training_step,stopped_early,reason,start_time,end_time,recommended,note,"
        ),
        "{csv}"
    );
    assert!(lines[1].contains("\"a, \"\"b\"\"\""), "{csv}");
    let shown = client(&workspace, &["trials", "describe", "1", "--job", "j"], &target).expect(0).stdout;
    assert!(shown.contains("note:") && shown.contains("text: a, \"b\""), "{shown}");
}
