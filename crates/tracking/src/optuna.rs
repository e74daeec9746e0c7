//! Studies as journal files of Optuna, which its `JournalStorage` opens.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tunesmith_algorithms::problem::{Goal, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType};
use tunesmith_domain::{Measurement, RankedTrial, StudyId, Trial, TrialState};
use tunesmith_store::{Store, StoreError, pages};

/// Name of the writer in the journal.
const WORKER: &str = "tunesmith";
/// Attribute of Optuna's trials with the values of constraints: at most 0 if they hold.
const CONSTRAINTS: &str = "constraints";
const PAGE: usize = 500;

/// Counts of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalSummary {
    pub trials: usize,
    /// Reports without a finite value, which are left out.
    pub left_out: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the journal cannot be written")]
    Write(#[from] io::Error),
}

/// Writes the study `id` as a journal of one study with the name `name`. Trials are in the order of their numbers, without
/// deleted ones. The curve of a trial is that of the first metric.
///
/// # Errors
/// [`JournalError`].
pub async fn optuna_journal(
    store: &dyn Store,
    id: &StudyId,
    name: &str,
    output: &mut (dyn Write + Send),
) -> Result<JournalSummary, JournalError> {
    let study = store.study(id).await?;
    let problem = &study.problem;
    let directions: Vec<u8> = problem.metrics().iter().map(|metric| direction(metric.goal)).collect();
    let metrics: Vec<&str> = problem.metrics().iter().map(|metric| metric.name.as_str()).collect();
    let mut line = |operation: Value| writeln!(output, "{operation}");
    line(json!({"op_code": 0, "worker_id": WORKER, "study_name": name, "directions": directions}))?;
    let names = json!({"study:metric_names": metrics});
    line(json!({"op_code": 3, "worker_id": WORKER, "study_id": 0, "system_attr": names}))?;
    let mut summary = JournalSummary::default();
    let mut after = None;
    loop {
        let trials = store.trials(id, after, PAGE).await?;
        for trial in trials.iter().filter(|trial| trial.state != TrialState::Deleted) {
            let measurements = pages::curve(store, id, trial).await?;
            line(created(problem, trial, &measurements, &mut summary))?;
            summary.trials += 1;
        }
        after = trials.last().map(|trial| trial.id);
        if trials.len() < PAGE {
            return Ok(summary);
        }
    }
}

/// Operation that creates `trial`.
fn created(
    problem: &ProblemStatement,
    trial: &Trial,
    measurements: &[Measurement],
    summary: &mut JournalSummary,
) -> Value {
    let state = match trial.state {
        TrialState::Active | TrialState::Stopping => 0,
        TrialState::Succeeded if trial.stopped_early => 2,
        TrialState::Succeeded => 1,
        TrialState::Infeasible if trial.stopped_early => 2,
        TrialState::Infeasible | TrialState::Deleted => 3,
        TrialState::Requested => 4,
    };
    let metrics = problem.metrics();
    let values: Option<Vec<f64>> = metrics.iter().map(|metric| trial.value(&metric.name)).collect();
    let values = values.filter(|values| trial.state == TrialState::Succeeded && !values.is_empty());
    let (value, values) = match values.as_deref() {
        Some([value]) => (json!(value), Value::Null),
        values => (Value::Null, json!(values)),
    };
    let mut curve: BTreeMap<i64, f64> = BTreeMap::new();
    let reported = measurements.iter().filter_map(|report| Some((report.step, report.value(&metrics.first()?.name)?)));
    for (step, value) in reported {
        // JSON has no other numbers.
        if value.is_finite() {
            curve.insert(step, value);
        } else {
            summary.left_out += 1;
        }
    }
    let (mut distributions, mut parameters, mut fixed) = (Map::new(), Map::new(), Map::new());
    for spec in problem.search_space().parameters() {
        let Some(value) = trial.parameters.get(spec.name()) else { continue };
        if state == 4 {
            fixed.insert(spec.name().to_owned(), external(value));
            continue;
        }
        let Some(internal) = internal(spec, value) else { continue };
        distributions.insert(spec.name().to_owned(), distribution(spec).to_string().into());
        parameters.insert(spec.name().to_owned(), internal);
    }
    let mut system = Map::new();
    if !fixed.is_empty() {
        system.insert("fixed_params".to_owned(), Value::Object(fixed));
    }
    let limits = problem.constraints().iter();
    let limits: Option<Vec<f64>> =
        limits.map(|limit| trial.value(&limit.name).map(|value| -limit.slack(value))).collect();
    if let Some(limits) = limits.filter(|limits| !limits.is_empty() && limits.iter().all(|limit| limit.is_finite())) {
        system.insert(CONSTRAINTS.to_owned(), json!(limits));
    }
    let mut user = Map::from_iter([("tunesmith:trial".to_owned(), json!(trial.id.0))]);
    if let Some(reason) = &trial.infeasible_reason {
        user.insert("tunesmith:reason".to_owned(), json!(reason));
    }
    if let Some(note) = trial.note() {
        user.insert("tunesmith:note".to_owned(), json!(note.text));
    }
    let start = trial.start_time.unwrap_or(trial.create_time);
    let mut operation = json!({
        "op_code": 4, "worker_id": WORKER, "study_id": 0, "state": state, "value": value, "values": values,
        "datetime_start": if state == 4 { Value::Null } else { time(start) },
        "distributions": distributions, "params": parameters, "user_attrs": user, "system_attrs": system,
        "intermediate_values": curve.into_iter().map(|(step, value)| (step.to_string(), json!(value))).collect::<Map<_, _>>(),
    });
    if (1..=3).contains(&state) {
        operation["datetime_complete"] = time(trial.end_time.unwrap_or(start));
    }
    operation
}

/// Time with an offset, as Python's `datetime.fromisoformat` reads it.
fn time(time: Timestamp) -> Value {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string().into()
}

fn direction(goal: Goal) -> u8 {
    match goal {
        Goal::Minimize => 1,
        Goal::Maximize => 2,
    }
}

fn distribution(spec: &ParameterSpec) -> Value {
    let range = |name: &str, attributes: Value| json!({"name": name, "attributes": attributes});
    match spec.kind() {
        ParameterKind::Double { min, max, scale } => {
            let log = is_log(*scale);
            range("FloatDistribution", json!({"low": min, "high": max, "log": log, "step": null}))
        }
        ParameterKind::Integer { min, max, scale } => {
            range("IntDistribution", json!({"low": min, "high": max, "log": is_log(*scale), "step": 1}))
        }
        ParameterKind::Discrete { values, .. } => range("CategoricalDistribution", json!({"choices": values})),
        ParameterKind::Categorical { values } => range("CategoricalDistribution", json!({"choices": values})),
    }
}

fn is_log(scale: ScaleType) -> bool {
    matches!(scale, ScaleType::UnitLog)
}

/// Value as Optuna stores it: the index of a choice; `None` for one that is not in the space.
fn internal(spec: &ParameterSpec, value: &ParameterValue) -> Option<Value> {
    match (spec.kind(), value) {
        (ParameterKind::Discrete { values, .. }, ParameterValue::Discrete(value)) => {
            values.iter().position(|choice| choice == value).map(|index| json!(index))
        }
        (ParameterKind::Categorical { values }, ParameterValue::Categorical(value)) => {
            values.iter().position(|choice| choice == value).map(|index| json!(index))
        }
        (_, value) => Some(external(value)),
    }
}

fn external(value: &ParameterValue) -> Value {
    match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => json!(value),
        ParameterValue::Integer(value) => json!(value),
        ParameterValue::Categorical(value) => json!(value),
    }
}
