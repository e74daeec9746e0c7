//! Studies of OSS Vizier, in the databases of its service, and of Vertex AI, in descriptions that its clients write.

#[cfg(feature = "sqlite")]
mod database;
mod description;
mod message;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use tunesmith_algorithms::problem::SearchSpace;
use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::optimizer::{
    MeasurementMessage, PublishedNames, StudyConfig, TrialParameter, study_plan,
};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_vizier::messages::oss;
use tunesmith_vizier::messages::vertex::trial::State;
use tunesmith_vizier::messages::vertex::{Measurement, Trial};
use tunesmith_vizier::vertex::{point, violations_of_spec};

use crate::ImportedStudy;

#[cfg(feature = "sqlite")]
pub use database::{DatabaseError, database};
pub use description::description;
pub use message::message;

/// A study of OSS Vizier with its trials, in the order of their numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VizierStudy {
    pub study: oss::Study,
    pub trials: Vec<oss::Trial>,
}

impl VizierStudy {
    /// Name for people, which is unique in a database: `owners/OWNER/studies/STUDY`.
    pub fn name(&self) -> &str {
        &self.study.name
    }

    /// Converts the study.
    ///
    /// # Errors
    /// Why it has no counterpart.
    pub fn convert(&self) -> Result<ImportedStudy, String> {
        let spec = self.study.study_spec.clone().unwrap_or_default();
        let texts = |found: Vec<FieldViolation>| {
            let texts = found.into_iter().map(|violation| format!("{}: {}", violation.field, violation.description));
            texts.collect::<Vec<_>>().join("; ")
        };
        let (mut config, notices) = tunesmith_vizier::oss::study_config(&spec).map_err(texts)?;
        config.tunesmith.display_name = match self.study.display_name.as_str() {
            "" => self.name().to_owned(),
            name => name.to_owned(),
        };
        let vertex = |trial: &oss::Trial| Trial {
            id: trial.id.clone(),
            state: trial.state,
            parameters: trial.parameters.clone(),
            final_measurement: trial.final_measurement.clone(),
            measurements: trial.measurements.clone(),
            infeasible_reason: trial.infeasible_reason.clone(),
            ..Trial::default()
        };
        let trials: Vec<Trial> = self.trials.iter().map(vertex).collect();
        let mut imported = imported(config, notices, &trials).map_err(|found| texts(violations_of_spec(found)))?;
        let with_metadata = self.trials.iter().filter(|trial| !trial.metadata.is_empty()).count();
        if with_metadata > 0 || !spec.metadata.is_empty() {
            let of_study = spec.metadata.len();
            imported.notes.push(format!(
                "metadata is left out: {of_study} entries of the study, and those of {with_metadata} trials"
            ));
        }
        Ok(imported)
    }
}

/// Content left out, by kind.
#[derive(Debug, Default)]
struct Losses {
    running: usize,
    /// Trials outside the search space, with the reason of the first one.
    outside: Option<(usize, String)>,
    /// Measurements without a metric, with others than the study's, or with a negative step.
    measurements: usize,
}

impl Losses {
    fn texts(self) -> Vec<String> {
        let count = |count: usize, text: &str| (count > 0).then(|| format!("{count} {text}"));
        let outside =
            self.outside.map(|(count, first)| format!("{count} trials are outside the search space: {first}"));
        let measurements = "measurements have no metric, one that the study has not, or a negative step";
        let found = [count(self.running, "trials are running"), outside, count(self.measurements, measurements)];
        found.into_iter().flatten().collect()
    }
}

/// A study with the specification `config`.
///
/// # Errors
/// The violated rules of a `StudyConfig`.
fn imported(config: StudyConfig, notices: Vec<Notice>, trials: &[Trial]) -> Result<ImportedStudy, Vec<FieldViolation>> {
    let plan = study_plan(&config)?;
    let problem = &plan.spec.problem;
    let metrics: Vec<&str> = problem.value_names().collect();
    let (mut losses, mut bodies) = (Losses::default(), Vec::with_capacity(trials.len()));
    for trial in trials {
        let state = State::try_from(trial.state).unwrap_or_default();
        if matches!(state, State::Active | State::Stopping | State::Unspecified) {
            losses.running += 1;
            continue;
        }
        match parameters(problem.search_space(), trial) {
            Ok(parameters) => bodies.push(body(trial, state, &parameters, &metrics, &mut losses)),
            Err(reason) => losses.outside.get_or_insert((0, format!("trial {}: {reason}", trial.id))).0 += 1,
        }
    }
    let notices = notices.into_iter().chain(plan.notices);
    Ok(ImportedStudy {
        trials: bodies,
        losses: losses.texts(),
        notes: notices.map(|notice| format!("{}: {}", notice.field, notice.description)).collect(),
        config,
    })
}

/// Parameters of `trial` with their published names.
fn parameters(space: &SearchSpace, trial: &Trial) -> Result<Vec<TrialParameter>, String> {
    let values = point(space, &trial.parameters)
        .map_err(|violation| format!("{}: {}", violation.field, violation.description))?;
    space.check(&values).map_err(|error| error.to_string())?;
    let names = PublishedNames::of(space);
    Ok(values.iter().map(|(name, value)| TrialParameter::new(names.published(name), value)).collect())
}

/// Body of the request that creates `trial`.
fn body(trial: &Trial, state: State, parameters: &[TrialParameter], metrics: &[&str], losses: &mut Losses) -> Value {
    if state == State::Requested {
        return json!({ "parameters": parameters });
    }
    let read = |message: &Measurement| {
        let read = tunesmith_vizier::measurement(message.clone(), "").ok()?;
        let message = MeasurementMessage::from(&read);
        message.metrics.iter().all(|metric| metrics.contains(&metric.metric.as_str())).then_some(message)
    };
    let curve: Vec<_> = trial.measurements.iter().filter_map(read).collect();
    losses.measurements += trial.measurements.len() - curve.len();
    let mut body = json!({ "parameters": parameters, "measurements": curve });
    let is_complete = |measurement: &MeasurementMessage| {
        let value = |name: &str| measurement.metrics.iter().find(|metric| metric.metric == name);
        metrics.iter().all(|name| value(name).is_some_and(|metric| metric.value.0.is_finite()))
    };
    match trial.final_measurement.as_ref().and_then(read).filter(is_complete) {
        Some(result) if state == State::Succeeded => body["finalMeasurement"] = json!(result),
        _ => {
            let reason = match (state, trial.infeasible_reason.as_str()) {
                (State::Infeasible, "") => "infeasible in Vizier",
                (State::Infeasible, reason) => reason,
                _ => "has no finite result",
            };
            body["trialInfeasible"] = true.into();
            body["infeasibleReason"] = reason.into();
        }
    }
    body
}
