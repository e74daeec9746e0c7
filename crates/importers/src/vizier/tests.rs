use serde_json::{Value, json};
use tunesmith_config::Document;

use super::*;

fn document(value: &Value) -> Document {
    Document::parse("study.json", serde_json::to_string_pretty(value).unwrap()).unwrap()
}

fn job() -> Value {
    let trial = |id: &str, state: &str, rate: f64, kind: &str, loss: Value| {
        json!({
            "id": id, "state": state,
            "parameters": [{"parameterId": "rate", "value": rate}, {"parameterId": "kind", "value": kind}],
            "finalMeasurement": {"stepCount": "3", "metrics": [{"metricId": "loss", "value": loss}]},
        })
    };
    let mut infeasible = trial("3", "INFEASIBLE", 0.3, "tree", json!(0.5));
    infeasible["infeasibleReason"] = "out of memory".into();
    json!({
        "name": "projects/p/locations/l/hyperparameterTuningJobs/7",
        "displayName": "rates",
        "studySpec": {
            "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}},
                {"parameterId": "kind", "categoricalValueSpec": {"values": ["tree", "net"]}},
            ],
        },
        "maxTrialCount": 5,
        "parallelTrialCount": 1,
        "state": "JOB_STATE_SUCCEEDED",
        "trials": [
            trial("1", "SUCCEEDED", 0.5, "net", json!(0.25)),
            trial("2", "SUCCEEDED", 0.5, "net", json!("NaN")),
            infeasible,
            trial("4", "ACTIVE", 0.5, "net", json!(0.25)),
            trial("5", "SUCCEEDED", 5.0, "net", json!(0.25)),
        ],
    })
}

#[test]
fn tuning_job_is_a_study_with_its_trials() {
    let (name, study) = description(&document(&job())).unwrap();
    assert_eq!((name.as_str(), study.config.tunesmith.display_name.as_str()), ("rates", "rates"));
    let parameters = json!([{"parameter": "kind", "stringValue": "net"}, {"parameter": "rate", "floatValue": 0.5}]);
    let of = |trial: &Value| {
        let mut parameters = trial["parameters"].as_array().unwrap().clone();
        parameters.sort_by_key(|parameter| parameter["parameter"].as_str().map(str::to_owned));
        Value::from(parameters)
    };
    assert_eq!(study.trials.len(), 3);
    assert_eq!(of(&study.trials[0]), parameters);
    assert_eq!(
        study.trials[0]["finalMeasurement"],
        json!({"stepCount": "3", "metrics": [{"metric": "loss", "value": 0.25}]})
    );
    assert_eq!(study.trials[1]["infeasibleReason"], "has no finite result");
    assert_eq!(study.trials[2]["infeasibleReason"], "out of memory");
    assert_eq!(study.losses[0], "1 trials are running");
    assert!(study.losses[1].starts_with("1 trials are outside the search space: trial 5: "), "{}", study.losses[1]);
    assert!(study.losses[1].contains("rate"), "{}", study.losses[1]);
    assert_eq!(study.losses.len(), 2);
    assert!(study.notes.iter().any(|note| note.starts_with("the program and the limits")), "{:?}", study.notes);
}

#[test]
fn study_has_its_trials_beside_it() {
    let mut study = job();
    let fields = study.as_object_mut().unwrap();
    fields.retain(|name, _| matches!(name.as_str(), "displayName" | "studySpec" | "trials"));
    fields.insert("state".to_owned(), "COMPLETED".into());
    let (_, study) = description(&document(&study)).unwrap();
    assert_eq!((study.trials.len(), study.notes.len()), (3, 0));
}

#[test]
fn errors_have_places() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut job = job();
        change(&mut job);
        description(&document(&job)).unwrap_err().to_string()
    };
    let text = refused(&|job| job["trials"][1]["state"] = "DONE".into());
    assert!(text.contains("trials[1].state") && text.contains("study.json:"), "{text}");
    let text = refused(&|job| job["studySpec"]["metrics"][0]["goal"] = "SMALLER".into());
    assert!(text.contains("studySpec.metrics[0].goal"), "{text}");
    let text = refused(&|job| job["studySpec"]["parameters"][0]["doubleValueSpec"]["minValue"] = 2.into());
    assert!(text.contains("studySpec.parameters[0]"), "{text}");
    let text = refused(&|job| drop(job.as_object_mut().unwrap().remove("studySpec")));
    assert!(text.contains("studySpec") && text.contains("is missing"), "{text}");
    let text = description(&Document::parse("study.json", "[1]".to_owned()).unwrap()).unwrap_err().to_string();
    assert!(text.contains("is not a mapping"), "{text}");
}
