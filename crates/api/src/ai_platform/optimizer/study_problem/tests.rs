use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::ai_platform::optimizer::{TrialParameter, point};

fn config(parameters: &Value, more: Value) -> StudyConfig {
    let mut config = json!({"metrics": [{"metric": "m"}], "parameters": parameters});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(config).unwrap()
}

/// Two children of one name, for different values of their parent; one of them has a child.
fn branches() -> Value {
    json!([{"parameter": "model", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["tree", "net", "none"]},
    "childParameterSpecs": [
        {"parameter": "size", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "8"},
            "parentCategoricalValues": {"values": ["tree"]}},
        {"parameter": "size", "type": "DISCRETE", "discreteValueSpec": {"values": [64, 128]},
            "parentCategoricalValues": {"values": ["net"]}, "childParameterSpecs": [
                {"parameter": "rate", "type": "DOUBLE", "doubleValueSpec": {"maxValue": 1},
                    "parentDiscreteValues": {"values": [128]}}]},
    ]}])
}

#[test]
fn name_published_as_another_is_rejected() {
    let parameters = json!([{"parameter": "model", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["a", "b"]},
        "childParameterSpecs": [
            {"parameter": "size", "type": "DOUBLE", "doubleValueSpec": {"maxValue": 1},
                "parentCategoricalValues": {"values": ["a"]}},
            {"parameter": "size#2", "type": "DOUBLE", "doubleValueSpec": {"maxValue": 1},
                "parentCategoricalValues": {"values": ["b"]}}]}]);
    let violations = study_plan(&config(&parameters, json!({}))).unwrap_err();
    assert_eq!(violations.len(), 1);
    assert!(violations[0].description.starts_with("\"size#2\" is reserved"), "{}", violations[0].description);
}

#[test]
fn children_of_one_name_are_separate_parameters() {
    let config = config(&branches(), json!({}));
    let plan = study_plan(&config).unwrap();
    let space = plan.spec.problem.search_space();
    let names: Vec<&str> = space.parameters().iter().map(ParameterSpec::name).collect();
    assert_eq!(names, ["model", "size", "size#2", "rate"]);
    let published = PublishedNames::of(space);
    let given: Vec<&str> = names.iter().map(|name| published.published(name)).collect();
    assert_eq!(given, ["model", "size", "size", "rate"]);

    let text = |name: &str, value: &str| TrialParameter {
        parameter: name.to_owned(),
        string_value: Some(value.to_owned()),
        ..Default::default()
    };
    let number = |name: &str, value: f64| TrialParameter {
        parameter: name.to_owned(),
        float_value: Some(crate::ai_platform::Double(value)),
        ..Default::default()
    };
    let net = [text("model", "net"), number("size", 128.0), number("rate", 0.5)];
    let values = point(space, &net).unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["model", "rate", "size#2"]);
    space.check(&values).unwrap();
    let none = point(space, &[text("model", "none"), number("size", 64.0)]).unwrap_err();
    assert_eq!(none.field, "parameters[1]");
    let tree = point(space, &[text("model", "tree"), number("size", 64.0)]).unwrap_err();
    assert!(tree.description.contains("must have intValue"), "{}", tree.description);
}

#[test]
fn all_violations_are_reported_together() {
    let parameters = json!([
        {"parameter": "a", "type": "DOUBLE", "doubleValueSpec": {"minValue": 2, "maxValue": 1}},
        {"parameter": "b", "type": "INTEGER"},
        {"parameter": "c", "type": "DISCRETE", "discreteValueSpec": {"values": [2, 2]}},
        {"parameter": "d", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["x"]},
            "scaleType": "UNIT_LOG_SCALE", "childParameterSpecs": [
                {"parameter": "e", "type": "DOUBLE", "doubleValueSpec": {"maxValue": 1}},
                {"parameter": "f", "type": "DOUBLE", "doubleValueSpec": {"maxValue": 1},
                    "parentIntValues": {"values": ["1"]}}]},
        {"parameter": ""},
    ]);
    let more = json!({
        "metrics": [{"metric": "m"}, {"metric": "m"}],
        "automatedStoppingConfig": {
            "decayCurveStoppingConfig": {}, "medianAutomatedStoppingConfig": {"useElapsedTime": true}},
        "tunesmith": {"maxTrials": "0", "trialLease": "0s"},
    });
    let violations = study_plan(&config(&parameters, more)).unwrap_err();
    let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "studyConfig.metrics[1].metric",
            "studyConfig.parameters[0]",
            "studyConfig.parameters[1].integerValueSpec",
            "studyConfig.parameters[2].discreteValueSpec.values",
            "studyConfig.parameters[3].scaleType",
            "studyConfig.parameters[3].childParameterSpecs[0]",
            "studyConfig.parameters[3].childParameterSpecs[1].parentIntValues",
            "studyConfig.parameters[4].parameter",
            "studyConfig.parameters[4].type",
            "studyConfig.automatedStoppingConfig",
            "studyConfig.tunesmith.maxTrials",
            "studyConfig.tunesmith.trialLease",
        ]
    );
}

#[test]
fn study_plan_has_the_configured_values() {
    let parameters = json!([{"parameter": "a", "type": "INTEGER", "scaleType": "UNIT_LOG_SCALE",
        "integerValueSpec": {"minValue": "1", "maxValue": "9007199254740993"}}]);
    let more = json!({
        "algorithm": "GRID_SEARCH",
        "metrics": [{"metric": "m", "goal": "MINIMIZE"}],
        "automatedStoppingConfig": {"decayCurveStoppingConfig": {"useElapsedTime": true}},
        "tunesmith": {"seed": "3", "maxTrials": 10, "trialLease": "1.5s", "finalMeasurement": "BEST"},
    });
    let plan = study_plan(&config(&parameters, more)).unwrap();
    let kind = ParameterKind::Integer { min: 1, max: 9_007_199_254_740_993, scale: ScaleType::UnitLog };
    assert_eq!(plan.spec.problem.search_space().parameters()[0].kind(), &kind);
    assert_eq!(plan.spec.problem.metrics()[0].goal, Goal::Minimize);
    assert_eq!(plan.spec.algorithm, tunesmith_domain::Algorithm::GridSearch { double_resolution: Default::default() });
    assert_eq!(
        (plan.spec.stopping_rule, plan.spec.stopping_axis),
        (Some(tunesmith_domain::StoppingRuleKind::DecayCurve), tunesmith_domain::CurveAxis::ElapsedTime)
    );
    assert_eq!((plan.seed, plan.spec.max_trials), (Some(3), Some(10)));
    assert_eq!(plan.spec.trial_lease, Some(Duration::from_millis(1500)));
    assert_eq!(plan.spec.final_measurement, tunesmith_domain::FinalMeasurement::Best);

    let double = json!([{"parameter": "a", "type": "DOUBLE", "doubleValueSpec": {"maxValue": 1}}]);
    let violations = study_plan(&config(&double, json!({"algorithm": "GRID_SEARCH"}))).unwrap_err();
    assert_eq!(violations[0].field, "studyConfig.algorithm");
}
