//! Fields without effect, unless a server configuration gives them one.

use super::TrainingInput;
use super::machines::{MachineMap, NO_EFFECT};

/// Whether the effect of `field` depends on the server's machines.
pub fn names_machine(field: &str) -> bool {
    let fields =
        ["scaleTier", "masterType", "workerType", "parameterServerType", "evaluatorType", "region", "runtimeVersion"];
    fields.contains(&field) || field.ends_with(".acceleratorConfig")
}

/// Paths of fields of `input` without effect on this service, in the order of AI Platform's reference. A server
/// configuration gives some of them an effect.
pub fn without_effect(input: &TrainingInput) -> Vec<String> {
    let mut fields: Vec<String> = [
        ("scaleTier", input.scale_tier.is_some()),
        ("masterType", !input.master_type.is_empty()),
        ("workerType", !input.worker_type.is_empty()),
        ("parameterServerType", !input.parameter_server_type.is_empty()),
        ("evaluatorType", !input.evaluator_type.is_empty()),
        ("region", !input.region.is_empty()),
        ("runtimeVersion", !input.runtime_version.is_empty()),
        ("pythonVersion", !input.python_version.is_empty()),
        ("encryptionConfig", input.encryption_config.is_some()),
        ("network", !input.network.is_empty()),
        ("serviceAccount", !input.service_account.is_empty()),
        ("enableWebAccess", input.enable_web_access),
    ]
    .into_iter()
    .filter(|(_, given)| *given)
    .map(|(field, _)| field.to_owned())
    .collect();
    let configs = [
        ("masterConfig", &input.master_config),
        ("workerConfig", &input.worker_config),
        ("parameterServerConfig", &input.parameter_server_config),
        ("evaluatorConfig", &input.evaluator_config),
    ];
    for (name, config) in configs {
        let Some(config) = config else { continue };
        let machine = [
            ("acceleratorConfig", config.accelerator_config.is_some()),
            ("diskConfig", config.disk_config.is_some()),
            ("tpuTfVersion", !config.tpu_tf_version.is_empty()),
        ];
        fields.extend(machine.into_iter().filter(|(_, given)| *given).map(|(field, _)| format!("{name}.{field}")));
    }
    fields
}

/// Like [`without_effect`], including fields without effect when a single job runs by itself.
pub fn without_effect_in_a_local_run(input: &TrainingInput) -> Vec<String> {
    let mut fields = without_effect(input);
    // Without a server configuration, no name is rejected.
    let machines = MachineMap::published().resolve(input).map(|machines| machines.plan);
    let notices = machines.map(|plan| plan.notices).unwrap_or_default();
    let has_none = |field: &str| notices.iter().any(|notice| notice.field == field && notice.description == NO_EFFECT);
    fields.retain(|field| !names_machine(field) || has_none(field));
    if let Some(scheduling) = &input.scheduling {
        // A local run has one job, so there is no queue.
        if scheduling.max_wait_time.is_some() {
            fields.push("scheduling.maxWaitTime".to_owned());
        }
        if scheduling.priority.is_some() {
            fields.push("scheduling.priority".to_owned());
        }
    }
    fields
}
