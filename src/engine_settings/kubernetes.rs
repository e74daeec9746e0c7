//! Kubernetes settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

use super::server_url;
use tunesmith_config::KubernetesConfig;
use tunesmith_kubernetes::{ClusterChoice, KubernetesSettings, PodSettings, PodTemplate, PodTemplateError};

/// Path of the program in the agent image.
const AGENT_PATH: &str = "/usr/local/bin/tunesmith-agent";

/// Kubernetes settings in `config`, with records in `registry`.
///
/// # Errors
/// If the agent image is missing, or a value is invalid.
pub(crate) fn settings(config: KubernetesConfig, registry: PathBuf) -> anyhow::Result<KubernetesSettings> {
    let Some(agent_image) = config.agent_image else {
        bail!(
            "--kubernetes-agent-image is missing: state the image with tunesmith-agent, from which pods get their agent; \
             packaging/images/agent.Dockerfile makes one"
        );
    };
    if let Some(server) = &config.server
        && server_url(server).is_none()
    {
        bail!("--kubernetes-server {server:?}: expected http://HOST:PORT or https://HOST:PORT");
    }
    let template = match config.pod_template {
        Some(template) => pod_template("kubernetes.podTemplate", template)?,
        None => PodTemplate::default(),
    };
    let mut templates = BTreeMap::new();
    for (name, template) in config.pod_templates {
        let template = pod_template(&format!("kubernetes.podTemplates.{name}"), template)?;
        templates.insert(name, template);
    }
    Ok(KubernetesSettings {
        cluster: ClusterChoice { config_file: config.config_file.map(PathBuf::from), context: config.context },
        namespace: config.namespace,
        pods: PodSettings {
            agent_image,
            agent_path: config.agent_path.unwrap_or_else(|| AGENT_PATH.to_owned()),
            default_image: config.image,
            server: config.server,
            service_account: config.service_account,
            working_directory: config.working_dir,
            node_selector: config.node_selector,
            accelerator_label: config.accelerator_label,
            volumes: claims_by_path(config.volumes)?,
            template,
            templates,
        },
        queues: Default::default(),
        registry,
        store: None,
    })
}

/// Parses the template at the key `place` of a server configuration.
fn pod_template(place: &str, template: serde_json::Map<String, serde_json::Value>) -> anyhow::Result<PodTemplate> {
    PodTemplate::new(serde_json::Value::Object(template)).map_err(|PodTemplateError { field, fault }| {
        let separator = if field.is_empty() { "" } else { "." };
        anyhow!("{place}{separator}{field}: {fault}")
    })
}

/// Volume claims by path in pods.
fn claims_by_path(volumes: BTreeMap<String, String>) -> anyhow::Result<BTreeMap<String, String>> {
    let mut claims = BTreeMap::new();
    for (claim, path) in volumes {
        if !Path::new(&path).is_absolute() {
            bail!("kubernetes.volumes.{claim}: {path:?} is not an absolute path in pods");
        }
        if let Some(other) = claims.insert(path.clone(), claim.clone()) {
            bail!("kubernetes.volumes.{claim}: {path:?} is the path of the claim {other}, too");
        }
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_have_absolute_paths_of_their_own() {
        let volumes = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(claim, path)| ((*claim).to_owned(), (*path).to_owned()));
            claims_by_path(pairs.collect()).map_err(|error| error.to_string())
        };
        assert_eq!(volumes(&[("models", "/models")]).unwrap()["/models"], "models");
        let error = volumes(&[("models", "models")]).unwrap_err();
        assert_eq!(error, "kubernetes.volumes.models: \"models\" is not an absolute path in pods");
        let error = volumes(&[("a", "/models"), ("b", "/models")]).unwrap_err();
        assert_eq!(error, "kubernetes.volumes.b: \"/models\" is the path of the claim a, too");
    }
}
