//! Conversion of a study to a `StudyConfig`, for studies of jobs and of other protocols.
//!
//! A job's source studies have no representation in a `StudyConfig` and are omitted.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterValue, ScaleType};

use super::PublishedNames;
use super::study_additions::{StudyAdditions, VizierSettings, initial_trials_of, priors_of};
use super::study_config::{
    AutomatedStoppingConfig, DoubleValueSpec, DoubleValues, IntegerValueSpec, IntegerValues, MetricSpec,
    StoppingConfig, StudyConfig, StudyParameterSpec, StudyScaleType, TextValues,
};
use crate::ai_platform::early_stopping::settings_of;
use crate::ai_platform::{
    Algorithm, Double, FinalMeasurement, GoalType, Int64, Number, ObservationNoise, ParameterType, ProtoDuration,
    Repeats, SafetyMetricConfig, StudyStoppingConfig,
};
use tunesmith_domain::{CurveAxis, StoppingRuleKind, Study};

/// Configuration that describes `study`.
pub(super) fn study_config(study: &Study) -> StudyConfig {
    let space = study.problem.search_space();
    let names = PublishedNames::of(space);
    let metrics = study.problem.metrics().iter().map(|metric| MetricSpec {
        metric: metric.name.clone(),
        goal: GoalType::of_domain(metric.goal),
        safety_config: None,
    });
    let constraints = study.problem.constraints().iter().map(|constraint| MetricSpec {
        metric: constraint.name.clone(),
        goal: GoalType::of_domain(constraint.goal),
        safety_config: Some(SafetyMetricConfig::of_domain(constraint)),
    });
    StudyConfig {
        metrics: metrics.chain(constraints).collect(),
        parameters: children(None, space.parameters(), &names),
        algorithm: Algorithm::of_domain(&study.algorithm),
        automated_stopping_config: study.stopping_rule.and_then(|rule| stopping(rule.kind(), study.stopping_axis)),
        tunesmith: StudyAdditions {
            display_name: String::new(),
            seed: Some(Int64(study.seed.cast_signed())),
            max_trials: study.max_trials.map(|count| Int64(count.cast_signed())),
            trial_lease: study.trial_lease.map(ProtoDuration),
            observation_noise: ObservationNoise::of_domain(study.problem.observation_noise()),
            repeats: study.problem.repeats().map(Repeats::of_domain),
            final_measurement: match study.final_measurement {
                tunesmith_domain::FinalMeasurement::Last => FinalMeasurement::Last,
                tunesmith_domain::FinalMeasurement::Best => FinalMeasurement::Best,
            },
            priors: priors_of(study),
            initial_trials: initial_trials_of(study),
            double_resolution: match &study.algorithm {
                tunesmith_domain::Algorithm::GridSearch { double_resolution } => {
                    let points = double_resolution.iter();
                    points.filter_map(|(name, points)| Some((name.clone(), NonZeroU32::new(*points)?))).collect()
                }
                _ => BTreeMap::new(),
            },
            prior_studies: Vec::new(),
            continued_studies: Vec::new(),
            early_stopping: study
                .stopping_rule
                .map(|rule| rule.kind())
                .filter(|kind| stopping(*kind, study.stopping_axis).is_none()),
            early_stopping_settings: study.stopping_rule.as_ref().map(settings_of).unwrap_or_default(),
            study_stopping_config: StudyStoppingConfig::of_domain(&study.study_stopping).unwrap_or_default(),
            vizier: VizierSettings::default(),
        },
    }
}

/// Parameters below `parent` in order; for `None`, those that are always active.
fn children(parent: Option<&str>, all: &[ParameterSpec], names: &PublishedNames<'_>) -> Vec<StudyParameterSpec> {
    let below = all.iter().filter(|spec| spec.condition().map(|condition| condition.parent()) == parent);
    below.map(|spec| parameter(spec, all, names)).collect()
}

fn parameter(spec: &ParameterSpec, all: &[ParameterSpec], names: &PublishedNames<'_>) -> StudyParameterSpec {
    let mut message = StudyParameterSpec {
        parameter: names.published(spec.name()).to_owned(),
        child_parameter_specs: children(Some(spec.name()), all, names),
        ..StudyParameterSpec::default()
    };
    match spec.kind() {
        ParameterKind::Double { min, max, scale } => {
            message.parameter_type = ParameterType::Double;
            message.scale_type = scale_type(*scale);
            message.double_value_spec = Some(DoubleValueSpec { min_value: Double(*min), max_value: Double(*max) });
        }
        ParameterKind::Integer { min, max, scale } => {
            message.parameter_type = ParameterType::Integer;
            message.scale_type = scale_type(*scale);
            message.integer_value_spec = Some(IntegerValueSpec { min_value: Int64(*min), max_value: Int64(*max) });
        }
        ParameterKind::Discrete { values, scale } => {
            message.parameter_type = ParameterType::Discrete;
            message.scale_type = scale_type(*scale);
            message.discrete_value_spec =
                Some(DoubleValues { values: values.iter().copied().map(Number::from).collect() });
        }
        ParameterKind::Categorical { values } => {
            message.parameter_type = ParameterType::Categorical;
            message.categorical_value_spec = Some(TextValues { values: values.clone() });
        }
    }
    if let Some(condition) = spec.condition() {
        let (mut integers, mut numbers, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for value in condition.values() {
            match value {
                ParameterValue::Integer(value) => integers.push(Int64(*value)),
                ParameterValue::Double(value) | ParameterValue::Discrete(value) => numbers.push(Number::from(*value)),
                ParameterValue::Categorical(value) => texts.push(value.clone()),
            }
        }
        message.parent_int_values = (!integers.is_empty()).then_some(IntegerValues { values: integers });
        message.parent_discrete_values = (!numbers.is_empty()).then_some(DoubleValues { values: numbers });
        message.parent_categorical_values = (!texts.is_empty()).then_some(TextValues { values: texts });
    }
    message
}

fn scale_type(scale: ScaleType) -> StudyScaleType {
    match scale {
        ScaleType::UnitLinear => StudyScaleType::UnitLinearScale,
        ScaleType::UnitLog => StudyScaleType::UnitLogScale,
        ScaleType::UnitReverseLog => StudyScaleType::UnitReverseLogScale,
    }
}

fn stopping(kind: StoppingRuleKind, axis: CurveAxis) -> Option<AutomatedStoppingConfig> {
    let config = Some(StoppingConfig { use_elapsed_time: axis == CurveAxis::ElapsedTime });
    match kind {
        StoppingRuleKind::Median => {
            Some(AutomatedStoppingConfig { median_automated_stopping_config: config, ..Default::default() })
        }
        StoppingRuleKind::DecayCurve => {
            Some(AutomatedStoppingConfig { decay_curve_stopping_config: config, ..Default::default() })
        }
        StoppingRuleKind::Asha => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use tunesmith_domain::{Metadata, NewStudy, SourceStudies, Study};

    use super::study_config;
    use crate::ai_platform::optimizer::{StudyConfig, study_plan};

    /// Study described by `config`; asserts that it renders as `config` again.
    fn rendered(config: &Value) -> Study {
        let config: StudyConfig = serde_json::from_value(config.clone()).unwrap();
        let plan = study_plan(&config).unwrap();
        let study = plan.spec.into_study(NewStudy {
            id: "p/l/s".parse().unwrap(),
            seed: plan.seed.unwrap(),
            sources: SourceStudies::default(),
            config: Value::Null,
            metadata: Metadata::default(),
            create_time: Timestamp::UNIX_EPOCH,
        });
        assert_eq!(study_config(&study), config);
        study
    }

    #[test]
    fn a_rendered_study_has_its_prior_knowledge_and_stopping_rules() {
        let config = json!({
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameter": "rate", "type": "DOUBLE", "scaleType": "UNIT_LOG_SCALE",
                    "doubleValueSpec": {"minValue": 0.001, "maxValue": 1}},
                {"parameter": "model", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["tree", "net"]}}],
            "algorithm": "GRID_SEARCH",
            "tunesmith": {
                "seed": "7",
                "priors": [
                    {"parameter": "rate", "mode": "0.1", "spread": 0.25},
                    {"parameter": "model", "weights": {"tree": 1, "net": 3}}],
                "initialTrials": [{"rate": "0.05", "model": "net"}],
                "doubleResolution": {"rate": 5},
                "earlyStopping": "ASHA",
                "earlyStoppingSettings": {"eta": 4, "minResource": "2"},
                "studyStoppingConfig": {
                    "minNumTrials": 3, "maxNumTrialsNoProgress": 5, "maxDurationNoProgress": "3600s",
                    "maximumRuntimeConstraint": {"maxDuration": "7200s"}}}
        });
        rendered(&config);
    }

    #[test]
    fn a_rendered_study_describes_the_same_study() {
        let config = json!({
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameter": "rate", "type": "DOUBLE", "scaleType": "UNIT_LOG_SCALE",
                    "doubleValueSpec": {"minValue": 0.001, "maxValue": 1}},
                {"parameter": "model", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["tree", "net"]},
                    "childParameterSpecs": [
                        {"parameter": "size", "type": "INTEGER", "scaleType": "UNIT_LINEAR_SCALE",
                            "integerValueSpec": {"minValue": "1", "maxValue": "9"},
                            "parentCategoricalValues": {"values": ["tree"]}},
                        {"parameter": "size", "type": "DISCRETE", "scaleType": "UNIT_LINEAR_SCALE",
                            "discreteValueSpec": {"values": [64, 128]},
                            "parentCategoricalValues": {"values": ["net"]}, "childParameterSpecs": [
                                {"parameter": "width", "type": "DOUBLE", "scaleType": "UNIT_REVERSE_LOG_SCALE",
                                    "doubleValueSpec": {"minValue": 1, "maxValue": 2},
                                    "parentDiscreteValues": {"values": [128]}}]}]}],
            "algorithm": "RANDOM_SEARCH",
            "automatedStoppingConfig": {"decayCurveStoppingConfig": {"useElapsedTime": true}},
            "tunesmith": {"seed": "7", "maxTrials": "20", "trialLease": "60s", "finalMeasurement": "BEST"}
        });
        rendered(&config);
    }

    #[test]
    fn a_rendered_study_has_its_metrics_and_constraints() {
        let config = json!({
            "metrics": [
                {"metric": "loss", "goal": "MINIMIZE"},
                {"metric": "speed", "goal": "MAXIMIZE"},
                {"metric": "latency", "goal": "MINIMIZE",
                    "safetyConfig": {"safetyThreshold": 20, "desiredMinSafeTrialsFraction": 0.75}},
                {"metric": "recall", "goal": "MAXIMIZE", "safetyConfig": {}}],
            "parameters": [
                {"parameter": "rate", "type": "DOUBLE", "scaleType": "UNIT_LINEAR_SCALE",
                    "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
            "tunesmith": {"seed": "7", "observationNoise": "HIGH"}
        });
        let study = rendered(&config);
        let constraints: Vec<_> =
            study.problem.constraints().iter().map(|one| (one.name.as_str(), one.threshold)).collect();
        assert_eq!(constraints, [("latency", 20.0), ("recall", 0.0)]);
    }
}
