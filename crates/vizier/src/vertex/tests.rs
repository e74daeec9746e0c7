//! Specifications that come back as they were sent.

use prost_types::{Duration, Timestamp};
use tunesmith_api::ai_platform::optimizer::study_plan;

use super::{path_of_spec, point, spec_of, study_config, violations_of_spec};
use crate::json;
use crate::messages::vertex::study_spec::{AutomatedStoppingSpec, ConvexAutomatedStoppingSpec, TransferLearningConfig};
use crate::messages::vertex::{StudySpec, trial::Parameter};

/// Specification in the JSON of proto3.
fn spec(text: &str) -> StudySpec {
    let descriptor = json::descriptor("google.cloud.aiplatform.v1.StudySpec").unwrap();
    json::read(text.as_bytes(), descriptor, "").unwrap().transcode_to().unwrap()
}

const FULL: &str = r#"{
    "metrics": [
        {"metricId": "loss", "goal": 2},
        {"metric_id": "latency", "goal": "MINIMIZE",
         "safetyConfig": {"safetyThreshold": 0.5, "desiredMinSafeTrialsFraction": 0.25}}],
    "parameters": [
        {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.001, "maxValue": 1, "defaultValue": 0.1}, "scaleType": 2},
        {"parameterId": "n", "integerValueSpec": {"minValue": "1", "maxValue": 8, "defaultValue": "2"},
         "conditionalParameterSpecs": [
            {"parameterSpec": {"parameterId": "m", "doubleValueSpec": {"minValue": 0.1, "maxValue": 0.9, "defaultValue": 0.5}},
             "parentIntValues": {"values": ["2", 3]}},
            {"parameterSpec": {"parameterId": "m", "doubleValueSpec": {"minValue": 0.2, "maxValue": 0.3}},
             "parentIntValues": {"values": [4]}}]},
        {"parameterId": "kind", "categoricalValueSpec": {"values": ["tree", "net"], "defaultValue": "net"}},
        {"parameterId": "w", "discreteValueSpec": {"values": [16, 32], "defaultValue": 32}, "scaleType": null}],
    "observationNoise": "HIGH",
    "measurementSelectionType": 2,
    "convexAutomatedStoppingSpec": {"maxStepCount": "100", "minStepCount": 20, "minMeasurementCount": "4",
        "learningRateParameterName": "lr", "useElapsedDuration": true},
    "studyStoppingConfig": {"shouldStopAsap": true, "maxNumTrials": 40, "minNumTrials": 5,
        "minimumRuntimeConstraint": {"endTime": "2030-01-31T12:00:00Z"},
        "maximumRuntimeConstraint": {"maxDuration": "7200.5s"},
        "maxNumTrialsNoProgress": 9, "maxDurationNoProgress": "60s"}
}"#;

#[test]
fn specification_comes_back_as_it_was_sent() {
    let sent = spec(FULL);
    let (config, notices) = study_config(&sent).unwrap();
    let stopping = sent.study_stopping_config.as_ref().unwrap();
    assert_eq!(stopping.max_duration_no_progress, Some(Duration { seconds: 60, nanos: 0 }));
    let end = Timestamp { seconds: 1_896_091_200, nanos: 0 };
    let constraint = stopping.minimum_runtime_constraint.as_ref().unwrap().constraint.unwrap();
    assert_eq!(constraint, crate::messages::vertex::study_time_constraint::Constraint::EndTime(end));
    assert_eq!(spec_of(&config), sent);
    let plan = study_plan(&config).unwrap();
    assert_eq!(plan.spec.max_trials, Some(40));
    // The default of `m` belongs to the children that exist for the default of `n`.
    let first = &plan.spec.initial_points[0];
    assert_eq!(first.keys().collect::<Vec<_>>(), ["kind", "lr", "m", "n", "w"]);
    let fields: Vec<&str> = notices.iter().map(|notice| notice.field.as_str()).collect();
    assert_eq!(fields, ["studySpec.convexAutomatedStoppingSpec", "studySpec.studyStoppingConfig.shouldStopAsap"]);
}

#[test]
fn v1beta1_has_more_fields() {
    let text = r#"{"metrics": [{"metricId": "loss"}], "parameters": [{"parameterId": "x", "doubleValueSpec": {"maxValue": 1}}],
        "convexStopConfig": {"maxNumSteps": 100, "minNumSteps": "20", "autoregressiveOrder": 2, "useSeconds": true},
        "transferLearningConfig": {"priorStudyNames": ["projects/p/locations/l/studies/s"]}}"#;
    let descriptor = json::descriptor("google.cloud.aiplatform.v1.StudySpec").unwrap();
    let refused = json::read(text.as_bytes(), descriptor, "").unwrap_err();
    assert!(refused.message.starts_with("convexStopConfig: unknown field"), "{}", refused.message);
    let descriptor = json::descriptor("google.cloud.aiplatform.v1beta1.StudySpec").unwrap();
    let sent: StudySpec = json::read(text.as_bytes(), descriptor, "").unwrap().transcode_to().unwrap();
    let (config, notices) = study_config(&sent).unwrap();
    let fields: Vec<&str> = notices.iter().map(|notice| notice.field.trim_start_matches("studySpec.")).collect();
    assert_eq!(
        fields,
        [
            "convexStopConfig.autoregressiveOrder",
            "convexStopConfig",
            "convexStopConfig",
            "transferLearningConfig",
            "transferLearningConfig.priorStudyNames"
        ]
    );
    let returned = spec_of(&config);
    assert_eq!(returned.transfer_learning_config, Some(TransferLearningConfig::default()));
    let expected = ConvexAutomatedStoppingSpec {
        max_step_count: 100,
        min_step_count: 20,
        use_elapsed_duration: true,
        ..ConvexAutomatedStoppingSpec::default()
    };
    assert_eq!(returned.automated_stopping_spec, Some(AutomatedStoppingSpec::ConvexAutomatedStoppingSpec(expected)));
    let mut reversed = sent;
    let Some(AutomatedStoppingSpec::ConvexStopConfig(rule)) = &mut reversed.automated_stopping_spec else { panic!() };
    rule.min_num_steps = 101;
    assert_eq!(study_config(&reversed).unwrap_err()[0].field, "studySpec.convexStopConfig.minNumSteps");
}

#[test]
fn violations_name_the_field_of_the_request() {
    let violated = |change: &dyn Fn(&mut StudySpec)| {
        let mut spec = spec(FULL);
        change(&mut spec);
        let violations = study_config(&spec).and_then(|(config, _)| study_plan(&config).map_err(violations_of_spec));
        let fields = violations.unwrap_err().into_iter().map(|violation| violation.field);
        fields.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(violated(&|spec| spec.metrics[0].goal = 7), "studySpec.metrics[0].goal");
    assert_eq!(violated(&|spec| spec.metrics[1].metric_id = "loss".into()), "studySpec.metrics[1].metricId");
    assert_eq!(violated(&|spec| spec.algorithm = 1), "studySpec.algorithm");
    assert_eq!(violated(&|spec| spec.parameters[0].scale_type = -1), "studySpec.parameters[0].scaleType");
    assert_eq!(violated(&|spec| spec.parameters[2].parameter_value_spec = None), "studySpec.parameters[2]");
    let child = "studySpec.parameters[1].conditionalParameterSpecs[0]";
    let condition = violated(&|spec| spec.parameters[1].conditional_parameter_specs[0].parent_value_condition = None);
    assert_eq!(condition, format!("{child}.parameterSpec"));
    let missing = violated(&|spec| spec.parameters[1].conditional_parameter_specs[0].parameter_spec = None);
    assert_eq!(missing, format!("{child}.parameterSpec"));
    let count = violated(&|spec| spec.study_stopping_config.as_mut().unwrap().max_num_trials = Some(0));
    assert_eq!(count, "studySpec.studyStoppingConfig.maxNumTrials");
    let time = violated(&|spec| {
        let limit = Duration { seconds: -1, nanos: 0 };
        spec.study_stopping_config.as_mut().unwrap().max_duration_no_progress = Some(limit);
    });
    assert_eq!(time, "studySpec.studyStoppingConfig.maxDurationNoProgress");
}

#[test]
fn unknown_fields_and_values_of_json_are_refused_by_name() {
    let read = |text: &str| {
        let descriptor = json::descriptor("google.cloud.aiplatform.v1.StudySpec").unwrap();
        json::read(text.as_bytes(), descriptor, "").unwrap_err().message
    };
    for (text, part) in [
        (r#"{"metrics": [{"metric": "loss"}]}"#, "metrics[0]"),
        (r#"{"parameters": [{"integerValueSpec": {"minValue": "x"}}]}"#, "parameters[0].integerValueSpec.minValue"),
        (r#"{"algorithm": "NONE"}"#, "algorithm"),
        ("{", "body"),
        ("[]", "body"),
    ] {
        assert!(read(text).starts_with(part), "{text}: {}", read(text));
    }
}

#[test]
fn values_of_a_point_have_the_type_of_their_parameter() {
    let (config, _) = study_config(&spec(FULL)).unwrap();
    let space = study_plan(&config).unwrap().spec.problem;
    let parameter = |name: &str, kind| Parameter {
        parameter_id: name.to_owned(),
        value: Some(prost_types::Value { kind: Some(kind) }),
    };
    let number = |name: &str, value| parameter(name, prost_types::value::Kind::NumberValue(value));
    let text = |name: &str, value: &str| parameter(name, prost_types::value::Kind::StringValue(value.to_owned()));
    let whole = [number("lr", 0.5), number("n", 5.0), text("kind", "tree"), number("w", 16.0)];
    assert_eq!(point(space.search_space(), &whole).unwrap().len(), 4);
    for (bad, expected) in [
        (number("n", 5.5), "parameters[0].value: 5.5 is not a whole number from -2^53 to 2^53"),
        (text("n", "5"), "parameters[0].value: \"n\" needs a number"),
        (number("kind", 1.0), "parameters[0].value: \"kind\" needs a string"),
        (
            number("none", 1.0),
            "parameters[0]: \"none\" is not a parameter of the study, or does not exist for these values",
        ),
    ] {
        let error = point(space.search_space(), &[bad]).unwrap_err();
        assert_eq!(format!("{}: {}", error.field, error.description), expected);
    }
}

#[test]
fn paths_are_those_of_the_request() {
    for (path, expected) in [
        (
            "studyConfig.parameters[0].childParameterSpecs[1].parameter",
            "studySpec.parameters[0].conditionalParameterSpecs[1].parameterSpec.parameterId",
        ),
        ("studyConfig.metrics[0].metric", "studySpec.metrics[0].metricId"),
        ("studyConfig.tunesmith.studyStoppingConfig.minNumTrials", "studySpec.studyStoppingConfig.minNumTrials"),
        ("studyConfig.parameters[0].doubleValueSpec.minValue", "studySpec.parameters[0].doubleValueSpec.minValue"),
    ] {
        assert_eq!(path_of_spec(path), expected);
    }
}

#[test]
fn lists_are_bounded_before_they_are_compared() {
    let mut sent = spec(FULL);
    let child = sent.parameters[1].conditional_parameter_specs[0].clone();
    sent.parameters[1].conditional_parameter_specs = vec![child; 20_000];
    let violations = study_config(&sent).unwrap_err();
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].field, "studySpec.parameters[1].conditionalParameterSpecs");
}
