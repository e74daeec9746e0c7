//! Nothing that AI Platform published is ignored in silence: every field and query parameter of its reference works, is
//! named in the answer, or is refused.
//!
//! `tests/data/published_fields.json` lists the outcomes. The reference is the discovery document in the published Python
//! client.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Map, Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::published_fields::{Field, Outcome, published};
use tunesmith_testing::python::interpreter;
use tunesmith_testing::server::Server;

/// The discovery document of `ml v1` in the published Python client.
fn discovery() -> Value {
    let python = interpreter(&["google-api-python-client==2.202.0"]);
    let library = fs::read_dir(python.parent().unwrap().with_file_name("lib")).unwrap().next().unwrap().unwrap();
    let path = library.path().join("site-packages/googleapiclient/discovery_cache/documents/ml.v1.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// All methods below `resource` of the discovery document.
fn methods(resource: &Value) -> Vec<&Value> {
    let own = resource["methods"].as_object().into_iter().flat_map(Map::values);
    let below = resource["resources"].as_object().into_iter().flat_map(Map::values).flat_map(methods);
    own.chain(below).collect()
}

/// Paths of the fields of the message `name`, each message once on a path.
fn fields(schemas: &Value, name: &str, above: &[&str], prefix: &str, found: &mut Vec<String>) {
    for (field, schema) in schemas[name]["properties"].as_object().into_iter().flatten() {
        let list = if schema["type"] == "array" { "[]" } else { "" };
        let path = format!("{prefix}{field}{list}");
        found.push(path.clone());
        let message = schema["$ref"].as_str().or(schema["items"]["$ref"].as_str());
        if let Some(message) = message.filter(|message| !above.contains(message)) {
            fields(schemas, message, &[above, &[message]].concat(), &format!("{path}."), found);
        }
    }
}

#[test]
fn every_field_parameter_and_method_of_the_reference_is_listed() {
    let (published, document) = (published(), discovery());
    let served: Value = serde_json::from_str(&fs::read_to_string("schemas/openapi.json").unwrap()).unwrap();
    let operations = served["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let served: BTreeSet<&str> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    let mut walked = 0;
    for method in methods(&document) {
        let id = method["id"].as_str().unwrap();
        if !served.contains(id) {
            assert!(published.methods.iter().any(|listed| listed == id), "{id} is neither served nor listed");
            continue;
        }
        for (name, parameter) in method["parameters"].as_object().unwrap() {
            let is_listed = published.parameters.iter().any(|entry| entry.request == id && entry.parameter == *name);
            assert!(parameter["location"] != "query" || is_listed, "{id}?{name} is not listed");
        }
        // Requests to change a resource are those to create one. The body of a prediction is that of its model.
        let has_own_fields = !id.ends_with(".patch") && !["ml.projects.predict", "ml.projects.explain"].contains(&id);
        let Some(message) = method["request"]["$ref"].as_str().filter(|_| has_own_fields) else {
            continue;
        };
        let mut paths = Vec::new();
        fields(&document["schemas"], message, &[message], "", &mut paths);
        let listed: Vec<&Field> = published.fields.iter().filter(|entry| entry.request == id).collect();
        for path in &paths {
            let is_listed = listed.iter().any(|entry| {
                let is_part = path.starts_with(&format!("{}.", entry.field)) && entry.outcome != Outcome::Works;
                entry.field == *path || is_part || entry.field.starts_with(&format!("{path}."))
            });
            assert!(is_listed, "{path} of {id} is not listed");
        }
        for entry in listed {
            assert!(paths.contains(&entry.field), "{} of {id} is not published", entry.field);
        }
        walked += paths.len();
    }
    for name in document["parameters"].as_object().unwrap().keys() {
        let is_listed = published.parameters.iter().any(|entry| entry.request == "*" && entry.parameter == *name);
        assert!(is_listed, "{name} is not listed");
    }
    assert!(walked > 200, "{walked}");
}

const JOBS: &str = "/v1/projects/p/jobs";
const MODELS: &str = "/v1/projects/p/models";
const STUDIES: &str = "/v1/projects/p/locations/l/studies";

/// A server whose only slot is taken, so that further jobs wait, with a study.
pub(crate) struct Walked {
    pub(crate) server: Server,
    /// Number of requests.
    count: usize,
}

impl Walked {
    pub(crate) fn start(workspace: &Workspace) -> Self {
        let server = Server::start(workspace, &["--job-slots", "1"]);
        let endless = json!({
            "masterConfig": {"containerCommand": ["sh", "-c", "exec tail -f /dev/null"]},
            "hyperparameters": {"goal": "MAXIMIZE", "params": [
                {"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1},
            ]},
        });
        assert_eq!(server.post(JOBS, &json!({"jobId": "first", "trainingInput": endless})).0, 200);
        server.until(&format!("{JOBS}/first"), "RUNNING");
        let study = json!({"studyConfig": {
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameter": "d", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}},
                {"parameter": "i", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9"}},
                {"parameter": "c", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["a", "b"]}},
            ],
        }});
        assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study).0, 200);
        assert_eq!(server.post(MODELS, &json!({"name": "first"})).0, 200);
        Self { server, count: 0 }
    }

    /// Ends the running program, which would outlive the server.
    pub(crate) fn end(self) {
        assert_eq!(self.server.post(&format!("{JOBS}/first:cancel"), &json!({})).0, 200);
        self.server.until(&format!("{JOBS}/first"), "CANCELLED");
    }

    /// The path and a valid body of the method `id`.
    pub(crate) fn request(&mut self, id: &str) -> (String, Value) {
        self.count += 1;
        let count = self.count;
        let result = json!({"metrics": [{"metric": "loss", "value": 1}]});
        let parameters = json!([
            {"parameter": "d", "floatValue": 0.5},
            {"parameter": "i", "intValue": "1"},
            {"parameter": "c", "stringValue": "a"},
        ]);
        match id.strip_prefix("ml.projects.").unwrap() {
            "jobs.create" => {
                let input = json!({"masterConfig": {"containerCommand": ["true"]}});
                (JOBS.to_owned(), json!({"jobId": format!("j{count}"), "trainingInput": input}))
            }
            "jobs.setIamPolicy" => {
                let bindings = json!([{"role": "roles/ml.jobOwner", "members": ["user:a@example.com"]}]);
                (format!("{JOBS}/first:setIamPolicy"), json!({"policy": {"bindings": bindings}}))
            }
            "jobs.testIamPermissions" => (format!("{JOBS}/first:testIamPermissions"), json!({})),
            "models.create" => (MODELS.to_owned(), json!({"name": format!("m{count}")})),
            "models.setIamPolicy" => {
                let bindings = json!([{"role": "roles/ml.modelUser", "members": ["user:a@example.com"]}]);
                (format!("{MODELS}/first:setIamPolicy"), json!({"policy": {"bindings": bindings}}))
            }
            "models.testIamPermissions" => (format!("{MODELS}/first:testIamPermissions"), json!({})),
            "models.versions.create" => {
                // Its operation fails, in the background.
                let version = json!({"name": format!("v{count}"), "deploymentUri": "/no/such/folder"});
                (format!("{MODELS}/first/versions"), version)
            }
            "locations.studies.create" => {
                let config = json!({
                    "metrics": [{"metric": "loss"}],
                    "parameters": [
                        {"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}},
                    ],
                });
                (format!("{STUDIES}?studyId=t{count}"), json!({"studyConfig": config}))
            }
            "locations.studies.trials.create" => (format!("{STUDIES}/s/trials"), json!({"parameters": parameters})),
            "locations.studies.trials.suggest" => {
                (format!("{STUDIES}/s/trials:suggest"), json!({"clientId": "c", "suggestionCount": 1}))
            }
            method @ ("locations.studies.trials.complete" | "locations.studies.trials.addMeasurement") => {
                let (status, created) =
                    self.server.post(&format!("{STUDIES}/s/trials"), &json!({"parameters": parameters}));
                assert_eq!(status, 200, "{created}");
                let (field, verb) = if method.ends_with("complete") {
                    ("finalMeasurement", "complete")
                } else {
                    ("measurement", "addMeasurement")
                };
                (format!("/v1/{}:{verb}", created["name"].as_str().unwrap()), json!({ field: result }))
            }
            other => panic!("no request of {other}"),
        }
    }
}

/// Sets the field at `path` of `message`; `null` removes it. `[]` is the first item of a list.
pub(crate) fn set(message: &mut Value, path: &str, value: &Value) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let (name, index) = match name.split_once('[') {
        Some((name, index)) => (name, Some(index.trim_end_matches(']').parse().unwrap_or(0))),
        None => (name, None),
    };
    if rest.is_none() && value.is_null() {
        if let Some(fields) = message.as_object_mut() {
            fields.remove(name);
        }
        return;
    }
    let mut field = &mut message[name];
    if let Some(index) = index {
        if !field.is_array() {
            *field = json!([]);
        }
        if field.as_array().unwrap().len() <= index {
            field.as_array_mut().unwrap().push(Value::Null);
        }
        field = &mut field[index];
    }
    match rest {
        Some(rest) => set(field, rest, value),
        None => *field = value.clone(),
    }
}

/// Whether `path`, as a response names it, is the listed `field` or a part of it, or contains it.
pub(crate) fn names(path: &str, field: &str) -> bool {
    let without_indices = |path: &str| path.replace(|c: char| c.is_ascii_digit(), "").trim_end_matches("[]").to_owned();
    let (path, field) = (&*without_indices(path), &*without_indices(field));
    let is_below =
        |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with(['.', '[']));
    path == field || is_below(path, field) || is_below(field, path)
}

/// The fields that the notices of a response name.
fn noticed(answer: &Value) -> Vec<String> {
    // The answer to a new version is an operation.
    let places = [&answer["tunesmith"], &answer["metadata"]["version"]["tunesmith"]];
    let notices = places.into_iter().flat_map(|place| place["notices"].as_array()).flatten();
    notices.map(|notice| notice["field"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_field_has_its_listed_outcome() {
    let workspace = Workspace::new("");
    let mut walked = Walked::start(&workspace);
    for entry in published().fields {
        let (path, mut body) = walked.request(&entry.request);
        for (field, value) in &entry.with {
            set(&mut body, field, value);
        }
        set(&mut body, entry.send.as_deref().unwrap_or(&entry.field), &entry.value);
        let (status, answer) = walked.server.post(&path, &body);
        let what = format!("{} of {}: {body}: {answer}", entry.field, entry.request);
        match entry.outcome {
            Outcome::Works => {
                assert_eq!(status, 200, "{what}");
                // Its notice states how many trials were taken over.
                let is_quiet = !entry.field.ends_with("resumePreviousJobId");
                assert!(!is_quiet || !noticed(&answer).iter().any(|field| names(field, &entry.field)), "{what}");
            }
            Outcome::NoEffect => {
                assert_eq!(status, 200, "{what}");
                assert!(noticed(&answer).iter().any(|field| names(field, &entry.field)), "{what}");
            }
            Outcome::Refused => {
                assert_eq!(status, 400, "{what}");
                let field = answer["error"]["details"][0]["fieldViolations"][0]["field"].as_str().unwrap();
                assert!(names(field, &entry.field), "{what}");
            }
        }
    }
    walked.end();
}

#[test]
fn each_query_parameter_has_its_listed_outcome() {
    let workspace = Workspace::new("");
    let walked = Walked::start(&workspace);
    let server = &walked.server;
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    }});
    for entry in published().parameters {
        let (method, path, body) = match entry.request.as_str() {
            "*" => ("GET", format!("{STUDIES}/s"), String::new()),
            "ml.projects.jobs.list" => ("GET", JOBS.to_owned(), String::new()),
            "ml.projects.jobs.patch" => ("PATCH", format!("{JOBS}/first"), json!({"labels": {}}).to_string()),
            "ml.projects.jobs.getIamPolicy" => ("GET", format!("{JOBS}/first:getIamPolicy"), String::new()),
            "ml.projects.models.list" => ("GET", MODELS.to_owned(), String::new()),
            "ml.projects.models.patch" => ("PATCH", format!("{MODELS}/first"), json!({}).to_string()),
            "ml.projects.models.getIamPolicy" => ("GET", format!("{MODELS}/first:getIamPolicy"), String::new()),
            "ml.projects.models.versions.list" => ("GET", format!("{MODELS}/first/versions"), String::new()),
            "ml.projects.models.versions.patch" => {
                ("PATCH", format!("{MODELS}/first/versions/none"), json!({}).to_string())
            }
            "ml.projects.locations.list" => ("GET", "/v1/projects/p/locations".to_owned(), String::new()),
            "ml.projects.locations.studies.create" => ("POST", STUDIES.to_owned(), study.to_string()),
            "ml.projects.operations.list" => ("GET", "/v1/projects/p/operations".to_owned(), String::new()),
            other => panic!("no request of {other}"),
        };
        let path = format!("{path}?{}={}", entry.parameter, entry.value);
        let (status, answer) = server.send(method, &path, "content-type: application/json\r\n", &body);
        let what = format!("{path}: {answer}");
        assert_eq!(status, if entry.outcome == Outcome::Refused { 400 } else { 200 }, "{what}");
        match entry.outcome {
            Outcome::Refused => {
                let field = &answer["error"]["details"][0]["fieldViolations"][0]["field"];
                assert_eq!(field, &entry.parameter, "{what}");
            }
            outcome if method == "GET" => {
                let notice = server.header("GET", &path, "tunesmith-notice");
                let expected = (outcome == Outcome::NoEffect).then(|| format!("no effect: {}", entry.parameter));
                assert_eq!(notice, expected, "{what}");
            }
            _ => {}
        }
    }
    walked.end();
}

#[test]
fn methods_that_are_not_served_are_refused() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let document = discovery();
    let listed = published().methods;
    let refused: Vec<&Value> =
        methods(&document).into_iter().filter(|method| listed.iter().any(|id| method["id"] == **id)).collect();
    assert_eq!(refused.len(), listed.len());
    for method in refused {
        let flat = method["flatPath"].as_str().unwrap();
        let path = flat.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
        let path = path.collect::<Vec<_>>().join("x");
        let verb = method["httpMethod"].as_str().unwrap();
        let (status, answer) = server.send(verb, &format!("/{path}"), "content-type: application/json\r\n", "{}");
        assert_eq!((status, &answer["error"]["status"]), (404, &json!("NOT_FOUND")), "{verb} {path}: {answer}");
    }
}
