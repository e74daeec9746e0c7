//! Studies of Optuna: its journal files and SQLite databases, with their trials.

#[cfg(feature = "sqlite")]
mod database;
mod distribution;
mod journal;
mod space;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tunesmith_api::ai_platform::optimizer::StudyConfig;

#[cfg(feature = "sqlite")]
pub use database::{DatabaseError, database};
use distribution::Distribution;
pub use journal::journal;
use space::Space;

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
    /// Step of the last intermediate value.
    last_step: Option<i64>,
}

/// A study with trials, for the API of studies.
#[derive(Debug)]
pub struct ImportedStudy {
    pub config: StudyConfig,
    /// Bodies of requests that create the trials.
    pub trials: Vec<Value>,
    /// Kinds of content left out, each with its count.
    pub losses: Vec<String>,
    pub notes: Vec<String>,
}

/// Converts `study`.
///
/// # Errors
/// Why it has no counterpart.
pub fn optuna(study: &OptunaStudy) -> Result<ImportedStudy, String> {
    let finished =
        study.trials.iter().filter(|trial| matches!(trial.state, OptunaState::Complete | OptunaState::Failed));
    let finished: Vec<&OptunaTrial> = finished.collect();
    if study.maximizes.is_empty() {
        return Err(format!("study {:?} has no direction", study.name));
    }
    let (mut losses, mut notes) = (Vec::new(), Vec::new());
    let mut note_count = |state: OptunaState, text: &str| {
        let count = study.trials.iter().filter(|trial| trial.state == state).count();
        if count > 0 {
            losses.push(format!("{count} trials {text}"));
        }
    };
    note_count(OptunaState::Pruned, "were pruned, and have no result");
    note_count(OptunaState::Running, "are running");
    note_count(OptunaState::Waiting, "are waiting");
    let Space { parameters, excluded, notes: of_space } = Space::of(&finished)?;
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
    let trials = finished.iter().filter(has_all).map(|trial| request(trial, &metrics)).collect();
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

/// Body of the request that creates `trial`.
fn request(trial: &OptunaTrial, metrics: &[String]) -> Value {
    let parameters = trial.parameters.iter().map(|(name, (value, distribution))| distribution.parameter(name, *value));
    let parameters: Vec<Value> = parameters.collect();
    let is_measured = trial.state == OptunaState::Complete
        && trial.values.len() == metrics.len()
        && trial.values.iter().all(|value| value.is_finite());
    if !is_measured {
        let reason = if trial.state == OptunaState::Failed { "failed in Optuna" } else { "has no finite result" };
        return json!({"parameters": parameters, "trialInfeasible": true, "infeasibleReason": reason});
    }
    let values: Vec<Value> =
        metrics.iter().zip(&trial.values).map(|(metric, value)| json!({"metric": metric, "value": value})).collect();
    let step = trial.last_step.unwrap_or(0).max(0).to_string();
    json!({"parameters": parameters, "finalMeasurement": {"stepCount": step, "metrics": values}})
}

/// A number that JSON of Python may have as a name: `NaN`, `Infinity`.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}
