//! OptimizationJobs of Kubeflow (`trainer.kubeflow.org/v1alpha1`), as KEP-3562 specifies them.

use serde_json::Value;
use tunesmith_api::ai_platform::{Algorithm, GoalType, HyperparameterSpec, ParameterSpec, ScaleType, TrainingInput};
use tunesmith_config::{ConfigErrors, Document};

use crate::reading::{Fields, Findings, categorical, double, integer};
use crate::{Imported, Options, container};

/// Group, version and kind of the resource.
const KIND: (&str, &str) = ("trainer.kubeflow.org/v1alpha1", "OptimizationJob");

/// Converts an OptimizationJob.
///
/// # Errors
/// All fields that cannot be mapped.
pub fn optimization_job(document: &Document, options: Options) -> Result<Imported, ConfigErrors> {
    let value = document.value();
    let mut found = Findings::default();
    let mut resource = Fields::of(&value, "", &mut found);
    let version = resource.text("apiVersion", &mut found).unwrap_or_default();
    let kind = resource.text("kind", &mut found).unwrap_or_default();
    if (version, kind) != KIND {
        found.error("kind", format!("{version} {kind} is not known; allowed: {} of {}", KIND.1, KIND.0));
    }
    resource.noted(&["metadata"], &mut found);
    resource.take("status");
    let mut spec = resource.fields("spec", &mut found);
    resource.end(&mut found);
    let mut input = TrainingInput::default();
    let mut search = HyperparameterSpec::default();
    objective(&mut spec, &mut search, &mut found);
    algorithm(&mut spec, &mut search, &mut input, &mut found);
    let trials = spec.count("numTrials", 1, &mut found);
    search.max_trials = options.max_trials.and_then(|count| i32::try_from(count).ok()).or(trials);
    if search.max_trials.is_none() {
        found.error("spec.numTrials", "is missing, and a job has a number of trials; allowed: numTrials, or --trials");
    }
    search.max_parallel_trials = spec.count("parallelTrials", 1, &mut found);
    let parameters = spec.list("parameters", &mut found);
    for (index, value) in parameters.iter().enumerate() {
        search.params.extend(parameter(value, &format!("spec.parameters[{index}]"), &mut found));
    }
    // Also of parameters that were refused.
    let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
    train_job(&mut spec, &names, &mut input, &mut found);
    spec.end(&mut found);
    input.tunesmith.metric_from_stdout = true;
    found.note(format!(
        "the metric is read from lines {}=VALUE of the output, not from the status of a TrainJob",
        search.hyperparameter_metric_tag
    ));
    input.hyperparameters = Some(search);
    if found.errors.is_empty() {
        Ok(Imported { training_input: input, losses: found.losses, notes: found.notes })
    } else {
        Err(document.errors(found.errors))
    }
}

fn objective(spec: &mut Fields<'_>, search: &mut HyperparameterSpec, found: &mut Findings) {
    let objectives = spec.list("objectives", found);
    let [objective] = objectives else {
        found.error("spec.objectives", format!("has {} entries; allowed: exactly one", objectives.len()));
        return;
    };
    let mut objective = Fields::of(objective, "spec.objectives[0]", found);
    objective.text("metric", found).unwrap_or_default().clone_into(&mut search.hyperparameter_metric_tag);
    if search.hyperparameter_metric_tag.is_empty() {
        found.error("spec.objectives[0].metric", "is required");
    }
    search.goal = match objective.text("direction", found) {
        None | Some("Minimize") => GoalType::Minimize,
        Some("Maximize") => GoalType::Maximize,
        Some(other) => {
            let text = format!("{other:?} is not known; allowed: Minimize (the default) or Maximize");
            found.error("spec.objectives[0].direction", text);
            GoalType::Minimize
        }
    };
    objective.end(found);
}

fn algorithm(spec: &mut Fields<'_>, search: &mut HyperparameterSpec, input: &mut TrainingInput, found: &mut Findings) {
    let mut fields = spec.fields("searchAlgorithm", found);
    if let Some(grid) = fields.take("grid") {
        search.algorithm = Algorithm::GridSearch;
        Fields::of(grid, "spec.searchAlgorithm.grid", found).end(found);
    }
    if let Some(random) = fields.take("random") {
        if search.algorithm == Algorithm::GridSearch {
            found.error("spec.searchAlgorithm", "has two algorithms; allowed: random or grid");
        }
        search.algorithm = Algorithm::RandomSearch;
        let mut random = Fields::of(random, "spec.searchAlgorithm.random", found);
        input.tunesmith.seed = random.count("seed", 0, found).and_then(|seed| u64::try_from(seed).ok());
        random.end(found);
    }
    fields.end(found);
    if search.algorithm == Algorithm::AlgorithmUnspecified {
        found.error("spec.searchAlgorithm", "is required; allowed: random or grid");
    }
}

fn parameter(value: &Value, path: &str, found: &mut Findings) -> Option<ParameterSpec> {
    let mut fields = Fields::of(value, path, found);
    let name = fields.text("name", found).unwrap_or_default();
    if name.is_empty() {
        found.error(format!("{path}.name"), "is required");
    }
    let mut space = fields.fields("searchSpace", found);
    fields.end(found);
    let path = format!("{path}.searchSpace");
    let kinds = ["uniform", "logUniform", "categorical"];
    let given: Vec<(&str, &Value)> = kinds.iter().filter_map(|kind| Some((*kind, space.take(kind)?))).collect();
    space.end(found);
    let [(kind, value)] = given[..] else {
        found.error(path, format!("has {} distributions; allowed: one of {}", given.len(), kinds.join(", ")));
        return None;
    };
    let mut space = Fields::of(value, &format!("{path}.{kind}"), found);
    if kind == "categorical" {
        let choices = space.list("choices", found);
        space.end(found);
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return Some(categorical(name, choices.iter().map(text).collect()));
    }
    let (min, max, of) = (space.number("min", found), space.number("max", found), space.text("type", found));
    space.end(found);
    let (Some(min), Some(max)) = (min, max) else {
        found.error(format!("{path}.{kind}"), "min and max are required");
        return None;
    };
    let scale = if kind == "uniform" { ScaleType::UnitLinearScale } else { ScaleType::UnitLogScale };
    match of {
        Some("Int") => Some(integer(name, (min, max), scale)),
        None | Some("Float") => Some(double(name, (min, max), scale)),
        Some(other) => {
            let text = format!("{other:?} is not known; allowed: Int or Float");
            found.error(format!("{path}.{kind}.type"), text);
            None
        }
    }
}

/// Reads the template of a TrainJob, whose trainer is the program of a trial.
fn train_job(spec: &mut Fields<'_>, parameters: &[&str], input: &mut TrainingInput, found: &mut Findings) {
    let mut template = spec.fields("trainJobTemplate", found);
    template.lost(&["metadata"], "is not set on pods", found);
    let mut job = template.fields("spec", found);
    template.end(found);
    job.lost(&["runtimeRef"], "is not read: image, command and variables of the runtime do not apply", found);
    job.lost(&["initializer"], "has no counterpart: the program loads its data and models", found);
    let overrides = ["labels", "annotations", "podTemplateOverrides", "runtimePatches"];
    job.lost(&overrides, "is not set on pods", found);
    job.take("suspend");
    job.take("managedBy");
    let mut trainer = job.fields("trainer", found);
    job.end(found);
    if trainer.count("numNodes", 1, found).is_some_and(|nodes| nodes > 1) {
        found.error(trainer.path("numNodes"), "has no counterpart; allowed: 1");
    }
    trainer.lost(&["numProcPerNode"], "is not applied: the command starts its processes", found);
    let substituted = |text: &str| substituted(text, parameters);
    container::read(&mut trainer, "resourcesPerNode", "{{", &substituted, input, found);
    trainer.end(found);
}

/// `text` with `{{.NAME}}` replaced; an unknown reference.
fn substituted(text: &str, parameters: &[&str]) -> Result<String, String> {
    let known = |reference: &str| {
        let name = reference.trim().strip_prefix('.').filter(|name| parameters.contains(name))?;
        Some(format!("{{parameters.{name}}}"))
    };
    container::substituted(text, ("{{", "}}"), &known)
}

#[cfg(test)]
mod tests;
