//! The standard query parameters of Google's services: the form of responses, and parameters without effect.

use serde_json::{Value, json};

use crate::server::Server;
use crate::support::Workspace;

const STUDIES: &str = "/v1/projects/p/locations/l/studies";
const STUDY: &str = "/v1/projects/p/locations/l/studies/s";

fn server(workspace: &Workspace) -> Server {
    let server = Server::start(workspace, &[]);
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "50"}}],
    }});
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study).0, 200);
    server
}

/// The violated field and the message of a refused request.
#[track_caller]
fn refusal((status, answer): (u16, Value)) -> (String, String) {
    assert_eq!(status, 400, "{answer}");
    let error = &answer["error"];
    let field = error["details"][0]["fieldViolations"][0]["field"].as_str().unwrap();
    (field.to_owned(), error["message"].as_str().unwrap().to_owned())
}

#[test]
fn fields_select_parts_of_messages_lists_and_operations() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    let name = "projects/p/locations/l/studies/s";
    assert_eq!(server.get(&format!("{STUDY}?fields=name")), (200, json!({"name": name})));
    let (_, part) = server.get(&format!("{STUDY}?fields=state,studyConfig(metrics/goal)"));
    assert_eq!(part, json!({"state": "ACTIVE", "studyConfig": {"metrics": [{"goal": "MINIMIZE"}]}}));
    assert_eq!(server.get(&format!("{STUDY}?fields=*")), server.get(STUDY));
    assert_eq!(server.get(&format!("{STUDY}?fields=")), server.get(STUDY));
    let (_, list) = server.get(&format!("{STUDIES}?fields=studies/name"));
    assert_eq!(list, json!({"studies": [{"name": name}]}));

    let request = json!({"suggestionCount": 2, "clientId": "c"});
    let (status, operation) = server.post(&format!("{STUDY}/trials:suggest?fields=name,metadata/study"), &request);
    assert_eq!((status, &operation["metadata"]), (200, &json!({"study": name})), "{operation}");
    let operation_name = operation["name"].as_str().unwrap();
    assert_eq!(operation, json!({"name": operation_name, "metadata": {"study": name}}));
    server.wait(operation.clone());
    let (_, done) =
        server.get(&format!("/v1/{operation_name}?fields=response(trials(name,parameters))&prettyPrint=false"));
    assert_eq!(done["response"]["trials"][1]["name"], format!("{name}/trials/2"), "{done}");
    assert_eq!(done["response"]["trials"][0].as_object().unwrap().len(), 2, "{done}");
    // An override carries the parameters in the body.
    let overridden = server.send("POST", STUDY, "x-http-method-override: GET\r\n", "fields=name");
    assert_eq!(overridden, (200, json!({"name": name})));
}

#[test]
fn mask_that_selects_nothing_of_a_message_is_refused() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    for (mask, message) in [
        ("nam", "fields: invalid field selection: the response has no field \"nam\""),
        ("name/x", "fields: invalid field selection: the response has no field \"name/x\""),
        (
            "studyConfig(metrics(metric,goals))",
            "fields: invalid field selection: the response has no field \"studyConfig/metrics/goals\"",
        ),
        ("name(", "fields: invalid field selection \"name(\": a field's name is missing at the end"),
        ("name,,state", "fields: invalid field selection \"name,,state\": unexpected ',' at character 6"),
    ] {
        let refused = refusal(server.get(&format!("{STUDY}?fields={mask}")));
        assert_eq!(refused, ("fields".to_owned(), message.to_owned()));
    }
    let metrics = refusal(server.get("/metrics?fields=name"));
    assert_eq!(metrics.1, "fields: the response of this method is not JSON");
    let (status, document) = server.get("/openapi.json?fields=info/title");
    assert_eq!((status, document), (200, json!({"info": {"title": "Tunesmith"}})));
    // An error is answered in full.
    let (status, error) = server.get(&format!("{STUDIES}/none?fields=name"));
    assert_eq!((status, &error["error"]["status"]), (404, &json!("NOT_FOUND")), "{error}");
}

#[test]
fn responses_are_indented_unless_the_request_declines() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    let missing = format!("{STUDIES}/none");
    for (path, expected) in [(STUDY, 200), (STUDIES, 200), (missing.as_str(), 404), ("/v1/nothing", 404)] {
        let compact = |choice: &str| server.text("GET", &format!("{path}?prettyPrint={choice}"));
        let (status, text) = compact("false");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(status == expected && !text.contains('\n'), "{path}: {status} {text}");
        assert_eq!(compact("0"), (status, text.clone()));
        let (_, indented) = server.text("GET", path);
        assert_eq!(compact("true").1, indented);
        assert_eq!(serde_json::from_str::<Value>(&indented).unwrap(), value);
        assert!(indented.starts_with("{\n  \"") && indented.ends_with("}\n"), "{indented}");
        let without_space: String = indented.lines().map(str::trim_start).collect();
        assert_eq!(without_space.replace("\": ", "\":"), text);
    }
    let (status, head) = server.text("HEAD", STUDY);
    assert_eq!((status, head.as_str()), (200, ""));
}

#[test]
fn parameters_without_effect_are_named_and_unsupported_ones_refused() {
    let workspace = Workspace::new("");
    let server = server(&workspace);
    let named = |query: &str| server.header("GET", &format!("{STUDY}?{query}"), "tunesmith-notice");
    assert_eq!(named("alt=json&prettyPrint=false&fields=name"), None);
    assert_eq!(named("quotaUser=u&alt=json&key=k").as_deref(), Some("no effect: key, quotaUser"));
    let all = "%24.xgafv=2&access_token=t&key=k&oauth_token=t&quotaUser=u&uploadType=media&upload_protocol=raw";
    let expected = "no effect: $.xgafv, access_token, key, oauth_token, quotaUser, uploadType, upload_protocol";
    assert_eq!(named(all).as_deref(), Some(expected));
    for (query, field, message) in [
        ("alt=proto", "alt", "alt: \"proto\" is not supported; allowed: json"),
        ("alt=media", "alt", "alt: \"media\" is not supported; allowed: json"),
        ("callback=f", "callback", "callback: JSONP is not supported: read the response as JSON"),
        ("prettyPrint=maybe", "prettyPrint", "prettyPrint: \"maybe\" is not supported; allowed: true, false, 1, 0"),
        ("%24.xgafv=3", "$.xgafv", "$.xgafv: \"3\" is not supported; allowed: 1, 2"),
        ("batch=1", "batch", "batch: unknown name \"batch\": this method has no such query parameter"),
    ] {
        let refused = refusal(server.get(&format!("{STUDY}?{query}")));
        assert_eq!(refused, (field.to_owned(), message.to_owned()));
    }
}
