//! Sweeps of Weights & Biases.

use std::collections::BTreeMap;

use serde_json::Value;
use tunesmith_algorithms::early_stopping::StoppingRuleKind;
use tunesmith_api::ai_platform::{
    Algorithm, Double, EarlyStoppingSettings, GoalType, HyperparameterSpec, Int64, ParameterPrior, ParameterSpec,
    ReplicaConfig, ScaleType, TrainingInput,
};
use tunesmith_config::{ConfigErrors, Document};

use crate::reading::{Fields, Findings, MAX_VALUES, categorical, discrete, double, integer, number, steps};
use crate::{Imported, Options};

/// Default command of a sweep.
const COMMAND: [&str; 4] = ["${env}", "${interpreter}", "${program}", "${args}"];

/// Number of halvings of `max_iter` if a sweep names none.
const DEFAULT_BRACKETS: i32 = 1;

/// A parameter of a sweep.
enum Parameter {
    Searched(ParameterSpec),
    /// Its value, as the program gets it.
    Constant(String),
}

/// Converts a sweep.
///
/// # Errors
/// All fields that cannot be mapped.
pub fn wandb(document: &Document, options: Options) -> Result<Imported, ConfigErrors> {
    let value = document.value();
    let mut found = Findings::default();
    let mut sweep = Fields::of(&value, "", &mut found);
    sweep.noted(&["name", "description", "project", "entity"], &mut found);
    let algorithm = match sweep.text("method", &mut found) {
        Some("grid") => Algorithm::GridSearch,
        Some("random") => Algorithm::RandomSearch,
        Some("bayes") => Algorithm::AlgorithmUnspecified,
        Some(other) => {
            found.error("method", format!("{other:?} is not known; allowed: grid, random or bayes"));
            Algorithm::AlgorithmUnspecified
        }
        None => {
            found.error("method", "is required; allowed: grid, random or bayes");
            Algorithm::AlgorithmUnspecified
        }
    };
    let mut metric = sweep.fields("metric", &mut found);
    let metric_name = metric.text("name", &mut found).unwrap_or_default().to_owned();
    let goal = match metric.text("goal", &mut found) {
        Some("maximize") => GoalType::Maximize,
        Some("minimize") | None => GoalType::Minimize,
        Some(other) => {
            found.error("metric.goal", format!("{other:?} is not known; allowed: minimize or maximize"));
            GoalType::Minimize
        }
    };
    metric.lost(&["target"], "has no counterpart: the job runs all its trials", &mut found);
    metric.end(&mut found);
    if metric_name.is_empty() {
        found.error("metric.name", "is required: it is what trials are compared by");
    }
    let mut input = TrainingInput::default();
    let mut parameters = BTreeMap::new();
    let listed = sweep.take("parameters").and_then(Value::as_object);
    for (name, value) in listed.into_iter().flatten() {
        let path = format!("parameters.{name}");
        if let Some(parameter) = parameter(name, value, &path, &mut input.tunesmith.priors, &mut found) {
            parameters.insert(name.clone(), parameter);
        }
    }
    if listed.is_none_or(serde_json::Map::is_empty) {
        found.error("parameters", "is required; allowed: at least one parameter");
    }
    let mut stopping = sweep.fields("early_terminate", &mut found);
    let stops = early_stopping(&mut stopping, &mut input, &mut found);
    stopping.end(&mut found);
    let program = sweep.text("program", &mut found).unwrap_or_default();
    let command = sweep.list("command", &mut found);
    let command = command_line(command, program, &parameters, &mut found);
    let run_cap = sweep.count("run_cap", 1, &mut found);
    let max_trials = options.max_trials.and_then(|count| i32::try_from(count).ok()).or(run_cap);
    if max_trials.is_none() {
        found.error("run_cap", "is missing, and a job has a number of trials; allowed: run_cap, or --trials");
    }
    sweep.end(&mut found);
    input.hyperparameters = Some(HyperparameterSpec {
        goal,
        hyperparameter_metric_tag: metric_name,
        max_trials,
        algorithm,
        enable_trial_early_stopping: stops,
        params: parameters
            .into_values()
            .filter_map(|parameter| match parameter {
                Parameter::Searched(spec) => Some(spec),
                Parameter::Constant(_) => None,
            })
            .collect(),
        ..HyperparameterSpec::default()
    });
    input.tunesmith.metric_from_stdout = true;
    input.master_config = Some(ReplicaConfig { container_command: command, ..ReplicaConfig::default() });
    found.note("the program reports its metric as a line `name=value`, with hypertune or the package tunesmith: wandb.log alone is not read");
    if found.errors.is_empty() {
        Ok(Imported { training_input: input, losses: found.losses, notes: found.notes })
    } else {
        Err(document.errors(found.errors))
    }
}

/// Text of a value, as Python prints it.
fn python(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

fn parameter(
    name: &str,
    value: &Value,
    path: &str,
    priors: &mut Vec<ParameterPrior>,
    found: &mut Findings,
) -> Option<Parameter> {
    let before = found.errors.len();
    let mut fields = Fields::of(value, path, found);
    if fields.take("parameters").is_some() {
        found.error(format!("{path}.parameters"), "nested parameters have no counterpart: a trial has one flag each");
        return None;
    }
    let distribution = fields.text("distribution", found);
    let values = fields.list("values", found);
    let constant = fields.take("value");
    let bounds = (fields.take("min"), fields.take("max"));
    let probabilities = fields.list("probabilities", found);
    let step = fields.number("q", found);
    let kind = match (distribution, constant, values.is_empty()) {
        (Some(kind), ..) => kind,
        (None, Some(_), _) => "constant",
        (None, None, false) => "categorical",
        (None, None, true) => {
            let is_whole = |bound: Option<&Value>| bound.is_some_and(Value::is_i64);
            if is_whole(bounds.0) && is_whole(bounds.1) { "int_uniform" } else { "uniform" }
        }
    };
    let mut bound = |name: &str, given: Option<&Value>| {
        let read = given.and_then(number);
        if read.is_none() {
            found.error(format!("{path}.{name}"), "is required; allowed: a number");
        }
        read
    };
    let scale_and_range = |min: f64, max: f64| match kind {
        "log_uniform" | "q_log_uniform" => (ScaleType::UnitLogScale, (min.exp(), max.exp())),
        "log_uniform_values" | "q_log_uniform_values" => (ScaleType::UnitLogScale, (min, max)),
        "inv_log_uniform" => (ScaleType::UnitReverseLogScale, ((-max).exp(), (-min).exp())),
        "inv_log_uniform_values" => (ScaleType::UnitReverseLogScale, (min, max)),
        _ => (ScaleType::UnitLinearScale, (min, max)),
    };
    let spec = match kind {
        "constant" => {
            let text = constant.and_then(python);
            if text.is_none() {
                found.error(format!("{path}.value"), "is required; allowed: a text, number, truth value or null");
            }
            fields.end(found);
            return text.map(Parameter::Constant);
        }
        "categorical" | "categorical_w_probabilities" => choices(name, values, probabilities, path, priors, found),
        "int_uniform"
        | "uniform"
        | "log_uniform"
        | "log_uniform_values"
        | "inv_log_uniform"
        | "inv_log_uniform_values"
        | "q_uniform"
        | "q_log_uniform"
        | "q_log_uniform_values" => {
            let (min, max) = (bound("min", bounds.0), bound("max", bounds.1));
            min.zip(max).and_then(|(min, max)| {
                let (scale, range) = scale_and_range(min, max);
                if kind.starts_with("inv_") {
                    let text = "has another density on UNIT_REVERSE_LOG_SCALE, the nearest scale";
                    found.loss(format!("{path}.distribution"), text);
                }
                if kind == "int_uniform" {
                    return Some(integer(name, range, scale));
                }
                let Some(suffix) = kind.strip_prefix("q_") else { return Some(double(name, range, scale)) };
                let q = step.unwrap_or(1.0);
                let first = if suffix == "uniform" { range.0 } else { (range.0 / q).ceil() * q };
                let Some(values) = steps(first, range.1, q) else {
                    let text = format!("gives no values, or more than {MAX_VALUES}; allowed: a larger q");
                    found.error(format!("{path}.q"), text);
                    return None;
                };
                Some(discrete(name, values, scale))
            })
        }
        other => {
            // What belongs to it.
            for name in ["mu", "sigma"] {
                fields.take(name);
            }
            found.error(
                format!("{path}.distribution"),
                format!("{other:?} has no counterpart: ranges here have bounds"),
            );
            None
        }
    };
    fields.end(found);
    spec.filter(|_| found.errors.len() == before).map(Parameter::Searched)
}

/// A parameter with `values`: numbers, or texts.
fn choices(
    name: &str,
    values: &[Value],
    probabilities: &[Value],
    path: &str,
    priors: &mut Vec<ParameterPrior>,
    found: &mut Findings,
) -> Option<ParameterSpec> {
    if values.is_empty() {
        found.error(format!("{path}.values"), "is required; allowed: at least one value");
        return None;
    }
    let texts: Option<Vec<String>> = values.iter().map(python).collect();
    let Some(texts) = texts else {
        found.error(format!("{path}.values"), "has lists or mappings; allowed: texts, numbers, truth values and null");
        return None;
    };
    if !probabilities.is_empty() {
        let weights: Vec<f64> = probabilities.iter().filter_map(number).collect();
        if weights.len() != values.len() {
            found.error(
                format!("{path}.probabilities"),
                format!("allowed: {} numbers, one for each value", values.len()),
            );
            return None;
        }
        let weights = texts.iter().cloned().zip(weights.into_iter().map(Double));
        let weights = weights.filter(|(_, weight)| weight.0 > 0.0).collect();
        priors.push(ParameterPrior { parameter: name.to_owned(), weights, ..ParameterPrior::default() });
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64().filter(|_| value.is_number())).collect();
    Some(match numbers {
        Some(numbers) => discrete(name, numbers, ScaleType::UnitLinearScale),
        None => categorical(name, texts),
    })
}

/// Reads `early_terminate`; whether trials are stopped early.
fn early_stopping(fields: &mut Fields<'_>, input: &mut TrainingInput, found: &mut Findings) -> bool {
    match fields.text("type", found) {
        None => return false,
        Some("hyperband") => {}
        Some(other) => found.error("early_terminate.type", format!("{other:?} is not known; allowed: hyperband")),
    }
    let eta = fields.count("eta", 2, found).unwrap_or(3);
    let min_iter = fields.count("min_iter", 1, found);
    let max_iter = fields.count("max_iter", 1, found);
    let brackets = fields.count("s", 1, found).unwrap_or(DEFAULT_BRACKETS);
    let first = min_iter.or_else(|| Some(max_iter? / eta.checked_pow(brackets.unsigned_abs())?));
    fields.lost(&["strict"], "has no counterpart: ASHA compares trials as they arrive", found);
    input.tunesmith.early_stopping = Some(StoppingRuleKind::Asha);
    input.tunesmith.early_stopping_settings = EarlyStoppingSettings {
        eta: u32::try_from(eta).ok(),
        min_resource: first.map(|first| Int64(first.max(1).into())),
        ..EarlyStoppingSettings::default()
    };
    found.note(
        "early_terminate: hyperband is ASHA here, with the same first rung and eta; a step is what the program reports",
    );
    true
}

/// Command of a trial. Without macros of arguments at its end, it names the parameters itself.
fn command_line(
    command: &[Value],
    program: &str,
    parameters: &BTreeMap<String, Parameter>,
    found: &mut Findings,
) -> Vec<String> {
    let default: Vec<Value> = COMMAND.map(Value::from).to_vec();
    let command = if command.is_empty() { &default } else { command };
    let constants = parameters.iter().filter_map(|(name, parameter)| match parameter {
        Parameter::Constant(value) => Some(format!("--{name}={value}")),
        Parameter::Searched(_) => None,
    });
    let value_of = |name: &str, parameter: &Parameter| match parameter {
        Parameter::Constant(value) => value.clone(),
        Parameter::Searched(_) => format!("{{parameters.{name}}}"),
    };
    let mut words = Vec::new();
    for (index, word) in command.iter().enumerate() {
        let path = format!("command[{index}]");
        let Some(word) = word.as_str() else {
            found.error(path, format!("{word} is not a text"));
            continue;
        };
        let is_last = index + 1 == command.len();
        match word {
            "${env}" => words.push("/usr/bin/env".to_owned()),
            "${interpreter}" => words.push("python3".to_owned()),
            "${program}" if program.is_empty() => found.error("program", "is required: the command names it"),
            "${program}" => words.push(program.to_owned()),
            // Searched parameters follow as flags.
            "${args}" if is_last => words.extend(constants.clone()),
            "${args}" => words.extend(parameters.iter().map(|(name, it)| format!("--{name}={}", value_of(name, it)))),
            "${args_no_hyphens}" => {
                words.extend(parameters.iter().map(|(name, it)| format!("{name}={}", value_of(name, it))));
            }
            "${args_json}" => words.push(json(parameters, &path, found)),
            "${args_no_boolean_flags}" if parameters.values().any(is_boolean) => {
                found.error(path, "has no counterpart with truth values among the parameters");
            }
            "${args_no_boolean_flags}" => {
                words.extend(parameters.iter().map(|(name, it)| format!("--{name}={}", value_of(name, it))));
            }
            other if other.contains("${") => {
                let allowed = "${env}, ${interpreter}, ${program}, ${args}, ${args_no_hyphens}, ${args_json}";
                found.error(path, format!("{other:?} has no counterpart; allowed: {allowed}"));
            }
            other => words.push(other.to_owned()),
        }
    }
    words
}

fn is_boolean(parameter: &Parameter) -> bool {
    let is_truth_value = |text: &str| matches!(text, "True" | "False");
    match parameter {
        Parameter::Constant(value) => is_truth_value(value),
        Parameter::Searched(spec) => spec.categorical_values.iter().any(|value| is_truth_value(value)),
    }
}

/// All parameters as one JSON argument.
fn json(parameters: &BTreeMap<String, Parameter>, path: &str, found: &mut Findings) -> String {
    let mut members = Vec::with_capacity(parameters.len());
    for (name, parameter) in parameters {
        let value = match parameter {
            Parameter::Constant(text) => literal(text),
            Parameter::Searched(spec) if spec.categorical_values.is_empty() => format!("{{parameters.{name}}}"),
            Parameter::Searched(spec) => {
                let is_plain = |text: &String| !text.contains(['"', '\\']) && literal(text).starts_with('"');
                if !spec.categorical_values.iter().all(is_plain) {
                    found.error(
                        path,
                        format!("the values of {name} cannot be inserted into JSON; allowed: plain texts"),
                    );
                }
                format!("\"{{parameters.{name}}}\"")
            }
        };
        members.push(format!("{}: {value}", Value::from(name.as_str())));
    }
    format!("{{{}}}", members.join(", "))
}

/// `text`, as Python prints a value, in JSON.
fn literal(text: &str) -> String {
    match text {
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        "None" => "null".to_owned(),
        _ if text.parse::<f64>().is_ok_and(f64::is_finite) => text.to_owned(),
        _ => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests;
