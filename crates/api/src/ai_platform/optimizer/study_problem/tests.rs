use std::time::Duration;

use serde_json::{Value, json};
use tunesmith_algorithms::problem::Goal;

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
        float_value: Some(crate::ai_platform::Number::from(value)),
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
        "integerValueSpec": {"minValue": "1", "maxValue": "9007199254740991"}}]);
    let more = json!({
        "algorithm": "GRID_SEARCH",
        "metrics": [{"metric": "m", "goal": "MINIMIZE"}],
        "automatedStoppingConfig": {"decayCurveStoppingConfig": {"useElapsedTime": true}},
        "tunesmith": {"seed": "3", "maxTrials": 10, "trialLease": "1.5s", "finalMeasurement": "BEST"},
    });
    let plan = study_plan(&config(&parameters, more)).unwrap();
    let kind = ParameterKind::Integer { min: 1, max: 9_007_199_254_740_991, scale: ScaleType::UnitLog };
    assert_eq!(plan.spec.problem.search_space().parameters()[0].kind(), &kind);
    assert_eq!(plan.spec.problem.metrics()[0].goal, Goal::Minimize);
    assert_eq!(plan.spec.algorithm, tunesmith_domain::Algorithm::GridSearch { double_resolution: Default::default() });
    assert_eq!(
        (plan.spec.stopping_rule, plan.spec.stopping_axis),
        (Some(StoppingRuleKind::DecayCurve.into()), tunesmith_domain::CurveAxis::ElapsedTime)
    );
    assert_eq!((plan.seed, plan.spec.max_trials), (Some(3), Some(10)));
    assert_eq!(plan.spec.trial_lease, Some(Duration::from_millis(1500)));
    assert_eq!(plan.spec.final_measurement, tunesmith_domain::FinalMeasurement::Best);

    let double = json!([{"parameter": "a", "type": "DOUBLE", "doubleValueSpec": {"maxValue": 1}}]);
    let violations = study_plan(&config(&double, json!({"algorithm": "GRID_SEARCH"}))).unwrap_err();
    assert_eq!(violations[0].field, "studyConfig.parameters[0].type");
    let more = json!({"algorithm": "GRID_SEARCH", "tunesmith": {"doubleResolution": {"a": 4}}});
    let grid = tunesmith_domain::Algorithm::GridSearch { double_resolution: [("a".to_owned(), 4)].into() };
    assert_eq!(study_plan(&config(&double, more)).unwrap().spec.algorithm, grid);
}

fn refused(config: &StudyConfig) -> Vec<(String, String)> {
    let violations = study_plan(config).unwrap_err().into_iter();
    violations.map(|violation| (violation.field, violation.description)).collect()
}

#[test]
fn algorithms_that_cannot_search_the_space_are_refused() {
    for (name, algorithm) in [
        ("TPE", tunesmith_domain::Algorithm::Tpe),
        ("QUASI_RANDOM_SEARCH", tunesmith_domain::Algorithm::QuasiRandomSearch),
    ] {
        let plan = study_plan(&config(&branches(), json!({"algorithm": name}))).unwrap();
        assert_eq!((&plan.spec.algorithm, plan.spec.algorithm.as_str()), (&algorithm, name));
    }
    let ordered = json!([
        {"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9"}},
        {"parameter": "one", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["x"]}}]);
    let cma = json!({"algorithm": "CMA_ES"});
    let plan = study_plan(&config(&ordered, cma.clone())).unwrap();
    assert_eq!(plan.spec.algorithm, tunesmith_domain::Algorithm::CmaEs);
    let violations = refused(&config(&branches(), cma));
    let fields: Vec<&str> = violations.iter().map(|(field, _)| field.as_str()).collect();
    let child = "studyConfig.parameters[0].childParameterSpecs";
    let expected = [
        "studyConfig.parameters[0].type".to_owned(),
        format!("{child}[0]"),
        format!("{child}[1]"),
        format!("{child}[1].childParameterSpecs[0]"),
    ];
    assert_eq!(fields, expected);
    let expected = "CMA_ES cannot order the values of the CATEGORICAL \"model\"; allowed: with CMA_ES only INTEGER, DOUBLE or DISCRETE";
    assert_eq!(violations[0].1, expected);
    for name in ["TPE", "CMA_ES"] {
        let more = json!({"algorithm": name, "metrics": [{"metric": "m"}, {"metric": "n"}]});
        let violations = refused(&config(&ordered, more));
        assert_eq!((violations.len(), violations[0].0.as_str()), (1, "studyConfig.algorithm"));
        assert!(violations[0].1.starts_with(&format!("{name} optimises one metric, not 2; allowed: ")));
    }
}

#[test]
fn studies_have_the_prior_knowledge_of_jobs() {
    let more = json!({"tunesmith": {
        "priors": [
            {"parameter": "model", "weights": {"tree": 1, "net": 2, "none": 1}},
            {"parameter": "size", "mode": 3, "confidence": "HIGH"}],
        "initialTrials": [{"model": "net", "size#2": 128, "rate": 0.25}, {"model": "tree"}],
        "earlyStopping": "ASHA", "earlyStoppingSettings": {"eta": 4, "minResource": 2},
        "studyStoppingConfig": {"maxNumTrials": 30, "maxNumTrialsNoProgress": 9}, "maxTrials": "40",
    }});
    let plan = study_plan(&config(&branches(), more)).unwrap();
    let parameters = plan.spec.problem.search_space().parameters();
    let mode = tunesmith_algorithms::problem::ParameterPrior::Normal { mode: ParameterValue::Integer(3), spread: 0.1 };
    assert_eq!(parameters[1].prior(), Some(&mode));
    assert!(parameters[0].prior().is_some() && parameters[2].prior().is_none());
    let points: Vec<String> = plan.spec.initial_points.iter().map(|point| format!("{point:?}")).collect();
    assert_eq!(points.len(), 2);
    let text = r#"{"model": Categorical("net"), "rate": Double(0.25), "size#2": Discrete(128.0)}"#;
    assert_eq!(points[0], text);
    assert_eq!(points[1], r#"{"model": Categorical("tree"), "size": Integer(3)}"#);
    let asha = tunesmith_algorithms::early_stopping::AshaRule::new(4, Some(2)).unwrap();
    assert_eq!(plan.spec.stopping_rule, Some(tunesmith_domain::StoppingRule::Asha(asha)));
    assert_eq!(plan.spec.max_trials, Some(30));
    assert_eq!(plan.spec.study_stopping.max_trials_without_progress, Some(9));
    assert_eq!(plan.notices, []);

    let more = json!({"algorithm": "QUASI_RANDOM_SEARCH", "tunesmith": {
        "priors": [{"parameter": "size", "mode": 3}], "earlyStoppingSettings": {"eta": 4}}});
    let notices = study_plan(&config(&branches(), more)).unwrap().notices;
    let fields: Vec<&str> = notices.iter().map(|notice| notice.field.as_str()).collect();
    assert_eq!(fields, ["studyConfig.tunesmith.earlyStoppingSettings", "studyConfig.tunesmith.priors"]);
}

#[test]
fn prior_knowledge_is_checked_by_the_rules_of_jobs() {
    let more = json!({
        "automatedStoppingConfig": {"medianAutomatedStoppingConfig": {}},
        "tunesmith": {
            "priors": [{"parameter": "sise", "mode": 3}, {"parameter": "size", "mode": 9}],
            "initialTrials": [{"size": 4}, {"model": "forest"}],
            "doubleResolution": {"size": 3},
            "earlyStopping": "MEDIAN",
            "studyStoppingConfig": {"maxNumTrialsNoProgress": 0}}});
    let violations = refused(&config(&branches(), more));
    let expected = [
        ("automatedStoppingConfig", "the rule is given as tunesmith.earlyStopping; allowed: one of them"),
        (
            "tunesmith.studyStoppingConfig.maxNumTrialsNoProgress",
            "0 is below the minimum; allowed: a whole number from 1 on",
        ),
    ];
    let expected = expected.map(|(field, text)| (format!("studyConfig.{field}"), text.to_owned()));
    assert_eq!(violations, expected);

    let more = json!({"tunesmith": {
        "priors": [{"parameter": "sise", "mode": 3}, {"parameter": "size", "mode": 9}],
        "initialTrials": [{"size": 4}, {"model": "forest"}],
        "doubleResolution": {"size": 3}}});
    let violations = refused(&config(&branches(), more));
    let fields: Vec<&str> =
        violations.iter().map(|(field, _)| field.trim_start_matches("studyConfig.tunesmith.")).collect();
    let expected = [
        "doubleResolution.size",
        "priors[0].parameter",
        "priors[1].mode",
        "initialTrials[0].size",
        "initialTrials[1].model",
    ];
    assert_eq!(fields, expected);
    assert_eq!(violations[2].1, "\"size\" cannot have the value \"9\"; allowed: values of \"size\": from 1 to 8");

    let more = json!({"tunesmith": {"earlyStopping": "ASHA", "earlyStoppingSettings": {"minReports": 2}}});
    let violations = refused(&config(&branches(), more));
    assert_eq!(violations[0].0, "studyConfig.tunesmith.earlyStoppingSettings.minReports");
}
