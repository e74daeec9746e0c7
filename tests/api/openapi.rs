//! Comparison of the OpenAPI document with the server.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tunesmith_http::document;
use tunesmith_testing::generator::{generate_client, generated_methods};
use tunesmith_testing::python::interpreter;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

/// With `TUNESMITH_UPDATE_SCHEMA=1 cargo test --test api openapi::`, writes the file.
#[test]
fn published_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/openapi.json");
    let generated = format!("{:#}\n", document());
    if std::env::var_os("TUNESMITH_UPDATE_SCHEMA").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == generated,
        "schemas/openapi.json is out of date: set TUNESMITH_UPDATE_SCHEMA=1 and run this test again"
    );
}

/// `schemars` numbers messages of the same name: the number of one would change with the next.
#[test]
fn messages_have_names_of_their_own() {
    let document = document();
    let names = document["components"]["schemas"].as_object().unwrap().keys();
    let numbered: Vec<&String> =
        names.filter(|name| name.trim_end_matches("Input").ends_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(numbered, ["Int32", "Int64"]);
}

/// The methods of the document: HTTP method, path with names filled in, ID.
fn methods(document: &Value) -> Vec<(String, String, String)> {
    let mut methods = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let path = [
            "project",
            "location",
            "job",
            "study",
            "trial",
            "operation",
            "sha256",
            "file_name",
            "log",
            "run",
            "token",
            "model",
            "version",
            "worker",
            "file",
        ]
        .iter()
        .fold(path.clone(), |path, name| {
            path.replace(&format!("{{{name}}}"), if *name == "trial" { "7" } else { "x" })
        });
        assert!(!path.contains('{'), "{path} has a name that this test does not know");
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            methods.push((method.to_uppercase(), path.clone(), id));
        }
    }
    methods
}

#[test]
fn documented_methods_and_no_others_are_served() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let (status, served) = server.get("/openapi.json");
    assert_eq!((status, &served), (200, &document()));
    let methods = methods(&served);
    let is_there = |method: &str, path: &str| {
        let (status, answer) = server.exchange(method, path, "content-type: application/json\r\n", "{}");
        status != 405 && !answer.contains("there is no method")
    };
    for (_, path, _) in &methods {
        for method in ["GET", "POST", "PATCH", "DELETE", "PUT"] {
            let is_documented = methods.iter().any(|(known, at, _)| known == method && at == path);
            assert_eq!(is_there(method, path), is_documented, "{method} {path}");
        }
    }
    let published = PUBLISHED.lines().map(|line| line.trim_start().to_owned()).filter(|line| !line.is_empty());
    for id in published {
        assert!(methods.iter().any(|(_, _, known)| *known == id), "{id} is published and missing");
    }
    for (_, path, _) in methods.iter().filter(|(_, path, _)| path.contains("/v1/")) {
        assert!(!is_there("POST", &format!("{path}/more")), "{path}/more");
        assert!(!is_there("POST", &format!("{path}:noSuchMethod")), "{path}:noSuchMethod");
    }
}

/// The methods of `ml v1` that the server has.
const PUBLISHED: &str = "
    ml.projects.getConfig
    ml.projects.jobs.cancel
    ml.projects.jobs.create
    ml.projects.jobs.get
    ml.projects.jobs.getIamPolicy
    ml.projects.jobs.list
    ml.projects.jobs.patch
    ml.projects.jobs.setIamPolicy
    ml.projects.jobs.testIamPermissions
    ml.projects.locations.get
    ml.projects.locations.list
    ml.projects.locations.operations.cancel
    ml.projects.locations.operations.get
    ml.projects.locations.studies.create
    ml.projects.locations.studies.delete
    ml.projects.locations.studies.get
    ml.projects.locations.studies.list
    ml.projects.locations.studies.trials.addMeasurement
    ml.projects.locations.studies.trials.checkEarlyStoppingState
    ml.projects.locations.studies.trials.complete
    ml.projects.locations.studies.trials.create
    ml.projects.locations.studies.trials.delete
    ml.projects.locations.studies.trials.get
    ml.projects.locations.studies.trials.list
    ml.projects.locations.studies.trials.listOptimalTrials
    ml.projects.locations.studies.trials.stop
    ml.projects.locations.studies.trials.suggest
    ml.projects.operations.cancel
    ml.projects.operations.get
    ml.projects.operations.list
";

/// The checks of schemathesis for each response.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
    response_headers_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,\
    use_after_free,ensure_resource_availability";

#[test]
fn responses_to_generated_requests_match_the_document() {
    let python = interpreter(&["schemathesis==4.32.5"]);
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients/schemathesis_hooks.py");
    let workspace = Workspace::new("");
    let config = format!("hooks = \"{}\"\n[phases.coverage]\nunexpected-methods = [\"put\"]\n", hooks.display());
    workspace.write("schemathesis.toml", &config);
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    let location = "/v1/projects/p/locations/l";
    let integer =
        json!({"parameter": "layers", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "6"}});
    let study = json!({"studyConfig": {"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": [integer]}});
    for id in ["example", "finite"] {
        assert_eq!(server.post(&format!("{location}/studies?studyId={id}"), &study).0, 200);
        let request = json!({"suggestionCount": 3, "clientId": "worker"});
        assert_eq!(server.post(&format!("{location}/studies/{id}/trials:suggest"), &request).0, 200);
    }
    for (id, script, hyperparameters) in [
        ("plain", "true", Value::Null),
        (
            "tuning",
            "echo loss=1",
            json!({"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 2, "params": [
                {"parameterName": "x", "type": "INTEGER", "minValue": 1, "maxValue": 9}
            ]}),
        ),
    ] {
        let input = json!({
            "masterConfig": {"containerCommand": ["sh", "-c", script]},
            "hyperparameters": hyperparameters,
            "tunesmith": {"metricFromStdout": true},
        });
        let (status, job) = server.post("/v1/projects/p/jobs", &json!({"jobId": id, "trainingInput": input}));
        assert_eq!(status, 200, "{job}");
    }
    let output = tunesmith_testing::program(python.with_file_name("st"))
        .current_dir(workspace.path())
        .arg("run")
        .arg(format!("http://{}/openapi.json", server.address))
        .args(["--checks", CHECKS, "--seed", "1", "--max-examples", "8", "--workers", "2", "--no-color"])
        .args(["--phases", "examples,coverage,fuzzing,stateful", "--suppress-health-check", "all", "--warnings", "off"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // Fails if no request was generated.
    let generated = text.lines().find_map(|line| line.trim().split_once(" generated, "));
    let generated: usize = generated.and_then(|(count, _)| count.parse().ok()).unwrap();
    assert!(generated > 2000, "{text}");
    // The generated requests may have deleted the jobs.
    assert_eq!(server.get("/v1/projects/p/jobs").0, 200);
}

/// A generator that reads the document more strictly than a validator: it leaves out what it does not understand.
#[test]
fn generated_client_has_every_operation() {
    let python = interpreter(&["openapi-python-client==0.29.1"]);
    let folder = tempfile::tempdir().unwrap();
    // The hooks format the code with tools that are not installed; no generator knows the content type of OpenMetrics.
    let config = "post_hooks: []\ncontent_type_overrides: {application/openmetrics-text: text/plain}\n";
    fs::write(folder.path().join("config.yaml"), config).unwrap();
    let document_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/openapi.json");
    let output = tunesmith_testing::program(python.with_file_name("openapi-python-client"))
        .args(["generate", "--fail-on-warning", "--meta", "none", "--config", "config.yaml", "--output-path", "client"])
        .arg("--path")
        .arg(document_path)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !printed.to_lowercase().contains("warning"), "{printed}");
    let operations = fs::read_dir(folder.path().join("client/api/default")).unwrap();
    let names = operations.map(|file| file.unwrap().file_name().into_string().unwrap());
    let generated = names.filter(|name| name.ends_with(".py") && name != "__init__.py").count();
    assert_eq!(generated, methods(&document()).len());
}

/// The other common generator, whose client checks every message against its schema.
#[test]
fn client_of_openapi_generator_tunes_with_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let python = generate_client("python", folder.path());
    let api = folder.path().join("openapi_client/api/default_api.py");
    let operations = generated_methods(&api, "    def ", "_with_http_info(");
    let documented = methods(&document());
    assert_eq!(operations.len(), documented.len());
    for (_, _, id) in documented {
        // `listOptimalTrials` is `list_optimal_trials`.
        let is_same = |name: &&String| name.replace('_', "") == id.to_lowercase().replace(['.', '_'], "");
        assert!(operations.iter().any(|name| is_same(&name)), "{id} was not generated");
    }
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients/openapi_generator.py");
    let mut command = program(python);
    command.arg(script).arg(format!("http://{}", server.address)).env("PYTHONPATH", folder.path());
    let output = finished(command.current_dir(workspace.path()).output().unwrap());
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "ok\n"), "{}", output.stderr);
    assert_eq!(server.get("/v1/projects/p/locations/l/studies/s/trials/1").1["state"], "COMPLETED");
}
