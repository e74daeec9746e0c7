//! Several metrics and constraints in jobs and studies.

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

const STUDIES: &str = "/v1/projects/p/locations/us-central1/studies";

/// The smallest loss is unsafe: latency is at most 7 for x from 3 on. The size is always safe.
const CONFIG: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 12
  params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}
tunesmith:
  metricFromStdout: true
  seed: 7
  metrics:
    - {metric: latency, goal: MINIMIZE, safetyConfig: {safetyThreshold: 7}}
    - {metric: size, goal: MAXIMIZE, safetyConfig: {}}
";

/// Reports the loss by the file of hypertune, the latency over HTTP, and the size on standard output.
const TRAINER: &str = r#"
import json, os, sys, urllib.request
x = float(next(word for word in sys.argv if word.startswith("--x="))[4:])
file = os.environ["CLOUD_ML_HP_METRIC_FILE"]
os.makedirs(os.path.dirname(file), exist_ok=True)
with open(file, "w") as out:
    out.write(json.dumps({"timestamp": 1.0, "trial": "1", "global_step": "2", "loss": str(x)}) + "\n")
body = {"measurement": {"stepCount": "2", "metrics": [{"metric": "latency", "value": 10 - x}]}}
url = os.environ["TUNESMITH_ENDPOINT"] + "/v1/" + os.environ["TUNESMITH_TRIAL"] + ":addMeasurement"
request = urllib.request.Request(url, data=json.dumps(body).encode())
request.add_header("authorization", "Bearer " + os.environ["TUNESMITH_TOKEN"])
urllib.request.urlopen(request, timeout=10).close()
print(f"size={x}")
"#;

fn command(workspace: &Workspace, args: &[&str]) -> Finished {
    finished(workspace.command().args(args).output().unwrap())
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

#[test]
fn job_learns_constraints_that_are_reported_through_every_channel() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.py", TRAINER);
    let validated = command(&workspace, &["validate", "--config", "hptuning_config.yaml"]).expect(0).stdout;
    assert!(validated.contains("constraint      latency at most 7\n"), "{validated}");
    let run = workspace.run(["--job-id", "j", "--", "python3", "train.py"]).expect(0);

    let trials = workspace.trials();
    let xs: Vec<f64> = trials.iter().map(|trial| number(&trial["x"])).collect();
    let safe: Vec<bool> = xs.iter().map(|x| 10.0 - x <= 7.0).collect();
    assert!(safe.contains(&false) && safe[6..].iter().filter(|safe| **safe).count() >= 3, "{xs:?}");
    for ((trial, x), safe) in trials.iter().zip(&xs).zip(&safe) {
        assert_eq!((trial["state"].as_str(), number(&trial["loss"])), ("SUCCEEDED", *x));
        assert_eq!((number(&trial["latency"]), number(&trial["size"])), (10.0 - x, *x));
        assert_eq!(trial["reason"], if *safe { "" } else { "violates latency" });
    }
    let best = xs.iter().zip(&safe).filter(|(_, safe)| **safe).map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    assert!(best < 3.5, "{xs:?}");
    let place = 1 + xs.iter().position(|x| *x == best).unwrap();
    assert!(run.stdout.contains(&format!("best: trial {place} with loss=")), "{}", run.stdout);
    assert!(run.stdout.contains("violates latency"), "{}", run.stdout);

    let job = workspace.job();
    assert_eq!(job["state"], "SUCCEEDED");
    let outputs = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!((outputs.len(), &outputs[0]["trialId"]), (12, &json!(place.to_string())));
    let unsafe_count = safe.iter().filter(|safe| !**safe).count();
    for (rank, output) in outputs.iter().enumerate() {
        let violated = &output["tunesmith"]["violatedConstraints"];
        assert_eq!(*violated == json!(["latency"]), rank >= 12 - unsafe_count, "{output}");
        let metrics = output["tunesmith"]["metrics"].as_array().unwrap();
        assert_eq!(
            metrics.iter().map(|metric| metric["metric"].clone()).collect::<Vec<_>>(),
            ["loss", "latency", "size"]
        );
    }
    let described = command(&workspace, &["jobs", "describe", "j", "--format", "table"]).expect(0).stdout;
    assert!(described.contains(&format!("best: trial {place} with loss=")), "{described}");
    let explained = command(&workspace, &["explain", "j", "--json"]).expect(0).stdout;
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let optimum = &explained["metrics"][0]["optimum"];
    assert_eq!(optimum["bestObserved"]["trial"], place);
    let recommended = optimum["bestMeasuredByModel"]["trial"].as_u64().unwrap() as usize;
    assert!(safe[recommended - 1], "{optimum}");
    let optimal =
        command(&workspace, &["trials", "list", "--optimal", "--job", "j", "--format", "json"]).expect(0).stdout;
    assert!(optimal.contains(&format!("/trials/{place}\"")) && !optimal.contains("violatedConstraints"), "{optimal}");
}

#[test]
fn job_with_several_metrics_has_a_front() {
    let config = CONFIG.replace("{metric: size, goal: MAXIMIZE, safetyConfig: {}}", "{metric: size, goal: MAXIMIZE}");
    let workspace = Workspace::new(&config.replace("maxTrials: 12", "maxTrials: 6"));
    let script = r#"for arg in "$@"; do case "$arg" in --x=*) x=${arg#--x=};; esac; done
        echo "loss=$x size=$x"; awk "BEGIN { print \"latency=\" 10 - $x }""#;
    let run = workspace.run(["--job-id", "j", "--", "sh", "-c", script, "trainer"]).expect(0);
    let xs: Vec<f64> = workspace.column("x").iter().map(|x| number(x)).collect();
    // Less loss is less size, so that every safe trial is on the front.
    let mut safe: Vec<usize> = (1..=6).filter(|trial| xs[trial - 1] >= 3.0).collect();
    safe.sort_by(|a, b| xs[a - 1].total_cmp(&xs[b - 1]));
    let safe: Vec<String> = safe.iter().map(ToString::to_string).collect();
    assert!(!safe.is_empty() && safe.len() < 6, "{xs:?}");
    assert_eq!(workspace.job()["tunesmith"]["optimalTrials"], json!(safe));
    let word = if safe.len() == 1 { "trial" } else { "trials" };
    let optimal = format!("optimal by all metrics: {word} {}\n", safe.join(", "));
    assert!(run.stdout.contains(&optimal), "{}", run.stdout);
}

#[test]
fn misspelt_further_metric_fails_the_job_with_the_first_trial() {
    let workspace = Workspace::new(CONFIG);
    let run = workspace.run(["--job-id", "j", "--", "sh", "-c", "echo loss=1 latncy=2 size=3", "trainer"]).expect(1);
    let reason = "trial 1 never reported tunesmith.metrics[0].metric \"latency\"; it reported \"latncy\", \"loss\", \"size\"; \
                  did you mean \"latncy\"?";
    assert!(run.stdout.contains(reason), "{}", run.stdout);
    assert!(workspace.column("reason")[0].starts_with("ended without reporting \"latency\"; "), "{}", run.stdout);
}

fn study(more: &Value, metrics: &Value) -> Value {
    let mut config = json!({
        "metrics": metrics,
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 10}}],
        "tunesmith": {"seed": "3"},
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"studyConfig": config})
}

fn limited() -> Value {
    json!([{"metric": "loss", "goal": "MINIMIZE"},
        {"metric": "latency", "goal": "MINIMIZE", "safetyConfig": {"safetyThreshold": 7}}])
}

#[test]
fn study_keeps_to_its_constraint_also_after_a_restart() {
    let workspace = Workspace::new("");
    let mut server = Server::start(&workspace, &[]);
    let (status, created) = server.post(&format!("{STUDIES}?studyId=s"), &study(&json!({}), &limited()));
    assert_eq!(status, 200, "{created}");
    assert_eq!(created["studyConfig"]["metrics"][1]["safetyConfig"], json!({"safetyThreshold": 7}));
    let mut xs = Vec::new();
    for number in 0..12 {
        if number == 6 {
            server.kill();
            server = Server::start(&workspace, &[]);
        }
        let body = json!({"clientId": "worker", "suggestionCount": 1});
        let (_, operation) = server.post(&format!("{STUDIES}/s/trials:suggest"), &body);
        let trial = server.wait(operation)["response"]["trials"][0].clone();
        let x = trial["parameters"][0]["floatValue"].as_f64().unwrap();
        xs.push(x);
        let path = format!("/v1/{}", trial["name"].as_str().unwrap());
        let loss = json!({"metric": "loss", "value": x});
        let latency = json!({"metric": "latency", "value": 10.0 - x});
        if number == 0 {
            let partial = json!({"finalMeasurement": {"metrics": [loss]}});
            let (status, refused) = server.post(&format!("{path}:complete"), &partial);
            assert_eq!(status, 400, "{refused}");
            assert!(refused.to_string().contains("latency"), "{refused}");
        }
        // Values may arrive one by one.
        for metric in [loss, latency] {
            let measurement = json!({"measurement": {"stepCount": "1", "metrics": [metric]}});
            assert_eq!(server.post(&format!("{path}:addMeasurement"), &measurement).0, 200);
        }
        let (status, completed) = server.post(&format!("{path}:complete"), &json!({}));
        assert_eq!((status, &completed["state"]), (200, &json!("COMPLETED")), "{completed}");
        assert_eq!(completed["trialInfeasible"], Value::Null);
        let violated = if x < 3.0 { json!(["latency"]) } else { Value::Null };
        assert_eq!(completed["tunesmith"]["violatedConstraints"], violated, "{completed}");
    }
    let best = xs.iter().copied().filter(|x| *x >= 3.0).fold(f64::INFINITY, f64::min);
    assert!(best < 3.5 && xs.iter().any(|x| *x < 3.0), "{xs:?}");
    let (_, optimal) = server.post(&format!("{STUDIES}/s/trials:listOptimalTrials"), &json!({}));
    let optimal = optimal["trials"].as_array().unwrap();
    assert_eq!(optimal.len(), 1);
    assert_eq!(optimal[0]["parameters"][0]["floatValue"].as_f64(), Some(best));
    let (_, table) = server.get(&format!("{STUDIES}/s/views/table?orderBy=metric.loss"));
    let first = &table["view"]["rows"][0];
    assert_eq!(first["violatedConstraints"], json!(["latency"]), "{table}");
}

#[test]
fn combinations_that_cannot_work_are_refused_with_the_field() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let refused = |more: Value, metrics: Value| {
        let (status, answer) = server.post(&format!("{STUDIES}?studyId=s"), &study(&more, &metrics));
        assert_eq!(status, 400, "{answer}");
        let violation = &answer["error"]["details"][0]["fieldViolations"][0];
        let text = |field: &str| violation[field].as_str().unwrap().to_owned();
        (text("field"), text("description"))
    };
    let only_unsafe = json!([{"metric": "loss", "safetyConfig": {}}]);
    let (field, description) = refused(json!({}), only_unsafe);
    assert_eq!(field, "studyConfig.metrics");
    assert_eq!(description, "at least one metric without safetyConfig is needed: it is optimised");
    let fraction = json!([{"metric": "loss"}, {"metric": "c", "safetyConfig": {"desiredMinSafeTrialsFraction": 2}}]);
    let (field, description) = refused(json!({}), fraction);
    assert_eq!(field, "studyConfig.metrics[1].safetyConfig.desiredMinSafeTrialsFraction");
    assert_eq!(description, "2 is out of range; allowed: a number from 0 to 1");
    let (field, _) = refused(json!({"algorithm": "TPE"}), limited());
    assert_eq!(field, "studyConfig.algorithm");
    let noise = |value: &str| json!({"tunesmith": {"seed": "3", "observationNoise": value}});
    let body = study(&noise("SOME"), &limited());
    let (status, answer) = server.post(&format!("{STUDIES}?studyId=s"), &body);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains("observationNoise") && answer.to_string().contains("`HIGH`"), "{answer}");
    let rules = json!({"seed": "3", "studyStoppingConfig": {"minExpectedGain": 0.1}});
    let (field, _) = refused(json!({"tunesmith": rules}), limited());
    assert_eq!(field, "studyConfig.tunesmith.studyStoppingConfig.minExpectedGain");
}

#[test]
fn stated_noise_lets_a_study_try_parameters_again() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let metrics = json!([{"metric": "loss", "goal": "MINIMIZE"}]);
    let parameters =
        json!([{"parameter": "n", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "3"}}]);
    let mut counts = Vec::new();
    for noise in ["AUTO", "HIGH"] {
        let more = json!({"parameters": parameters, "tunesmith": {"seed": "3", "observationNoise": noise}});
        let (status, created) = server.post(&format!("{STUDIES}?studyId={noise}"), &study(&more, &metrics));
        assert_eq!(status, 200, "{created}");
        let mut count = 0;
        for _ in 0..6 {
            let body = json!({"clientId": "worker", "suggestionCount": 1});
            let (status, operation) = server.post(&format!("{STUDIES}/{noise}/trials:suggest"), &body);
            if status == 429 {
                break;
            }
            let trial = server.wait(operation)["response"]["trials"][0].clone();
            let n = trial["parameters"][0]["intValue"].as_str().unwrap();
            let loss = json!({"finalMeasurement": {"metrics": [{"metric": "loss", "value": number(n)}]}});
            assert_eq!(server.post(&format!("/v1/{}:complete", trial["name"].as_str().unwrap()), &loss).0, 200);
            count += 1;
        }
        counts.push(count);
    }
    assert_eq!(counts, [3, 6]);
}
