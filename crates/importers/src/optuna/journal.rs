//! Journal files of Optuna: one operation a line.

use serde_json::{Map, Value};

use super::distribution::Distribution;
use super::{FIXED, METRIC_NAMES, OptunaState, OptunaStudy, OptunaTrial, REASON, number};

/// Replays a journal: its studies, without deleted ones. As Optuna does, it skips what breaks a rule, and an unfinished last
/// line.
pub fn journal(text: &str) -> Vec<OptunaStudy> {
    let mut replay = Replay::default();
    let is_whole = text.ends_with('\n');
    let count = text.lines().count();
    for (index, line) in text.lines().enumerate() {
        if (index + 1 < count || is_whole)
            && let Ok(Value::Object(operation)) = serde_json::from_str(&with_quoted_names(line))
        {
            // An operation that breaks a rule has no effect.
            let _ = replay.apply(&operation);
        }
    }
    replay.studies.into_iter().flatten().collect()
}

#[derive(Default)]
struct Replay {
    /// By ID; `None` for a deleted one.
    studies: Vec<Option<OptunaStudy>>,
    /// Study and index of each trial, by ID.
    trials: Vec<(usize, usize)>,
}

impl Replay {
    fn apply(&mut self, operation: &Map<String, Value>) -> Option<()> {
        match operation.get("op_code")?.as_u64()? {
            0 => {
                let name = operation.get("study_name")?.as_str()?.to_owned();
                let directions = operation.get("directions")?.as_array()?;
                let maximizes = directions.iter().map(|direction| direction.as_u64() == Some(2)).collect();
                if self.studies.iter().flatten().any(|study| study.name == name) {
                    return None;
                }
                self.studies.push(Some(OptunaStudy { name, maximizes, ..OptunaStudy::default() }));
            }
            1 => *self.studies.get_mut(id(operation, "study_id")?)? = None,
            3 => {
                let names = operation.get("system_attr")?.get(METRIC_NAMES)?.as_array()?;
                let names = names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
                self.studies.get_mut(id(operation, "study_id")?)?.as_mut()?.metric_names = names;
            }
            4 => {
                let study = id(operation, "study_id")?;
                let trials = &mut self.studies.get_mut(study)?.as_mut()?.trials;
                trials.push(template(operation));
                self.trials.push((study, trials.len() - 1));
            }
            5 => {
                let trial = self.unfinished(operation)?;
                let name = operation.get("param_name")?.as_str()?.to_owned();
                let distribution = Distribution::parse(operation.get("distribution")?.as_str()?)?;
                trial.parameters.insert(name, (number(operation.get("param_value_internal")?)?, distribution));
            }
            6 => {
                let state = state(operation.get("state")?.as_u64()?)?;
                let values = values(operation.get("values"));
                let trial = self.unfinished(operation)?;
                trial.state = state;
                if !values.is_empty() {
                    trial.values = values;
                }
            }
            7 => {
                let (step, value) = (operation.get("step")?.as_i64()?, number(operation.get("intermediate_value")?)?);
                self.unfinished(operation)?.curve.insert(step, value);
            }
            8 => attributes(self.unfinished(operation)?, operation.get("user_attr")),
            9 => attributes(self.unfinished(operation)?, operation.get("system_attr")),
            _ => {}
        }
        Some(())
    }

    fn unfinished(&mut self, operation: &Map<String, Value>) -> Option<&mut OptunaTrial> {
        let (study, index) = *self.trials.get(id(operation, "trial_id")?)?;
        let trial = self.studies.get_mut(study)?.as_mut()?.trials.get_mut(index)?;
        matches!(trial.state, OptunaState::Running | OptunaState::Waiting).then_some(trial)
    }
}

fn id(operation: &Map<String, Value>, name: &str) -> Option<usize> {
    usize::try_from(operation.get(name)?.as_u64()?).ok()
}

pub(super) fn state(number: u64) -> Option<OptunaState> {
    let states =
        [OptunaState::Running, OptunaState::Complete, OptunaState::Pruned, OptunaState::Failed, OptunaState::Waiting];
    states.get(usize::try_from(number).ok()?).copied()
}

fn values(given: Option<&Value>) -> Vec<f64> {
    given.and_then(Value::as_array).map(|values| values.iter().filter_map(number).collect()).unwrap_or_default()
}

/// The trial that an operation creates: running, or as in its template.
fn template(operation: &Map<String, Value>) -> OptunaTrial {
    let mut trial = OptunaTrial {
        state: operation.get("state").and_then(Value::as_u64).and_then(state).unwrap_or_default(),
        values: values(operation.get("values")),
        ..OptunaTrial::default()
    };
    if let (true, Some(value)) = (trial.values.is_empty(), operation.get("value").and_then(number)) {
        trial.values = vec![value];
    }
    let object = |name: &str| operation.get(name).and_then(Value::as_object);
    for (name, text) in object("distributions").into_iter().flatten() {
        let distribution = text.as_str().and_then(Distribution::parse);
        let stored = object("params").and_then(|params| params.get(name)).and_then(number);
        trial.parameters.extend(stored.zip(distribution).map(|parameter| (name.clone(), parameter)));
    }
    let points = object("intermediate_values").into_iter().flatten();
    trial.curve = points.filter_map(|(step, value)| Some((step.parse().ok()?, number(value)?))).collect();
    attributes(&mut trial, operation.get("user_attrs"));
    attributes(&mut trial, operation.get("system_attrs"));
    trial
}

/// Sets what is known of the attributes `given`.
fn attributes(trial: &mut OptunaTrial, given: Option<&Value>) {
    if let Some(fixed) = given.and_then(|given| given.get(FIXED)?.as_object()) {
        trial.fixed.clone_from(fixed);
    }
    if let Some(reason) = given.and_then(|given| given.get(REASON)?.as_str()) {
        trial.reason = Some(reason.to_owned());
    }
}

/// `line` with the names of numbers that Python writes bare, in quotes.
fn with_quoted_names(line: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(line.len()), line);
    let mut is_in_text = false;
    while let Some(first) = rest.chars().next() {
        let name = ["-Infinity", "Infinity", "NaN"].into_iter().find(|name| !is_in_text && rest.starts_with(name));
        if let Some(name) = name {
            text.push_str(&format!("\"{name}\""));
            rest = &rest[name.len()..];
            continue;
        }
        // An escaped character, which may be a quote, stays with its backslash.
        let length = if is_in_text && first == '\\' {
            1 + rest[1..].chars().next().map_or(0, char::len_utf8)
        } else {
            is_in_text ^= first == '"';
            first.len_utf8()
        };
        text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    text
}
