//! Fields of requests and configurations that have no effect: named in the answer and by the command line, or refused.

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

const JOBS: &str = "/v1/projects/p/jobs";

fn input(more: &Value) -> Value {
    let mut input = json!({"masterConfig": {"containerCommand": ["true"]}});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

fn create(server: &Server, id: &str, more: &Value) -> (u16, Value) {
    server.post(JOBS, &json!({"jobId": id, "trainingInput": input(more)}))
}

fn notices(answer: &Value) -> Vec<(String, String)> {
    let notices = answer["tunesmith"]["notices"].as_array().unwrap();
    let text = |notice: &Value, field: &str| notice[field].as_str().unwrap().to_owned();
    notices.iter().map(|notice| (text(notice, "field"), text(notice, "description"))).collect()
}

#[track_caller]
fn assert_refused((status, answer): (u16, Value), message: &str) {
    assert_eq!((status, answer["error"]["message"].as_str()), (400, Some(message)), "{answer}");
}

#[test]
fn job_names_its_fields_without_effect_in_every_answer() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let more = json!({
        "region": "us-central1",
        "jobDir": "hdfs://host/out",
        "workerConfig": {"imageUri": "image"},
        "hyperparameters": {"goal": "MAXIMIZE", "params": [
            {"parameterName": "x", "type": "INTEGER", "minValue": 1, "maxValue": 2},
        ]},
    });
    let (status, created) = create(&server, "j", &more);
    assert_eq!(status, 200, "{created}");
    let expected = [
        ("trainingInput.region", "has no effect on this service"),
        (
            "trainingInput.masterConfig.containerCommand",
            "is given without imageUri: the command is run on this machine, not in a container; AI Platform allows it only \
             with imageUri",
        ),
        ("trainingInput.workerConfig", "has no effect: workerCount is 0; only with workerCount above 0"),
        (
            "trainingInput.jobDir",
            "TensorFlow event files below hdfs:// are not read; a folder, gs:// or s3:// for trainers that report with event \
             files; with hypertune, HTTP or standard output any URI",
        ),
    ];
    let mut expected: Vec<(String, String)> =
        expected.map(|(field, description)| (field.to_owned(), description.to_owned())).into();
    let mut actual = notices(&created);
    expected.sort();
    actual.sort();
    assert_eq!(actual, expected);
    let of = |job: &Value| job["tunesmith"]["notices"].clone();
    assert_eq!(of(&server.get(&format!("{JOBS}/j")).1), of(&created));
    assert_eq!(of(&server.get(JOBS).1["jobs"][0]), of(&created));

    // A resource that was read can be sent again: what the service sets is named.
    let mut copy = server.get(&format!("{JOBS}/j")).1;
    copy["jobId"] = json!("copy");
    let (status, copied) = server.post(JOBS, &copy);
    assert_eq!(status, 200, "{copied}");
    let fields: Vec<String> = notices(&copied).into_iter().map(|(field, _)| field).collect();
    for field in ["createTime", "state", "etag", "trainingOutput", "tunesmith"] {
        assert!(fields.iter().any(|found| found == field), "{field} is not in {fields:?}");
    }
}

#[test]
fn two_programs_labels_and_policies_are_checked() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_refused(
        create(&server, "a", &json!({"pythonModule": "trainer.task"})),
        "trainingInput.pythonModule: is given together with the command masterConfig.containerCommand; allowed: one \
         program: pythonModule with packageUris, or a command",
    );
    let labelled =
        |labels: Value| server.post(JOBS, &json!({"jobId": "b", "trainingInput": input(&json!({})), "labels": labels}));
    let keys = "1 to 63 lower case letters, digits, '_' and '-', starting with a letter";
    assert_refused(
        labelled(json!({"Owner": "me"})),
        &format!("labels.Owner: the key \"Owner\" is not allowed; allowed: {keys}"),
    );
    assert_eq!(labelled(json!({"owner": "me"})).0, 200);
    let patch = json!({"labels": {"owner": "not me"}}).to_string();
    let path = format!("{JOBS}/b?updateMask=labels");
    assert_refused(
        server.send("PATCH", &path, "content-type: application/json\r\n", &patch),
        "labels.owner: the value \"not me\" is not allowed; allowed: at most 63 lower case letters, digits, '_' and '-'",
    );
    let set = |policy: Value, mask: &str| {
        server.post(&format!("{JOBS}/b:setIamPolicy"), &json!({"policy": policy, "updateMask": mask}))
    };
    let binding = json!({"role": "roles/ml.jobOwner", "members": ["user:a@example.com"]});
    let mut conditional = binding.clone();
    conditional["condition"] = json!({"expression": "request.time < timestamp('2030-01-01T00:00:00Z')"});
    assert_refused(
        set(json!({"bindings": [binding, conditional]}), ""),
        "policy.bindings[1].condition: is not supported: conditions are not evaluated; grant the role without a \
         condition, or not at all",
    );
    assert_refused(
        set(json!({"bindings": [binding], "auditConfigs": [{"service": "allServices"}]}), ""),
        "policy.auditConfigs: is not supported: the audit logs of this server record every change, and reads with \
         --data-access-log",
    );
    assert_refused(
        set(json!({"bindings": [binding]}), "bindings,auditConfigs"),
        "updateMask: \"auditConfigs\" cannot be set; bindings, etag and version can",
    );
    assert_refused(set(json!({"bindings": [binding]}), "etag"), "updateMask: must contain bindings, the default");
    assert_eq!(set(json!({"bindings": [binding]}), "bindings,etag").0, 200);
}

#[test]
fn reverse_logarithm_over_too_many_decades_is_noticed() {
    let config = |min: &str| {
        format!(
            "hyperparameters:\n  goal: MINIMIZE\n  maxTrials: 2\n  params:\n  - {{parameterName: x, type: DOUBLE, minValue: \
             {min}, maxValue: 1.0, scaleType: UNIT_REVERSE_LOG_SCALE}}\ntunesmith: {{metricFromStdout: true}}\n"
        )
    };
    let validate = |min: &str| {
        let workspace = Workspace::new(&config(min));
        let validate = ["validate", "--config", "hptuning_config.yaml"];
        let output = tunesmith_testing::finished(workspace.command().args(validate).output().unwrap()).expect(0);
        output.stdout + &output.stderr
    };
    let text =
        "UNIT_REVERSE_LOG_SCALE from 1e-30 to 1: 46% of the scale rounds to its upper end, so that many trials get 1";
    assert!(validate("1.0e-30").contains(text), "{}", validate("1.0e-30"));
    assert!(!validate("1.0e-10").contains("rounds to its upper end"));
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "scaleType": "UNIT_REVERSE_LOG_SCALE",
                        "doubleValueSpec": {"minValue": 1e-30, "maxValue": 1}}],
    }});
    let (_, created) = server.post("/v1/projects/p/locations/l/studies?studyId=s", &study);
    let [(field, description)] = &notices(&created)[..] else { panic!("{created}") };
    assert_eq!(field, "studyConfig.parameters[0].scaleType");
    assert!(description.starts_with(text), "{description}");
}

#[test]
fn trial_names_fields_without_effect() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let study = json!({"name": "n", "studyConfig": {
        "metrics": [{"metric": "loss"}],
        "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "5"}}],
    }});
    let (_, created) = server.post("/v1/projects/p/locations/l/studies?studyId=s", &study);
    let set_by_service = "has no effect: the service sets it".to_owned();
    assert_eq!(notices(&created), [("name".to_owned(), set_by_service)]);
    assert!(server.get("/v1/projects/p/locations/l/studies/s").1["tunesmith"]["notices"].is_null());
    let trials = "/v1/projects/p/locations/l/studies/s/trials";
    let point = json!([{"parameter": "a", "intValue": "1"}]);
    let result = json!({"metrics": [{"metric": "loss", "value": 1}]});
    let (_, created) = server.post(trials, &json!({"parameters": point, "measurements": [result]}));
    let description = "has no effect on a trial without a result";
    assert_eq!(notices(&created), [("measurements".to_owned(), description.to_owned())]);
    let (_, completed) =
        server.post(&format!("{trials}/1:complete"), &json!({"trialInfeasible": true, "finalMeasurement": result}));
    let description = "has no effect: trialInfeasible is set".to_owned();
    assert_eq!(notices(&completed), [("finalMeasurement".to_owned(), description)]);
    let reason = json!({"parameters": point, "infeasibleReason": "text"});
    assert_refused(server.post(trials, &reason), "infeasibleReason: only with trialInfeasible");
}

#[test]
fn command_line_names_what_has_no_effect() {
    let config = "pythonModule: trainer.task\njobDir: hdfs://host/out\nworkerConfig: {tpuTfVersion: '2.4'}\nregion: r\n\
                  hyperparameters:\n  goal: MAXIMIZE\n  params: [{parameterName: x, type: INTEGER, minValue: 1, maxValue: 2}]\n";
    let workspace = Workspace::new(config);
    let expect = |done: &Finished, expected: &[&str]| {
        for text in expected {
            assert!(done.stderr.contains(text), "{text} is not in {}", done.stderr);
        }
    };
    let warnings =
        ["event files below hdfs:// are not read", "has no effect: workerCount is 0", "hptuning_config.yaml:2:9"];
    let mut command = workspace.command();
    let validated =
        finished(command.args(["validate", "--config", "hptuning_config.yaml"]).output().unwrap()).expect(0);
    expect(&validated, &warnings);
    assert!(validated.stdout.contains("no effect here  region"), "{}", validated.stdout);

    let run = workspace.run(["--", "true"]);
    expect(&run, &warnings);
    expect(
        &run,
        &[
            "no effect in a local run: region",
            "warning: pythonModule: has no effect: the command after `--` replaces it",
        ],
    );

    workspace.write("plain.yaml", "region: r\n");
    let mut command = workspace.command();
    command.args(["jobs", "submit", "training", "j", "--config", "plain.yaml", "--data-dir", "submitted"]);
    command.args(["--worker-image-uri", "image", "--staging-bucket", "gs://b", "--", "true"]);
    let submitted = finished(command.output().unwrap()).expect(0);
    expect(
        &submitted,
        &[
            "warning: workerConfig: has no effect: workerCount is 0",
            "no effect on this service: region, --staging-bucket",
        ],
    );

    let labels = "labels: {Owner: me}\ntrainingInput: {}\n";
    workspace.write("labels.yaml", labels);
    let mut command = workspace.command();
    let refused = finished(command.args(["validate", "--config", "labels.yaml"]).output().unwrap()).expect(2);
    expect(&refused, &["the key \"Owner\" is not allowed", "labels.yaml:1:17"]);
}
