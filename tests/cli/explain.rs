//! `tunesmith explain`, on a data folder and a server.
#![expect(clippy::unwrap_used, reason = "the lint does not see that helpers of tests are tests")]

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

/// 16 trials of `score = 10 a - b`, c without effect; the first one with b = 3 fails.
fn explained_job(algorithm: &str) -> Workspace {
    let workspace = Workspace::new(&format!(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 16
  maxFailedTrials: 8
  algorithm: {algorithm}
  params:
    - {{parameterName: a, type: INTEGER, minValue: 0, maxValue: 9}}
    - {{parameterName: b, type: INTEGER, minValue: 0, maxValue: 9}}
    - {{parameterName: c, type: CATEGORICAL, categoricalValues: [left, right]}}
tunesmith: {{metricFromStdout: true, seed: 3}}
"
    ));
    workspace.write(
        "train.sh",
        r#"a="${1#--a=}"; b="${2#--b=}"
if [ "$b" = 3 ] && mkdir "$(dirname "$0")/once" 2>/dev/null; then echo "no luck" >&2; exit 1; fi
echo "score=$((10 * a - b))"
"#,
    );
    workspace
        .run(["--job-id", "job_1", "--", "sh", &workspace.path().join("train.sh").display().to_string()])
        .expect(0);
    workspace
}

fn explain(workspace: &Workspace, args: &[&str]) -> Finished {
    finished(workspace.command().arg("explain").args(args).output().unwrap())
}

#[test]
fn importance_and_optimum_are_reported() {
    let workspace = explained_job("RANDOM_SEARCH");
    let json: Value = serde_json::from_str(&explain(&workspace, &["job_1", "--json"]).expect(0).stdout).unwrap();
    let states = workspace.column("state");
    let measured = states.iter().filter(|state| *state == "SUCCEEDED").count();
    assert_eq!((&json["job"], &json["state"]), (&Value::from("job_1"), &Value::from("SUCCEEDED")));
    assert_eq!((&json["algorithm"], &json["seed"]), (&Value::from("RANDOM_SEARCH"), &Value::from("3")));
    assert_eq!(json["origins"], json!([{"algorithm": "RANDOM_SEARCH", "trials": states.len()}]));
    assert_eq!(json["earlyStopping"], Value::Null);
    assert_eq!(json["trials"]["measured"], measured);
    assert_eq!(json["trials"]["infeasible"], 16 - measured);

    let metric = &json["metrics"][0];
    assert_eq!((&metric["metric"], &metric["goal"]), (&Value::from("score"), &Value::from("MAXIMIZE")));
    let importance = &metric["importance"]["parameters"];
    assert_eq!(importance[0]["parameter"], "a");
    // The variances of the two terms are 100 to 1.
    let total = importance[0]["total"].as_f64().unwrap();
    assert!(total > 0.9 && total <= importance[0]["totalInterval"]["upper"].as_f64().unwrap(), "{importance}");
    let scores: Vec<f64> = workspace.column("objective_value").iter().filter_map(|text| text.parse().ok()).collect();
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(metric["optimum"]["bestObserved"]["observed"], best);
    let predicted = &metric["optimum"]["predicted"];
    assert_eq!(predicted["parameters"]["a"], 9);
    assert!(predicted["predicted"]["median"].as_f64().unwrap() >= best - 1.0, "{predicted}");
    let slices = metric["slices"].as_array().unwrap();
    let names: Vec<&Value> = slices.iter().map(|slice| &slice["parameter"]).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(slices[0]["points"].as_array().unwrap().len(), 10);
    assert_eq!(slices[2]["points"][1]["value"], "right");
    assert_eq!(metric["calibration"]["points"].as_array().unwrap().len(), metric["points"].as_u64().unwrap() as usize);
    assert!(metric["calibration"]["rankCorrelation"].as_f64().unwrap() > 0.8, "{}", metric["calibration"]);
    assert_eq!(metric["calibration"]["coverage"][2]["nominal"], 0.95);

    let text = explain(&workspace, &["job_1", "--slices"]).expect(0).stdout;
    for part in [
        "job_1, SUCCEEDED",
        "RANDOM_SEARCH, seed 3",
        &format!("{measured} measured, none stopped early; {} failed; 0 running", 16 - measured),
        "maximize score;",
        "importance",
        "best measured",
        "predicted optimum",
        "the model separates good points from bad ones",
        "score along each parameter",
        "█",
        "right",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let plain = explain(&workspace, &["job_1"]).expect(0).stdout;
    assert!(text.starts_with(&plain) && !plain.contains('█'), "{plain}");
}

#[test]
fn origins_of_trials_are_reported() {
    let workspace = explained_job("ALGORITHM_UNSPECIFIED");
    let json: Value = serde_json::from_str(&explain(&workspace, &["job_1", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(json["algorithm"], "AUTOMATIC");
    assert_eq!(json["choice"]["algorithm"], "GAUSSIAN_PROCESS_BANDIT");
    let origins = json["origins"].as_array().unwrap();
    assert!(origins.iter().all(|origin| origin["algorithm"] == "GAUSSIAN_PROCESS_BANDIT"), "{origins:?}");
    let trials: u64 = origins.iter().filter_map(|origin| origin["trials"].as_u64()).sum();
    assert_eq!(trials, workspace.column("state").len() as u64);
    let text = explain(&workspace, &["job_1"]).expect(0).stdout;
    for part in ["AUTOMATIC, seed 3", "chosen now   GAUSSIAN_PROCESS_BANDIT: ", "GAUSSIAN_PROCESS_BANDIT/START"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let described = workspace.command().args(["jobs", "describe", "job_1", "--format", "json"]).output().unwrap();
    let job: Value = serde_json::from_str(&finished(described).expect(0).stdout).unwrap();
    let outputs = job["trainingOutput"]["trials"].as_array().unwrap();
    let first = outputs.iter().find(|trial| trial["trialId"] == "1").unwrap();
    let origin = json!({"algorithm": "GAUSSIAN_PROCESS_BANDIT", "step": "START"});
    assert_eq!(first["tunesmith"]["origin"], origin);
    assert!(outputs.iter().any(|trial| trial["tunesmith"]["origin"]["step"] != "START"), "{outputs:?}");
}

#[test]
fn parameters_that_callers_fixed_are_reported() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let send = |path: &str, body: Value| {
        let path = format!("/vertex/v1/{path}");
        let (status, reply) = server.send("POST", &path, "content-type: application/json\r\n", &body.to_string());
        assert_eq!(status, 200, "{reply}");
        reply
    };
    let spec = json!({
        "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
        "parameters": [
            {"parameterId": "x", "doubleValueSpec": {"maxValue": 1}},
            {"parameterId": "kind", "categoricalValueSpec": {"values": ["tree", "net"]}},
        ],
    });
    let study =
        send("projects/local/locations/local/studies", json!({"displayName": "fixed", "studySpec": spec}))["name"]
            .clone();
    let study = study.as_str().unwrap();
    let context = json!({"parameters": [{"parameterId": "kind", "value": "net"}]});
    for number in 0..12 {
        let contexts = if number % 3 == 0 { vec![context.clone()] } else { Vec::new() };
        let request = json!({"suggestionCount": 1, "clientId": "w", "contexts": contexts});
        let suggested = send(&format!("{study}/trials:suggest"), request);
        let trial = &suggested["response"]["trials"][0];
        let x = trial["parameters"].as_array().unwrap().iter().find_map(|it| it["value"].as_f64()).unwrap();
        let result = json!({"finalMeasurement": {"metrics": [{"metricId": "loss", "value": x * x}]}});
        send(&format!("{}:complete", trial["name"].as_str().unwrap()), result);
    }
    let id = study.rsplit('/').next().unwrap();
    let address = format!("http://{}", server.address);
    let mut command = workspace.command();
    let explained =
        finished(command.args(["explain", "--study", id, "--server", &address]).output().unwrap()).expect(0);
    let line = "kind in 4 (values given by callers)";
    assert!(explained.stdout.contains(line), "{}", explained.stdout);
}

#[test]
fn same_trials_give_the_same_explanation() {
    let workspace = explained_job("GAUSSIAN_PROCESS_BANDIT");
    let once = explain(&workspace, &["job_1", "--json"]).expect(0).stdout;
    assert_eq!(once, explain(&workspace, &["job_1", "--json"]).expect(0).stdout);
}

#[test]
fn job_without_enough_trials_is_refused() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 3
  params:
    - {parameterName: a, type: INTEGER, minValue: 0, maxValue: 9}
tunesmith: {metricFromStdout: true}
",
    );
    workspace.run(["--job-id", "short", "--", "sh", "-c", "echo \"score=${0#--a=}\""]).expect(0);
    let short = explain(&workspace, &["short"]).expect(2);
    assert!(
        short.stderr.contains("job short cannot be explained (3 trials measured, 0 failed, 0 running)"),
        "{}",
        short.stderr
    );
    assert!(short.stderr.contains("measured at 3 different points, and 5 are needed"), "{}", short.stderr);
    let unknown = explain(&workspace, &["absent"]).expect(2);
    assert!(unknown.stderr.contains("absent"), "{}", unknown.stderr);
    workspace.write("hptuning_config.yaml", "tunesmith: {metricFromStdout: true}\n");
    workspace.run(["--job-id", "plain", "--", "true"]).expect(0);
    let plain = explain(&workspace, &["plain"]).expect(2);
    assert!(plain.stderr.contains("job plain has no hyperparameters"), "{}", plain.stderr);
}

#[test]
fn result_too_good_to_be_true_is_reported_after_the_run_and_by_explain() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 16
  algorithm: RANDOM_SEARCH
  params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1, scaleType: UNIT_LINEAR_SCALE}
    - {parameterName: y, type: DOUBLE, minValue: 0, maxValue: 1, scaleType: UNIT_LINEAR_SCALE}
tunesmith: {metricFromStdout: true, seed: 3}
",
    );
    // A program whose first run fails without an error, and reports the initial value of its sum.
    workspace.write(
        "train.sh",
        r#"if mkdir "$(dirname "$0")/once" 2>/dev/null; then echo "loss=-1000"; exit; fi
awk -v x="${1#--x=}" -v y="${2#--y=}" 'BEGIN { print "loss=" x + y * y }'
"#,
    );
    let script = workspace.path().join("train.sh").display().to_string();
    let output = workspace.run(["--job-id", "job_1", "--", "sh", &script]).expect(0).stdout;
    let line = output.lines().find(|line| line.starts_with("suspicious: ")).unwrap();
    assert!(line.starts_with("suspicious: trial 1 has loss=-1000, better than all others by "), "{line}");

    let text = explain(&workspace, &["job_1"]).expect(0).stdout;
    assert!(text.contains("suspicious   trial 1 has loss=-1000"), "{text}");
    let json: Value = serde_json::from_str(&explain(&workspace, &["job_1", "--json"]).expect(0).stdout).unwrap();
    let [found] = json["metrics"][0]["suspiciousTrials"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!((&found["trial"], &found["value"]), (&Value::from(1), &Value::from(-1000.0)));
    assert!(found["ranges"].as_f64().unwrap() > 400.0, "{found}");
    assert_ne!(json["metrics"][0]["optimum"]["bestObserved"]["trial"], 1);
}

#[test]
fn use_of_source_studies_is_stated() {
    const STUDIES: &str = "/v1/projects/p/locations/us-central1/studies";
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let post = |path: &str, body: &Value| {
        let (status, answer) = server.post(path, body);
        assert_eq!(status, 200, "{answer}");
        answer
    };
    for (id, sources, sign) in [("source", json!([]), 1.0), ("explained", json!(["source"]), -1.0)] {
        let config = json!({
            "algorithm": "GAUSSIAN_PROCESS_BANDIT",
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
            "tunesmith": {"seed": "3", "priorStudies": sources}});
        post(&format!("{STUDIES}?studyId={id}"), &json!({"studyConfig": config}));
        for _ in 0..8 {
            let body = json!({"clientId": "worker", "suggestionCount": 1});
            let operation = post(&format!("{STUDIES}/{id}/trials:suggest"), &body);
            let trial = server.wait(operation)["response"]["trials"][0].clone();
            let x = trial["parameters"][0]["floatValue"].as_f64().unwrap();
            let metrics = json!([{"metric": "loss", "value": sign * (x - 0.2).powi(2)}]);
            let path = format!("/v1/{}:complete", trial["name"].as_str().unwrap());
            post(&path, &json!({"finalMeasurement": {"metrics": metrics}}));
        }
    }
    let (_, view) = server.get(&format!("{STUDIES}/explained/views/sourceStudies"));
    let description = view["sources"][0]["description"].as_str().unwrap();
    assert!(description.starts_with("8 trials without influence, rank correlation with the results -"), "{view}");
    let target = format!("http://{}", server.address);
    let study = ["--study", "explained", "--project", "p", "--region", "us-central1", "--server", &target];
    let json: Value =
        serde_json::from_str(&explain(&workspace, &[&study[..], &["--json"]].concat()).expect(0).stdout).unwrap();
    assert_eq!(json["sourceStudies"], view["sources"]);
    let text = explain(&workspace, &study).expect(0).stdout;
    assert!(text.contains(&format!("source study source: {description}\n")), "{text}");
    let study = ["--study", "source", "--project", "p", "--region", "us-central1", "--server", &target, "--json"];
    let json: Value = serde_json::from_str(&explain(&workspace, &study).expect(0).stdout).unwrap();
    assert_eq!(json.get("sourceStudies"), None);
}
