//! `Study` of Vertex AI for a study of any protocol.

use tunesmith_api::ai_platform::optimizer::{ParameterNames, StudyConfig, StudyMessage, display_name};
use tunesmith_api::ai_platform::{
    FinalMeasurement, GoalType, ObservationNoise, ProtoDuration, StudyStoppingConfig, StudyTimeConstraint,
};
use tunesmith_domain::{Code, Refusal, StoppingRuleKind, Study, StudyState};

use super::parameters::{algorithm_message, messages};
use super::study_state;
use crate::messages::vertex::study_spec::metric_spec::{GoalType as Goal, SafetyMetricConfig};
use crate::messages::vertex::study_spec::{
    self, AutomatedStoppingSpec, ConvexAutomatedStoppingSpec, DecayCurveAutomatedStoppingSpec,
    MeasurementSelectionType, MedianAutomatedStoppingSpec, MetricSpec, ObservationNoise as Noise,
};
use crate::messages::vertex::study_time_constraint::Constraint;
use crate::messages::vertex::{self, StudySpec, StudyTimeConstraint as TimeConstraint};
use crate::names;
use crate::time::{duration, timestamp};

/// Message for `study`.
///
/// # Errors
/// If its configuration cannot be read by this version.
pub fn message_of_study(study: &Study) -> Result<vertex::Study, Refusal> {
    let config = config_of(study)?;
    let mut spec = spec_of(&config);
    if !config.tunesmith.prior_studies.is_empty() {
        let (project, location, _) = study.id.parts();
        let name = |id: &String| format!("projects/{project}/locations/{location}/studies/{id}");
        let transfer = spec.transfer_learning_config.get_or_insert_default();
        transfer.prior_study_names = config.tunesmith.prior_studies.iter().map(name).collect();
    }
    let inactive = Some(&study.state_reason).filter(|_| study.state == StudyState::Inactive);
    Ok(vertex::Study {
        name: names::vertex::of_study(&study.id),
        display_name: display_name(study).to_owned(),
        study_spec: Some(spec),
        state: study_state(study.state).into(),
        create_time: Some(timestamp(study.create_time)),
        inactive_reason: inactive.cloned().unwrap_or_default(),
    })
}

/// Configuration of `study`, whatever protocol has made it.
///
/// # Errors
/// If it cannot be read by this version.
pub fn config_of(study: &Study) -> Result<StudyConfig, Refusal> {
    StudyMessage::from(study).study_config.known().map_err(|error| {
        let text = format!("the configuration of study {} cannot be read by this version: {error}", study.id);
        Refusal::new(Code::Internal, text)
    })
}

pub(crate) fn spec_of(config: &StudyConfig) -> StudySpec {
    let additions = &config.tunesmith;
    let names = ParameterNames::of(config);
    StudySpec {
        metrics: config.metrics.iter().map(metric).collect(),
        parameters: messages(&config.parameters, &mut Vec::new(), &names, additions.initial_trials.first()),
        algorithm: algorithm_message(config.algorithm).into(),
        observation_noise: match additions.observation_noise {
            ObservationNoise::Auto => Noise::Unspecified,
            ObservationNoise::Low => Noise::Low,
            ObservationNoise::High => Noise::High,
        }
        .into(),
        measurement_selection_type: match additions.final_measurement {
            FinalMeasurement::Last => MeasurementSelectionType::LastMeasurement,
            FinalMeasurement::Best => MeasurementSelectionType::BestMeasurement,
        }
        .into(),
        study_stopping_config: study_stopping(config),
        transfer_learning_config: additions.vizier.disable_transfer_learning.map(|disable_transfer_learning| {
            study_spec::TransferLearningConfig { disable_transfer_learning, prior_study_names: Vec::new() }
        }),
        automated_stopping_spec: early_stopping(config),
    }
}

fn metric(metric: &tunesmith_api::ai_platform::optimizer::MetricSpec) -> MetricSpec {
    let goal = match metric.goal {
        GoalType::GoalTypeUnspecified => Goal::Unspecified,
        GoalType::Maximize => Goal::Maximize,
        GoalType::Minimize => Goal::Minimize,
    };
    let safety_config = metric.safety_config.as_ref().map(|safety| SafetyMetricConfig {
        safety_threshold: safety.safety_threshold.0,
        desired_min_safe_trials_fraction: safety.desired_min_safe_trials_fraction.map(|fraction| fraction.0),
    });
    MetricSpec { metric_id: metric.metric.clone(), goal: goal.into(), safety_config }
}

/// The rule of early stopping; `None` also for one that Vertex AI has not.
fn early_stopping(config: &StudyConfig) -> Option<AutomatedStoppingSpec> {
    let automated = config.automated_stopping_config.clone().unwrap_or_default();
    let of_kind = |kind| config.tunesmith.early_stopping == Some(kind);
    let decay = automated.decay_curve_stopping_config;
    if let Some(convex) = &config.tunesmith.vizier.convex_stopping {
        return Some(AutomatedStoppingSpec::ConvexAutomatedStoppingSpec(ConvexAutomatedStoppingSpec {
            max_step_count: convex.max_step_count.0,
            min_step_count: convex.min_step_count.0,
            min_measurement_count: convex.min_measurement_count.0,
            learning_rate_parameter_name: convex.learning_rate_parameter_name.clone(),
            use_elapsed_duration: decay.is_some_and(|rule| rule.use_elapsed_time),
            update_all_stopped_trials: convex.update_all_stopped_trials,
        }));
    }
    let median = automated.median_automated_stopping_config;
    if median.is_some() || of_kind(StoppingRuleKind::Median) {
        let use_elapsed_duration = median.is_some_and(|rule| rule.use_elapsed_time);
        let spec = MedianAutomatedStoppingSpec { use_elapsed_duration };
        return Some(AutomatedStoppingSpec::MedianAutomatedStoppingSpec(spec));
    }
    if decay.is_some() || of_kind(StoppingRuleKind::DecayCurve) {
        let use_elapsed_duration = decay.is_some_and(|rule| rule.use_elapsed_time);
        let spec = DecayCurveAutomatedStoppingSpec { use_elapsed_duration };
        return Some(AutomatedStoppingSpec::DecayCurveStoppingSpec(spec));
    }
    None
}

fn study_stopping(config: &StudyConfig) -> Option<study_spec::StudyStoppingConfig> {
    let rules = &config.tunesmith.study_stopping_config;
    let count = |count: Option<u32>| count.and_then(|count| i32::try_from(count).ok());
    // `maxTrials` is what `maxNumTrials` was raised to, or the limit of another protocol.
    let max_trials = config.tunesmith.max_trials.and_then(|count| u32::try_from(count.0).ok());
    let rules = study_spec::StudyStoppingConfig {
        should_stop_asap: config.tunesmith.vizier.should_stop_asap,
        minimum_runtime_constraint: rules.minimum_runtime_constraint.as_ref().map(time),
        maximum_runtime_constraint: rules.maximum_runtime_constraint.as_ref().map(time),
        min_num_trials: count(rules.min_num_trials),
        max_num_trials: count(rules.max_num_trials.or(max_trials)),
        max_num_trials_no_progress: count(rules.max_num_trials_no_progress),
        max_duration_no_progress: rules.max_duration_no_progress.map(|ProtoDuration(limit)| duration(limit)),
    };
    let is_default = config.tunesmith.study_stopping_config == StudyStoppingConfig::default()
        && rules == study_spec::StudyStoppingConfig::default();
    (!is_default).then_some(rules)
}

fn time(constraint: &StudyTimeConstraint) -> TimeConstraint {
    let duration = constraint.max_duration.map(|ProtoDuration(limit)| Constraint::MaxDuration(duration(limit)));
    let end = constraint.end_time.map(|time| Constraint::EndTime(timestamp(time)));
    TimeConstraint { constraint: duration.or(end) }
}
