//! OSS Vizier: studies and trials as its messages, by way of those of Vertex AI.

mod algorithm;
mod metadata;
mod parameters;

pub use metadata::{message_of_metadata, metadata};

use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::optimizer::{MAX_PARAMETERS, ParameterNames, StudyConfig, display_name};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_domain::{Refusal, StoppingRuleKind, Study, StudyState, Trial};

use crate::messages::oss::study_spec::{AutomatedStoppingSpec, DefaultEarlyStoppingSpec};
use crate::messages::oss::{self, StudySpec};
use crate::messages::vertex;
use crate::names;
use crate::time::timestamp;
use crate::vertex::{config_of, spec_of, study_state};

/// Converts a specification, with notices about parts without effect or with another one. The rules of a `StudyConfig`
/// apply to the result.
///
/// # Errors
/// Every part that has no counterpart.
pub fn study_config(spec: &StudySpec) -> Result<(StudyConfig, Vec<Notice>), Vec<FieldViolation>> {
    if parameters::count(&spec.parameters) > MAX_PARAMETERS {
        let text = format!("has more than {MAX_PARAMETERS} parameters, which is the most");
        return Err(vec![FieldViolation::new("studySpec.parameters", text)]);
    }
    let mut external_types = Vec::new();
    let parameters = parameters::to_vertex(&spec.parameters, &mut Vec::new(), &mut external_types);
    let of_vertex = vertex::StudySpec {
        metrics: spec.metrics.clone(),
        parameters,
        observation_noise: spec.observation_noise,
        ..vertex::StudySpec::default()
    };
    let (mut config, mut notices) = crate::vertex::study_config(&of_vertex)?;
    let names = ParameterNames::of(&config);
    for (path, external_type) in external_types {
        config.tunesmith.vizier.external_types.insert(names.internal(&path).to_owned(), external_type.to_owned());
    }
    notices.extend(algorithm::request(&spec.algorithm, &mut config, &names).map_err(|violation| vec![violation])?);
    match spec.automated_stopping_spec {
        None => {}
        Some(AutomatedStoppingSpec::DefaultStoppingSpec(DefaultEarlyStoppingSpec {})) => {
            config.tunesmith.early_stopping = Some(StoppingRuleKind::Median);
        }
    }
    Ok((config, notices))
}

/// Message for `study`.
///
/// # Errors
/// If its configuration cannot be read by this version.
pub fn message_of_study(study: &Study) -> Result<oss::Study, Refusal> {
    let config = config_of(study)?;
    let spec = spec_of(&config);
    let names = ParameterNames::of(&config);
    let types = &config.tunesmith.vizier.external_types;
    let has_rule = config.automated_stopping_config.is_some() || config.tunesmith.early_stopping.is_some();
    let inactive = Some(&study.state_reason).filter(|_| study.state == StudyState::Inactive);
    Ok(oss::Study {
        name: names::oss::of_study(study),
        display_name: display_name(study).to_owned(),
        study_spec: Some(StudySpec {
            // A goal is required by its clients; the default is to maximise.
            metrics: spec.metrics.into_iter().map(with_goal).collect(),
            parameters: parameters::of_vertex(spec.parameters, &mut Vec::new(), &names, types),
            algorithm: algorithm::name(&config).to_owned(),
            observation_noise: spec.observation_noise,
            metadata: message_of_metadata(&study.metadata),
            automated_stopping_spec: has_rule
                .then_some(AutomatedStoppingSpec::DefaultStoppingSpec(DefaultEarlyStoppingSpec {})),
        }),
        state: study_state(study.state).into(),
        create_time: Some(timestamp(study.create_time)),
        inactive_reason: inactive.cloned().unwrap_or_default(),
    })
}

fn with_goal(metric: vertex::study_spec::MetricSpec) -> vertex::study_spec::MetricSpec {
    use vertex::study_spec::metric_spec::GoalType;
    let is_unspecified = metric.goal == i32::from(GoalType::Unspecified);
    let goal = if is_unspecified { GoalType::Maximize.into() } else { metric.goal };
    vertex::study_spec::MetricSpec { goal, ..metric }
}

/// Message for `trial` of `study`, from that of Vertex AI.
pub fn message_of_trial(study: &Study, trial: &Trial, message: vertex::Trial) -> oss::Trial {
    oss::Trial {
        name: names::oss::of_trial(study, trial.id),
        id: message.id,
        state: message.state,
        parameters: message.parameters,
        final_measurement: message.final_measurement,
        measurements: message.measurements,
        // Its clients take it for the time of creation, which every trial has.
        start_time: message.start_time.or_else(|| Some(timestamp(trial.create_time))),
        end_time: message.end_time,
        client_id: message.client_id,
        infeasible_reason: message.infeasible_reason,
        metadata: message_of_metadata(&trial.metadata),
    }
}
