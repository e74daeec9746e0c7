//! The Deployment and Secret of a group of workers of a model.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, ObjectFieldSelector, PersistentVolumeClaimVolumeSource,
    PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile, Secret, SecretKeySelector, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use super::PodSettings;
use super::names::{MANAGED_LABEL, PREFIX, SERVER_LABEL, readable};
use super::objects::{claim_name, mount, security};
use super::placement::{PodPlacement, requirements};
use tunesmith_executor::WorkerSpec;

/// Container of the worker.
pub(super) const WORKER: &str = "worker";

/// Label with the ID of a group.
pub(super) const GROUP_LABEL: &str = "tunesmith.dev/workers";

/// Annotation with the model and version.
const TITLE_ANNOTATION: &str = "tunesmith.dev/model";

const FILES_VOLUME: &str = "tunesmith-files";
const WORK_VOLUME: &str = "tunesmith-work";
const FILES_FOLDER: &str = "/tunesmith-files";
const WORK_FOLDER: &str = "/tunesmith-work";

/// Seconds from SIGTERM to SIGKILL. A worker that is removed answers nothing.
const GRACE_SECONDS: i64 = 5;

/// Name of the objects of `spec`.
pub(super) fn name_of(spec: &WorkerSpec) -> String {
    format!("{PREFIX}{}-{}", readable(&spec.title), spec.id)
}

pub(super) fn image<'a>(spec: &'a WorkerSpec, settings: &'a PodSettings) -> Option<&'a str> {
    spec.image.as_deref().or(settings.default_image.as_deref())
}

fn labels(identity: &str, id: &str) -> BTreeMap<String, String> {
    let labels = [(MANAGED_LABEL.0, MANAGED_LABEL.1), (SERVER_LABEL, identity), (GROUP_LABEL, id)];
    labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The Deployment of `spec`, without pods.
///
/// # Errors
/// The reason why Kubernetes cannot run it.
pub(super) fn deployment(identity: &str, spec: &WorkerSpec, settings: &PodSettings) -> Result<Deployment, String> {
    let place = PodPlacement::new(settings, &BTreeMap::new())?;
    let name = name_of(spec);
    let labels = labels(identity, &spec.id);
    let pod = PodSpec {
        restart_policy: Some("Always".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: place.service_account.clone(),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        security_context: Some(PodSecurityContext {
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        node_selector: Some(place.node_selector.clone()).filter(|labels| !labels.is_empty()),
        containers: vec![container(&name, spec, settings)?],
        volumes: Some(volumes(spec, settings)),
        ..PodSpec::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() }),
        spec: Some(pod),
    };
    let selector = BTreeMap::from([(GROUP_LABEL.to_owned(), spec.id.clone())]);
    Ok(Deployment {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([(TITLE_ANNOTATION.to_owned(), spec.title.clone())])),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(0),
            revision_history_limit: Some(0),
            selector: LabelSelector { match_labels: Some(selector), match_expressions: None },
            template: place.template.without_agent(WORKER).apply(&template)?,
            ..DeploymentSpec::default()
        }),
        status: None,
    })
}

fn container(name: &str, spec: &WorkerSpec, settings: &PodSettings) -> Result<Container, String> {
    let image = image(spec, settings).ok_or("the workers of the version have no image")?;
    let variable =
        |name: &str, value: &str| EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() };
    let from = |name: &str, source| EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() };
    let pod_name = ObjectFieldSelector { field_path: "metadata.name".to_owned(), api_version: None };
    let mut environment: Vec<EnvVar> = spec.environment.iter().map(|(name, value)| variable(name, value)).collect();
    environment.push(variable("TMPDIR", WORK_FOLDER));
    environment.push(variable("TUNESMITH_WORKER_FILES", FILES_FOLDER));
    let source = EnvVarSource { field_ref: Some(pod_name), ..EnvVarSource::default() };
    environment.push(from("TUNESMITH_WORKER_POD", source));
    for key in spec.secrets.keys() {
        let selector = SecretKeySelector { name: name.to_owned(), key: key.clone(), optional: None };
        environment.push(from(key, EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() }));
    }
    let mut mounts = vec![mount(FILES_VOLUME, FILES_FOLDER, false), mount(WORK_VOLUME, WORK_FOLDER, false)];
    mounts.extend(settings.volumes.keys().enumerate().map(|(index, path)| mount(&claim_name(index), path, false)));
    Ok(Container {
        name: WORKER.to_owned(),
        image: Some(image.to_owned()),
        command: Some(spec.command.clone()),
        env: Some(environment),
        resources: Some(requirements(&spec.resources, None)),
        // The end of its output is the reason of its end.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        security_context: Some(security()),
        ..Container::default()
    })
}

fn volumes(spec: &WorkerSpec, settings: &PodSettings) -> Vec<Volume> {
    let empty = |name: &str, limit: Option<u64>| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: limit.map(|bytes| Quantity(bytes.to_string())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mut volumes = vec![empty(FILES_VOLUME, None), empty(WORK_VOLUME, Some(spec.disk_bytes))];
    volumes.extend(settings.volumes.values().enumerate().map(|(index, claim)| Volume {
        name: claim_name(index),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource { claim_name: claim.clone(), read_only: None }),
        ..Volume::default()
    }));
    volumes
}

/// The Secret of `spec`, which is removed with the Deployment that has the UID `owner`.
pub(super) fn secret(identity: &str, spec: &WorkerSpec, owner: &str) -> Secret {
    let name = name_of(spec);
    let owner = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: name.clone(),
        uid: owner.to_owned(),
        ..OwnerReference::default()
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels(identity, &spec.id)),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: Some(spec.secrets.clone()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::PodTemplate;

    #[test]
    fn pods_have_the_settings_of_the_server_and_no_agent() {
        let template = PodTemplate::new(json!({"spec": {
            "imagePullSecrets": [{"name": "registry"}],
            "restartPolicy": "Never",
            "initContainers": [{"name": "agent", "resources": {"limits": {"cpu": "1"}}}, {"name": "setup", "image": "s"}],
            "containers": [{"name": "trial", "env": [{"name": "PIP_INDEX_URL", "value": "https://pip.example"}]}],
        }}));
        let settings = PodSettings {
            default_image: Some("default:1".to_owned()),
            service_account: Some("models".to_owned()),
            node_selector: BTreeMap::from([("pool".to_owned(), "models".to_owned())]),
            template: template.unwrap(),
            ..PodSettings::default()
        };
        let spec = WorkerSpec {
            id: "0123456789ab".to_owned(),
            title: "Iris_Model v1".to_owned(),
            command: vec!["python3".to_owned()],
            secrets: BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]),
            disk_bytes: 1 << 20,
            ..WorkerSpec::default()
        };
        let made = serde_json::to_value(deployment("cafe", &spec, &settings).unwrap()).unwrap();
        assert_eq!(made["metadata"]["name"], "ts-iris-model-v1-0123456789ab");
        assert_eq!(made["spec"]["replicas"], 0);
        assert_eq!(made["spec"]["selector"]["matchLabels"], json!({"tunesmith.dev/workers": "0123456789ab"}));
        assert!(!made.to_string().contains("secret\""), "the token is in the Secret alone");
        let pod = &made["spec"]["template"]["spec"];
        assert_eq!(pod["restartPolicy"], "Always");
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "registry"}]));
        assert_eq!(pod["nodeSelector"], json!({"pool": "models"}));
        assert_eq!(pod["serviceAccountName"], "models");
        assert_eq!(pod["initContainers"], json!([{"name": "setup", "image": "s"}]));
        let [container] = pod["containers"].as_array().unwrap().as_slice() else { panic!("{pod}") };
        assert_eq!((&container["name"], &container["image"]), (&json!("worker"), &json!("default:1")));
        let env = container["env"].as_array().unwrap();
        assert!(env.contains(&json!({"name": "PIP_INDEX_URL", "value": "https://pip.example"})), "{env:?}");
        let token = json!({"name": "TOKEN", "valueFrom": {"secretKeyRef":
            {"name": "ts-iris-model-v1-0123456789ab", "key": "TOKEN"}}});
        assert!(env.contains(&token), "{env:?}");
        let without = PodSettings::default();
        assert!(deployment("cafe", &spec, &without).unwrap_err().contains("no image"));
    }
}
