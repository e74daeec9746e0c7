use tunesmith_api::ai_platform::optimizer::study_plan;

use super::*;

/// A journal as Optuna 5 writes it, with a broken operation and an unfinished line.
const JOURNAL: &str = r#"
{"op_code": 0, "worker_id": "w", "study_name": "one \"NaN\"", "directions": [1]}
{"op_code": 3, "worker_id": "w", "study_id": 0, "system_attr": {"study:metric_names": ["loss"]}}
{"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": "2026-11-27T10:00:00+00:00"}
{"op_code": 5, "worker_id": "w", "trial_id": 0, "param_name": "lr", "param_value_internal": 0.01, "distribution": "{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 0.001, \"high\": 1.0, \"log\": true}}"}
{"op_code": 5, "worker_id": "w", "trial_id": 0, "param_name": "kind", "param_value_internal": 1, "distribution": "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [null, \"net\"]}}"}
{"op_code": 5, "worker_id": "w", "trial_id": 0, "param_name": "width", "param_value_internal": 20, "distribution": "{\"name\": \"IntDistribution\", \"attributes\": {\"log\": false, \"step\": 10, \"low\": 10, \"high\": 40}}"}
{"op_code": 7, "worker_id": "w", "trial_id": 0, "step": 3, "intermediate_value": NaN}
{"op_code": 6, "worker_id": "w", "trial_id": 0, "state": 1, "values": [0.25], "datetime_complete": "2026-11-27T10:00:01+00:00"}
{"op_code": 6, "worker_id": "w", "trial_id": 0, "state": 3, "values": null}
{"op_code": 4, "worker_id": "w", "study_id": 0, "state": 1, "value": Infinity, "values": null, "params": {"lr": 0.5, "kind": 0}, "distributions": {"lr": "{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 0.1, \"high\": 2.0, \"log\": true}}", "kind": "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [null, \"net\"]}}"}}
{"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": "2026-11-27T10:00:00+00:00"}
{"op_code": 5, "worker_id": "w", "trial_id": 2, "param_name": "lr", "param_value_internal": 0.1, "distribution": "{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 0.001, \"high\": 1.0, \"log\": true}}"}
{"op_code": 5, "worker_id": "w", "trial_id": 2, "param_name": "kind", "param_value_internal": 0, "distribution": "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [null, \"net\"]}}"}
{"op_code": 7, "worker_id": "w", "trial_id": 2, "step": 1, "intermediate_value": 3.5}
{"op_code": 7, "worker_id": "w", "trial_id": 2, "step": 0, "intermediate_value": 4.5}
{"op_code": 6, "worker_id": "w", "trial_id": 2, "state": 2, "values": null}
{"op_code": 4, "worker_id": "w", "study_id": 0, "state": 4, "system_attrs": {"fixed_params": {"lr": 0.5, "kind": "net", "width": 30}}}
{"op_code": 4, "worker_id": "w", "study_id": 0, "state": 4, "system_attrs": {"fixed_params": {"lr": 0.5, "kind": "net"}}}
{"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": "2026-11-27T10:00:00+00:00"}
{"op_code": 0, "worker_id": "w", "study_name": "gone", "directions": [2, 1]}
{"op_code": 1, "worker_id": "w", "study_id": 1}
{"op_code": 5, "worker_id": "w", "tri"#;

#[test]
fn journal_is_replayed_and_converted() {
    let studies = journal(JOURNAL);
    assert_eq!(studies.iter().map(|study| study.name.as_str()).collect::<Vec<_>>(), ["one \"NaN\""]);
    let imported = optuna(&studies[0]).unwrap();
    assert_eq!(
        imported.losses,
        ["1 trials are running", "1 trials are waiting without a value for each parameter of the space"]
    );
    assert_eq!(imported.notes, ["width depends on kind: net"]);
    let config = serde_json::to_value(&imported.config).unwrap();
    assert_eq!(config["metrics"], json!([{"metric": "loss", "goal": "MINIMIZE"}]));
    let kind = &config["parameters"][0];
    assert_eq!(kind["categoricalValueSpec"]["values"], json!(["null", "net"]));
    let width = &kind["childParameterSpecs"][0];
    assert_eq!(width["discreteValueSpec"]["values"], json!([10, 20, 30, 40]));
    assert_eq!(width["parentCategoricalValues"]["values"], json!(["net"]));
    // The union of both ranges.
    assert_eq!(config["parameters"][1]["doubleValueSpec"], json!({"minValue": 0.001, "maxValue": 2}));
    study_plan(&imported.config).unwrap_or_else(|violations| panic!("{violations:?}"));
    assert_eq!(imported.trials.len(), 4);
    assert_eq!(
        imported.trials[0],
        json!({
            "parameters": [
                {"parameter": "kind", "stringValue": "net"}, {"parameter": "lr", "floatValue": 0.01},
                {"parameter": "width", "floatValue": 20.0}],
            "measurements": [{"stepCount": "3", "metrics": [{"metric": "loss", "value": "NaN"}]}],
            "finalMeasurement": {"stepCount": "3", "metrics": [{"metric": "loss", "value": 0.25}]},
        })
    );
    let pruned = &imported.trials[2];
    assert_eq!(pruned["tunesmith"], json!({"stoppedEarly": true}));
    let last = json!({"stepCount": "1", "metrics": [{"metric": "loss", "value": 3.5}]});
    assert_eq!((&pruned["finalMeasurement"], &pruned["measurements"][1]), (&last, &last));
    assert_eq!(
        imported.trials[3],
        json!({"parameters": [
            {"parameter": "kind", "stringValue": "net"}, {"parameter": "width", "floatValue": 30.0},
            {"parameter": "lr", "floatValue": 0.5}]})
    );
    assert_eq!(imported.trials[1]["trialInfeasible"], true);
    assert_eq!(imported.trials[1]["infeasibleReason"], "has no finite result");
}

#[test]
fn parameters_that_come_and_go_are_losses() {
    let distribution = Distribution::Float { low: 0.0, high: 1.0, is_log: false, step: None };
    let trial = |names: &[&str]| OptunaTrial {
        state: OptunaState::Complete,
        values: vec![1.0],
        parameters: names.iter().map(|name| ((*name).to_owned(), (0.5, distribution.clone()))).collect(),
        ..OptunaTrial::default()
    };
    let trials = vec![trial(&["a", "b"]), trial(&["a"])];
    let study = OptunaStudy { name: "s".to_owned(), maximizes: vec![true], metric_names: Vec::new(), trials };
    let imported = optuna(&study).unwrap();
    assert_eq!(imported.losses, ["1 trials have no value of b, and no other parameter tells when it is absent"]);
    assert_eq!((imported.trials.len(), imported.config.metrics[0].metric.as_str()), (1, "value"));
    assert!(optuna(&OptunaStudy { trials: Vec::new(), ..study }).unwrap_err().contains("no finished trial"));
}
