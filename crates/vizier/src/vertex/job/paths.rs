//! Paths of a training input as those of a job of Vertex AI.

use super::super::path_of_spec;

/// Fields that are elsewhere in a message of Vertex AI, below the specification of its programs.
const FIELDS: [(&str, &str); 21] = [
    ("masterType", "workerPoolSpecs[0].machineSpec.machineType"),
    ("workerType", "workerPoolSpecs[1].machineSpec.machineType"),
    ("parameterServerType", "workerPoolSpecs[2].machineSpec.machineType"),
    ("evaluatorType", "workerPoolSpecs[3].machineSpec.machineType"),
    ("scaleTier", "workerPoolSpecs[0].machineSpec.machineType"),
    ("workerCount", "workerPoolSpecs[1].replicaCount"),
    ("parameterServerCount", "workerPoolSpecs[2].replicaCount"),
    ("evaluatorCount", "workerPoolSpecs[3].replicaCount"),
    ("packageUris", "workerPoolSpecs[0].pythonPackageSpec.packageUris"),
    ("pythonModule", "workerPoolSpecs[0].pythonPackageSpec.pythonModule"),
    ("args", "workerPoolSpecs[0].pythonPackageSpec.args"),
    ("jobDir", "baseOutputDirectory.outputUriPrefix"),
    ("scheduling.maxRunningTime", "scheduling.timeout"),
    ("scheduling.maxWaitTime", "scheduling.maxWaitDuration"),
    ("tunesmith.preemptible", "scheduling.strategy"),
    ("tunesmith.maxLostAttempts", "scheduling.disableRetries"),
    ("network", "network"),
    ("serviceAccount", "serviceAccount"),
    ("masterConfig", "workerPoolSpecs[0]"),
    ("workerConfig", "workerPoolSpecs[1]"),
    ("parameterServerConfig", "workerPoolSpecs[2]"),
];

/// Fields of a replica's configuration.
const REPLICA_FIELDS: [(&str, &str); 5] = [
    ("acceleratorConfig.count", "machineSpec.acceleratorCount"),
    ("acceleratorConfig", "machineSpec.acceleratorType"),
    ("containerCommand", "containerSpec.command"),
    ("containerArgs", "containerSpec.args"),
    ("imageUri", "containerSpec.imageUri"),
];

/// Path in a message of a job, whose programs are specified in `spec`, for a path of a training input.
pub fn path_of_job(path: &str, spec: &str) -> String {
    match path {
        "region" => return "parent".to_owned(),
        "hyperparameters.maxTrials" => return "maxTrialCount".to_owned(),
        "hyperparameters.maxParallelTrials" => return "parallelTrialCount".to_owned(),
        "hyperparameters.maxFailedTrials" => return "maxFailedTrialCount".to_owned(),
        "hyperparameters.hyperparameterMetricTag" => return "studySpec.metrics".to_owned(),
        "encryptionConfig" => return "encryptionSpec".to_owned(),
        _ => {}
    }
    let below = |path: &str, name: &str| {
        let rest = path.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| rest.to_owned())
    };
    let config = [("evaluatorConfig", "workerPoolSpecs[3]")];
    for (name, translated) in FIELDS.iter().chain(&config) {
        let Some(rest) = below(path, name) else { continue };
        let rest = rest.strip_prefix('.').map_or(rest.clone(), |field| {
            let known =
                REPLICA_FIELDS.iter().find(|(name, _)| field == *name || field.starts_with(&format!("{name}.")));
            format!(".{}", known.map_or(field, |(_, translated)| translated))
        });
        return format!("{spec}.{translated}{rest}");
    }
    match path.strip_prefix("hyperparameters.").or_else(|| path.strip_prefix("tunesmith.")) {
        Some(rest) => format!("studySpec.{}", path_of_spec(rest)),
        None => format!("{spec}.{path}"),
    }
}
