//! The exact form of requests and responses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

const STUDIES: &str = "/v1/projects/p/locations/l/studies";
const STUDY: &str = "/v1/projects/p/locations/l/studies/s";
const JSON: &str = "content-type: application/json\r\n";

/// The response to the raw bytes of `request`: head and body.
fn exchange(server: &Server, request: &[u8]) -> (String, Value) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn study() -> Value {
    json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "5"}}],
    }})
}

fn server(workspace: &Workspace) -> Server {
    let server = Server::start(workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study()).0, 200);
    server
}

/// The HTTP status, the name of the code, and the message of an error, after a check of its form.
fn error((status, answer): (u16, Value)) -> (u16, String, String) {
    let error = &answer["error"];
    assert_eq!(error["code"], status, "{answer}");
    (status, error["status"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
}

#[track_caller]
fn assert_error(answer: (u16, Value), status: u16, code: &str, message: &str) {
    let (is_status, is_code, is_message) = error(answer);
    assert_eq!((is_status, is_code.as_str()), (status, code), "{is_message}");
    assert!(is_message.contains(message), "{is_message}");
}

#[test]
fn invalid_requests_are_answered_with_a_google_status() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    let suggest = format!("{STUDY}/trials:suggest");
    let send = |body: &str| server.send("POST", &suggest, JSON, body);
    let invalid = "INVALID_ARGUMENT";
    assert_error(server.send("POST", &suggest, "content-type: text/plain\r\n", "{}"), 415, invalid, "text/plain");
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    assert_error(server.send("POST", &suggest, form, "a=b"), 415, invalid, "application/json");
    assert_error(send("{\"clientId\":\n 1,}"), 400, invalid, "not JSON: trailing comma at line 2 column 4");
    assert_error(send("{\"clientId\": \"c\"} {}"), 400, invalid, "trailing characters at line 1 column 19");
    assert_error(send("[]"), 400, invalid, "invalid type: list, expected an object");
    assert_error(send("{\"clientId\": \"a\", \"clientId\": \"b\"}"), 400, invalid, "\"clientId\" is given twice");
    assert_error(
        server.get("/v1/projects/p/nothing"),
        404,
        "NOT_FOUND",
        "there is no method GET /v1/projects/p/nothing",
    );
    assert_error(server.get("/v2/projects"), 404, "NOT_FOUND", "/v2/projects");
    assert_error(server.get(&format!("{STUDY}:copy")), 404, "NOT_FOUND", "studies/s:copy");
    assert_error(server.get(&format!("{STUDY}/trials:list")), 404, "NOT_FOUND", "trials:list");
    assert_error(server.send("PUT", STUDY, JSON, "{}"), 405, "UNIMPLEMENTED", "allowed: GET, PATCH, DELETE");
    assert_error(server.get(&suggest), 405, "UNIMPLEMENTED", "allowed: POST");
    assert_error(server.get("/v1/projects/p/jobs/a%2"), 400, invalid, "percent-encoded");
    assert_error(server.get("/v1/projects/p/jobs/a%ff"), 400, invalid, "percent-encoded");
    assert_error(server.get("/v1/projects/p/jobs?filter=%zz"), 400, invalid, "percent-encoded");
    assert_error(server.get("/v1/projects/p%20q/jobs"), 400, invalid, "\"p q\" is not a valid ID");
    let large = format!("{{\"clientId\": \"{}\"}}", "a".repeat(4 << 20));
    assert_error(send(&large), 413, invalid, "size limit");
    let overridden = server.send("POST", STUDY, "x-http-method-override: GET\r\n", &large);
    assert_error(overridden, 413, invalid, "size limit");
    let (head, _) =
        exchange(&server, format!("PUT {STUDY} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes());
    assert!(head.contains("\r\nallow: get, patch, delete"), "{head}");
    let mut request =
        format!("POST {suggest} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{JSON}content-length: 15\r\n\r\n")
            .into_bytes();
    request.extend(b"{\"clientId\":\"\xff\"");
    request.extend(b"}");
    request.truncate(request.len() - 1);
    let (head, answer) = exchange(&server, &request);
    assert!(head.starts_with("http/1.1 400"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_error((400, answer), 400, invalid, "line 1 column");
}

#[test]
fn invalid_field_is_reported_by_its_path() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    let create = |config: Value| {
        let (status, answer) = server.post(&format!("{STUDIES}?studyId=t"), &json!({ "studyConfig": config }));
        assert_eq!(status, 400, "{answer}");
        let detail = &answer["error"]["details"][0];
        assert_eq!(detail["@type"], "type.googleapis.com/google.rpc.BadRequest");
        detail["fieldViolations"][0]["field"].as_str().unwrap().to_owned()
    };
    let integer =
        |spec: Value| json!({"parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": spec}]});
    assert_eq!(create(json!({"colour": "blue"})), "studyConfig.colour");
    assert_eq!(create(json!({"algorithm": "MAGIC"})), "studyConfig.algorithm");
    assert_eq!(create(json!({"algorithm": 1})), "studyConfig.algorithm");
    assert_eq!(create(json!({"metrics": {}})), "studyConfig.metrics");
    assert_eq!(create(json!({"metrics": [null]})), "studyConfig.metrics[0]");
    let field = "studyConfig.parameters[0].integerValueSpec";
    assert_eq!(create(integer(json!({"minValue": "1.5"}))), format!("{field}.minValue"));
    assert_eq!(create(integer(json!({"minValue": "+1"}))), format!("{field}.minValue"));
    assert_eq!(create(integer(json!({"minValue": "9223372036854775808"}))), format!("{field}.minValue"));
    assert_eq!(create(integer(json!({"maxValue": true}))), format!("{field}.maxValue"));
    assert_eq!(create(integer(json!([1, 2]))), field);
}

#[test]
fn messages_are_accepted_in_every_proto3_json_form() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    let forms = [
        json!({"studyConfig": {
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": 1, "maxValue": 5.0}}],
        }}),
        json!({"study_config": {
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameter": "a", "type": "INTEGER", "integer_value_spec": {"min_value": "1", "max_value": "5"}}
            ],
        }}),
        json!({"name": null, "studyConfig": {
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "algorithm": null,
            "automatedStoppingConfig": null,
            "parameters": [{
                "parameter": "a",
                "type": "INTEGER",
                "scaleType": null,
                "integerValueSpec": {"minValue": "1", "maxValue": "5"},
                "doubleValueSpec": null,
                "childParameterSpecs": null,
            }],
        }}),
    ];
    let (_, expected) = server.get(STUDY);
    for (index, form) in forms.iter().enumerate() {
        let (status, created) = server.post(&format!("{STUDIES}?studyId=form{index}"), form);
        assert_eq!(status, 200, "{created}");
        // Defaults are omitted, 64-bit integers are text.
        assert_eq!(created["studyConfig"], expected["studyConfig"]);
        assert_eq!(
            created["studyConfig"]["parameters"][0]["integerValueSpec"],
            json!({"minValue": "1", "maxValue": "5"})
        );
    }
    // An empty body may be omitted, with its content type.
    let request = json!({"suggestionCount": "2", "clientId": "c"});
    let (status, operation) = server.post(&format!("{STUDY}/trials:suggest"), &request);
    assert_eq!(status, 200, "{operation}");
    let operation = server.wait(operation);
    assert_eq!(operation["metadata"]["suggestionCount"], 2);
    let trial = operation["response"]["trials"][0]["name"].as_str().unwrap().to_owned();
    let report = json!({"measurement": {"stepCount": 3, "elapsedTime": "1.5s", "metrics": [
        {"metric": "loss", "value": "0.5"}
    ]}});
    let (status, reported) = server.post(&format!("/v1/{trial}:addMeasurement"), &report);
    assert_eq!(status, 200, "{reported}");
    let metrics = json!([{"metric": "loss", "value": 0.5}]);
    assert_eq!(reported["measurements"], json!([{"stepCount": "3", "elapsedTime": "1.5s", "metrics": metrics}]));
    let (status, completed) = server.send("POST", &format!("/v1/{trial}:complete"), "", "");
    assert_eq!((status, &completed["state"]), (200, &json!("COMPLETED")), "{completed}");
    assert_eq!(completed["finalMeasurement"]["metrics"], metrics);
    // A colon may be percent-encoded, and so may any other character.
    let (status, stopped) = server.send("POST", "/v1/projects/%70/locations/l/studies/s/trials/2%3Astop", "", "");
    assert_eq!((status, &stopped["state"]), (200, &json!("STOPPING")), "{stopped}");
}

#[test]
fn unknown_query_parameters_are_rejected() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    for (path, field) in [
        (format!("{STUDY}?pageSize=1"), "pageSize"),
        (format!("{STUDIES}?pageSize=1"), "pageSize"),
        ("/v1/projects/p/jobs?page_token=a".to_owned(), "page_token"),
        ("/v1/projects/p/jobs?pageSize=two".to_owned(), "pageSize"),
        ("/v1/projects/p/jobs?pageSize=1&pageSize=2".to_owned(), "pageSize"),
        ("/v1/projects/p/jobs?pageSize=-1".to_owned(), "pageSize"),
        ("/v1/projects/p/jobs?pageToken=a".to_owned(), "pageToken"),
        (
            "/v1/projects/p/jobs/j:getIamPolicy?options.requestedPolicyVersion=2".to_owned(),
            "options.requestedPolicyVersion",
        ),
        ("/v1/projects/p/operations?returnPartialSuccess=perhaps".to_owned(), "returnPartialSuccess"),
    ] {
        let (status, answer) = server.get(&path);
        assert_eq!(status, 400, "{path}: {answer}");
        assert_eq!(answer["error"]["details"][0]["fieldViolations"][0]["field"], field, "{path}: {answer}");
    }
}

#[test]
fn projects_have_locations_operations_and_configuration() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    let location = |name: &str| json!({"name": format!("projects/example.com:p/locations/{name}"), "capabilities": [{"type": "TRAINING"}, {"type": "ONLINE_PREDICTION"}]});
    assert_eq!(server.get("/v1/projects/example.com:p:getConfig"), (200, json!({})));
    assert_eq!(server.get("/v1/projects/example.com:p/locations/us-central1"), (200, location("us-central1")));
    let locations = server.get("/v1/projects/example.com:p/locations?pageSize=5");
    assert_eq!(locations, (200, json!({"locations": [location("local")]})));
    let operations = "/v1/projects/p/operations";
    assert_eq!(server.get(&format!("{operations}?pageSize=5&returnPartialSuccess=true")), (200, json!({})));
    let filtered = server.get(&format!("{operations}?filter=done"));
    assert_error(filtered, 400, "INVALID_ARGUMENT", "filter: is not supported for operations");
    assert_error(server.get(&format!("{operations}/o")), 404, "NOT_FOUND", "operations/o does not exist");
    let cancel = server.send("POST", &format!("{operations}/o:cancel"), "", "");
    assert_error(cancel, 404, "NOT_FOUND", "operations/o does not exist");
    let request = json!({"suggestionCount": 1, "clientId": "c"});
    let (_, operation) = server.post(&format!("{STUDY}/trials:suggest"), &request);
    let name = format!("/v1/{}", operation["name"].as_str().unwrap());
    assert_eq!(server.send("POST", &format!("{name}:cancel"), "", ""), (200, json!({})));
    let elsewhere = name.replace("/locations/l/", "/locations/m/");
    assert_error(server.get(&elsewhere), 404, "NOT_FOUND", "does not exist");
    assert_error(server.get("/v1/projects/p/locations/l/operations"), 404, "NOT_FOUND", "there is no method");
}
