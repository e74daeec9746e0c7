//! Experiments of Katib (`kubeflow.org/v1beta1`).

use std::collections::BTreeMap;

use serde_json::Value;
use tunesmith_algorithms::early_stopping::StoppingRuleKind;
use tunesmith_api::ai_platform::{
    Algorithm, FinalMeasurement, GoalType, HyperparameterSpec, ParameterSpec, ScaleType, TrainingInput,
};
use tunesmith_config::{ConfigErrors, Document};

use crate::reading::{Fields, Findings, MAX_VALUES, categorical, discrete, double, integer, number, steps};
use crate::{Imported, Options, container};

/// Number of concurrent trials of an Experiment that names none.
const DEFAULT_PARALLEL: i32 = 3;

/// Converts an Experiment.
///
/// # Errors
/// All fields that cannot be mapped.
pub fn katib(document: &Document, options: Options) -> Result<Imported, ConfigErrors> {
    let value = document.value();
    let mut found = Findings::default();
    let mut experiment = Fields::of(&value, "", &mut found);
    let version = experiment.text("apiVersion", &mut found).unwrap_or_default();
    let kind = experiment.text("kind", &mut found).unwrap_or_default();
    if (version, kind) != ("kubeflow.org/v1beta1", "Experiment") {
        found.error("kind", format!("{version} {kind} is not known; allowed: Experiment of kubeflow.org/v1beta1"));
    }
    experiment.noted(&["metadata"], &mut found);
    experiment.take("status");
    let mut spec = experiment.fields("spec", &mut found);
    experiment.end(&mut found);
    let mut input = TrainingInput::default();
    let mut search = HyperparameterSpec::default();
    objective(&mut spec, &mut search, &mut input, &mut found);
    algorithm(&mut spec, &mut search, &mut input, &mut found);
    early_stopping(&mut spec, &mut search, &mut input, &mut found);
    search.max_parallel_trials = spec.count("parallelTrialCount", 1, &mut found).or(Some(DEFAULT_PARALLEL));
    let max_trials = spec.count("maxTrialCount", 1, &mut found);
    search.max_trials = options.max_trials.and_then(|count| i32::try_from(count).ok()).or(max_trials);
    if search.max_trials.is_none() {
        found.error(
            "spec.maxTrialCount",
            "is missing, and a job has a number of trials; allowed: maxTrialCount, or --trials",
        );
    }
    search.max_failed_trials = spec.count("maxFailedTrialCount", 0, &mut found);
    if spec.take("resumePolicy").and_then(Value::as_str).is_some_and(|policy| policy != "Never") {
        found.note("spec.resumePolicy: a job here can always go on: tunesmith jobs extend");
    }
    spec.lost(&["nasConfig"], "has no counterpart: architectures are parameters here", &mut found);
    let parameters = spec.list("parameters", &mut found);
    for (index, parameter) in parameters.iter().enumerate() {
        search.params.extend(self::parameter(parameter, &format!("spec.parameters[{index}]"), &mut found));
    }
    collector(&mut spec, &mut input, &mut found);
    let mut template = spec.fields("trialTemplate", &mut found);
    // Also of parameters that were refused.
    let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
    trial(&mut template, &names, &mut input, &mut found);
    template.end(&mut found);
    spec.end(&mut found);
    input.hyperparameters = Some(search);
    if found.errors.is_empty() {
        Ok(Imported { training_input: input, losses: found.losses, notes: found.notes })
    } else {
        Err(document.errors(found.errors))
    }
}

fn objective(spec: &mut Fields<'_>, search: &mut HyperparameterSpec, input: &mut TrainingInput, found: &mut Findings) {
    let mut objective = spec.fields("objective", found);
    search.goal = match objective.text("type", found) {
        Some("maximize") => GoalType::Maximize,
        Some("minimize") => GoalType::Minimize,
        _ => {
            found.error("spec.objective.type", "is required; allowed: minimize or maximize");
            GoalType::Maximize
        }
    };
    objective.text("objectiveMetricName", found).unwrap_or_default().clone_into(&mut search.hyperparameter_metric_tag);
    if search.hyperparameter_metric_tag.is_empty() {
        found.error("spec.objective.objectiveMetricName", "is required");
    }
    objective.lost(&["goal"], "has no counterpart: the job runs all its trials", found);
    if !objective.list("additionalMetricNames", found).is_empty() {
        found.note("spec.objective.additionalMetricNames: reported metrics are kept without being named");
    }
    // By default, Katib takes the best value of a trial.
    let mut strategy = "best";
    for (index, value) in objective.list("metricStrategies", found).iter().enumerate() {
        let mut fields = Fields::of(value, &format!("spec.objective.metricStrategies[{index}]"), found);
        let name = fields.text("name", found);
        let value = fields.text("value", found).unwrap_or_default();
        fields.end(found);
        if name == Some(&search.hyperparameter_metric_tag) {
            strategy = match (value, search.goal) {
                ("latest", _) => "latest",
                ("max", GoalType::Maximize) | ("min", GoalType::Minimize) => "best",
                _ => {
                    let text = format!("{value:?} is the worst value of a trial; allowed: latest, or the best one");
                    found.error(format!("spec.objective.metricStrategies[{index}].value"), text);
                    "best"
                }
            };
        }
    }
    objective.end(found);
    input.tunesmith.final_measurement =
        if strategy == "latest" { FinalMeasurement::Last } else { FinalMeasurement::Best };
}

/// Settings of an algorithm, by name.
fn settings(fields: &mut Fields<'_>, path: &str, found: &mut Findings) -> Vec<(String, String, String)> {
    let mut settings = Vec::new();
    for (index, value) in fields.list("algorithmSettings", found).iter().enumerate() {
        let path = format!("{path}.algorithmSettings[{index}]");
        let mut fields = Fields::of(value, &path, found);
        let name = fields.text("name", found).unwrap_or_default().to_owned();
        let value = fields.take("value").map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        fields.end(found);
        settings.push((path, name, value.unwrap_or_default()));
    }
    settings
}

fn algorithm(spec: &mut Fields<'_>, search: &mut HyperparameterSpec, input: &mut TrainingInput, found: &mut Findings) {
    let mut fields = spec.fields("algorithm", found);
    search.algorithm = match fields.text("algorithmName", found) {
        Some("random") => Algorithm::RandomSearch,
        Some("grid") => Algorithm::GridSearch,
        Some("bayesianoptimization") => Algorithm::GaussianProcessBandit,
        Some("tpe" | "multivariate-tpe") => Algorithm::Tpe,
        Some("cmaes") => Algorithm::CmaEs,
        Some("sobol") => Algorithm::QuasiRandomSearch,
        other => {
            let allowed = "random, grid, bayesianoptimization, tpe, multivariate-tpe, cmaes or sobol";
            let text = format!("{:?} has no counterpart; allowed: {allowed}", other.unwrap_or_default());
            found.error("spec.algorithm.algorithmName", text);
            Algorithm::AlgorithmUnspecified
        }
    };
    for (path, name, value) in settings(&mut fields, "spec.algorithm", found) {
        match (name.as_str(), value.parse::<u64>()) {
            ("random_state" | "seed", Ok(seed)) => input.tunesmith.seed = Some(seed),
            _ => found.loss(path, format!("{name} is a setting of Katib's own algorithm")),
        }
    }
    fields.end(found);
}

fn early_stopping(
    spec: &mut Fields<'_>,
    search: &mut HyperparameterSpec,
    input: &mut TrainingInput,
    found: &mut Findings,
) {
    let mut fields = spec.fields("earlyStopping", found);
    match fields.text("algorithmName", found) {
        None => {}
        Some("medianstop") => {
            search.enable_trial_early_stopping = true;
            input.tunesmith.early_stopping = Some(StoppingRuleKind::Median);
        }
        Some(other) => {
            found.error("spec.earlyStopping.algorithmName", format!("{other:?} is not known; allowed: medianstop"));
        }
    }
    for (path, name, value) in settings(&mut fields, "spec.earlyStopping", found) {
        let rule = &mut input.tunesmith.early_stopping_settings;
        match (name.as_str(), value.parse::<u32>()) {
            ("min_trials_required", Ok(count)) if count > 0 => rule.min_trials = Some(count),
            ("start_step", Ok(count)) if count > 0 => rule.min_reports = Some(count),
            _ => found.error(path, format!("{name}: {value:?} is not known; allowed: min_trials_required, start_step")),
        }
    }
    fields.end(found);
}

fn parameter(value: &Value, path: &str, found: &mut Findings) -> Option<ParameterSpec> {
    let mut fields = Fields::of(value, path, found);
    let name = fields.text("name", found).unwrap_or_default();
    let kind = fields.text("parameterType", found).unwrap_or_default();
    let mut space = fields.fields("feasibleSpace", found);
    fields.end(found);
    if name.is_empty() {
        found.error(format!("{path}.name"), "is required");
    }
    let space_path = format!("{path}.feasibleSpace");
    let scale = match space.text("distribution", found) {
        None | Some("uniform") => ScaleType::UnitLinearScale,
        Some("logUniform") => ScaleType::UnitLogScale,
        Some(other) => {
            let text = format!("{other:?} has no counterpart; allowed: uniform or logUniform");
            found.error(format!("{space_path}.distribution"), text);
            return None;
        }
    };
    let spec = match kind {
        "double" | "int" => {
            let (min, max, step) =
                (space.number("min", found), space.number("max", found), space.number("step", found));
            let (Some(min), Some(max)) = (min, max) else {
                found.error(space_path, "min and max are required");
                return None;
            };
            match step {
                Some(step) if kind == "double" || step != 1.0 => match steps(min, max, step) {
                    Some(values) => discrete(name, values, scale),
                    None => {
                        let text = format!("gives no values, or more than {MAX_VALUES}; allowed: a larger step");
                        found.error(format!("{space_path}.step"), text);
                        return None;
                    }
                },
                _ if kind == "int" => integer(name, (min, max), scale),
                _ => double(name, (min, max), scale),
            }
        }
        "discrete" => {
            let list = space.list("list", found);
            let values: Vec<f64> = list.iter().filter_map(number).collect();
            if values.len() != list.len() || values.is_empty() {
                found.error(format!("{space_path}.list"), "allowed: numbers, at least one");
                return None;
            }
            discrete(name, values, scale)
        }
        "categorical" => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            categorical(name, space.list("list", found).iter().map(text).collect())
        }
        other => {
            let text = format!("{other:?} is not known; allowed: double, int, discrete or categorical");
            found.error(format!("{path}.parameterType"), text);
            return None;
        }
    };
    space.end(found);
    Some(spec)
}

fn collector(spec: &mut Fields<'_>, input: &mut TrainingInput, found: &mut Findings) {
    let mut fields = spec.fields("metricsCollectorSpec", found);
    let mut collector = fields.fields("collector", found);
    match collector.text("kind", found) {
        None | Some("StdOut") => input.tunesmith.metric_from_stdout = true,
        Some("None") => {
            found.note("spec.metricsCollectorSpec: the program reports by itself, over HTTP or with hypertune")
        }
        Some(other) => {
            let text = format!(
                "{other:?} has no counterpart; allowed: StdOut (the default), or None for a program that reports over \
                 HTTP or with hypertune; event files are read in the folder of --job-dir"
            );
            found.error("spec.metricsCollectorSpec.collector.kind", text);
        }
    }
    collector.lost(&["customCollector"], "is not run", found);
    collector.end(found);
    let mut source = fields.fields("source", found);
    source.lost(&["filter"], "has no counterpart: lines are name=value or name: value", found);
    source.end(found);
    fields.end(found);
}

/// Reads the template of a trial, a Job with one container that counts.
fn trial(template: &mut Fields<'_>, parameters: &[&str], input: &mut TrainingInput, found: &mut Findings) {
    template.lost(
        &["successCondition", "failureCondition"],
        "has no counterpart: a trial ends with its container",
        found,
    );
    template.lost(&["retain"], "has no counterpart: logs are kept, Jobs are not", found);
    template.take("primaryPodLabels");
    let primary = template.text("primaryContainerName", found).unwrap_or_default().to_owned();
    let mut references = BTreeMap::new();
    for (index, value) in template.list("trialParameters", found).iter().enumerate() {
        let path = format!("spec.trialTemplate.trialParameters[{index}]");
        let mut fields = Fields::of(value, &path, found);
        let name = fields.text("name", found).unwrap_or_default().to_owned();
        let reference = fields.text("reference", found).unwrap_or_default().to_owned();
        fields.take("description");
        fields.end(found);
        if reference.starts_with("${trialSpec.Name}") {
            references.insert(name, "{trial}".to_owned());
        } else if parameters.contains(&reference.as_str()) {
            references.insert(name, format!("{{parameters.{reference}}}"));
        } else {
            let text = format!("{reference:?} is no parameter; allowed: the name of one, or ${{trialSpec.Name}}");
            found.error(format!("{path}.reference"), text);
        }
    }
    template.lost(&["configMap"], "is not read: put the template into trialSpec", found);
    let mut object = template.fields("trialSpec", found);
    let kind = (object.text("apiVersion", found).unwrap_or_default(), object.text("kind", found).unwrap_or_default());
    if kind != ("batch/v1", "Job") {
        let text = format!("{} {} has no counterpart; allowed: Job of batch/v1", kind.0, kind.1);
        found.error("spec.trialTemplate.trialSpec.kind", text);
        // Whatever else it has belongs to another kind.
        return;
    }
    object.take("metadata");
    let mut job = object.fields("spec", found);
    object.end(found);
    job.lost(&["backoffLimit"], "has no counterpart: failed programs are not repeated", found);
    let mut pod_template = job.fields("template", found);
    job.end(found);
    pod_template.lost(&["metadata"], "is not set on pods", found);
    let mut pod = pod_template.fields("spec", found);
    pod_template.end(found);
    pod.take("restartPolicy");
    let containers = pod.list("containers", found);
    pod.end(found);
    let path = "spec.trialTemplate.trialSpec.spec.template.spec.containers";
    let is_primary = |value: &&Value| primary.is_empty() || value["name"].as_str() == Some(&primary);
    let Some(index) = containers.iter().position(|value| is_primary(&value)) else {
        found.error(path, format!("has no container {primary:?}"));
        return;
    };
    for other in (0..containers.len()).filter(|other| *other != index) {
        found.error(format!("{path}[{other}]"), "has no counterpart: a trial has one container");
    }
    container(&containers[index], &format!("{path}[{index}]"), &references, input, found);
}

fn container(
    value: &Value,
    path: &str,
    references: &BTreeMap<String, String>,
    input: &mut TrainingInput,
    found: &mut Findings,
) {
    let mut fields = Fields::of(value, path, found);
    fields.take("name");
    fields.take("imagePullPolicy");
    let substituted = |text: &str| substituted(text, references);
    container::read(&mut fields, "resources", "${trial", &substituted, input, found);
    fields.lost(&["workingDir", "volumeMounts", "ports", "securityContext"], "is not set on the container", found);
    fields.end(found);
}

/// `text` with `${trialParameters.NAME}` replaced; an unknown reference.
fn substituted(text: &str, references: &BTreeMap<String, String>) -> Result<String, String> {
    let known = |reference: &str| match reference.strip_prefix("Parameters.") {
        Some(name) => references.get(name).cloned(),
        None => (reference == "Spec.Name").then(|| "{trial}".to_owned()),
    };
    container::substituted(text, ("${trial", "}"), &known)
}

#[cfg(test)]
mod tests;
