//! Trials that a client proposes, and the end of running ones.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tunesmith_api::ai_platform::optimizer::{StudyParameterSpec, TrialParameter, TrialRequest};
use tunesmith_api::ai_platform::{Int64, Number, ParameterType};

use super::trials::TrialArguments;
use crate::context::Context;
use crate::failure::{Failure, Problem};
use crate::subject::{Of, Subject};
use crate::tool::{Effects, Tool};

/// Most trials of a call.
const MAX_TRIALS: usize = 100;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            ("mcp.propose_trials", "Propose trials"),
            "Adds trials with your parameters, which run before the search's own: ideas, a baseline, or repeats of a point for \
             compare. In a job, each counts as one of its trials: extend_job makes room.",
            Effects::Adds,
            json!({"job": "census", "trials": [{"lr": 0.01}]}),
            propose_trials,
        ),
        Tool::new(
            ("mcp.stop_trial", "Stop a trial"),
            "Stops a running trial. Its last measurement becomes its result; the job goes on.",
            Effects::Ends,
            json!({"job": "census", "trial": 3}),
            stop_trial,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ProposeArguments {
    #[serde(flatten)]
    of: Of,
    /// Points: values by parameter. At most 100; a point may be repeated.
    trials: Vec<BTreeMap<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
struct Proposals {
    accepted: Vec<Accepted>,
    refused: Vec<Refused>,
}

#[derive(Serialize, JsonSchema)]
struct Accepted {
    /// Index in `trials`.
    index: usize,
    /// Number of the trial.
    trial: String,
}

#[derive(Serialize, JsonSchema)]
struct Refused {
    /// Index in `trials`.
    index: usize,
    /// Parameter.
    field: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
}

async fn propose_trials(context: Context, arguments: ProposeArguments) -> Result<Proposals, Failure> {
    if arguments.trials.is_empty() || arguments.trials.len() > MAX_TRIALS {
        let text = format!("has {} points", arguments.trials.len());
        return Err(Failure::argument("trials", text, format!("1 to {MAX_TRIALS} points")));
    }
    let subject = arguments.of.subject(&context)?;
    let config = subject.study.get().await?.study_config.known();
    let config = config.map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
    let specs = with_children(&config.parameters);
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for (index, point) in arguments.trials.iter().enumerate() {
        let added = match message(point, &specs) {
            Ok(parameters) => add(&subject, parameters).await,
            Err(failure) => Err(failure),
        };
        match added {
            Ok(trial) => accepted.push(Accepted { index, trial }),
            // The caller may not add trials, or the service is not available.
            Err(failure) if accepted.is_empty() && !failure.has_problems() => return Err(failure),
            Err(failure) => refused.extend(failure.into_problems().into_iter().map(|problem| {
                let Problem { field, message, allowed, .. } = problem;
                Refused { index, field, message, allowed }
            })),
        }
    }
    if accepted.is_empty() {
        let problems = refused.into_iter().map(|Refused { index, field, message, allowed }| Problem {
            field: format!("trials[{index}].{field}"),
            message,
            allowed,
            ..Problem::default()
        });
        return Err(Failure::of_problems("no trial was added", problems.collect()));
    }
    Ok(Proposals { accepted, refused })
}

async fn add(subject: &Subject, parameters: Vec<TrialParameter>) -> Result<String, Failure> {
    let mut request = TrialRequest::default();
    request.parameters = parameters;
    let trial = match &subject.job {
        Some(job) => subject.client.create_job_trial(job, &request).await?,
        None => subject.study.create_trial(&request).await?,
    };
    Ok(trial.name.rsplit('/').next().unwrap_or_default().to_owned())
}

/// Parameter specifications, each followed by those of its conditional parameters.
fn with_children(parameters: &[StudyParameterSpec]) -> Vec<&StudyParameterSpec> {
    let specs = parameters.iter();
    specs.flat_map(|spec| std::iter::once(spec).chain(with_children(&spec.child_parameter_specs))).collect()
}

/// `point` with the types of its parameters.
fn message(point: &BTreeMap<String, Value>, specs: &[&StudyParameterSpec]) -> Result<Vec<TrialParameter>, Failure> {
    point.iter().map(|(name, value)| parameter(name, value, specs)).collect()
}

fn parameter(name: &str, value: &Value, specs: &[&StudyParameterSpec]) -> Result<TrialParameter, Failure> {
    let Some(spec) = specs.iter().find(|spec| spec.parameter == name) else {
        let names: Vec<&str> = specs.iter().map(|spec| spec.parameter.as_str()).collect();
        return Err(Failure::argument(name, "is no parameter of the study", names.join(", ")));
    };
    let mut message = TrialParameter { parameter: name.to_owned(), ..TrialParameter::default() };
    let refuse = |allowed: &str| Err(Failure::argument(name, format!("is {value}"), allowed));
    match spec.parameter_type {
        ParameterType::Integer => match whole(value) {
            Some(number) => message.int_value = Some(Int64(number)),
            None => return refuse("a whole number"),
        },
        ParameterType::Categorical => match value {
            Value::String(text) => message.string_value = Some(text.clone()),
            Value::Number(number) => message.string_value = Some(number.to_string()),
            _ => return refuse("a text of the parameter's values"),
        },
        ParameterType::Double | ParameterType::Discrete | ParameterType::ParameterTypeUnspecified => {
            match value.as_f64() {
                Some(number) if number.is_finite() => message.float_value = Some(Number::from(number)),
                _ => return refuse("a number"),
            }
        }
    }
    Ok(message)
}

/// Whole number, also as 3.0.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
    value.as_i64().or_else(|| number.map(|number| number as i64))
}

#[derive(Serialize, JsonSchema)]
struct Stopped {
    trial: String,
    /// STOPPING until its program has ended, then COMPLETED.
    state: String,
}

async fn stop_trial(context: Context, arguments: TrialArguments) -> Result<Stopped, Failure> {
    let subject = arguments.of.subject(&context)?;
    let trial = &arguments.trial.0;
    let message = match &subject.job {
        Some(job) => subject.client.stop_job_trial(job, trial).await?,
        None => subject.study.stop(trial).await?,
    };
    let state = serde_json::to_value(message.state).ok();
    let state = state.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Stopped { trial: trial.clone(), state })
}
