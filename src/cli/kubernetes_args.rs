//! Arguments for Kubernetes.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail};
use clap::Args;

use super::executor_args::variable;
use crate::executors::KubernetesOptions;
use tunesmith_config::KubernetesConfig;
use tunesmith_kubernetes::{ClusterChoice, PodSettings, PodTemplate, PodTemplateError};

/// The path of the program in the image of the agent.
const AGENT_PATH: &str = "/usr/local/bin/tunesmith-agent";

/// The settings of Kubernetes.
#[derive(Debug, Default, Args)]
pub(super) struct KubernetesArgs {
    /// Kubernetes: namespace of the jobs; default: that of the configuration of Kubernetes.
    #[arg(long, value_name = "NAME", env = "TUNESMITH_KUBERNETES_NAMESPACE")]
    kubernetes_namespace: Option<String>,
    /// Kubernetes: address of this server, as pods reach it; default: the address that programs of this machine get.
    #[arg(long, value_name = "URL", env = "TUNESMITH_KUBERNETES_SERVER")]
    kubernetes_server: Option<String>,
    /// Kubernetes: image with tunesmith-agent and the command cp, from which pods get their agent.
    #[arg(long, value_name = "IMAGE", env = "TUNESMITH_KUBERNETES_AGENT_IMAGE")]
    kubernetes_agent_image: Option<String>,
    /// Kubernetes: path of tunesmith-agent, or of tunesmith, in that image; default: /usr/local/bin/tunesmith-agent.
    #[arg(long, value_name = "PATH", env = "TUNESMITH_KUBERNETES_AGENT_PATH")]
    kubernetes_agent_path: Option<String>,
    /// Kubernetes: image of trials that name none.
    #[arg(long, value_name = "IMAGE", env = "TUNESMITH_KUBERNETES_IMAGE")]
    kubernetes_image: Option<String>,
    /// Kubernetes: folder in which programs start; default: that of their image.
    #[arg(long, value_name = "PATH", env = "TUNESMITH_KUBERNETES_WORKING_DIR")]
    kubernetes_working_dir: Option<String>,
    /// Kubernetes: service account of pods, which get no token of it; default: that of the namespace.
    #[arg(long, value_name = "NAME", env = "TUNESMITH_KUBERNETES_SERVICE_ACCOUNT")]
    kubernetes_service_account: Option<String>,
    /// Kubernetes: label that nodes must have. May be given several times.
    #[arg(long, value_name = "LABEL=VALUE", env = "TUNESMITH_KUBERNETES_NODE_SELECTOR", value_delimiter = ',')]
    kubernetes_node_selector: Vec<String>,
    /// Kubernetes: label of nodes whose value is the type of their accelerators.
    #[arg(long, value_name = "LABEL", env = "TUNESMITH_KUBERNETES_ACCELERATOR_LABEL")]
    kubernetes_accelerator_label: Option<String>,
    /// Kubernetes: claim of a persistent volume, and its path in pods, such as that of job-dirs. May be given several times.
    #[arg(long, value_name = "CLAIM=PATH", env = "TUNESMITH_KUBERNETES_VOLUME", value_delimiter = ',')]
    kubernetes_volume: Vec<String>,
}

impl KubernetesArgs {
    /// Returns the options that the arguments give, or else the server configuration.
    ///
    /// # Errors
    /// If a label or a volume has no value.
    pub(super) fn options(&self, file: &KubernetesConfig) -> anyhow::Result<KubernetesOptions> {
        let either = |argument: &Option<String>, file: &Option<String>| argument.clone().or_else(|| file.clone());
        let labels: BTreeMap<String, String> =
            pairs("--kubernetes-node-selector", "LABEL=VALUE", &self.kubernetes_node_selector)?.collect();
        let claims: Vec<String> = match &self.kubernetes_volume[..] {
            [] => file.volumes.iter().map(|(claim, path)| format!("{claim}={path}")).collect(),
            given => given.to_vec(),
        };
        let cluster =
            ClusterChoice { config_file: file.config_file.clone().map(Into::into), context: file.context.clone() };
        Ok(KubernetesOptions {
            cluster,
            namespace: either(&self.kubernetes_namespace, &file.namespace),
            pods: PodSettings {
                agent_image: either(&self.kubernetes_agent_image, &file.agent_image).unwrap_or_default(),
                agent_path: either(&self.kubernetes_agent_path, &file.agent_path)
                    .unwrap_or_else(|| AGENT_PATH.to_owned()),
                default_image: either(&self.kubernetes_image, &file.image),
                server: either(&self.kubernetes_server, &file.server),
                service_account: either(&self.kubernetes_service_account, &file.service_account),
                working_directory: either(&self.kubernetes_working_dir, &file.working_dir),
                node_selector: if labels.is_empty() { file.node_selector.clone() } else { labels },
                accelerator_label: either(&self.kubernetes_accelerator_label, &file.accelerator_label),
                volumes: volumes("--kubernetes-volume", &claims)?,
                template: match &file.pod_template {
                    Some(template) => pod_template("kubernetes.podTemplate", template)?,
                    None => PodTemplate::default(),
                },
                templates: file
                    .pod_templates
                    .iter()
                    .map(|(name, template)| {
                        Ok((name.clone(), pod_template(&format!("kubernetes.podTemplates.{name}"), template)?))
                    })
                    .collect::<anyhow::Result<_>>()?,
            },
        })
    }
}

/// Returns the options that the environment gives to commands without [`KubernetesArgs`].
///
/// # Errors
/// As [`KubernetesArgs::options`].
pub(super) fn kubernetes_options_of_environment() -> anyhow::Result<KubernetesOptions> {
    let list = |name: &str| -> Vec<String> {
        variable(name).iter().flat_map(|value| value.split(',')).map(str::to_owned).collect()
    };
    let selector = "TUNESMITH_KUBERNETES_NODE_SELECTOR";
    let volume = "TUNESMITH_KUBERNETES_VOLUME";
    Ok(KubernetesOptions {
        cluster: ClusterChoice::default(),
        namespace: variable("TUNESMITH_KUBERNETES_NAMESPACE"),
        pods: PodSettings {
            agent_image: variable("TUNESMITH_KUBERNETES_AGENT_IMAGE").unwrap_or_default(),
            agent_path: variable("TUNESMITH_KUBERNETES_AGENT_PATH").unwrap_or_else(|| AGENT_PATH.to_owned()),
            default_image: variable("TUNESMITH_KUBERNETES_IMAGE"),
            server: variable("TUNESMITH_KUBERNETES_SERVER"),
            service_account: variable("TUNESMITH_KUBERNETES_SERVICE_ACCOUNT"),
            working_directory: variable("TUNESMITH_KUBERNETES_WORKING_DIR"),
            node_selector: pairs(selector, "LABEL=VALUE", &list(selector))?.collect(),
            accelerator_label: variable("TUNESMITH_KUBERNETES_ACCELERATOR_LABEL"),
            volumes: volumes(volume, &list(volume))?,
            ..PodSettings::default()
        },
    })
}

/// Reads the template of the key `place` of the server configuration.
fn pod_template(place: &str, template: &serde_json::Map<String, serde_json::Value>) -> anyhow::Result<PodTemplate> {
    PodTemplate::new(serde_json::Value::Object(template.clone())).map_err(|PodTemplateError { field, fault }| {
        let separator = if field.is_empty() { "" } else { "." };
        anyhow!("{place}{separator}{field}: {fault}")
    })
}

/// Splits each of `texts` at its first equals sign.
fn pairs<'a>(
    place: &str,
    expected: &str,
    texts: &'a [String],
) -> anyhow::Result<impl Iterator<Item = (String, String)> + use<'a>> {
    for text in texts {
        let pair = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
        pair.with_context(|| format!("{place} {text:?}: expected {expected}"))?;
    }
    Ok(texts.iter().filter_map(|text| text.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// Returns the claims by path.
fn volumes(place: &str, texts: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut volumes = BTreeMap::new();
    for (claim, path) in pairs(place, "CLAIM=PATH", texts)? {
        if !path.starts_with('/') {
            bail!("{place} {claim}={path}: the path in pods must be absolute");
        }
        volumes.insert(path, claim);
    }
    Ok(volumes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_volumes_have_values() {
        let text = |text: &str| vec![text.to_owned()];
        let found: Vec<_> = pairs("--x", "LABEL=VALUE", &text("pool=a=b")).unwrap().collect();
        assert_eq!(found, [("pool".to_owned(), "a=b".to_owned())]);
        let error = pairs("--x", "LABEL=VALUE", &text("pool")).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "--x \"pool\": expected LABEL=VALUE");
        let found = volumes("--kubernetes-volume", &text("models=/models")).unwrap();
        assert_eq!(found["/models"], "models");
        let error = volumes("--kubernetes-volume", &text("models=models")).unwrap_err();
        assert_eq!(error.to_string(), "--kubernetes-volume models=models: the path in pods must be absolute");
    }
}
