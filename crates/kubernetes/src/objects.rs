//! The Job and Secret of an agent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements,
    SeccompProfile, Secret, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::PodSettings;
use super::names::{RUN_ANNOTATION, labels, name_of};
use super::placement::{PodPlacement, requirements};
use tunesmith_domain::Resources;
use tunesmith_executor::remote::{AgentId, AgentSpec};
use tunesmith_executor::tf_config::CLUSTER_SPEC_VARIABLE;
use tunesmith_executor::{ExecutorJobSpec, Program};

/// Container of the agent and the trial's program.
pub(super) const TRIAL: &str = "trial";

/// Init container that copies the agent, and the volume for the copy.
pub(super) const AGENT: &str = "agent";

const SPEC_VOLUME: &str = "spec";
const SPOOL_VOLUME: &str = "spool";
const CLAIM_VOLUMES: &str = "claim-";

pub(super) const AGENT_FOLDER: &str = "/tunesmith";

const AGENT_PROGRAM: &str = "/tunesmith/tunesmith-agent";

/// Path of the specification in the container. Mounted as a single file: in a mounted Secret folder, each file is a
/// symbolic link.
pub(super) const SPEC_PATH: &str = "/tunesmith-spec/spec.json";

pub(super) const SPOOL_FOLDER: &str = "/tunesmith-spool";

const SPEC_FILE: &str = "spec.json";

/// Time to live of a finished Job in seconds. The server deletes it earlier, once it has recorded the end.
const TTL_SECONDS: i32 = 24 * 3600;

/// Time for the final report, beyond the program's grace period, in seconds.
const REPORT_SECONDS: u64 = 30;

/// Pod deadline beyond the program's time limit, in seconds; a fallback for an agent that does not stop. Covers the
/// image pull and a server that is unreachable at the end.
const DEADLINE_SECONDS: u64 = 3600;

/// Maximum size of the specification in bytes; leaves room for the Secret's other fields.
const MAX_SPEC_BYTES: usize = 1_000_000;

/// Specification of the agent in the trial's container.
///
/// # Errors
/// The reason why Kubernetes cannot run it.
pub(super) fn agent_spec(mut agent: AgentSpec) -> Result<String, String> {
    // The agent's working directory is the container's, from the image or the settings.
    agent.spec.working_directory = PathBuf::from(".");
    let own = agent.spec.part.as_ref().map(|part| part.replica);
    for (index, replica) in agent.spec.replicas.iter_mut().enumerate() {
        let Program::Container { image, command, args, .. } = &replica.program else { continue };
        if own.is_some_and(|own| own != index) {
            continue;
        }
        if command.is_empty() {
            return Err(format!(
                "the image {image} has to be started by its entry point, which an agent in the pod cannot know: state the \
                 command in masterConfig.containerCommand"
            ));
        }
        replica.program = Program::Command { argv: command.iter().chain(args).cloned().collect() };
        // The agent sets the value.
        agent.spec.environment.insert(CLUSTER_SPEC_VARIABLE.to_owned(), String::new());
    }
    let text =
        serde_json::to_string(&agent).map_err(|error| format!("its specification cannot be written: {error}"))?;
    if text.len() > MAX_SPEC_BYTES {
        return Err(format!(
            "its specification has {} KiB, of which Kubernetes takes {} KiB; shorten the training input",
            text.len() >> 10,
            MAX_SPEC_BYTES >> 10
        ));
    }
    Ok(text)
}

/// The Job of `spec`.
///
/// # Errors
/// The reason why Kubernetes cannot run it.
pub(super) fn job(identity: &str, spec: &ExecutorJobSpec, settings: &PodSettings) -> Result<Job, String> {
    let agent = AgentId::of(spec);
    let [replica] = spec.own_replicas() else {
        return Err(format!("a Job of Kubernetes has one replica, and it has {}", spec.own_replicas().len()));
    };
    let mut place = PodPlacement::new(settings, &spec.placement.options)?;
    let image = match &replica.program {
        Program::Container { image, .. } => image.clone(),
        Program::Command { .. } => place.image.clone().ok_or(
            "it names no image: state masterConfig.imageUri, start the server with --kubernetes-image, or give its \
             runtime version an image in the server configuration",
        )?,
    };
    let label = settings.accelerator_label.as_deref();
    let accelerator = replica.resources.accelerators.as_ref().map(|wanted| place.accelerators(wanted, label));
    let resources = requirements(&replica.resources, accelerator.transpose()?);
    let plain = Resources { accelerators: None, ..replica.resources.clone() };
    let labels = labels(identity, &agent);
    let pod_labels = place.labels.clone().into_iter().chain(labels.clone()).collect();
    let job_labels = place.labels.clone().into_iter().chain(labels).collect();
    let pod = PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: place.service_account.clone(),
        priority_class_name: place.priority_class.clone(),
        termination_grace_period_seconds: i64::try_from(spec.grace.as_secs().saturating_add(REPORT_SECONDS)).ok(),
        active_deadline_seconds: spec.time_limit.and_then(|limit| {
            i64::try_from(limit.as_secs().checked_add(spec.grace.as_secs())?.checked_add(DEADLINE_SECONDS)?).ok()
        }),
        security_context: Some(PodSecurityContext {
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        node_selector: Some(place.node_selector.clone()).filter(|labels| !labels.is_empty()),
        tolerations: Some(place.tolerations.clone()).filter(|tolerations| !tolerations.is_empty()),
        init_containers: Some(vec![agent_container(settings, requirements(&plain, None))]),
        containers: vec![trial_container(image, settings, &place, resources)],
        volumes: Some(volumes(identity, &agent, settings)),
        ..PodSpec::default()
    };
    Ok(Job {
        metadata: ObjectMeta {
            name: Some(name_of(identity, &agent)),
            labels: Some(job_labels),
            annotations: Some(BTreeMap::from([(RUN_ANNOTATION.to_owned(), agent.to_string())])),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            ttl_seconds_after_finished: Some(TTL_SECONDS),
            pod_replacement_policy: Some("Failed".to_owned()),
            pod_failure_policy: Some(fail_on_disruption()),
            template: place.template.apply(&PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(pod_labels), ..ObjectMeta::default() }),
                spec: Some(pod),
            })?,
            ..JobSpec::default()
        }),
        status: None,
    })
}

/// Fails the Job when its pod is disrupted; the next attempt is another Job.
fn fail_on_disruption() -> PodFailurePolicy {
    PodFailurePolicy {
        rules: vec![PodFailurePolicyRule {
            action: "FailJob".to_owned(),
            on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
            }]),
            ..PodFailurePolicyRule::default()
        }],
    }
}

/// Init container that copies the agent.
fn agent_container(settings: &PodSettings, resources: ResourceRequirements) -> Container {
    Container {
        name: AGENT.to_owned(),
        image: Some(settings.agent_image.clone()),
        command: Some(vec!["cp".to_owned(), settings.agent_path.clone(), AGENT_PROGRAM.to_owned()]),
        volume_mounts: Some(vec![mount(AGENT, AGENT_FOLDER, false)]),
        // If the image lacks the agent, the message of `cp` names the path.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        // An init container's requests do not add to the trial's: a pod needs the maximum of both.
        resources: Some(resources),
        security_context: Some(security()),
        ..Container::default()
    }
}

fn trial_container(
    image: String,
    settings: &PodSettings,
    place: &PodPlacement,
    resources: ResourceRequirements,
) -> Container {
    let arguments = ["agent", "--spec", SPEC_PATH, "--spool", SPOOL_FOLDER].map(str::to_owned);
    let spec = VolumeMount { sub_path: Some(SPEC_FILE.to_owned()), ..mount(SPEC_VOLUME, SPEC_PATH, true) };
    let mut mounts = vec![mount(AGENT, AGENT_FOLDER, true), spec, mount(SPOOL_VOLUME, SPOOL_FOLDER, false)];
    mounts.extend(settings.volumes.keys().enumerate().map(|(index, path)| mount(&claim_name(index), path, false)));
    let variable =
        |name: &str, value: &str| EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() };
    // Programs inherit the variables of their image.
    let mut environment = vec![
        variable("TUNESMITH_PASS_ENVIRONMENT", "*"),
        variable("TUNESMITH_AGENT_CACHE", &format!("{SPOOL_FOLDER}/cache")),
    ];
    // The other replicas reach the pod under this address.
    environment.push(EnvVar {
        name: "TUNESMITH_AGENT_HOST".to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: "status.podIP".to_owned(), api_version: None }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    });
    environment.extend(settings.server.as_ref().map(|server| variable("TUNESMITH_SERVER", server)));
    Container {
        name: TRIAL.to_owned(),
        image: Some(image),
        command: Some(vec![AGENT_PROGRAM.to_owned()]),
        args: Some(arguments.to_vec()),
        working_dir: place.working_directory.clone(),
        env: Some(environment),
        resources: Some(resources),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        security_context: Some(security()),
        ..Container::default()
    }
}

/// Requirements of the Pod Security Standard `restricted` per container, apart from a non-root user.
pub(super) fn security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

fn volumes(identity: &str, id: &AgentId, settings: &PodSettings) -> Vec<Volume> {
    let empty = |name: &str| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let spec = SecretVolumeSource {
        secret_name: Some(name_of(identity, id)),
        // Readable by non-root users; no other container mounts it.
        default_mode: Some(0o444),
        ..SecretVolumeSource::default()
    };
    let mut volumes = vec![
        empty(AGENT),
        empty(SPOOL_VOLUME),
        Volume { name: SPEC_VOLUME.to_owned(), secret: Some(spec), ..Volume::default() },
    ];
    volumes.extend(settings.volumes.values().enumerate().map(|(index, claim)| Volume {
        name: claim_name(index),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource { claim_name: claim.clone(), read_only: None }),
        ..Volume::default()
    }));
    volumes
}

pub(super) fn claim_name(index: usize) -> String {
    format!("{CLAIM_VOLUMES}{index}")
}

pub(super) fn is_reserved_volume(name: &str) -> bool {
    [AGENT, SPEC_VOLUME, SPOOL_VOLUME].contains(&name) || name.starts_with(CLAIM_VOLUMES)
}

pub(super) fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

pub(super) fn secret(identity: &str, id: &AgentId, text: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name_of(identity, id)),
            labels: Some(labels(identity, id)),
            ..ObjectMeta::default()
        },
        string_data: Some(BTreeMap::from([(SPEC_FILE.to_owned(), text.to_owned())])),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests;
