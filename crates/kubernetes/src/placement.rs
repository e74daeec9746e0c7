//! Pod placement, from the server settings and the placement options in the server configuration.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{PodSettings, PodTemplate};
use tunesmith_domain::{Accelerators, Resources};

/// Prefixes of option names, followed by a node label, a pod label or a taint key.
const NODE: &str = "node/";
const LABEL: &str = "label/";
const TOLERATION: &str = "toleration/";

/// Resource requested for accelerators typed by node label.
const GPU: &str = "nvidia.com/gpu";

/// Taint effects.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Parsed placement options.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PodPlacement {
    pub(super) image: Option<String>,
    pub(super) service_account: Option<String>,
    pub(super) priority_class: Option<String>,
    pub(super) working_directory: Option<String>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) template: PodTemplate,
}

impl PodPlacement {
    /// Applies `options` on top of `settings`.
    ///
    /// # Errors
    /// If an option is unknown or invalid.
    pub(super) fn new(settings: &PodSettings, options: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut place = Self {
            image: settings.default_image.clone(),
            service_account: settings.service_account.clone(),
            working_directory: settings.working_directory.clone(),
            node_selector: settings.node_selector.clone(),
            template: settings.template.clone(),
            ..Self::default()
        };
        for (name, value) in options {
            match name.as_str() {
                "image" => place.image = Some(value.clone()),
                "serviceAccount" => place.service_account = Some(value.clone()),
                "priorityClass" => place.priority_class = Some(value.clone()),
                "workingDir" => place.working_directory = Some(value.clone()),
                "podTemplate" => {
                    let named = settings.templates.get(value).ok_or_else(|| {
                        let known: Vec<&str> = settings.templates.keys().map(String::as_str).collect();
                        format!("unknown pod template {value:?}; kubernetes.podTemplates has: {}", known.join(", "))
                    })?;
                    place.template = place.template.with(named);
                }
                _ => place.set(name, value)?,
            }
        }
        Ok(place)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some(label) = name.strip_prefix(NODE) {
            self.node_selector.insert(label.to_owned(), value.to_owned());
        } else if let Some(label) = name.strip_prefix(LABEL) {
            self.labels.insert(label.to_owned(), value.to_owned());
        } else if let Some(key) = name.strip_prefix(TOLERATION) {
            self.tolerations.push(toleration(key, value)?);
        } else {
            return Err(format!(
                "unknown placement option {name:?}; expected one of: image, serviceAccount, priorityClass, workingDir, \
                 podTemplate, {NODE}LABEL, {LABEL}LABEL, {TOLERATION}KEY"
            ));
        }
        Ok(())
    }

    /// Restricts the pod to nodes with `accelerators`, and returns the resource to request.
    ///
    /// # Errors
    /// If no node label distinguishes accelerator types.
    pub(super) fn accelerators(&mut self, accelerators: &Accelerators, label: Option<&str>) -> Result<String, String> {
        let Some(kind) = &accelerators.kind else { return Ok(GPU.to_owned()) };
        if kind.contains('/') {
            return Ok(kind.clone());
        }
        let Some(label) = label else {
            return Err(format!(
                "it requests accelerators of the type {kind:?}, and the server does not know which nodes have it: set \
                 kubernetes.acceleratorLabel of the server configuration to the label of nodes whose value is the type, \
                 or map the type to a resource such as {GPU} under accelerators"
            ));
        };
        self.node_selector.insert(label.to_owned(), kind.clone());
        Ok(GPU.to_owned())
    }
}

/// Toleration of taints with `key`. Accepts `true:NoSchedule`, `:NoSchedule` or an empty value.
fn toleration(key: &str, text: &str) -> Result<Toleration, String> {
    let (value, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        return Err(format!(
            "its place tolerates the taint {key:?} with {text:?}; expected VALUE:EFFECT, where EFFECT is one of {}",
            EFFECTS.join(", ")
        ));
    }
    Ok(Toleration {
        key: Some(key.to_owned()),
        operator: Some(if value.is_empty() { "Exists" } else { "Equal" }.to_owned()),
        value: Some(value.to_owned()).filter(|value| !value.is_empty()),
        effect: Some(effect.to_owned()).filter(|effect| !effect.is_empty()),
        toleration_seconds: None,
    })
}

/// Requests for `wanted`, with limits on non-shareable resources. `accelerator` is the accelerator resource.
pub(super) fn requirements(wanted: &Resources, accelerator: Option<String>) -> ResourceRequirements {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    if let Some(milli) = wanted.milli_cpus {
        requests.insert("cpu".to_owned(), Quantity(format!("{milli}m")));
    }
    if let Some(bytes) = wanted.memory_bytes {
        for amounts in [&mut requests, &mut limits] {
            amounts.insert("memory".to_owned(), Quantity(bytes.to_string()));
        }
    }
    if let (Some(accelerators), Some(name)) = (&wanted.accelerators, accelerator) {
        limits.insert(name, Quantity(accelerators.count.to_string()));
    }
    ResourceRequirements {
        requests: Some(requests).filter(|amounts| !amounts.is_empty()),
        limits: Some(limits).filter(|amounts| !amounts.is_empty()),
        ..ResourceRequirements::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(options: &[(&str, &str)]) -> Result<PodPlacement, String> {
        let settings = PodSettings {
            node_selector: BTreeMap::from([("pool".to_owned(), "batch".to_owned())]),
            default_image: Some("trainer:1".to_owned()),
            ..PodSettings::default()
        };
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PodPlacement::new(&settings, &options)
    }

    #[test]
    fn options_change_the_settings_of_the_server() {
        let found = place(&[
            ("image", "trainer:2"),
            ("node/pool", "gpu"),
            ("label/kueue.x-k8s.io/queue-name", "team"),
            ("toleration/spot", "true:NoSchedule"),
            ("toleration/gpu", ""),
            ("priorityClass", "low"),
        ])
        .unwrap();
        assert_eq!(found.image.as_deref(), Some("trainer:2"));
        assert_eq!(found.node_selector["pool"], "gpu");
        assert_eq!(found.labels["kueue.x-k8s.io/queue-name"], "team");
        assert_eq!(found.priority_class.as_deref(), Some("low"));
        let tolerations: Vec<_> = found.tolerations.iter().map(|one| serde_json::to_value(one).unwrap()).collect();
        assert_eq!(
            tolerations,
            [
                serde_json::json!({"key": "gpu", "operator": "Exists"}),
                serde_json::json!({"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}),
            ]
        );
        assert_eq!(place(&[]).unwrap().image.as_deref(), Some("trainer:1"));
    }

    #[test]
    fn unknown_options_are_refused() {
        let error = place(&[("account", "a")]).unwrap_err();
        assert!(error.starts_with("unknown placement option \"account\"; expected one of: image,"), "{error}");
        let error = place(&[("podTemplate", "gpu")]).unwrap_err();
        assert_eq!(error, "unknown pod template \"gpu\"; kubernetes.podTemplates has: ");
        let error = place(&[("toleration/spot", "true:Never")]).unwrap_err();
        assert!(error.contains("\"true:Never\"; expected VALUE:EFFECT"), "{error}");
    }

    #[test]
    fn types_of_accelerators_are_resources_or_labels_of_nodes() {
        let mut found = place(&[]).unwrap();
        let of = |kind: Option<&str>| Accelerators { kind: kind.map(str::to_owned), count: 2 };
        assert_eq!(found.accelerators(&of(None), None).unwrap(), GPU);
        assert_eq!(found.accelerators(&of(Some("amd.com/gpu")), None).unwrap(), "amd.com/gpu");
        let error = found.accelerators(&of(Some("a100")), None).unwrap_err();
        assert!(error.contains("\"a100\"") && error.contains("kubernetes.acceleratorLabel"), "{error}");
        assert_eq!(found.accelerators(&of(Some("a100")), Some("gpu-type")).unwrap(), GPU);
        assert_eq!(found.node_selector["gpu-type"], "a100");
    }
}
