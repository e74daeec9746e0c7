//! `StudySpec` of Vertex AI as a `StudyConfig` of `ml v1`.

use jiff::Timestamp;
use tunesmith_api::ai_platform::optimizer::{
    AutomatedStoppingConfig, ConvexStopping, MetricSpec, StoppingConfig, StudyConfig, check_size,
};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_api::ai_platform::{
    Algorithm, Double, EarlyStoppingSettings, FinalMeasurement, GoalType, Int64, Notice, ObservationNoise,
    ProtoDuration, SafetyMetricConfig, StudyStoppingConfig, StudyTimeConstraint,
};

use super::parameters::{defaults, parameters, unknown};
use super::violations_of_spec;
use crate::messages::vertex::study_spec::metric_spec::GoalType as Goal;
use crate::messages::vertex::study_spec::{
    self, Algorithm as SpecAlgorithm, AutomatedStoppingSpec, ConvexAutomatedStoppingSpec, MeasurementSelectionType,
    ObservationNoise as Noise,
};
use crate::messages::vertex::study_time_constraint::Constraint;
use crate::messages::vertex::{StudySpec, StudyTimeConstraint as TimeConstraint};
use crate::time::{of_timestamp, std_duration};

/// Path of the specification in a request.
const FIELD: &str = "studySpec";

/// Converts a specification, with notices about parts without effect. The rules of a `StudyConfig` apply to the result.
///
/// # Errors
/// Every part that has no counterpart.
pub fn study_config(spec: &StudySpec) -> Result<(StudyConfig, Vec<Notice>), Vec<FieldViolation>> {
    let mut reading = Reading::default();
    let mut config = StudyConfig {
        metrics: reading.metrics(&spec.metrics),
        parameters: parameters(&spec.parameters, &format!("{FIELD}.parameters"), &mut reading.violations),
        algorithm: reading.algorithm(spec.algorithm),
        ..StudyConfig::default()
    };
    // Before the rules that compare entries.
    if let Err(violation) = check_size(&config) {
        return Err(violations_of_spec(vec![violation]));
    }
    if spec.parameters.is_empty() {
        reading.refuse("parameters", "at least one parameter is needed");
    }
    config.tunesmith.observation_noise = match Noise::try_from(spec.observation_noise) {
        Ok(Noise::Unspecified) => ObservationNoise::Auto,
        Ok(Noise::Low) => ObservationNoise::Low,
        Ok(Noise::High) => ObservationNoise::High,
        Err(_) => reading.unknown("observationNoise", spec.observation_noise, "0 to 2"),
    };
    config.tunesmith.final_measurement = match MeasurementSelectionType::try_from(spec.measurement_selection_type) {
        Ok(MeasurementSelectionType::Unspecified | MeasurementSelectionType::LastMeasurement) => FinalMeasurement::Last,
        Ok(MeasurementSelectionType::BestMeasurement) => FinalMeasurement::Best,
        Err(_) => reading.unknown("measurementSelectionType", spec.measurement_selection_type, "0 to 2"),
    };
    if let Some(rule) = &spec.automated_stopping_spec {
        reading.early_stopping(rule, &mut config);
    }
    if let Some(rules) = &spec.study_stopping_config {
        config.tunesmith.study_stopping_config = reading.study_stopping(rules);
        if rules.should_stop_asap == Some(true) {
            reading.notice("studyStoppingConfig.shouldStopAsap", "has no effect: running trials end by themselves");
        }
        config.tunesmith.vizier.should_stop_asap = rules.should_stop_asap;
    }
    if let Some(transfer) = &spec.transfer_learning_config {
        if !transfer.disable_transfer_learning {
            let text = "other studies are used only if tunesmith.priorStudies of a study of ml v1 names them";
            reading.notice("transferLearningConfig", text);
        }
        if !transfer.prior_study_names.is_empty() {
            let field = format!("{FIELD}.transferLearningConfig.priorStudyNames");
            reading.notices.push(Notice::set_by_service(&field));
        }
        config.tunesmith.vizier.disable_transfer_learning = Some(transfer.disable_transfer_learning);
    }
    let start = defaults(&spec.parameters, &config, &format!("{FIELD}.parameters"), &mut reading.violations);
    if !start.is_empty() {
        config.tunesmith.initial_trials = vec![start];
    }
    if reading.violations.is_empty() { Ok((config, reading.notices)) } else { Err(reading.violations) }
}

fn stopping(use_elapsed_time: bool) -> Option<StoppingConfig> {
    Some(StoppingConfig { use_elapsed_time })
}

/// Enters the convex rule `spec` with the thresholds `settings`.
fn convex(
    config: &mut StudyConfig,
    spec: &ConvexAutomatedStoppingSpec,
    settings: EarlyStoppingSettings,
) -> AutomatedStoppingConfig {
    config.tunesmith.early_stopping_settings = settings;
    config.tunesmith.vizier.convex_stopping = Some(ConvexStopping {
        max_step_count: Int64(spec.max_step_count),
        min_step_count: Int64(spec.min_step_count),
        min_measurement_count: Int64(spec.min_measurement_count),
        learning_rate_parameter_name: spec.learning_rate_parameter_name.clone(),
        update_all_stopped_trials: spec.update_all_stopped_trials,
    });
    AutomatedStoppingConfig {
        decay_curve_stopping_config: stopping(spec.use_elapsed_duration),
        ..AutomatedStoppingConfig::default()
    }
}

#[derive(Default)]
struct Reading {
    violations: Vec<FieldViolation>,
    notices: Vec<Notice>,
}

impl Reading {
    fn refuse(&mut self, field: &str, text: impl Into<String>) {
        self.violations.push(FieldViolation::new(format!("{FIELD}.{field}"), text));
    }

    fn notice(&mut self, field: &str, text: &str) {
        self.notices.push(Notice { field: format!("{FIELD}.{field}"), description: text.to_owned() });
    }

    fn unknown<T: Default>(&mut self, field: &str, number: i32, allowed: &str) -> T {
        self.violations.push(unknown(format!("{FIELD}.{field}"), number, allowed));
        T::default()
    }

    fn metrics(&mut self, specs: &[study_spec::MetricSpec]) -> Vec<MetricSpec> {
        let mut metrics = Vec::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            if spec.metric_id.contains(char::is_whitespace) {
                let text = format!("{:?} has whitespace; allowed: a name without", spec.metric_id);
                self.refuse(&format!("metrics[{index}].metricId"), text);
            }
            let goal = match Goal::try_from(spec.goal) {
                Ok(Goal::Unspecified) => GoalType::GoalTypeUnspecified,
                Ok(Goal::Maximize) => GoalType::Maximize,
                Ok(Goal::Minimize) => GoalType::Minimize,
                Err(_) => self.unknown(&format!("metrics[{index}].goal"), spec.goal, "0 to 2"),
            };
            let safety_config = spec.safety_config.as_ref().map(|safety| SafetyMetricConfig {
                safety_threshold: Double(safety.safety_threshold),
                desired_min_safe_trials_fraction: safety.desired_min_safe_trials_fraction.map(Double),
            });
            metrics.push(MetricSpec { metric: spec.metric_id.clone(), goal, safety_config });
        }
        metrics
    }

    fn algorithm(&mut self, number: i32) -> Algorithm {
        match SpecAlgorithm::try_from(number) {
            Ok(SpecAlgorithm::Unspecified) => Algorithm::AlgorithmUnspecified,
            Ok(SpecAlgorithm::GridSearch) => Algorithm::GridSearch,
            Ok(SpecAlgorithm::RandomSearch) => Algorithm::RandomSearch,
            Err(_) => self.unknown("algorithm", number, "0, 2 (GRID_SEARCH) and 3 (RANDOM_SEARCH)"),
        }
    }

    fn early_stopping(&mut self, rule: &AutomatedStoppingSpec, config: &mut StudyConfig) {
        let automated = match rule {
            AutomatedStoppingSpec::DecayCurveStoppingSpec(spec) => AutomatedStoppingConfig {
                decay_curve_stopping_config: stopping(spec.use_elapsed_duration),
                ..AutomatedStoppingConfig::default()
            },
            AutomatedStoppingSpec::MedianAutomatedStoppingSpec(spec) => AutomatedStoppingConfig {
                median_automated_stopping_config: stopping(spec.use_elapsed_duration),
                ..AutomatedStoppingConfig::default()
            },
            AutomatedStoppingSpec::ConvexAutomatedStoppingSpec(spec) => {
                let settings = self.convex(spec, ["convexAutomatedStoppingSpec", "maxStepCount", "minStepCount"]);
                convex(config, spec, settings)
            }
            AutomatedStoppingSpec::ConvexStopConfig(given) => {
                let place = "convexStopConfig";
                if given.autoregressive_order != 0 {
                    self.notice(&format!("{place}.autoregressiveOrder"), "has no effect on this service");
                }
                self.notice(place, "is deprecated, and returned as convexAutomatedStoppingSpec");
                let spec = ConvexAutomatedStoppingSpec {
                    max_step_count: given.max_num_steps,
                    min_step_count: given.min_num_steps,
                    learning_rate_parameter_name: given.learning_rate_parameter_name.clone(),
                    use_elapsed_duration: given.use_seconds,
                    ..ConvexAutomatedStoppingSpec::default()
                };
                let settings = self.convex(&spec, [place, "maxNumSteps", "minNumSteps"]);
                convex(config, &spec, settings)
            }
        };
        config.automated_stopping_config = Some(automated);
    }

    /// Thresholds of the decay curve rule, which stands for the convex one: both extrapolate the curve of a trial.
    /// The names are those of the rule and of its limits.
    fn convex(&mut self, spec: &ConvexAutomatedStoppingSpec, names: [&str; 3]) -> EarlyStoppingSettings {
        let [place, last_name, first_name] = names;
        let mut count = |field: &str, value: i64| {
            if value < 0 {
                self.refuse(
                    &format!("{place}.{field}"),
                    format!("{value} is negative; allowed: whole numbers from 0 on"),
                );
            }
            u32::try_from(value).ok().filter(|value| *value > 0)
        };
        let (last, first) = (count(last_name, spec.max_step_count), count(first_name, spec.min_step_count));
        let reports = count("minMeasurementCount", spec.min_measurement_count);
        if let (Some(last), Some(first)) = (last, first)
            && first > last
        {
            let text = format!("{first} is above {last_name}; allowed: at most {last}");
            self.refuse(&format!("{place}.{first_name}"), text);
        }
        let progress = first.zip(last).map(|(first, last)| (f64::from(first) / f64::from(last)).min(1.0));
        self.notice(place, "is applied as the rule DECAY_CURVE, which extrapolates the curves of trials, too");
        EarlyStoppingSettings {
            min_reports: reports,
            min_progress: progress.map(Double),
            ..EarlyStoppingSettings::default()
        }
    }

    fn study_stopping(&mut self, rules: &study_spec::StudyStoppingConfig) -> StudyStoppingConfig {
        let mut count = |field: &str, value: Option<i32>| {
            let value = value?;
            if value < 1 {
                let text = format!("{value} is below the minimum; allowed: whole numbers from 1 on");
                self.refuse(&format!("studyStoppingConfig.{field}"), text);
            }
            u32::try_from(value).ok()
        };
        let min_num_trials = count("minNumTrials", rules.min_num_trials);
        let max_num_trials = count("maxNumTrials", rules.max_num_trials);
        let max_num_trials_no_progress = count("maxNumTrialsNoProgress", rules.max_num_trials_no_progress);
        let max_duration_no_progress = rules
            .max_duration_no_progress
            .as_ref()
            .and_then(|limit| self.duration("studyStoppingConfig.maxDurationNoProgress", limit));
        StudyStoppingConfig {
            minimum_runtime_constraint: self
                .time("minimumRuntimeConstraint", rules.minimum_runtime_constraint.as_ref()),
            maximum_runtime_constraint: self
                .time("maximumRuntimeConstraint", rules.maximum_runtime_constraint.as_ref()),
            min_num_trials,
            max_num_trials,
            max_num_trials_no_progress,
            max_duration_no_progress,
            min_expected_gain: None,
        }
    }

    fn time(&mut self, field: &str, constraint: Option<&TimeConstraint>) -> Option<StudyTimeConstraint> {
        let field = format!("studyStoppingConfig.{field}");
        let (mut max_duration, mut end_time) = (None, None);
        match constraint?.constraint.as_ref() {
            // Refused by the rules of a `StudyConfig`.
            None => {}
            Some(Constraint::MaxDuration(limit)) => {
                max_duration = self.duration(&format!("{field}.maxDuration"), limit);
                max_duration?;
            }
            Some(Constraint::EndTime(time)) => {
                end_time = self.end_time(&format!("{field}.endTime"), time);
                end_time?;
            }
        }
        Some(StudyTimeConstraint { max_duration, end_time })
    }

    fn duration(&mut self, field: &str, duration: &prost_types::Duration) -> Option<ProtoDuration> {
        let read = std_duration(duration).map(ProtoDuration);
        if read.is_none() {
            let text = format!("{} s, {} ns is no duration from 0 s on", duration.seconds, duration.nanos);
            self.refuse(field, text);
        }
        read
    }

    fn end_time(&mut self, field: &str, time: &prost_types::Timestamp) -> Option<Timestamp> {
        let read = of_timestamp(time);
        if read.is_none() {
            self.refuse(field, format!("{} s since 1970 is out of range", time.seconds));
        }
        read
    }
}
