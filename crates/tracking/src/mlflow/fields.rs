//! Tags, parameters and states of the runs of jobs and trials.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{Goal, ParameterKind, ParameterSpec};
use tunesmith_domain::{Study, Trial, TrialState};

use super::messages::{Entry, RunStatus};
use super::names::{MAX_PARAMETER, MAX_TAG, Names, within};
use crate::{Outcome, Subject};

/// Tag with the parent of a run, as defined by MLflow.
pub(super) const PARENT_TAG: &str = "mlflow.parentRunId";
/// Tag that identifies the job or study of a parent run.
pub(super) const KEY_TAG: &str = "tunesmith.key";
/// Tag with the number of a trial.
pub(super) const TRIAL_TAG: &str = "tunesmith.trial";
/// Tag of a child with the key of its subject, whichever run is its parent.
pub(super) const PARENT_KEY_TAG: &str = "tunesmith.parentKey";
/// Tags of the best trial, and of the one that a model recommends.
pub(super) const BEST_TAG: &str = "tunesmith.best";
pub(super) const RECOMMENDED_TAG: &str = "tunesmith.recommended";

pub(super) fn entry(key: impl Into<String>, value: impl AsRef<str>) -> Entry {
    Entry { key: key.into(), value: within(value.as_ref(), MAX_TAG) }
}

/// Milliseconds since 1970.
pub(super) fn milliseconds(time: Timestamp) -> i64 {
    time.as_millisecond()
}

/// Tags that the run of a subject is created with.
pub(super) fn identity(subject: &Subject) -> Vec<Entry> {
    vec![
        entry("mlflow.runName", &subject.name),
        entry("mlflow.source.name", &subject.id),
        entry("mlflow.source.type", "JOB"),
        entry(format!("tunesmith.{}", subject.kind.as_str()), &subject.id),
        entry(KEY_TAG, subject.key()),
    ]
}

/// Tags of a subject that change.
pub(super) fn state(subject: &Subject, study: Option<&Study>, names: &Names) -> Vec<Entry> {
    let mut tags = vec![entry("tunesmith.state", &subject.state)];
    tags.extend((!subject.reason.is_empty()).then(|| entry("tunesmith.reason", &subject.reason)));
    tags.extend(subject.max_trials.map(|count| entry("tunesmith.maxTrials", count.to_string())));
    tags.extend(subject.labels.iter().map(|(key, value)| entry(format!("tunesmith.label.{key}"), value)));
    if let Some(study) = study
        && !study.state_reason.is_empty()
    {
        tags.push(entry("tunesmith.studyReason", &study.state_reason));
    }
    let renamed = names.renamed();
    tags.extend((!renamed.is_empty()).then(|| entry("tunesmith.renamed", renamed)));
    tags
}

/// Parameters of a subject: what is searched, and how.
pub(super) fn definition(study: &Study, names: &Names) -> Vec<Entry> {
    let problem = &study.problem;
    let mut params = vec![
        Entry { key: "algorithm".to_owned(), value: study.algorithm.as_str().to_owned() },
        Entry { key: "seed".to_owned(), value: study.seed.to_string() },
    ];
    for metric in problem.metrics() {
        let goal = match metric.goal {
            Goal::Maximize => "MAXIMIZE",
            Goal::Minimize => "MINIMIZE",
        };
        params.push(Entry { key: format!("goal.{}", names.key(&metric.name)), value: goal.to_owned() });
    }
    for constraint in problem.constraints() {
        let sign = match constraint.goal {
            Goal::Maximize => ">=",
            Goal::Minimize => "<=",
        };
        let value = format!("{sign} {}", constraint.threshold);
        params.push(Entry { key: format!("constraint.{}", names.key(&constraint.name)), value });
    }
    let mut space: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for parameter in problem.search_space().parameters() {
        let key = format!("space.{}", names.key(parameter.name()));
        space.entry(key).or_default().push(space_text(parameter));
    }
    let space = space.into_iter();
    params.extend(space.map(|(key, texts)| Entry { key, value: within(&texts.join(" | "), MAX_PARAMETER) }));
    params
}

/// Values and condition of a parameter.
fn space_text(parameter: &ParameterSpec) -> String {
    let mut text = match parameter.kind() {
        ParameterKind::Double { min, max, scale } => format!("DOUBLE {min} to {max}, {scale}"),
        ParameterKind::Integer { min, max, scale } => format!("INTEGER {min} to {max}, {scale}"),
        ParameterKind::Discrete { values, .. } => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("DISCRETE {}", values.join(", "))
        }
        ParameterKind::Categorical { values } => format!("CATEGORICAL {}", values.join(", ")),
    };
    if let Some(condition) = parameter.condition() {
        let values: Vec<String> = condition.values().iter().map(ToString::to_string).collect();
        // Writing to a text cannot fail.
        let _ = write!(text, "; only if {} is {}", condition.parent(), values.join(" or "));
    }
    text
}

/// State of the run of a subject.
pub(super) fn subject_status(subject: &Subject) -> RunStatus {
    match (subject.outcome, subject.state.as_str()) {
        (Some(Outcome::Succeeded), _) => RunStatus::Finished,
        (Some(Outcome::Failed), _) => RunStatus::Failed,
        (Some(Outcome::Cancelled), _) => RunStatus::Killed,
        (None, "QUEUED") => RunStatus::Scheduled,
        (None, _) => RunStatus::Running,
    }
}

/// State of the run of `trial`.
pub(super) fn trial_status(subject: &Subject, trial: &Trial) -> RunStatus {
    match trial.state {
        TrialState::Requested => RunStatus::Scheduled,
        TrialState::Active | TrialState::Stopping => RunStatus::Running,
        TrialState::Succeeded => RunStatus::Finished,
        TrialState::Infeasible if trial.stopped_early => RunStatus::Finished,
        TrialState::Infeasible if subject.is_cancelled && is_of_cancellation(trial) => RunStatus::Killed,
        TrialState::Infeasible => RunStatus::Failed,
        TrialState::Deleted => RunStatus::Killed,
    }
}

/// Whether the trial ended with its job, not by itself.
fn is_of_cancellation(trial: &Trial) -> bool {
    trial.infeasible_reason.as_deref().is_some_and(|reason| reason.starts_with("stopped, because"))
}

/// Tags that the run of a trial is created with.
pub(super) fn trial_identity(subject: &Subject, trial: &Trial, parent: &str) -> Vec<Entry> {
    vec![
        entry(PARENT_TAG, parent),
        entry(PARENT_KEY_TAG, subject.key()),
        entry("mlflow.runName", trial_run_name(trial)),
        entry("mlflow.source.name", &subject.id),
        entry("mlflow.source.type", "JOB"),
        entry(format!("tunesmith.{}", subject.kind.as_str()), &subject.id),
        entry(TRIAL_TAG, trial.id.to_string()),
    ]
}

pub(super) fn trial_run_name(trial: &Trial) -> String {
    format!("trial {}", trial.id)
}

/// Tags of a trial that change.
pub(super) fn trial_state(study: &Study, trial: &Trial, names: &Names) -> Vec<Entry> {
    let mut tags = vec![
        entry("tunesmith.state", trial.state.as_str()),
        entry("tunesmith.attempt", trial.attempt.to_string()),
        entry("tunesmith.parameters", parameters_text(trial, names)),
    ];
    tags.extend(trial.origin.map(|origin| entry("tunesmith.origin", origin.to_string())));
    tags.extend((!trial.client_id.is_empty()).then(|| entry("tunesmith.clientId", &trial.client_id)));
    tags.extend(trial.infeasible_reason.as_ref().map(|reason| entry("tunesmith.reason", reason)));
    // The description of a run.
    tags.extend(trial.last_note.as_ref().map(|note| entry("mlflow.note.content", &note.text)));
    tags.extend(trial.stopped_early.then(|| entry("tunesmith.stoppedEarly", "true")));
    let violated: Vec<&str> = study.violated(trial).map(|constraint| constraint.name.as_str()).collect();
    tags.extend((!violated.is_empty()).then(|| entry("tunesmith.violatedConstraints", violated.join(", "))));
    tags
}

/// Parameters of a trial in one line.
fn parameters_text(trial: &Trial, names: &Names) -> String {
    let values = trial.parameters.iter().map(|(name, value)| format!("{}={value}", names.key(name)));
    values.collect::<Vec<_>>().join(" ")
}

/// Parameters of a trial, with the text that its program got.
pub(super) fn trial_parameters(trial: &Trial, names: &Names) -> Vec<Entry> {
    let values = trial.parameters.iter();
    values
        .map(|(name, value)| Entry { key: names.key(name), value: within(&value.to_string(), MAX_PARAMETER) })
        .collect()
}
