//! Trials, whose parts both protocols share.

use prost_types::Value;
use prost_types::value::Kind;
use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterValue, ParameterValues, SearchSpace};
use tunesmith_api::ai_platform::optimizer::{self, PublishedNames, TrialParameter};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_api::ai_platform::{Int64, Number};
use tunesmith_domain::{Measurement, Study, StudyState, Trial, TrialState};

use crate::measurement::message_of_measurement;
use crate::messages::vertex;
use crate::messages::vertex::study::State as StudyStateMessage;
use crate::messages::vertex::trial::{Parameter, State};
use crate::names;
use crate::time::timestamp;

pub fn study_state(state: StudyState) -> StudyStateMessage {
    match state {
        StudyState::Active => StudyStateMessage::Active,
        StudyState::Inactive => StudyStateMessage::Inactive,
        StudyState::Completed => StudyStateMessage::Completed,
    }
}

pub fn state_of_trial(state: TrialState) -> State {
    match state {
        TrialState::Requested => State::Requested,
        TrialState::Active => State::Active,
        TrialState::Stopping => State::Stopping,
        TrialState::Succeeded => State::Succeeded,
        TrialState::Infeasible => State::Infeasible,
        TrialState::Deleted => State::Unspecified,
    }
}

/// Message for `trial` of `study`, whose published parameter names are `names`, with the measurements of its `curve`.
pub fn message_of_trial(
    study: &Study,
    names: &PublishedNames<'_>,
    trial: &Trial,
    curve: &[Measurement],
) -> vertex::Trial {
    let parameters = trial.parameters.iter().map(|(name, value)| Parameter {
        parameter_id: names.published(name).to_owned(),
        value: Some(Value { kind: Some(kind_of(value)) }),
    });
    vertex::Trial {
        name: names::vertex::of_trial(&study.id, trial),
        id: trial.id.to_string(),
        state: state_of_trial(trial.state).into(),
        parameters: parameters.collect(),
        final_measurement: trial.final_measurement.as_ref().map(message_of_measurement),
        measurements: distinct(curve).map(message_of_measurement).collect(),
        start_time: trial.start_time.map(timestamp),
        end_time: trial.end_time.map(timestamp),
        client_id: trial.client_id.clone(),
        infeasible_reason: trial.infeasible_reason.clone().unwrap_or_default(),
        custom_job: String::new(),
        web_access_uris: std::collections::BTreeMap::new(),
    }
}

/// Measurements of `curve`, the last one of those at the same step and time: it replaces the earlier ones.
fn distinct(curve: &[Measurement]) -> impl Iterator<Item = &Measurement> {
    let is_replaced = |index: usize| {
        curve
            .get(index + 1)
            .is_some_and(|next| next.curve_order(&curve[index]).is_eq() && names_of(next).eq(names_of(&curve[index])))
    };
    curve.iter().enumerate().filter(move |(index, _)| !is_replaced(*index)).map(|(_, measurement)| measurement)
}

fn names_of(measurement: &Measurement) -> impl Iterator<Item = &str> {
    measurement.metrics.iter().map(|metric| metric.metric.as_str())
}

#[expect(clippy::cast_precision_loss, reason = "integers of a study are at most 2^53")]
fn kind_of(value: &ParameterValue) -> Kind {
    match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => Kind::NumberValue(*value),
        ParameterValue::Integer(value) => Kind::NumberValue(*value as f64),
        ParameterValue::Categorical(value) => Kind::StringValue(value.clone()),
    }
}

/// Point of `space` with the values of `parameters`.
///
/// # Errors
/// The first parameter with a value of the wrong form, or that does not exist.
pub fn point(space: &SearchSpace, parameters: &[Parameter]) -> Result<ParameterValues, FieldViolation> {
    let names = PublishedNames::of(space);
    let mut given = Vec::with_capacity(parameters.len());
    for (index, parameter) in parameters.iter().enumerate() {
        let refuse = |text: String| FieldViolation::new(format!("parameters[{index}].value"), text);
        let spec = space.parameters().iter().find(|spec| names.published(spec.name()) == parameter.parameter_id);
        let kind = spec.map(ParameterSpec::kind);
        let value = parameter.value.as_ref().and_then(|value| value.kind.as_ref());
        let mut read = TrialParameter { parameter: parameter.parameter_id.clone(), ..TrialParameter::default() };
        match (kind, value) {
            (Some(ParameterKind::Categorical { .. }) | None, Some(Kind::StringValue(text))) => {
                read.string_value = Some(text.clone());
            }
            (Some(ParameterKind::Integer { .. }), Some(Kind::NumberValue(number))) => {
                let whole = Number::from(*number).as_exact_integer();
                let whole =
                    whole.ok_or_else(|| refuse(format!("{number} is not a whole number from -2^53 to 2^53")))?;
                read.int_value = Some(Int64(whole));
            }
            (
                Some(ParameterKind::Double { .. } | ParameterKind::Discrete { .. }) | None,
                Some(Kind::NumberValue(number)),
            ) => read.float_value = Some(Number::from(*number)),
            (Some(ParameterKind::Categorical { .. }), _) => {
                return Err(refuse(format!("{:?} needs a string", parameter.parameter_id)));
            }
            _ => return Err(refuse(format!("{:?} needs a number", parameter.parameter_id))),
        }
        given.push(read);
    }
    optimizer::point(space, &given)
}
