//! The standard query parameters of Google's services: the form of responses, and parameters without effect.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

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
    assert_eq!(named("alt=json&prettyPrint=false"), None);
    assert_eq!(named("fields=name").as_deref(), Some("no effect: fields"));
    assert_eq!(server.get(&format!("{STUDY}?fields=name")), server.get(STUDY), "the response is complete");
    // An override carries the parameters in the body.
    let overridden = server.send("POST", STUDY, "x-http-method-override: GET\r\n", "prettyPrint=false");
    assert_eq!(overridden, server.get(STUDY));
    assert_eq!(named("quotaUser=u&alt=json&key=k").as_deref(), Some("no effect: key, quotaUser"));
    let all =
        "%24.xgafv=2&access_token=t&fields=name&key=k&oauth_token=t&quotaUser=u&uploadType=media&upload_protocol=raw";
    let expected = "no effect: $.xgafv, access_token, fields, key, oauth_token, quotaUser, uploadType, upload_protocol";
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
