//! Operator-supplied pod templates, merged into the pods of attempts.
//!
//! Precedence, lowest first: the server's template, the template of a machine type or region, the server settings,
//! the agent's requirements. Maps merge by key, lists of named objects by name; other lists are concatenated. Scalars
//! of higher precedence win.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use serde_json::{Map, Value};

use super::objects::{AGENT, AGENT_FOLDER, SPEC_PATH, SPOOL_FOLDER, TRIAL, is_reserved_volume};

/// A validated pod template: fields of a `PodTemplateSpec`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodTemplate(Value);

/// An invalid pod template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct PodTemplateError {
    /// Path of the field, such as `spec.containers[0].name`; empty for the whole template.
    pub field: String,
    /// The fault, and the allowed values.
    pub fault: String,
}

impl PodTemplateError {
    fn new(field: impl Into<String>, fault: impl Into<String>) -> Self {
        Self { field: field.into(), fault: fault.into() }
    }
}

impl PodTemplate {
    /// Validates a template in the form of a Job's `template` field.
    ///
    /// # Errors
    /// [`PodTemplateError`] for unknown or mistyped fields, and for fields that attempts cannot use.
    pub fn new(template: Value) -> Result<Self, PodTemplateError> {
        let mut complete = template.clone();
        complete_required(&mut complete);
        let parsed: PodTemplateSpec = serde_path_to_error::deserialize(&complete).map_err(|error| {
            let field = error.path().to_string();
            PodTemplateError::new(if field == "." { String::new() } else { field }, error.inner().to_string())
        })?;
        let known = serde_json::to_value(&parsed).map_err(|error| PodTemplateError::new("", error.to_string()))?;
        if let Some(field) = unknown_field(&complete, &known, String::new()) {
            return Err(PodTemplateError::new(field, "no field of a pod template of Kubernetes"));
        }
        check(parsed.spec.as_ref())?;
        Ok(Self(template))
    }

    /// Merges `over`, which takes precedence, into this template.
    #[must_use]
    pub(super) fn with(&self, over: &Self) -> Self {
        Self(merged(self.0.clone(), over.0.clone()))
    }

    /// This template for a pod without an agent, whose container is `name`.
    pub(super) fn without_agent(&self, name: &str) -> Self {
        let mut template = self.0.clone();
        let list = |template: &mut Value, path: &str| {
            template.pointer_mut(path).and_then(Value::as_array_mut).map(std::mem::take)
        };
        if let Some(mut containers) = list(&mut template, "/spec/containers") {
            containers.iter_mut().filter(|one| one["name"] == TRIAL).for_each(|one| one["name"] = name.into());
            template["spec"]["containers"] = containers.into();
        }
        if let Some(mut containers) = list(&mut template, "/spec/initContainers") {
            containers.retain(|one| one["name"] != AGENT);
            template["spec"]["initContainers"] = containers.into();
        }
        Self(template)
    }

    /// Merges `pod`, which takes precedence, into this template.
    ///
    /// # Errors
    /// If the result is not a valid pod.
    pub(super) fn apply(&self, pod: &PodTemplateSpec) -> Result<PodTemplateSpec, String> {
        if self.0.is_null() {
            return Ok(pod.clone());
        }
        let merge = || serde_json::from_value(merged(self.0.clone(), serde_json::to_value(pod)?));
        merge().map_err(|error: serde_json::Error| format!("its pod template cannot be used: {error}"))
    }
}

/// Adds required fields that a template may omit, so that the rest can be parsed.
fn complete_required(template: &mut Value) {
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("containers").or_insert_with(|| Value::Array(Vec::new()));
}

/// Path of the first field of `given` that is missing from `known`, the parsed form.
fn unknown_field(given: &Value, known: &Value, path: String) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => given.iter().find_map(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match known.get(name) {
                Some(known) => unknown_field(value, known, path),
                // Empty maps and lists are not serialized.
                None if is_empty(value) => None,
                None => Some(path),
            }
        }),
        (Value::Array(given), Value::Array(known)) => given
            .iter()
            .zip(known)
            .enumerate()
            .find_map(|(index, (given, known))| unknown_field(given, known, format!("{path}[{index}]"))),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Rejects fields of `spec` reserved for the agent.
fn check(spec: Option<&PodSpec>) -> Result<(), PodTemplateError> {
    let Some(spec) = spec else { return Ok(()) };
    for (index, container) in spec.containers.iter().enumerate() {
        let field = format!("spec.containers[{index}]");
        if container.name != TRIAL {
            let fault = format!(
                "{:?} would keep the pod running after the trial has ended; the container of the trial is {TRIAL:?}, and a sidecar \
                 belongs into spec.initContainers with restartPolicy: Always",
                container.name
            );
            return Err(PodTemplateError::new(format!("{field}.name"), fault));
        }
        for (name, is_set) in [
            ("image", container.image.is_some()),
            ("command", container.command.is_some()),
            ("args", container.args.is_some()),
        ] {
            if is_set {
                let fault = "set by each trial: masterConfig.imageUri, containerCommand and args of its job";
                return Err(PodTemplateError::new(format!("{field}.{name}"), fault));
            }
        }
        let mounts = container.volume_mounts.iter().flatten().map(|mount| mount.mount_path.as_str());
        for (index, path) in mounts.enumerate() {
            let is_reserved =
                [AGENT_FOLDER, SPEC_PATH, SPOOL_FOLDER].iter().any(|own| path.trim_end_matches('/') == *own);
            if is_reserved {
                let fault = format!("{path:?} is a path of the agent; mount the volume elsewhere");
                return Err(PodTemplateError::new(format!("{field}.volumeMounts[{index}].mountPath"), fault));
            }
        }
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        if is_reserved_volume(&volume.name) {
            let fault = format!("{:?} is the name of a volume of the agent; give it another one", volume.name);
            return Err(PodTemplateError::new(format!("spec.volumes[{index}].name"), fault));
        }
    }
    let names: Vec<&str> = spec.init_containers.iter().flatten().map(|container| container.name.as_str()).collect();
    let mut seen = BTreeSet::from([TRIAL]);
    for (index, name) in names.iter().enumerate() {
        if *name != AGENT && !seen.insert(name) {
            let fault = format!("{name:?} is the name of another container; give it another one");
            return Err(PodTemplateError::new(format!("spec.initContainers[{index}].name"), fault));
        }
    }
    match spec.restart_policy.as_deref() {
        None | Some("Never") => Ok(()),
        Some(other) => Err(PodTemplateError::new(
            "spec.restartPolicy",
            format!("{other:?} would run a trial again in secret; the only value is \"Never\", which is the default"),
        )),
    }
}

/// Merges `over`, which takes precedence, into `under`.
fn merged(under: Value, over: Value) -> Value {
    match (under, over) {
        (Value::Object(mut under), Value::Object(over)) => {
            for (name, value) in over {
                let before = under.remove(&name).unwrap_or_default();
                under.insert(name, merged(before, value));
            }
            Value::Object(under)
        }
        (Value::Array(under), Value::Array(over)) => Value::Array(merged_lists(under, over)),
        (under, Value::Null) => under,
        (_, over) => over,
    }
}

/// Merges objects with equal keys, then appends the rest of `under`.
fn merged_lists(mut under: Vec<Value>, over: Vec<Value>) -> Vec<Value> {
    let mut list = Vec::with_capacity(under.len() + over.len());
    for item in over {
        let same = key(&item).and_then(|wanted| under.iter().position(|other| key(other) == Some(wanted)));
        let before = same.map(|index| under.remove(index)).unwrap_or_default();
        list.push(merged(before, item));
    }
    under.retain(|item| !list.contains(item));
    list.extend(under);
    list
}

/// Key of a list item: a mount path or a name.
fn key(item: &Value) -> Option<&str> {
    let fields: &Map<String, Value> = item.as_object()?;
    fields.get("mountPath").or_else(|| fields.get("name"))?.as_str()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Container;
    use serde_json::json;

    use super::*;

    fn error(template: Value) -> String {
        PodTemplate::new(template).unwrap_err().to_string()
    }

    #[test]
    fn fields_are_checked() {
        assert_eq!(
            error(json!({"spec": {"prioritClassName": "low"}})),
            "spec.prioritClassName: no field of a pod template of Kubernetes"
        );
        assert!(error(json!({"spec": {"hostNetwork": "yes"}})).starts_with("spec.hostNetwork: invalid type: string"));
        assert!(
            error(json!({"spec": {"containers": [{"name": "proxy"}]}})).contains("belongs into spec.initContainers")
        );
        assert!(
            error(json!({"spec": {"containers": [{"name": "trial", "image": "x"}]}}))
                .starts_with("spec.containers[0].image: set by")
        );
        assert!(
            error(json!({"spec": {"volumes": [{"name": "spool", "emptyDir": {}}]}}))
                .starts_with("spec.volumes[0].name: \"spool\"")
        );
        assert!(
            error(json!({"spec": {"restartPolicy": "OnFailure"}})).starts_with("spec.restartPolicy: \"OnFailure\"")
        );
        let mount = json!({"name": "x", "mountPath": "/tunesmith/"});
        let taken = json!({"spec": {"containers": [{"name": "trial", "volumeMounts": [mount]}]}});
        assert!(error(taken).starts_with("spec.containers[0].volumeMounts[0].mountPath: \"/tunesmith/\""));
        PodTemplate::new(json!({})).unwrap();
        PodTemplate::new(json!({"spec": {"tolerations": [], "nodeSelector": {}}})).unwrap();
    }

    #[test]
    fn pod_takes_precedence_over_templates() {
        let server = PodTemplate::new(json!({
            "metadata": {"annotations": {"team": "a", "sidecar.istio.io/inject": "false"}},
            "spec": {
                "imagePullSecrets": [{"name": "registry"}],
                "securityContext": {"runAsNonRoot": true, "runAsUser": 1000},
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
                "tolerations": [{"key": "spot", "operator": "Exists"}],
                "containers": [{"name": "trial", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
                    "resources": {"requests": {"cpu": "2", "ephemeral-storage": "1Gi"}},
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],
            },
        }))
        .unwrap();
        let gpu = PodTemplate::new(json!({
            "metadata": {"annotations": {"team": "b"}},
            "spec": {"runtimeClassName": "nvidia", "tolerations": [{"key": "gpu", "operator": "Exists"}]},
        }))
        .unwrap();
        let pod: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {"tunesmith.dev/run": "r"}},
            "spec": {
                "restartPolicy": "Never", "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "volumes": [{"name": "spool", "emptyDir": {}}],
                "containers": [{"name": "trial", "image": "i", "env": [{"name": "A", "value": "1"}],
                    "resources": {"requests": {"cpu": "500m"}}, "volumeMounts": [{"name": "spool", "mountPath": "/s"}]}],
            },
        }))
        .unwrap();
        let made = serde_json::to_value(server.with(&gpu).apply(&pod).unwrap()).unwrap();
        assert_eq!(
            made,
            json!({
                "metadata": {"annotations": {"team": "b", "sidecar.istio.io/inject": "false"},
                             "labels": {"tunesmith.dev/run": "r"}},
                "spec": {
                    "restartPolicy": "Never", "runtimeClassName": "nvidia", "imagePullSecrets": [{"name": "registry"}],
                    "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
                    "volumes": [{"name": "spool", "emptyDir": {}},
                                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
                    "tolerations": [{"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}],
                    "containers": [{"name": "trial", "image": "i",
                        "env": [{"name": "A", "value": "1"}, {"name": "NCCL_DEBUG", "value": "INFO"}],
                        "resources": {"requests": {"cpu": "500m", "ephemeral-storage": "1Gi"}},
                        "volumeMounts": [{"name": "spool", "mountPath": "/s"}, {"name": "shm", "mountPath": "/dev/shm"}]}],
                },
            })
        );
        let container = Container { name: TRIAL.to_owned(), ..Container::default() };
        let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
        let plain = PodTemplateSpec { metadata: None, spec: Some(spec) };
        assert_eq!(PodTemplate::default().apply(&plain).unwrap(), plain);
    }
}
