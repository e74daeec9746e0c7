//! Configurations and command lines of AI Platform that depend on each other, and values at the limits of their types.
#![expect(clippy::unwrap_used, reason = "the lint does not recognise helpers of tests as tests")]

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

fn tunesmith<'a>(workspace: &Workspace, arguments: impl IntoIterator<Item = &'a str>) -> Finished {
    finished(workspace.command().args(arguments).output().unwrap())
}

const SEARCH: &str = "  hyperparameters:\n    goal: MAXIMIZE\n    params:\n    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}\n";

fn submit(workspace: &Workspace, id: &str, flags: &[&str]) -> Finished {
    let fixed = ["jobs", "submit", "training", id, "--data-dir", "d", "--config", "hptuning_config.yaml"];
    tunesmith(workspace, fixed.iter().chain(flags).copied())
}

#[test]
fn flags_complete_the_file_before_it_is_checked() {
    let workspace = Workspace::new(&format!("trainingInput:\n  scaleTier: CUSTOM\n{SEARCH}"));
    let image = ["--master-image-uri", "i:1"];
    submit(&workspace, "j1", &[&["--master-machine-type", "n1-highmem-8"], &image[..]].concat()).expect(0);
    let missing = submit(&workspace, "j2", &image).expect(2);
    assert!(missing.stderr.contains("--master-machine-type"), "{}", missing.stderr);
    let validated = tunesmith(&workspace, ["validate", "--config", "hptuning_config.yaml"]).expect(0);
    assert!(validated.stderr.contains("--master-machine-type"), "{}", validated.stderr);
    for (role, flag, id) in
        [("worker", "--worker-machine-type", "j3"), ("parameterServer", "--parameter-server-machine-type", "j4")]
    {
        let text = format!("trainingInput:\n  scaleTier: CUSTOM\n  masterType: m\n  {role}Count: 2\n{SEARCH}");
        workspace.write("hptuning_config.yaml", &text);
        submit(&workspace, id, &[&[flag, "w"], &image[..]].concat()).expect(0);
        assert!(submit(&workspace, "other", &image).expect(2).stderr.contains(flag));
    }
    workspace
        .write("hptuning_config.yaml", &format!("trainingInput:\n  masterConfig: {{containerArgs: [a]}}\n{SEARCH}"));
    submit(&workspace, "j5", &image).expect(0);
    workspace.write("hptuning_config.yaml", &format!("trainingInput:\n  masterConfig: {{imageUri: i}}\n{SEARCH}"));
    let conflict = submit(&workspace, "j6", &["--runtime-version", "2.1"]).expect(2);
    assert!(conflict.stderr.starts_with("error: --runtime-version: "), "{}", conflict.stderr);
}

#[test]
fn whole_numbers_that_no_double_equals_are_refused_as_written() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let number = 9_007_199_254_740_993_i64;
    let refused = |path: &str, body: Value| {
        let (status, answer) = server.post(path, &body);
        assert_eq!(status, 400, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("9007199254740993 is too large to be exact"), "{message}");
    };
    let job = |parameter: Value| {
        let input = json!({"masterConfig": {"containerCommand": ["true"]}, "hyperparameters": {"goal": "MAXIMIZE", "params": [parameter]}});
        json!({"jobId": "j", "trainingInput": input})
    };
    for written in [json!(number), json!(number.to_string())] {
        let bounds = json!({"parameterName": "n", "type": "INTEGER", "minValue": written, "maxValue": written});
        refused("/v1/projects/p/jobs", job(bounds));
        refused(
            "/v1/projects/p/jobs",
            job(json!({"parameterName": "n", "type": "DISCRETE", "discreteValues": [1, written]})),
        );
        let study =
            |parameter: Value| json!({"studyConfig": {"metrics": [{"metric": "m"}], "parameters": [parameter]}});
        let studies = "/v1/projects/p/locations/l/studies?studyId=s";
        refused(
            studies,
            study(
                json!({"parameter": "n", "type": "INTEGER", "integerValueSpec": {"minValue": written, "maxValue": written}}),
            ),
        );
        refused(
            studies,
            study(json!({"parameter": "n", "type": "DISCRETE", "discreteValueSpec": {"values": [1, written]}})),
        );
    }
    for text in ["9007199254740993", "'9007199254740993'", "9_007_199_254_740_993", "9007199254740993.0"] {
        workspace.write("c.yaml", &format!("hyperparameters: {{goal: MAXIMIZE, params: [{{parameterName: n, type: INTEGER, minValue: 1, maxValue: {text}}}]}}"));
        let refused = tunesmith(&workspace, ["validate", "--config", "c.yaml"]).expect(2);
        assert!(refused.stderr.contains("9007199254740993 is too large to be exact"), "{}", refused.stderr);
    }
}

#[test]
fn children_of_one_name_need_disjoint_parent_values() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let child = |field: &str, values: Value, more: Value| {
        let mut child =
            json!({"parameter": "mom", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}});
        child[field] = json!({"values": values});
        child.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        child
    };
    let parents = [
        (
            "parentCategoricalValues",
            json!({"type": "CATEGORICAL", "categoricalValueSpec": {"values": ["sgd", "adam"]}}),
            json!(["sgd"]),
            json!(["adam", "sgd"]),
            json!(["adam"]),
            "sgd is also",
        ),
        (
            "parentDiscreteValues",
            json!({"type": "DISCRETE", "discreteValueSpec": {"values": [0.5, 2]}}),
            json!([2]),
            json!([0.5, 2.0]),
            json!([0.5]),
            "2 is also",
        ),
        (
            "parentIntValues",
            json!({"type": "INTEGER", "integerValueSpec": {"minValue": 1, "maxValue": 3}}),
            json!(["1", "3"]),
            json!([2, 3]),
            json!([2]),
            "3 is also",
        ),
    ];
    for (index, (field, parent, first, overlapping, disjoint, reason)) in parents.into_iter().enumerate() {
        let study = |second: &Value, is_nested: bool| {
            let mut parent = parent.clone();
            parent["parameter"] = json!("opt");
            parent["childParameterSpecs"] =
                json!([child(field, first.clone(), json!({})), child(field, second.clone(), json!({}))]);
            if is_nested {
                parent["parentCategoricalValues"] = json!({"values": ["a"]});
                parent = json!({"parameter": "top", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["a", "b"]}, "childParameterSpecs": [parent]});
            }
            json!({"studyConfig": {"metrics": [{"metric": "m"}], "parameters": [parent]}})
        };
        for is_nested in [false, true] {
            let path = format!("/v1/projects/p/locations/l/studies?studyId=s{index}{is_nested}");
            let (status, answer) = server.post(&path, &study(&overlapping, is_nested));
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(
                status == 400 && message.contains(reason) && message.contains("childParameterSpecs[1]"),
                "{answer}"
            );
            let (status, answer) = server.post(&path, &study(&disjoint, is_nested));
            assert_eq!(status, 200, "{answer}");
        }
    }
}

#[test]
fn exhausted_study_answers_as_published_clients_expect() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let studies = "/v1/projects/p/locations/l/studies";
    let config = json!({"studyConfig": {
        "metrics": [{"metric": "m"}],
        "parameters": [{"parameter": "n", "type": "INTEGER", "integerValueSpec": {"maxValue": 2}}],
    }});
    assert_eq!(server.post(&format!("{studies}?studyId=s"), &config).0, 200);
    let suggest = |count: u32, client: &str| {
        server.post(&format!("{studies}/s/trials:suggest"), &json!({"client_id": client, "suggestion_count": count}))
    };
    let (status, operation) = suggest(5, "a");
    assert_eq!(status, 200, "{operation}");
    let response = server.wait(operation)["response"].clone();
    assert_eq!(
        (response["trials"].as_array().map(Vec::len), response["studyState"].as_str()),
        (Some(3), Some("COMPLETED"))
    );
    let (status, refused) = suggest(1, "b");
    assert_eq!((status, refused["error"]["status"].as_str()), (429, Some("RESOURCE_EXHAUSTED")), "{refused}");
    // The client that owns trials gets them again.
    assert_eq!(suggest(1, "a").0, 200);
    let trial = format!("{studies}/s/trials/1");
    let measurement = json!({"measurement": {"stepCount": 1, "elapsedTime": {"seconds": 0}, "metrics": [{"metric": "m", "value": 1}]}});
    let (status, answer) = server.post(&format!("{trial}:addMeasurement"), &measurement);
    assert_eq!(status, 200, "{answer}");
    let (status, error) = server.post(&format!("{studies}?studyId=t"), &json!({"studyConfig": {
        "metrics": [{"metric": "m"}],
        "parameters": [{"parameter": "n", "type": "DOUBLE", "scaleType": "UNIT_LOG_SCALE", "doubleValueSpec": {"maxValue": 9e307}}],
    }}));
    assert_eq!(status, 400);
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("UNIT_LOG_SCALE") && !message.contains("UnitLog"), "{message}");
    let (_, wide) = server.post(&format!("{studies}?studyId=t"), &json!({"studyConfig": {
        "metrics": [{"metric": "m"}],
        "parameters": [{"parameter": "n", "type": "DOUBLE", "doubleValueSpec": {"minValue": -9e307, "maxValue": 1.7e308}}],
    }}));
    let message = wide["error"]["message"].as_str().unwrap();
    assert!(message.contains("from -9e307 to 1.7e308"), "{message}");
}
