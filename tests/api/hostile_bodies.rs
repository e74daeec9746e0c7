//! Bodies that no client should send: each is refused with status 400 and the field, and none is a failure of the server.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::published_fields::{Outcome, published};

use crate::published_fields::{Walked, names, set};

const JOBS: &str = "/v1/projects/p/jobs";
const STUDIES: &str = "/v1/projects/p/locations/l/studies";
const JSON: &str = "content-type: application/json\r\n";

/// Whether the field needs a name: text that is not empty.
fn is_name(field: &str) -> bool {
    let last = field.rsplit('.').next().unwrap();
    matches!(last, "jobId" | "parameterName" | "parameter" | "metric" | "clientId" | "role")
}

/// Asserts that a request was refused because of a field that `is_expected`.
#[track_caller]
fn assert_refused((status, answer): &(u16, Value), what: &str, is_expected: impl Fn(&str) -> bool) {
    assert_eq!(*status, 400, "{what}: {answer}");
    let field = answer["error"]["details"][0]["fieldViolations"][0]["field"].as_str();
    assert!(field.is_some_and(is_expected), "{what}: {answer}");
}

#[test]
fn every_field_refuses_values_that_it_cannot_have() {
    let workspace = Workspace::new("");
    let mut walked = Walked::start(&workspace);
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    let long = "a".repeat(20_000);
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e308),
        json!(u64::MAX),
        json!(""),
        json!("NaN"),
        json!("-Infinity"),
        json!("1e400"),
        json!("99999999999999999999999"),
        json!("18446744073709551615s"),
        json!("a\u{0}b"),
        json!(long),
        json!([]),
        json!({}),
        json!({"unknown": 1}),
        deep,
    ];
    for entry in published().fields.iter().filter(|entry| entry.outcome != Outcome::Refused) {
        // What the service sets may have any value.
        let has_rules = entry.outcome == Outcome::Works;
        for value in values.iter().filter(|value| has_rules || value.is_array()) {
            let (path, mut body) = walked.request(&entry.request);
            for (field, value) in &entry.with {
                set(&mut body, field, value);
            }
            let sent = entry.send.as_deref().unwrap_or(&entry.field);
            set(&mut body, sent, value);
            let answer = walked.server.post(&path, &body);
            let shown: String = value.to_string().chars().take(40).collect();
            let what = format!("{} of {} is {shown}", entry.field, entry.request);
            let is_scalar = !entry.value.is_object();
            let is_wrong = (has_rules && is_scalar && (value.is_object() || value.is_array()))
                || (has_rules && is_name(&entry.field) && *value == json!(""));
            if is_wrong {
                assert_refused(&answer, &what, |field| names(field, sent));
            } else if answer.0 != 200
                && !matches!(answer.1["error"]["status"].as_str(), Some("FAILED_PRECONDITION" | "ABORTED"))
            {
                // Another field may be wrong now, such as one that needs this one.
                assert_refused(&answer, &what, |_| true);
            }
        }
    }
    walked.end();
}

#[test]
fn texts_that_are_no_messages_are_refused() {
    let workspace = Workspace::new("");
    let mut walked = Walked::start(&workspace);
    let nested = |open: &str, close: &str| format!("{{\"x\": {}1{}}}", open.repeat(200), close.repeat(200));
    let texts = [
        ("{\"a\": 1e400}", "the body is not JSON: number out of range at line 1"),
        ("{\"a\": NaN}", "the body is not JSON: expected value at line 1"),
        ("{\"a\": \"\\ud800\"}", "the body is not JSON: "),
        ("{\"a\": 1, \"a\": 2}", "the key \"a\" is given twice"),
        ("{\"a\": {\"b\": [{\"c\": 1, \"c\": 1}]}}", "the key \"c\" is given twice"),
        ("\u{feff}{}", "the body is not JSON: "),
        ("{\"a\": 1", "the body is not JSON: EOF"),
        ("null", "invalid type: null"),
        ("\"text\"", "invalid type: string"),
        ("[{}]", "invalid type: list"),
        ("{\"\": 1}", "unknown field ``"),
        ("{\"unknown\": 1}", "unknown field `unknown`"),
    ];
    let texts = texts.map(|(text, message)| (text.to_owned(), message)).into_iter();
    let deep = [(nested("[", "]"), "recursion limit"), (nested("{\"y\": ", "}"), "recursion limit")];
    let texts: Vec<(String, &str)> = texts.chain(deep).collect();
    for id in [
        "jobs.create",
        "locations.studies.create",
        "locations.studies.trials.create",
        "locations.studies.trials.suggest",
    ] {
        let (path, _) = walked.request(&format!("ml.projects.{id}"));
        for (text, message) in &texts {
            let (status, answer) = walked.server.send("POST", &path, JSON, text);
            let actual = answer["error"]["message"].as_str().unwrap();
            assert!(status == 400 && actual.contains(message), "{path} {text:.60}: {status} {answer}");
        }
        let large = json!({"jobId": "a".repeat(4 << 20)}).to_string();
        let (status, answer) = walked.server.send("POST", &path, JSON, &large);
        assert_eq!((status, &answer["error"]["status"]), (413, &json!("INVALID_ARGUMENT")), "{path}");
    }
    walked.end();
}

#[test]
fn extreme_durations_and_counts_are_no_failures() {
    let workspace = Workspace::new("");
    let walked = Walked::start(&workspace);
    let server = &walked.server;
    let study = |lease: &str| {
        json!({"studyConfig": {
            "metrics": [{"metric": "loss"}],
            "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
            "tunesmith": {"trialLease": lease},
        }})
    };
    let longest = "315576000000s";
    assert_eq!(server.post(&format!("{STUDIES}?studyId=long"), &study(longest)).0, 200);
    let request = json!({"clientId": "c", "suggestionCount": 1, "tunesmith": {"lease": longest}});
    let (status, operation) = server.post(&format!("{STUDIES}/long/trials:suggest"), &request);
    assert_eq!(status, 200, "{operation}");
    let operation = server.wait(operation);
    let trial = operation["response"]["trials"][0]["name"].as_str().unwrap_or_else(|| panic!("{operation}"));
    let measurement = json!({"measurement": {
        "elapsedTime": longest, "stepCount": i64::MAX.to_string(), "metrics": [{"metric": "loss", "value": 1e308}],
    }});
    assert_eq!(server.post(&format!("/v1/{trial}:addMeasurement"), &measurement).0, 200);
    assert_eq!(server.post(&format!("/v1/{trial}:complete"), &json!({})).0, 200);
    let too_long = "315576000001s";
    let refused = server.post(&format!("{STUDIES}?studyId=longer"), &study(too_long));
    assert_refused(&refused, "a lease", |field| field == "studyConfig.tunesmith.trialLease");

    let job = |id: &str, time: &str| {
        let input = json!({
            "masterConfig": {"containerCommand": ["true"]},
            "scheduling": {"maxRunningTime": time, "maxWaitTime": time},
            "tunesmith": {"trialTimeLimit": time, "stopGracePeriod": time},
        });
        server.post(JOBS, &json!({"jobId": id, "trainingInput": input}))
    };
    assert_eq!(job("long", longest).0, 200);
    assert_refused(&job("longer", too_long), "a job", |field| field.starts_with("trainingInput."));
    assert_eq!(server.post(&format!("{JOBS}/first:cancel"), &json!({})).0, 200);
    let ended = server.until_ended(&format!("{JOBS}/long"));
    assert_eq!(ended["state"], "SUCCEEDED", "{ended}");
}
