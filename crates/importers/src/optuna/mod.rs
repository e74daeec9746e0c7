//! Studies of Optuna: its journal files and SQLite databases, with their trials.

#[cfg(feature = "sqlite")]
mod database;
mod distribution;
mod journal;
mod space;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

#[cfg(feature = "sqlite")]
pub use database::{DatabaseError, database};
use distribution::Distribution;
pub use journal::journal;
use space::Space;

use crate::ImportedStudy;

/// A study of Optuna.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptunaStudy {
    pub name: String,
    /// Whether each objective is maximised.
    pub maximizes: Vec<bool>,
    /// Names of the objectives; empty if they have none.
    pub metric_names: Vec<String>,
    pub trials: Vec<OptunaTrial>,
}

/// State of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OptunaState {
    #[default]
    Running,
    Complete,
    Pruned,
    Failed,
    Waiting,
}

/// A trial of Optuna.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptunaTrial {
    pub state: OptunaState,
    /// Results by objective; they may be infinite.
    pub values: Vec<f64>,
    /// Value of each parameter as Optuna stores it, with its distribution. That of a category is its index.
    parameters: BTreeMap<String, (f64, Distribution)>,
    /// Intermediate values by step; they may be NaN or infinite.
    curve: BTreeMap<i64, f64>,
    /// Values of parameters that a waiting trial is to have, as JSON.
    fixed: Map<String, Value>,
    /// Reason of a failure, if one of ours is known.
    reason: Option<String>,
}

/// Attribute of a study with the names of its objectives.
const METRIC_NAMES: &str = "study:metric_names";
/// Attribute of an enqueued trial.
const FIXED: &str = "fixed_params";
/// Attribute that an export of Tunesmith gives to an infeasible trial.
const REASON: &str = "tunesmith:reason";

/// Converts `study`.
///
/// # Errors
/// Why it has no counterpart.
pub fn optuna(study: &OptunaStudy) -> Result<ImportedStudy, String> {
    let is_finished = |trial: &&OptunaTrial| !matches!(trial.state, OptunaState::Running | OptunaState::Waiting);
    let finished: Vec<&OptunaTrial> = study.trials.iter().filter(is_finished).collect();
    if study.maximizes.is_empty() {
        return Err(format!("study {:?} has no direction", study.name));
    }
    let (mut losses, mut notes) = (Vec::new(), Vec::new());
    let mut lose = |count: usize, text: &str| {
        if count > 0 {
            losses.push(format!("{count} trials {text}"));
        }
    };
    lose(study.trials.iter().filter(|trial| trial.state == OptunaState::Running).count(), "are running");
    let space = Space::of(&finished)?;
    let waiting = study.trials.iter().filter(|trial| trial.state == OptunaState::Waiting);
    let waiting: Vec<Option<Value>> = waiting.map(|trial| space.queued(&trial.fixed)).collect();
    let incomplete = waiting.iter().filter(|queued| queued.is_none()).count();
    lose(incomplete, "are waiting without a value for each parameter of the space");
    let Space { parameters, excluded, notes: of_space, .. } = space;
    notes.extend(of_space);
    losses.extend(excluded.iter().map(|(name, count)| {
        format!("{count} trials have no value of {name}, and no other parameter tells when it is absent")
    }));
    let metrics = metric_names(study);
    let config = json!({
        "metrics": metrics.iter().zip(&study.maximizes).map(|(name, maximizes)| {
            json!({"metric": name, "goal": if *maximizes { "MAXIMIZE" } else { "MINIMIZE" }})
        }).collect::<Vec<_>>(),
        "parameters": parameters,
        "tunesmith": {"displayName": study.name},
    });
    let config = serde_json::from_value(config).map_err(|error| format!("study {:?}: {error}", study.name))?;
    let has_all = |trial: &&&OptunaTrial| excluded.keys().all(|name| trial.parameters.contains_key(name));
    let trials = finished.iter().filter(has_all).map(|trial| request(trial, &metrics));
    let trials = trials.chain(waiting.into_iter().flatten()).collect();
    Ok(ImportedStudy { config, trials, losses, notes })
}

fn metric_names(study: &OptunaStudy) -> Vec<String> {
    let count = study.maximizes.len();
    if study.metric_names.len() == count {
        return study.metric_names.clone();
    }
    match count {
        1 => vec!["value".to_owned()],
        _ => (0..count).map(|index| format!("value_{index}")).collect(),
    }
}

/// Body of the request that creates the finished `trial`.
fn request(trial: &OptunaTrial, metrics: &[String]) -> Value {
    let parameters = trial.parameters.iter().map(|(name, (value, distribution))| distribution.parameter(name, *value));
    let is_pruned = trial.state == OptunaState::Pruned;
    // Optuna has intermediate values for studies of one objective only.
    let metric = metrics.first().map_or("", String::as_str);
    let curve = trial.curve.iter().map(|(step, value)| {
        json!({"stepCount": step.to_string(), "metrics": [{"metric": metric, "value": json_number(*value)}]})
    });
    let mut body = json!({"parameters": parameters.collect::<Vec<_>>(), "measurements": curve.collect::<Vec<_>>()});
    if is_pruned {
        body["tunesmith"] = json!({"stoppedEarly": true});
    }
    let last = trial.curve.last_key_value();
    let values = match (is_pruned && trial.values.is_empty(), last) {
        (true, Some((_, last))) => vec![*last],
        _ => trial.values.clone(),
    };
    let has_result = trial.state != OptunaState::Failed
        && values.len() == metrics.len()
        && values.iter().all(|value| value.is_finite());
    if has_result {
        let values = metrics.iter().zip(&values).map(|(metric, value)| json!({"metric": metric, "value": value}));
        let step = last.map_or(0, |(step, _)| *step).to_string();
        body["finalMeasurement"] = json!({"stepCount": step, "metrics": values.collect::<Vec<_>>()});
    } else {
        let reason = match trial.state {
            OptunaState::Failed => "failed in Optuna",
            OptunaState::Pruned => "was pruned without a finite value",
            _ => "has no finite result",
        };
        body["trialInfeasible"] = true.into();
        body["infeasibleReason"] = trial.reason.as_deref().unwrap_or(reason).into();
    }
    body
}

/// `value`, whose name is a text if JSON has no number for it.
fn json_number(value: f64) -> Value {
    if value.is_finite() {
        return json!(value);
    }
    let name = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    json!(name)
}

/// A number that JSON of Python may have as a name: `NaN`, `Infinity`.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}
